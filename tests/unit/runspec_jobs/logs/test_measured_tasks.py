"""The tasks of a run, each with its state and why it has no value."""

from __future__ import annotations

from runspec_jobs.logs.measured_tasks import list_tasks
from runspec_jobs.provider import NodeStatus, State, Status
from runspec_jobs.testing import documents

SWEEP = {"apiVersion": "runspec/v1", "name": "job", "provider": "local", "command": ["true"]}


def test_a_task_that_the_status_does_not_know_has_not_started() -> None:
    spec, problems = documents.parse_spec({**SWEEP, "sweep": {"lr": [1, 2]}})
    assert spec is not None, problems
    status = Status(State.RUNNING, nodes=(NodeStatus(0, 0, 1, State.RUNNING),))

    running, waiting = list_tasks(spec, status)

    assert (running.state, running.measured.why) == ("running", "the spec has no metric")
    assert (waiting.state, waiting.measured.why) == ("not-started", "it has not started")
