"""Faults put into the clients of Azure, one of a kind: each is found by the drawn answers of one operation."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest

from runspec_azure import errors
from runspec_azure.batch import client, logs, status, timing
from runspec_azure.session import clients, responses
from runspec_batchai import timing as batchai_times
from runspec_jobs.provider import State
from tests.drawn import azure_arm as arm, azure_batch as batch
from tests.drawn.azure_ways import Way, check, drawn
from tests.drawn.drawing import goes_wrong
from tests.drawn.planted import Fault, planted
from tests.support.http_server import Server

pytestmark = pytest.mark.slow  # hundreds of answers until one is taken for what it is not


class Planted(NamedTuple):
    """A fault, and the operation by which it is found."""

    fault: Fault
    operation: str
    way: Way
    account: Any = batch.Account


RUNNING = Way("running", batch.state, ((State.GONE, None, []),))
LOGS = Way("running", batch.logs)
FAULTS = {
    "null is taken for a value": Planted(
        Fault(responses.given, "value.items() if inner is not None}", "value.items()}"),
        "Task_List",
        RUNNING,
    ),
    "a missing member is expected": Planted(
        Fault(responses.complete, 'answer.get(key, "") == ""', "False"), "Job_Get", RUNNING
    ),
    "a new word of an enumeration is expected to be known": Planted(
        Fault(
            status.Tasks.node, 'STATES.get(task["state"], State.WAITING)', 'STATES[task["state"]]'
        ),
        "Task_List",
        RUNNING,
    ),
    "an empty page ends a list": Planted(
        Fault(
            responses.listed, '"odata.nextLink", ""))', '"odata.nextLink", "")) if found else ""'
        ),
        "Task_List",
        RUNNING,
    ),
    "a refusal is taken for nothing there": Planted(
        Fault(status.Tasks.all_of, "status_of(exc) == 404", "status_of(exc) >= 400"),
        "Task_List",
        RUNNING,
    ),
    "a log is text": Planted(
        Fault(clients.Session.part, ".content", ".content.decode(errors='replace').encode()"),
        "File_GetPropertiesFromTask",
        LOGS,
    ),
    "a log goes on behind what was asked for": Planted(
        Fault(
            logs.TaskStream.read_file,
            'Chunk(data, f"{at}:{done + len(data)}")',
            'Chunk(data, f"{at}:{done + BLOCK_BYTES}")',
        ),
        "File_GetFromTask",
        LOGS,
    ),
    "a busy service is not asked again": Planted(
        Fault(errors.refusal, "transient=True, retry_after_s=after", "retry_after_s=after"),
        "Job_Get",
        RUNNING,
    ),
    "a new member makes a job another's": Planted(
        Fault(
            client.holds,
            "all(holds(there.get(key), value) for key, value in wanted.items())",
            "bool(there == wanted)",
        ),
        "Job_Get",
        Way("running", batch.find("job"), (None,)),
    ),
    "every error is expected to be the service's own": Planted(
        Fault(errors.service_code, 'getattr(model, "code", None)', "model.code"),
        "Job_Get",
        RUNNING,
    ),
    "every page of a list is expected to be one": Planted(
        Fault(responses.collected, "(AttributeError, TypeError)", "ZeroDivisionError"),
        "FileServers_ListByWorkspace",
        Way("running", arm.file_servers, ([],)),
        arm.Workspace,
    ),
}


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with Server() as found:
        yield found


@pytest.mark.parametrize("kind", FAULTS)
def test_a_fault_in_the_client_is_found(
    kind: str, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    pause = time.sleep
    monkeypatch.setattr(time, "sleep", lambda wanted_s: pause(min(wanted_s, 0.002)))
    monkeypatch.setattr(timing, "DEFAULT", timing.Timing(poll_s=0.0))
    monkeypatch.setattr(clients, "RETRIES", 2)
    quick = batchai_times.Timing(gone_s=0.3, first_pause_s=0.001, longest_pause_s=0.002)
    monkeypatch.setattr(batchai_times, "DEFAULT", quick)
    monkeypatch.setattr(logging.root.manager, "disable", logging.CRITICAL)
    monkeypatch.setenv("KEY", "c2VjcmV0IGtleQ==")
    monkeypatch.setenv("STORAGE_KEY", "c2VjcmV0IGtleQ==")
    one = FAULTS[kind]
    things = drawn(one.operation, [one.way], lambda phase: one.account(server, phase))

    with planted(one.fault):
        assert goes_wrong(one.operation, things, check), kind
