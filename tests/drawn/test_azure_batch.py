"""The client of Azure Batch gets answers drawn from all that the service's description allows."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from typing import Any

import pytest

from runspec_azure.batch import timing
from runspec_azure.session import clients
from runspec_jobs.provider import State
from tests.drawn import azure_batch as batch
from tests.drawn.azure_batch import Account
from tests.drawn.azure_facts import BATCH_OPERATIONS
from tests.drawn.azure_ways import Way, check, drawn
from tests.drawn.drawing import COUNT, tried
from tests.support.http_server import Server

KEY = "c2VjcmV0IGtleQ=="
RUN = batch.RUN
GONE: Any = (State.GONE, None, [])


LOST: Any = (State.FAILED, None, [(0, 0, State.SUCCEEDED, 1), (1, 0, State.RUNNING, 1)])
NO_TASKS: Any = ((State.WAITING, None, []),)
NO_LOG: Any = (
    {},
    {(0, 0): b""},
    {(0, 0): batch.TEXT, (0, 1): b""},
    {(0, 0): b"", (0, 1): batch.OTHER},
)
WAYS: dict[str, tuple[Way, ...]] = {
    "Account_ListSupportedImages": (Way("running", batch.doctor, ([False, True, True],)),),
    "ComputeNode_List": (Way("waiting", batch.state),),
    "File_GetFromTask": (Way("running", batch.logs, NO_LOG),),
    "File_GetPropertiesFromTask": (Way("running", batch.logs, NO_LOG),),
    "File_GetFromComputeNode": (Way("gang", batch.logs, NO_LOG),),
    "File_GetPropertiesFromComputeNode": (Way("gang", batch.logs, NO_LOG),),
    "Job_Add": (Way("running", batch.call("job"), ({"id": RUN},)),),
    "Job_Delete": (Way("running", batch.undo("job"), ({},)),),
    "Job_Get": (
        Way("running", batch.state, (GONE,)),
        Way("over", batch.state, (GONE,)),
        Way("running", batch.find("job"), (None,)),
        Way("running", batch.find("last"), (None,)),
        Way("running", batch.undo("job"), ({},)),
    ),
    "Job_List": (Way("running", batch.litter), Way("over", batch.undo("pool"))),
    "Job_Patch": (Way("running", batch.call("last"), ({},)),),
    "Job_Terminate": (Way("running", batch.cancel, (None,)),),
    "Pool_Add": (Way("running", batch.call("pool")),),
    "Pool_Delete": (Way("over", batch.undo("pool"), ({},)),),
    "Pool_EnableAutoScale": (Way("running", batch.call("wake"), ({},)),),
    "Pool_EvaluateAutoScale": (Way("running", batch.evaluate),),
    "Pool_Get": (
        Way("waiting", batch.state),
        Way("running", batch.find("pool"), (None,)),
        Way("running", batch.find("wake"), (None,)),
        Way("over", batch.undo("pool"), ({},)),
    ),
    "Pool_List": (Way("running", batch.litter),),
    "Task_AddCollection": (Way("running", batch.call("tasks-0")),),
    "Task_Delete": (Way("running", batch.delete_task, (None,)),),
    "Task_Get": (Way("late", batch.state, (LOST,)), Way("running", batch.logs, NO_LOG)),
    "Task_List": (
        Way("running", batch.state, NO_TASKS),
        Way("over", batch.state, NO_TASKS),
        Way("running", batch.logs, NO_LOG),
        Way("running", batch.find("tasks-0"), (None,)),
        Way("running", batch.stop, (None,)),
    ),
    "Task_ListSubtasks": (Way("gang", batch.logs, NO_LOG),),
    "Task_Terminate": (Way("running", batch.stop, (None,)),),
}


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with Server() as found:
        yield found


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody waits: not between two tries, and not for what was asked just now to become old."""
    quick = timing.Timing(poll_s=0.0, gone_s=0.3, first_pause_s=0.001, longest_pause_s=0.002)
    monkeypatch.setattr(timing, "DEFAULT", quick)
    monkeypatch.setattr(clients, "RETRIES", 2)
    pause = time.sleep
    monkeypatch.setattr(time, "sleep", lambda wanted_s: pause(min(wanted_s, 0.002)))
    monkeypatch.setenv("KEY", KEY)
    monkeypatch.setattr(logging.root.manager, "disable", logging.CRITICAL)  # thousands of lines


@pytest.mark.slow  # thousands of answers
@pytest.mark.parametrize("name", WAYS)
def test_a_client_takes_every_answer_for_what_it_is(name: str, server: Server) -> None:
    things = drawn(name, WAYS[name], lambda phase: Account(server, phase))

    assert tried(name, things, check) >= COUNT


def test_every_operation_of_azure_batch_is_tried() -> None:
    assert set(WAYS) == set(BATCH_OPERATIONS)
