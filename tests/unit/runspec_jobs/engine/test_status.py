"""The status of a run whose `apply` was interrupted after some of its jobs were submitted."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from runspec_jobs import api
from runspec_jobs.engine import apply, status
from runspec_jobs.errors import UnknownOutcome
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

    shown = status.read_known_status(record, RunState())

    assert shown.state is expected
    assert shown.reason.startswith("as Slurm says" if found is State.CANCELLED else HINT)


@pytest.mark.process
@pytest.mark.parametrize("follow", ["wait", "save"])
def test_following_a_partly_submitted_run_records_no_end(
    follow: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The jobs of that part may all have ended, and more may be submitted."""
    spec = {"apiVersion": "runspec/v1", "name": "job", "provider": "local", "command": ["true"]}
    run = api.apply(api.load(spec), detach=True)
    followed: dict[str, Callable[[], object]] = {
        "wait": run.wait,
        "save": lambda: run.save_logs(tmp_path / "logs", follow=True),
    }
    with monkeypatch.context() as patch:
        patch.setattr(apply, "is_made", lambda plan, memory: False)
        with pytest.raises(UnknownOutcome, match="had not been submitted completely"):
            followed[follow]()
    assert run.record.read_memory().status is None

    followed[follow]()

    ended = run.record.read_memory().status
    assert ended is not None and ended.state is State.SUCCEEDED
