"""The world is closed: what the service would refuse is refused, and its own examples pass."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from azure.core.exceptions import HttpResponseError

from runspec_emulators.batch_ai.api import requests
from runspec_emulators.batch_ai.api.requests import Request
from runspec_emulators.batch_ai.api.routes import routes
from runspec_emulators.frame.errors import ServiceError
from tests.emulators.batch_ai.hand import EXPERIMENT, PLACE, USER, Hand, ask
from tests.support.official_descriptions import DATA

OFFICIAL = DATA / "batchai-2018-05-01"
CLUSTERS = "/workspaces/space/clusters"


def official() -> dict[str, Any]:
    if not OFFICIAL.is_dir():
        pytest.skip("needs the official description, which is not at hand")
    found: dict[str, Any] = json.loads((OFFICIAL / "swagger.json").read_text())
    return found


def examples() -> list[str]:
    return sorted(file.stem for file in (OFFICIAL / "examples").glob("*.json"))


def operations(description: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    for path, methods in description["paths"].items():
        for method, operation in methods.items():
            yield path, method.upper(), operation


def problems(body: Any, model: str) -> list[str]:
    return list(requests.wrong(body, model, ""))


CLUSTER = {"properties": {"vmSize": "STANDARD_NC6", "userAccountSettings": {"adminUserName": "u"}}}


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"nodeCont": 1}, "properties.nodeCont: there is no such member"),
        ({"vmPriority": "spot"}, "properties.vmPriority: 'spot' is none of"),
        ({"vmSize": 6}, "properties.vmSize: 6 is no str"),
        ({"userAccountSettings": {}}, "properties.userAccountSettings.adminUserName: required"),
        ({"scaleSettings": {}}, "exactly one of manual and autoScale is required"),
        ({"scaleSettings": {"manual": {"targetNodeCount": True}}}, "True is no int"),
        ({"nodeSetup": {"mountVolumes": {"azureFileShares": {}}}}, "{} is no list"),
        (
            {
                "nodeSetup": {
                    "setupTask": {
                        "commandLine": "true",
                        "stdOutErrPathPrefix": "/",
                        "stdOutErrPathSuffix": "x",
                    }
                }
            },
            "stdOutErrPathSuffix: is read-only",
        ),
    ],
)
def test_a_body_that_the_models_do_not_have_is_a_problem(
    change: dict[str, Any], problem: str
) -> None:
    body = {"properties": {**CLUSTER["properties"], **change}}

    found = problems(body, "ClusterCreateParameters")

    assert len(found) == 1
    assert problem in found[0]
    assert problems(CLUSTER, "ClusterCreateParameters") == []


def test_members_that_the_sdk_does_not_require_are_required() -> None:
    found = problems({"properties": {}}, "JobCreateParameters")

    assert found == [
        "properties.cluster: required",
        "properties.nodeCount: required",
        "properties.stdOutErrPathPrefix: required",
    ]


@pytest.mark.parametrize("given", ["P1D", "PT30S", "P1DT2H3M4.5S", "7.00:00:00", "01:00:00"])
def test_a_duration_is_one_of_iso_8601_or_of_dotnet(given: str) -> None:
    assert problems({"maxWallClockTime": given}, "JobBasePropertiesConstraints") == []


@pytest.mark.parametrize("given", ["1h", "P", "PT", "", 60])
def test_an_invalid_duration_is_refused(given: Any) -> None:
    assert problems({"maxWallClockTime": given}, "JobBasePropertiesConstraints") != []


# Over the wire


@pytest.mark.parametrize(
    ("method", "path", "body", "code"),
    [
        ("PUT", f"{CLUSTERS}/c?api-version=2018-05-01", {"properties": {}}, "InvalidRequest"),
        ("PUT", f"{CLUSTERS}/a.b?api-version=2018-05-01", CLUSTER, "InvalidRequest"),
        ("PUT", f"{CLUSTERS}/{'a' * 65}?api-version=2018-05-01", CLUSTER, "InvalidRequest"),
        ("GET", f"{CLUSTERS}?api-version=2018-05-01&maxresults=0", None, "InvalidRequest"),
        ("GET", f"{CLUSTERS}?api-version=2018-05-01&more=1", None, "InvalidRequest"),
        ("GET", f"{CLUSTERS}?api-version=2018-05-01", {"a": 1}, "InvalidRequest"),
        ("GET", f"{CLUSTERS}", None, "MissingApiVersionParameter"),
        ("GET", f"{CLUSTERS}?api-version=2017-09-01", None, "InvalidApiVersionParameter"),
        ("GET", f"{CLUSTERS}/c/nodes?api-version=2018-05-01", None, "InvalidResourceType"),
    ],
)
def test_a_request_that_the_description_does_not_have_is_refused(
    hand: Hand, method: str, path: str, body: Any, code: str
) -> None:
    status, found = ask(hand, method, path, body)

    assert status in (400, 404)
    assert found["error"]["code"] == code


@pytest.mark.parametrize(
    ("header", "code"),
    [
        ("", "AuthenticationFailed"),
        ("Basic abc", "AuthenticationFailed"),
        ("Bearer another", "InvalidAuthenticationToken"),
    ],
)
def test_a_token_of_another_is_refused(hand: Hand, header: str, code: str) -> None:
    path = f"{CLUSTERS}?api-version=2018-05-01"

    status, found = ask(hand, "GET", path, Authorization=header)

    assert (status, found["error"]["code"]) == (401, code)


def test_a_token_is_good_for_its_time_only(make: Callable[..., Hand]) -> None:
    hand = make(token_s=-1.0)

    status, found = ask(hand, "GET", f"{CLUSTERS}?api-version=2018-05-01")

    assert (status, found["error"]["code"]) == (401, "ExpiredAuthenticationToken")


def test_a_token_that_was_chosen_is_good_for_ever(make: Callable[..., Hand]) -> None:
    hand = make(tokens=("chosen",), token_s=-1.0)
    path = "/workspaces?api-version=2018-05-01"

    status, found = ask(hand, "GET", path, Authorization="Bearer chosen")

    assert (status, found["error"]["code"]) == (404, "ResourceGroupNotFound")


def test_azure_identity_gets_tokens_that_are_good(
    hand: Hand, monkeypatch: pytest.MonkeyPatch
) -> None:
    from azure.identity import ManagedIdentityCredential

    for name, value in hand.stand.env.items():
        monkeypatch.setenv(name, value)

    token = ManagedIdentityCredential().get_token("https://management.azure.com/.default").token

    header = f"Bearer {token}"
    assert ask(hand, "GET", f"{CLUSTERS}?api-version=2018-05-01", Authorization=header)[0] == 200


def test_another_subscription_is_not_found(hand: Hand) -> None:
    path = "/subscriptions/1/resourceGroups/g/providers/Microsoft.BatchAI/workspaces"

    status, found = ask(hand, "GET", f"{path}?api-version=2018-05-01")

    assert (status, found["error"]["code"]) == (404, "SubscriptionNotFound")


def test_a_different_cluster_of_the_same_name_is_a_conflict(hand: Hand) -> None:
    same = hand.cluster("cluster", 1)
    with pytest.raises(HttpResponseError) as caught:
        hand.cluster("cluster", 1, vmSize="STANDARD_D4")

    assert same.vm_size == "STANDARD_D2"
    assert caught.value.status_code == 409


@pytest.mark.parametrize(
    "change",
    [
        {"chainerSettings": {"pythonScriptFilePath": "a.py"}},
        {"customToolkitSettings": None},
        {"nodeCount": 0},
        {
            "customToolkitSettings": None,
            "tensorFlowSettings": {"pythonScriptFilePath": "a.py", "parameterServerCount": 2},
        },
        {"outputDirectories": [{"id": "A", "pathPrefix": "/a"}, {"id": "A", "pathPrefix": "/b"}]},
        {"environmentVariables": [{"name": "A"}]},
        {"secrets": [{"name": "A"}]},
    ],
)
def test_a_job_that_cannot_be_is_refused(hand: Hand, change: dict[str, Any]) -> None:
    asked = {**hand.asked(), **change}
    asked = {name: value for name, value in asked.items() if value is not None}

    status, found = ask(
        hand,
        "PUT",
        CLUSTERS.removesuffix("clusters") + "experiments/experiment/jobs/j?api-version=2018-05-01",
        {"properties": asked},
    )

    assert (status, found["error"]["code"]) == (400, "InvalidRequest")


@pytest.mark.parametrize("size", ["STANDARD_A0", "Standard_DS2_v2", "STANDARD_GS1"])
def test_a_size_that_the_service_does_not_support_is_refused(hand: Hand, size: str) -> None:
    with pytest.raises(HttpResponseError, match="not supported"):
        hand.cluster("other", 0, vmSize=size)


def test_a_cluster_that_is_not_there_takes_no_job(hand: Hand) -> None:
    with pytest.raises(HttpResponseError) as caught:
        hand.submit(cluster={"id": "/subscriptions/s/clusters/none"})

    assert caught.value.status_code == 404


def test_resource_ids_are_found_in_whatever_case(hand: Hand) -> None:
    found = hand.client.clusters.get("GROUP", "Space", "CLUSTER")

    assert hand.run(cluster={"id": found.id.upper()}).execution_state == "succeeded"
    assert hand.client.jobs.get(*(word.upper() for word in EXPERIMENT), "JOB").name == "job"
    assert (
        hand.client.clusters.get(*PLACE, "cluster").user_account_settings.admin_user_name
        == (USER["adminUserName"])
    )


# The official description


def test_there_are_the_operations_of_the_official_description() -> None:
    wanted = {
        (method, operation["operationId"], path)
        for path, method, operation in operations(official())
    }

    found = {(r.method, r.operation, r.url) for r in routes() if r.service == "batchai"}

    assert found == wanted


def test_models_have_the_members_of_the_official_description() -> None:
    definitions = official()["definitions"]
    seen: set[str] = set()

    def compare(model: str, name: str) -> None:
        if model in seen:
            return
        seen.add(model)
        definition = definitions[name]
        wanted: dict[str, Any] = {}
        needed: set[str] = set(definition.get("required", ()))
        for key, member in definition.get("properties", {}).items():
            inner = definitions[member["$ref"].split("/")[-1]] if "$ref" in member else {}
            if member.get("x-ms-client-flatten"):
                wanted |= {f"{key}.{k}": v for k, v in inner["properties"].items()}
                needed |= {f"{key}.{k}" for k in inner.get("required", ())}
            else:
                wanted[key] = member
        found = requests.members(model)
        assert found.keys() == wanted.keys(), model
        assert {k for k, m in found.items() if m.required} == needed, model
        for key, member in found.items():
            official = wanted[key]
            target = official.get("$ref") or official.get("items", {}).get("$ref")
            definition = definitions[target.split("/")[-1]] if target else official
            assert list(member.values) == definition.get("enum", []), (model, key)
            assert member.read_only == official.get("readOnly", False), (model, key)
            kind = member.kind.strip("[]{}")
            if kind in definitions:
                compare(kind, kind)

    for model in requests.BODIES.values():
        compare(model, model)
    assert len(seen) > 35


@pytest.mark.parametrize("name", examples() or ["none at hand"])
def test_the_official_examples_pass(name: str) -> None:
    description = official()
    given = json.loads((OFFICIAL / "examples" / f"{name}.json").read_text())["parameters"]
    wanted, method, operation = next(
        found
        for found in operations(description)
        if any(
            example["$ref"].endswith(f"/{name}.json")
            for example in found[2].get("x-ms-examples", {}).values()
        )
    )
    path = re.sub(r"\{(\w+)\}", lambda word: str(given[word[1]]), wanted)
    body = next((given[key] for key in ("parameters",) if key in given), None)
    query = "&".join(
        f"{key}={value}"
        for key, value in given.items()
        if f"{{{key}}}" not in wanted and key != "parameters"
    )

    data = b"" if body is None else json.dumps(body).encode()
    request = requests.read(method, f"{path}?{query}", data)

    assert isinstance(request, Request)
    assert request.operation == operation["operationId"]
    requests.check(request)


def test_an_example_with_one_letter_less_does_not_pass() -> None:
    official()
    given = json.loads((OFFICIAL / "examples" / "PutJob.json").read_text())["parameters"]
    properties = given["parameters"]["properties"]
    properties["nodeCont"] = properties.pop("nodeCount")
    request = Request(
        "batchai", "Jobs_Create", {}, {"api-version": "2018-05-01"}, given["parameters"], ""
    )

    with pytest.raises(ServiceError, match=r"nodeCont: there is no such.*nodeCount: required"):
        requests.check(request)
