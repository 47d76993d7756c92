"""How runs are, by what the service says of their tasks."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from azure.core import exceptions

from runspec.provider import RemoteError, State, Status
from runspec_azure.batch import times
from runspec_azure.batch.tasks import Tasks
from runspec_azure.blobs import Entry

RUN = "n-abc123"
Shown = dict[str, Any]


class Service:
    """What a session and a store answer, from tables."""

    def __init__(self, *tasks: Shown, job: Shown | None = None, **more: Any) -> None:
        self.tasks, self.calls = tasks, 0
        self.job_ = {"id": RUN, "state": "active", **(job or {})}
        self.pool = more.pop("pool", {"id": "p", "allocationState": "steady", "nodes": []})
        self.notes: list[str] = more.pop("notes", [])
        self.begun: list[str] = more.pop("begun", [])
        self.record = {"count": len(tasks), "nodes": 1, "pool": "p", **more}

    def look(self, operation: str, path: Mapping[str, str], query: Any = None) -> Any:
        self.calls += 1
        if operation == "Job_Get" and self.job_["state"] == "none":
            cause = exceptions.ResourceNotFoundError("no")
            cause.status_code = 404
            raise RemoteError("no") from cause
        return {"Job_Get": self.job_, "Pool_Get": self.pool}[operation]

    def pages(self, operation: str, path: Any = None, query: Any = None) -> list[Any]:
        self.calls += 1
        return list(self.tasks) if operation == "Task_List" else self.pool["nodes"]

    def read(self, *parts: str) -> bytes:
        return json.dumps(self.record).encode()

    def key(self, *parts: str) -> str:
        return "/".join(parts)

    def listing(self, prefix: str) -> list[Entry]:
        kept = self.begun if "/tries/" in prefix else self.notes
        return [Entry(f"{prefix}{name}", 1) for name in kept]


def status(service: Service) -> Status:
    return Tasks(service, service).status(RUN)  # type: ignore[arg-type] # what it asks of both


def task(state: str, number: int = 0, **info: Any) -> Shown:
    return {"id": f"task-{number:05}", "state": state, "executionInfo": info}


GOOD = {"result": "success", "exitCode": 0}
BAD = {"result": "failure", "exitCode": 7, "failureInfo": {"code": "FailureExitCode"}}


def test_a_run_has_succeeded_when_all_its_tasks_have() -> None:
    found = status(Service(task("completed", 0, **GOOD), task("completed", 1, **GOOD)))

    assert (found.state, found.exit_code, len(found.nodes)) == (State.SUCCEEDED, 0, 2)


def test_a_run_of_which_tasks_are_missing_goes_on() -> None:
    found = status(Service(task("completed", 0, **GOOD), count=2))

    assert found.state is State.WAITING


def test_the_first_task_that_failed_speaks_for_a_run() -> None:
    found = status(Service(task("completed", 0, **GOOD), task("completed", 1, **BAD)))

    assert (found.state, found.exit_code) == (State.FAILED, 7)
    assert found.reason == "exited with code 7"


def test_a_failure_of_the_service_is_told_in_words() -> None:
    info = {
        "result": "failure",
        "failureInfo": {"code": "BlobAccessDenied", "message": "denied", "details": []},
    }

    found = status(Service(task("completed", 0, **info)))

    assert "signed_for may be over" in found.reason


def test_a_run_is_cancelled_when_its_job_says_so_and_not_all_was_well() -> None:
    told = {"state": "completed", "executionInfo": {"terminateReason": "cancelled by runspec"}}

    ended = {"result": "failure", "failureInfo": {"code": "TaskEnded"}}
    assert status(Service(task("completed", 0, **ended), job=told)).state is State.CANCELLED
    assert status(Service(task("completed", 0, **GOOD), job=told)).state is State.SUCCEEDED


def test_a_run_whose_job_is_not_there_or_leaves_is_gone() -> None:
    for state in ("none", "deleting"):
        assert status(Service(task("running"), job={"state": state})).state is State.GONE


def test_a_machine_that_was_taken_away_is_no_failure_of_the_job() -> None:
    info = {**BAD, "retryCount": 1, "requeueCount": 1}

    begun = ["1", "2", "3"]
    (node,) = status(Service(task("completed", 0, **info), notes=["0-0/2-3"], begun=begun)).nodes

    told = [(a.number, a.exit_code, a.reclaimed) for a in node.attempts]
    assert told == [(1, None, True), (2, 3, False), (3, 7, False)]


def test_a_machine_that_was_taken_away_before_the_job_began_is_no_try() -> None:
    (node,) = status(Service(task("running", 0, requeueCount=1), begun=["1"])).nodes

    assert (node.attempt, node.attempts) == (1, ())


def test_75_is_no_code_of_the_job_itself() -> None:
    info = {"result": "failure", "exitCode": 75}

    found = status(Service(task("completed", 0, **info), notes=["0-0/1-9"]))

    assert found.exit_code == 9


def test_why_a_task_waits_is_told_by_its_pool() -> None:
    node = {"id": "n1", "state": "starttaskfailed", "startTaskInfo": {"exitCode": 1}}
    cases: dict[str, Shown] = {
        "quota of cores": {"resizeErrors": [{"code": "AccountCoreQuotaReached"}], "nodes": []},
        "its start task failed (exited with code 1)": {"nodes": [node]},
        "which is being asked for": {"allocationState": "resizing", "nodes": []},
        "of n1, it starts": {"nodes": [{"id": "n1", "state": "starting"}]},
    }
    for words, pool in cases.items():
        found = status(Service(task("active"), pool={"id": "p", **pool}))

        assert found.state is State.WAITING
        assert words in found.reason


def test_what_was_asked_just_now_is_not_asked_again() -> None:
    service = Service(task("running"))
    tasks = Tasks(service, service)  # type: ignore[arg-type] # what it asks of both
    for _ in range(5):
        tasks.status(RUN)

    assert times.FRESH_S > 1
    assert service.calls == 2
