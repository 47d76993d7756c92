"""Requests to the API server: what it takes, and how it says what it does not."""

from __future__ import annotations

from typing import Any

import pytest

from runspec_emulators.kubernetes.api import names
from tests.emulators.kubernetes.bench import JOBS_PATH, MAPS_PATH, Bench, indexed, job

STRICT = "?fieldValidation=Strict"
# Limits that hold with more completions than 100,000: pkg/apis/batch/validation/validation.go
MANY = {"completionMode": "Indexed", "completions": 100_001, "backoffLimitPerIndex": 0}
ABOVE = "when completions are above 100000 and used with backoff limit per index"
EVERY = 'which means "match all values and all keys"'
TWICE = {"operator": "In", "values": [3, 3]}


def tolerating(toleration: dict[str, str]) -> dict[str, Any]:
    """Return the template of a job with that toleration."""
    (pod,) = job()["spec"]["template"].values()
    return {"spec": {**pod, "tolerations": [toleration]}}


def test_unknown_and_duplicate_fields_are_refused_where_that_is_asked_for(bench: Bench) -> None:
    body = b'{"metadata":{"name":"j"},"spec":{"colour":1,"suspend":true,"suspend":true,"template":{"spec":{}}}}'

    status, value = bench.call("POST", JOBS_PATH + STRICT, body)

    assert status == 400
    why = 'strict decoding error: duplicate field "spec.suspend", unknown field "spec.colour"'
    assert value["message"] == f'Job in version "v1" cannot be handled as a Job: {why}'
    assert value["reason"] == "BadRequest"


def test_a_value_of_another_type_is_refused(bench: Bench) -> None:
    status, value = bench.call("POST", JOBS_PATH, job(parallelism="two"))

    assert status == 400
    why = "json: cannot unmarshal string into Go struct field Job.spec.parallelism of type int32"
    assert value["message"].endswith(why)


WRONG: list[tuple[dict[str, Any], str, str]] = [
    (
        {"completionMode": "Indexed"},
        "completions",
        "Required value: when completion mode is Indexed",
    ),
    (
        {"backoffLimitPerIndex": 1},
        "backoffLimitPerIndex",
        "Invalid value: 1: requires indexed completion mode",
    ),
    (
        {"completionMode": "Other"},
        "completionMode",
        'Unsupported value: "Other": supported values: "Indexed", "NonIndexed"',
    ),
    (
        {"parallelism": -1},
        "parallelism",
        "Invalid value: -1: must be greater than or equal to 0",
    ),
    (
        {"activeDeadlineSeconds": -1},
        "activeDeadlineSeconds",
        "Invalid value: -1: must be greater than or equal to 0",
    ),
    (
        {**MANY},
        "maxFailedIndexes",
        "Required value: must be specified when completions is above 100000",
    ),
    (
        {**MANY, "maxFailedIndexes": 10_001},
        "maxFailedIndexes",
        f"Invalid value: 10001: must be less than or equal to 10000 {ABOVE}",
    ),
    (
        {**MANY, "maxFailedIndexes": 1, "parallelism": 10_001},
        "parallelism",
        f"Invalid value: 10001: must be less than or equal to 10000 {ABOVE}",
    ),
    (
        {"podFailurePolicy": {"rules": [{"action": "FailJob", "onExitCodes": TWICE}]}},
        "podFailurePolicy.rules[0].onExitCodes.values[1]",
        "Duplicate value: 3",
    ),
    (
        {"template": {"metadata": {"annotations": {"a b": ""}}, **job()["spec"]["template"]}},
        "template.metadata.annotations",
        f'Invalid value: "a b": {names.NAME_WRONG}',
    ),
    (
        {"template": tolerating({"value": "x"})},
        "template.spec.tolerations[0].operator",
        f'Invalid value: "": operator must be Exists when `key` is empty, {EVERY}',
    ),
    (
        {"template": tolerating({"key": "a b", "operator": "Exists"})},
        "template.spec.tolerations[0].key",
        f'Invalid value: "a b": {names.NAME_WRONG}',
    ),
    (
        {"template": tolerating({"key": "k", "value": "a b"})},
        "template.spec.tolerations[0].operator",
        f'Invalid value: "a b": {names.VALUE_WRONG}',
    ),
]


@pytest.mark.parametrize(("spec", "field", "message"), WRONG)
def test_a_wrong_job_is_invalid_with_its_causes(
    bench: Bench, spec: Any, field: str, message: str
) -> None:
    status, value = bench.call("POST", JOBS_PATH, job(**{"parallelism": 1, **spec}))

    assert (status, value["reason"]) == (422, "Invalid")
    assert value["details"]["causes"][0]["field"] == f"spec.{field}"
    assert value["details"]["causes"][0]["message"] == message
    assert value["message"] == f'Job.batch "j" is invalid: spec.{field}: {message}'


def test_the_name_of_an_indexed_job_leaves_room_for_its_index(bench: Bench) -> None:
    assert bench.call("POST", JOBS_PATH, indexed("a" * 61, 10))[0] == 201
    status, value = bench.call("POST", JOBS_PATH, indexed("b" * 61, 11))

    (cause,) = value["details"]["causes"]
    why = f"will not able to create pod with invalid DNS label: {'b' * 61}-10"
    assert (status, cause["field"]) == (422, "metadata.name")
    assert cause["message"] == f'Invalid value: "{"b" * 61}": {why}'


def test_a_name_is_taken_once(bench: Bench) -> None:
    bench.make(JOBS_PATH, job())

    status, value = bench.call("POST", JOBS_PATH, job())

    assert (status, value["reason"], value["message"]) == (
        409,
        "AlreadyExists",
        'jobs.batch "j" already exists',
    )
    assert value["details"] == {"name": "j", "group": "batch", "kind": "jobs"}


def test_a_stale_version_is_a_conflict(bench: Bench) -> None:
    first = bench.make(MAPS_PATH, {"metadata": {"name": "m"}, "data": {"a": "1"}})
    assert bench.call("PUT", f"{MAPS_PATH}/m", {**first, "data": {"a": "2"}})[0] == 200

    status, value = bench.call("PUT", f"{MAPS_PATH}/m", {**first, "data": {"a": "3"}})

    assert (status, value["reason"]) == (409, "Conflict")


def test_the_template_of_a_job_does_not_change(bench: Bench) -> None:
    bench.make(JOBS_PATH, job())
    patch = {"spec": {"template": {"spec": {"terminationGracePeriodSeconds": 5}}}}

    status, value = bench.call("PATCH", f"{JOBS_PATH}/j", patch, "application/merge-patch+json")

    assert (status, value["details"]["causes"][0]["field"]) == (422, "spec.template")


def test_a_uid_that_is_another_is_a_precondition_that_fails(bench: Bench) -> None:
    bench.make(MAPS_PATH, {"metadata": {"name": "m"}})

    status, value = bench.call("DELETE", f"{MAPS_PATH}/m", {"preconditions": {"uid": "other"}})

    assert (status, value["reason"]) == (409, "Conflict")
    assert bench.get(f"{MAPS_PATH}/m")["metadata"]["name"] == "m"


def test_pages_show_the_list_as_it_was(bench: Bench) -> None:
    for name in "abcde":
        bench.make(MAPS_PATH, {"metadata": {"name": name}})
    first = bench.get(f"{MAPS_PATH}?limit=2")
    bench.call("DELETE", f"{MAPS_PATH}/d")
    bench.make(MAPS_PATH, {"metadata": {"name": "cc"}})

    rest = bench.get(f"{MAPS_PATH}?limit=9&continue={first['metadata']['continue']}")

    assert [v["metadata"]["name"] for v in first["items"]] == ["a", "b"]
    assert first["metadata"]["remainingItemCount"] == 3
    assert [v["metadata"]["name"] for v in rest["items"]] == ["c", "d", "e"]
    assert rest["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]


def test_a_page_that_is_too_old_is_expired(bench: Bench) -> None:
    for name in "abc":
        bench.make(MAPS_PATH, {"metadata": {"name": name}})
    first = bench.get(f"{MAPS_PATH}?limit=2")
    bench.cluster.lock.acquire()
    bench.cluster.forget()
    bench.cluster.lock.release()

    status, value = bench.call(
        "GET", f"{MAPS_PATH}?limit=2&continue={first['metadata']['continue']}"
    )

    assert (status, value["reason"]) == (410, "Expired")
    again = bench.get(f"{MAPS_PATH}?limit=2&continue={value['metadata']['continue']}")
    assert [v["metadata"]["name"] for v in again["items"]] == ["c"]


def test_a_body_that_is_no_json_is_of_another_type(bench: Bench) -> None:
    status, value = bench.call("POST", MAPS_PATH, b"metadata: {name: m}", "application/yaml")

    assert (status, value["reason"]) == (415, "UnsupportedMediaType")
