"""What reads leave alone at Azure Batch, `reconcile` ends."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from runspec_azure.batch.attempts import AGAIN
from runspec_azure.batch.cleanup import Reconciler
from runspec_azure.batch.status import Tasks
from runspec_jobs.provider import State
from runspec_jobs.provider.elastic_tasks import ELASTIC

RUN = "n-abc123"
GOOD = {"result": "success", "exitCode": 0}


class World:
    """A session and a store in one, with an elastic job: a task has ended, one waits, one runs."""

    def __init__(self, phase: str) -> None:
        states = ("completed", "active", "running")
        self.tasks = [
            {"id": f"task-{n:05}", "state": state, "executionInfo": GOOD if not n else {}}
            for n, state in enumerate(states)
        ]
        self.record = {"count": 3, "nodes": 1, "pool": "p", "elastic": {"min": 1, "max": 3}}
        self.state = {"format": ELASTIC, "phase": phase, "code": 0, "why": ""}
        self.made: list[tuple[str, str]] = []
        self.files: set[str] = set()
        self.listed = 0

    def look(self, operation: str, path: Mapping[str, str], query: Any = None) -> Any:
        assert operation == "Job_Get"
        return {"id": RUN, "state": "active"}

    def pages(self, operation: str, path: Any = None, query: Any = None) -> Sequence[Any]:
        assert operation == "Task_List"
        return self.tasks

    def make(self, operation: str, path: Mapping[str, str], body: Any = None) -> None:
        self.made.append((operation, path["taskId"]))

    def key(self, *parts: str) -> str:
        return "/".join(parts)

    def listing(self, prefix: str) -> Sequence[Any]:
        self.listed += 1
        return ()

    def names(self, prefix: str) -> Sequence[str]:
        return [key.removeprefix(prefix) for key in self.files if key.startswith(prefix)]

    def put_new(self, key: str, content: bytes) -> None:
        self.files.add(key)

    def read(self, key: str) -> bytes | None:
        found = {"record.json": self.record, "state": self.state}.get(key.rpartition("/")[2])
        return None if found is None else json.dumps(found).encode()


@pytest.mark.parametrize("phase", ["done", "running"])
def test_tasks_that_wait_are_ended_when_their_job_is_over_and_not_by_a_read(phase: str) -> None:
    world = World(phase)
    tasks = Tasks(world, world)  # type: ignore[arg-type] # what it asks of both
    own, over = Reconciler(tasks), phase == "done"

    assert tasks.status(RUN).state is State.RUNNING
    assert world.made == [], "a read has ended a task"

    line = "terminated 1 task that waited for machines, because the elastic job is over"
    assert list(own.reconcile(RUN)) == [line] * over
    assert list(own.reconcile(RUN)) == []
    assert world.made == [("Task_Terminate", "task-00001")] * over


@pytest.mark.parametrize(("most", "counted"), [(3, "034"), (1, "0")])
def test_tasks_that_were_killed_with_their_agents_count_for_max_failed(
    most: int, counted: str
) -> None:
    """Not one that was stopped or terminated, or that ended when the limit was reached, or only lost a copy.

    Task 3 lost its machines, and had no attempts left: of such ones, `status` asks the store for more.
    """
    world = World("running")
    world.record = {"count": 9, "nodes": 1, "pool": "p", "sweep": [], "max_failed": most}
    bad: Mapping[str, Any] = {"result": "failure", "exitCode": 137}
    terminated = {"result": "failure", "failureInfo": {"code": "TaskEnded"}}
    lost = {"result": "failure", "exitCode": AGAIN}
    copy = {"result": "failure", "exitCode": 0, "failureInfo": {"code": "FileUploadMiscError"}}
    ends = [bad, GOOD, bad, lost, {"result": "failure"}, terminated, copy, bad, {}]
    states = ["completed"] * 7 + ["running", "active"]
    world.tasks = [
        {"id": f"task-{n:05}", "state": state, "executionInfo": info}
        for n, (state, info) in enumerate(zip(states, ends, strict=True))
    ]
    world.files = {f"runs/{RUN}/failed/0", f"runs/{RUN}/stop/2"}

    for _ in range(2):
        tasks = Tasks(world, world)  # type: ignore[arg-type] # what it asks of both
        assert tasks.status(RUN).state is State.RUNNING
        listed = world.listed
        tasks.count_failed(RUN, world.record)
        assert world.listed == listed

    failed = sorted(key.rpartition("/")[2] for key in world.files if "/failed/" in key)
    assert "".join(failed) == counted
