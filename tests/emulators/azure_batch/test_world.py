"""The world is closed: what the service has no name for is refused, and so is who has no key."""

from __future__ import annotations

import base64
import json
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable
from typing import Any

import pytest
from azure.batch.models import _models
from azure.core.exceptions import ClientAuthenticationError, HttpResponseError

from runspec_emulators.azure_batch import authentication
from runspec_emulators.azure_batch.api import operations
from runspec_emulators.azure_batch.service import OPERATIONS
from runspec_emulators.azure_services import sdk_models
from tests.emulators.azure_batch.stand import MACHINE, Stand
from tests.support.official_descriptions import DATA

DESCRIPTIONS = DATA / "azure-batch"
POOL: dict[str, Any] = {
    "id": "p",
    "vmSize": "STANDARD_D2S_V3",
    "virtualMachineConfiguration": MACHINE,
}


@pytest.fixture(scope="module")
def stand(tmp_path_factory: pytest.TempPathFactory) -> Any:
    found = Stand(tmp_path_factory.mktemp("stand"))
    yield found
    found.server.close()


@pytest.mark.parametrize(
    "body,code,where",
    [
        ({**POOL, "vmSise": "x"}, "UnsupportedProperty", "vmSise"),
        ({"id": "p"}, "MissingRequiredProperty", "vmSize"),
        ({**POOL, "targetDedicatedNodes": "1"}, "InvalidPropertyValue", "targetDedicatedNodes"),
        ({**POOL, "targetDedicatedNodes": True}, "InvalidPropertyValue", "targetDedicatedNodes"),
        ({**POOL, "resizeTimeout": "15m"}, "InvalidPropertyValue", "resizeTimeout"),
        ({**POOL, "resizeTimeout": "PT1M"}, "InvalidPropertyValue", "resizeTimeout"),
        ({**POOL, "taskSlotsPerNode": 0}, "InvalidPropertyValue", "taskSlotsPerNode"),
        ({**POOL, "state": "active"}, "UnsupportedProperty", "state"),
        ({**POOL, "id": "a b"}, "InvalidPropertyValue", "id"),
        ({**POOL, "id": "x" * 65}, "InvalidPropertyValue", "id"),
        (
            {**POOL, "taskSchedulingPolicy": {"nodeFillType": "full"}},
            "InvalidPropertyValue",
            "taskSchedulingPolicy.nodeFillType",
        ),
        ({**POOL, "metadata": [{"name": "x"}]}, "MissingRequiredProperty", "metadata[0].value"),
        ({**POOL, "mountConfiguration": [{}]}, "InvalidPropertyValue", "mountConfiguration"),
        ({**POOL, "startTask": {}}, "MissingRequiredProperty", "startTask.commandLine"),
        ([], "InvalidPropertyValue", ""),
    ],
)
def test_a_body_that_the_models_do_not_allow_is_refused(
    stand: Stand, body: Any, code: str, where: str
) -> None:
    status, found = stand.raw("POST", "/pools", body)

    values = {v["key"]: v["value"] for v in found["values"]}
    assert (status, found["code"], values["PropertyName"]) == (400, code, where)
    assert found["message"]["lang"] == "en-US"


@pytest.mark.parametrize(
    "query,code",
    [
        ("", "MissingRequiredQueryParameter"),
        ("api-version=2024-07-01.20.0", "UnsupportedRequestVersion"),
        ("api-version=2025-06-01&maxresult=1", "UnsupportedQueryParameter"),
        ("api-version=2025-06-01&maxresults=x", "InvalidQueryParameterValue"),
        ("api-version=2025-06-01&maxresults=1001", "OutOfRangeQueryParameterValue"),
    ],
)
def test_a_query_that_the_models_do_not_allow_is_refused(
    stand: Stand, query: str, code: str
) -> None:
    status, found = stand.raw("GET", "/pools", query=query)

    assert (status, found["code"]) == (400, code)


@pytest.mark.parametrize(
    "method,path,body,headers,code",
    [
        ("GET", "/pool", None, {}, "InvalidUri"),
        ("GET", "/pools", None, {"ocp-range": "bytes=0-1"}, "UnsupportedHeader"),
        ("POST", "/pools", POOL, {"Content-Type": "application/json"}, "InvalidHeaderValue"),
        ("POST", "/pools", None, {}, "InvalidRequestBody"),
        ("GET", "/pools", {}, {}, "InvalidRequestBody"),
        ("GET", "/jobschedules", None, {}, "InvalidInput"),
    ],
)
def test_an_unknown_parameter_or_member_is_refused(
    stand: Stand, method: str, path: str, body: Any, headers: dict[str, str], code: str
) -> None:
    status, found = stand.raw(method, path, body, headers)

    assert (status, found["code"]) == (400, code)


def test_a_read_only_property_in_a_request_is_refused(make: Callable[..., Stand]) -> None:
    stand = make()
    stand.pool(targetDedicatedNodes=0)
    stand.job()
    stand.run("/bin/true")

    status, found = stand.raw("PUT", "/jobs/job/tasks/task", {"state": "completed"})

    values = {v["key"]: v["value"] for v in found["values"]}
    assert (status, found["code"]) == (400, "UnsupportedProperty")
    assert (values["PropertyName"], values["Reason"]) == ("state", "it is read only")


def test_a_condition_in_a_header_is_looked_at(make: Callable[..., Stand]) -> None:
    stand = make().ready()
    tag = stand.client.get_job("job").as_dict()["eTag"]
    stand.client.update_job("job", {"priority": 1})

    status, found = stand.raw("PATCH", "/jobs/job", {"priority": 2}, {"If-Match": f'"{tag}"'})

    assert (status, found["code"]) == (412, "ConditionNotMet")
    assert stand.client.get_job("job").priority == 1


# The models


def test_every_operation_that_is_rehearsed_is_one_of_the_sdks() -> None:
    assert set(OPERATIONS) <= {o.name for o in operations.operations()}


@pytest.mark.skipif(not DESCRIPTIONS.exists(), reason="the service's description is not here")
def test_operations_have_the_names_and_paths_of_the_services_description() -> None:
    described = json.loads((DESCRIPTIONS / "swagger-2024-07-01.20.0.json").read_text())
    known = {
        one["operationId"]: (method.upper(), path.count("{"))
        for path, item in described["paths"].items()
        for method, one in item.items()
        if isinstance(one, dict) and "operationId" in one
    }

    for one in operations.operations():
        if one.name in OPERATIONS:
            assert known[one.name] == (one.method, one.path.groups), one.name


@pytest.mark.skipif(not DESCRIPTIONS.exists(), reason="the service's description is not here")
@pytest.mark.parametrize(
    "name", ["BatchPoolCreateOptions", "BatchJobCreateOptions", "BatchTaskCreateOptions"]
)
def test_models_have_the_properties_that_were_derived_from_them_before(name: str) -> None:
    schema = json.loads((DESCRIPTIONS / "sdk-15.1-2025-06-01.schema.json").read_text())[name]

    found = sdk_models.fields(getattr(_models, name))

    assert set(found) == set(schema["properties"])
    assert {k for k, f in found.items() if f.required} == set(schema.get("required", ()))


# Who asks


def test_a_wrong_key_or_account_is_refused(stand: Stand) -> None:
    wrong = base64.b64encode(b"w" * 32).decode()

    for client in (stand.with_key(wrong), stand.with_key(stand.server.key, "other")):
        with pytest.raises(HttpResponseError, match="AuthenticationFailed") as error:
            client.get_pool("p")
        assert error.value.status_code == 403


def test_nobody_without_a_name_comes_in(stand: Stand) -> None:
    status, found = stand.raw("GET", "/pools", headers={"Authorization": ""})

    assert (status, found["code"]) == (401, "AuthenticationFailed")


def test_the_signature_is_over_all_that_is_sent(stand: Stand) -> None:
    headers = {"ocp-date": "Sat, 21 Nov 2026 00:00:00 GMT", "content-type": "x"}

    text = authentication.text_to_sign(
        "acct", "GET", "/pools/a%2Fb?timeOut=1&api-version=v", headers
    )

    assert text == (
        "GET\n\n\n\n\nx\n\n\n\n\n\n\nocp-date:Sat, 21 Nov 2026 00:00:00 GMT\n"
        "/acct/pools/a%2Fb\napi-version:v\ntimeout:1"
    )


def test_the_sdk_signs_options_as_it_sends_them(stand: Stand) -> None:
    assert list(stand.client.list_pools(service_timeout=10, max_results=5)) == []


def test_an_old_date_is_refused(stand: Stand) -> None:
    date = "Sat, 21 Nov 2020 00:00:00 GMT"
    target = "/pools?api-version=2025-06-01"
    text = authentication.text_to_sign("rehearsal", "GET", target, {"ocp-date": date})
    signed = f"SharedKey rehearsal:{authentication.signature(stand.server.key, text)}"

    status, found = stand.raw("GET", "/pools", headers={"Authorization": signed, "ocp-date": date})

    assert (status, found["code"]) == (403, "AuthenticationFailed")


def test_a_bearer_token_of_the_loopback_endpoint_is_taken_until_it_ends(
    make: Callable[..., Stand],
) -> None:
    stand = make(clients={"me": "secret"}, token_s=60)

    def asked(secret: str, scope: str = "https://batch.core.windows.net/.default") -> Any:
        form = {
            "grant_type": "client_credentials",
            "client_id": "me",
            "client_secret": secret,
            "scope": scope,
        }
        data = urllib.parse.urlencode(form).encode()
        url = f"{stand.server.url}/tenant/oauth2/v2.0/token"
        with urllib.request.urlopen(url, data, timeout=60) as answer:
            return json.load(answer)

    token = asked("secret")["access_token"]

    assert token.count(".") == 2
    assert list(stand.with_token(token).list_pools()) == []
    with pytest.raises(ClientAuthenticationError):
        stand.with_token(token + "x").get_pool("p")
    for wrong in (("bad",), ("secret", "https://management.azure.com/.default")):
        with pytest.raises(urllib.error.HTTPError):
            asked(*wrong)
    old = make(token_s=-1)
    given = old.server.control("POST", "token")["access_token"]
    with pytest.raises(ClientAuthenticationError):
        old.with_token(given).get_pool("p")


def test_a_token_of_the_settings_is_taken(make: Callable[..., Stand]) -> None:
    stand = make(tokens=("fixed",))

    assert list(stand.with_token("fixed").list_pools()) == []


LINKED: dict[str, dict[str, Any]] = {
    "Network": {"networkConfiguration": {"subnetId": "/subscriptions/s/subnets/a"}},
    "Compute": {
        "virtualMachineConfiguration": {
            "imageReference": {"virtualMachineImageId": "/subscriptions/s/galleries/g/images/i"},
            "nodeAgentSKUId": "batch.node.ubuntu 24.04",
        }
    },
}


@pytest.mark.parametrize("kind", LINKED)
def test_a_key_makes_no_pool_that_is_linked_to_other_resources(
    kind: str, make: Callable[..., Stand]
) -> None:
    stand = make(tokens=("fixed",))

    with pytest.raises(HttpResponseError, match=f"resources of type {kind} are linked") as error:
        stand.pool(**LINKED[kind])

    assert error.value.status_code == 403
    stand.client = stand.with_token("fixed")
    stand.pool(**LINKED[kind])


def test_an_account_of_the_subscriptions_own_takes_tokens_alone(make: Callable[..., Stand]) -> None:
    stand = make(tokens=("fixed",), pool_allocation="UserSubscription")

    with pytest.raises(HttpResponseError, match="SharedKey is not allowed"):
        list(stand.client.list_pools())

    assert list(stand.with_token("fixed").list_pools()) == []
