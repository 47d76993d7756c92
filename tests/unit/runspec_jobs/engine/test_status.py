"""The status of a run whose `apply` was interrupted after some of its jobs were submitted."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from runspec_jobs.engine import apply, status
from runspec_jobs.provider import State, Status
from runspec_jobs.state.journal import RunState

HINT = "its apply was interrupted or is still running"


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (State.RUNNING, State.RUNNING),
        (State.SUCCEEDED, State.RUNNING),
        (State.FAILED, State.RUNNING),
        (State.GONE, State.WAITING),
        (State.CANCELLED, State.CANCELLED),
    ],
)
def test_a_run_of_which_a_part_was_submitted_has_ended_only_if_it_was_cancelled(
    found: State, expected: State, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = SimpleNamespace(state=lambda run: Status(found, "as Slurm says"))
    monkeypatch.setattr(status, "connect", lambda of: (None, client, None))
    monkeypatch.setattr(apply, "is_made", lambda plan, memory: False)
    monkeypatch.setattr(apply, "is_submitted", lambda plan, memory: True)
    record: Any = SimpleNamespace(plan=None, run="job-abcdef")

    shown = status.known_status(record, RunState())

    assert shown.state is expected
    assert shown.reason.startswith("as Slurm says" if found is State.CANCELLED else HINT)
