"""Faults on request: before or after the deed, and what is recorded of calls."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from azure.batch import BatchClient
from azure.core.credentials import AzureNamedKeyCredential
from azure.core.exceptions import (
    HttpResponseError,
    IncompleteReadError,
    ResourceExistsError,
    ServiceRequestError,
    ServiceResponseError,
)

from tests.emulators.azure_batch.stand import ACCOUNT, Stand


def there(stand: Stand) -> bool:
    return [j.id for j in stand.client.list_jobs()] == ["job"]


@pytest.mark.parametrize(
    "kind,status,done",
    [
        ("throttle", 429, False),
        ("busy", 503, False),
        ("error-before", 500, False),
        ("error-after", 500, True),
        ("expired", 403, False),
    ],
)
def test_an_error_comes_before_or_after_the_deed(
    make: Callable[..., Stand], kind: str, status: int, done: bool
) -> None:
    stand = make()
    stand.pool()
    stand.faults({"kind": kind, "operation": "Job_Add"})

    with pytest.raises(HttpResponseError) as error:
        stand.job()

    assert error.value.status_code == status
    assert there(stand) == done
    answer: Any = error.value.response
    assert ("Retry-After" in answer.headers) == (status in (429, 503))


@pytest.mark.parametrize(
    "kind,done", [("reset-before", False), ("reset-after", True), ("hang-after", True)]
)
def test_a_connection_is_lost_before_or_after_the_deed(
    make: Callable[..., Stand], kind: str, done: bool
) -> None:
    stand = make()
    stand.pool()
    stand.faults({"kind": kind, "operation": "Job_Add", "seconds": 0.05})

    with pytest.raises((ServiceRequestError, ServiceResponseError)):
        stand.job()

    assert there(stand) == done


def test_a_reply_is_cut_in_two(make: Callable[..., Stand]) -> None:
    stand = make().ready()
    stand.faults({"kind": "truncated", "operation": "Job_Get"})

    with pytest.raises((HttpResponseError, IncompleteReadError, json.JSONDecodeError)):
        stand.client.get_job("job")


def test_a_fault_meets_the_service_that_it_names(make: Callable[..., Stand]) -> None:
    stand = make().ready()

    stand.faults({"kind": "busy", "service": "arm"})
    assert stand.client.get_job("job").id == "job"

    stand.faults({"kind": "busy", "service": "batch"})
    with pytest.raises(HttpResponseError):
        stand.client.get_job("job")


def test_a_fault_meets_the_calls_that_it_names(make: Callable[..., Stand]) -> None:
    stand = make().ready()
    stand.faults({"kind": "busy", "operation": "Job_Get", "nth": 2, "times": 1})

    outcomes: list[Any] = []
    for _ in range(3):
        try:
            outcomes.append(stand.client.get_job("job").id)
        except HttpResponseError as exc:
            outcomes.append(exc.status_code)

    assert outcomes == ["job", 503, "job"]
    stand.client.get_pool("pool")


def test_the_sdks_own_second_try_finds_what_the_first_one_made(make: Callable[..., Stand]) -> None:
    """azure-core repeats POST after 500: its caller is told that its own job exists already."""
    stand = make()
    stand.pool()
    stand.faults({"kind": "error-after", "operation": "Job_Add"})
    credential = AzureNamedKeyCredential(ACCOUNT, stand.server.key)
    eager: Any = BatchClient(
        endpoint=stand.server.url, credential=credential, retry_backoff_factor=0
    )

    with pytest.raises(ResourceExistsError, match="JobExists"):
        eager.create_job({"id": "job", "poolInfo": {"poolId": "pool"}})


def test_calls_are_recorded_with_their_outcome_and_without_secrets(
    make: Callable[..., Stand],
) -> None:
    stand = make().ready()
    stand.faults({"kind": "busy", "operation": "Job_Get"})
    with pytest.raises(HttpResponseError):
        stand.client.get_job("job")
    with pytest.raises(HttpResponseError):
        stand.client.get_job("none")

    calls = stand.server.control("GET", "calls")

    assert [(c["operation"], c["outcome"]) for c in calls] == [
        ("Pool_Add", "ok"),
        ("Job_Add", "ok"),
        ("Job_Get", "busy"),
        ("Job_Get", "JobNotFound"),
    ]
    assert calls[1]["body"]["poolInfo"] == {"poolId": "pool"}
    assert "SharedKey" not in str(calls)


@pytest.mark.parametrize(
    "what,body",
    [
        ("faults", [{"kind": "none"}]),
        ("faults", [{"kind": "busy", "op": "x"}]),
        ("settings", {"node": 1}),
        ("settings", {"node_s": "1"}),
        ("settings", {"engine": "podman"}),
    ],
)
def test_a_fault_or_a_setting_that_cannot_be_is_refused(
    make: Callable[..., Stand], what: str, body: Any
) -> None:
    with pytest.raises(AssertionError, match=r"BadFault|BadSetting"):
        make().server.control("PUT", what, body)
