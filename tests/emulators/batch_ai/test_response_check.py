"""What the emulator for Batch AI answers is what the models of the SDKs have, or it is no answer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from azure.core.exceptions import HttpResponseError

from runspec_emulators.batch_ai import service
from runspec_emulators.batch_ai.api import response_check
from runspec_emulators.batch_ai.api.requests import Request
from runspec_emulators.batch_ai.api.responses import Response
from runspec_emulators.frame.errors import InvalidResponse
from tests.emulators.batch_ai.hand import Hand

JOB = {
    "id": "i",
    "name": "n",
    "type": "Microsoft.BatchAI/workspaces/experiments/jobs",
    "properties": {"executionState": "queued", "creationTime": "2026-06-01T00:00:00Z"},
}


def answered(operation: str, value: Any, service: str = "batchai") -> None:
    response_check.check(Request(service, operation, {}, {}, None, ""), Response(200, value))


@pytest.mark.parametrize(
    "more,said",
    [
        ({"colour": "red"}, "properties.colour: there is no such member"),
        ({"nodeCount": "1"}, "properties.nodeCount: '1' is no int"),
        ({"executionState": "done"}, "executionState: 'done' is none of .*'queued'"),
        ({"provisioningState": "Creating"}, "provisioningState: 'Creating' is none of"),
        ({"creationTime": "today"}, "creationTime: 'today' is not of iso-8601"),
        ({"cluster": {}}, "properties.cluster.id: required"),
        ({"executionInfo": {"errors": [{"message": 1}]}}, "message"),
    ],
)
def test_an_answer_that_the_models_do_not_allow_is_refused(more: dict[str, Any], said: str) -> None:
    wrong = {**JOB, "properties": {**JOB["properties"], **more}}  # type: ignore[dict-item]
    for operation, frame in FRAMES.items():
        answered(operation, frame(JOB))

        with pytest.raises(InvalidResponse, match=said):
            answered(operation, frame(wrong))


FRAMES: dict[str, Callable[[Any], Any]] = {
    "Jobs_Get": lambda job: job,
    "OperationResult": lambda job: job,
    "Jobs_ListByExperiment": lambda job: {"value": [job], "nextLink": "n"},
}


def test_a_page_that_is_none_is_refused() -> None:
    pages: list[Any] = [
        {},
        {"value": {}},
        {"value": [], "next": "n"},
        {"value": [], "nextLink": None},
    ]
    for value in pages:
        with pytest.raises(InvalidResponse):
            answered("Jobs_ListByExperiment", value)


def test_an_answer_about_a_group_is_checked() -> None:
    answered("ResourceGroups_Get", {"location": "eastus"}, "resources")

    with pytest.raises(InvalidResponse, match="location: missing"):
        answered("ResourceGroups_Get", {"name": "g"}, "resources")


def test_a_wrong_answer_is_no_answer(hand: Hand, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever asks gets an error that says what is wrong, which no client takes for the service's."""
    wrong: Any = lambda *_: Response(200, {"value": [{"unit": "Counts"}]})  # noqa: E731
    monkeypatch.setitem(service.OPERATIONS, "Usages_List", wrong)

    with pytest.raises(HttpResponseError, match=r"none of the service's: Usages_List: .*unit"):
        list(hand.client.usages.list("eastus"))
