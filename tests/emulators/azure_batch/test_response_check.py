"""What the emulator for Azure Batch answers is what the models of the SDKs have, or it is no answer."""

from __future__ import annotations

from typing import Any

import pytest
from azure.batch.models import BatchError
from azure.core.exceptions import HttpResponseError

from runspec_emulators.azure_batch import service
from runspec_emulators.azure_batch.api import response_check
from runspec_emulators.azure_batch.api.operations import find
from runspec_emulators.azure_batch.api.requests import Request
from runspec_emulators.azure_batch.errors import ServiceError, body, model
from runspec_emulators.azure_batch.resource import Response
from runspec_emulators.azure_services.sdk_models import problems
from runspec_emulators.frame.errors import InvalidResponse
from tests.emulators.azure_batch.stand import Stand

INFO = {"retryCount": 0, "requeueCount": 0, "exitCode": 0}
TASK = {
    "id": "t",
    "url": "https://jobs.westeurope.batch.azure.com/jobs/j/tasks/t",
    "eTag": "0x1",
    "lastModified": "2026-06-01T00:00:00Z",
    "creationTime": "2026-06-01T00:00:00Z",
    "state": "completed",
    "stateTransitionTime": "2026-06-01T00:00:00Z",
    "commandLine": "true",
    "executionInfo": INFO,
}


def answered(target: str, value: Any, **query: str) -> None:
    operation, path = find("GET", target)
    response_check.check(Request(operation, path, query, {}, None), Response(200, value))


def refused(code: str, more: dict[str, Any]) -> None:
    task = {**TASK, **more}
    with pytest.raises(InvalidResponse, match=code):
        answered("/jobs/j/tasks/t", task)
    with pytest.raises(InvalidResponse, match=code):
        answered("/jobs/j/tasks", {"value": [TASK, task]})


@pytest.mark.parametrize(
    "more,said",
    [
        ({"colour": "red"}, "colour: there is no such property"),
        ({"commandLine": 1}, "commandLine: not of str"),
        ({"commandLine": None}, "commandLine: not of str"),
        ({"state": "done"}, "state: not of .*'completed'"),
        ({"creationTime": "today"}, "creationTime: not of datetime"),
        ({"executionInfo": {"retryCount": 0}}, "executionInfo.requeueCount: missing"),
        ({"executionInfo": {**INFO, "exitCode": "0"}}, "exitCode: not of int"),
    ],
)
def test_an_answer_that_the_models_do_not_allow_is_refused(more: dict[str, Any], said: str) -> None:
    answered("/jobs/j/tasks/t", TASK)
    answered("/jobs/j/tasks", {"value": [TASK], "odata.metadata": "m", "odata.nextLink": "n"})

    refused(said, more)


@pytest.mark.parametrize(
    "value", [{}, {"value": {}}, {"value": [], "nextLink": "n"}, {"value": [], "odata.nextLink": 1}]
)
def test_a_page_that_is_none_is_refused(value: Any) -> None:
    with pytest.raises(InvalidResponse):
        answered("/jobs/j/tasks", value)


def test_an_answer_may_lack_members_that_were_not_selected() -> None:
    target, chosen = "/jobs/j/tasks", {"$select": "id, state"}
    answered(target, {"value": [{"id": "t", "state": "active"}]}, **chosen)

    with pytest.raises(InvalidResponse, match="colour"):
        answered(target, {"value": [{"id": "t", "colour": "red"}]}, **chosen)


def test_an_answer_of_the_resource_manager_is_checked() -> None:
    with pytest.raises(InvalidResponse, match="colour"):
        response_check.check_managed("BatchAccount_Get", Response(200, {"colour": "red"}))
    with pytest.raises(InvalidResponse, match="location: not of str"):
        response_check.check_managed("Resources_List", Response(200, {"value": [{"location": 1}]}))


def test_a_refusal_is_worded_as_the_models_have_it() -> None:
    error = ServiceError("InvalidPropertyValue", "No.", PropertyName="x", Reason="y")

    assert list(problems(model(error), BatchError, answered=True)) == []
    assert body(error).keys() - model(error).keys() == {"odata.metadata"}


def test_a_wrong_answer_is_no_answer(stand: Stand, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever asks gets an error that says what is wrong, which no client takes for the service's."""
    shown = service.OPERATIONS["Pool_Get"]

    def wrong(*asked: Any) -> Response:
        found = shown(*asked)
        return Response(200, {**found.value, "previousState": "active"}, found.headers)

    monkeypatch.setitem(service.OPERATIONS, "Pool_Get", wrong)

    with pytest.raises(HttpResponseError, match="none of the service's: Pool_Get: previousState"):
        stand.client.get_pool("pool")
