"""Deleting what runs share: a service that is gone for good does not keep what others have, which may cost money."""

from __future__ import annotations

import contextlib
from types import SimpleNamespace
from typing import Any

import pytest

from runspec_jobs.engine import apply, end
from runspec_jobs.errors import RemoteError
from runspec_jobs.state import run_record


def test_a_dead_service_keeps_nothing_of_another_one(monkeypatch: pytest.MonkeyPatch) -> None:
    def record(provider: str) -> Any:
        opened = lambda wait: contextlib.nullcontext()  # noqa: E731
        return SimpleNamespace(plan=SimpleNamespace(provider=provider), open_journal=opened)

    def connect(of: Any) -> Any:
        if of.plan.provider == "slurm":
            raise RemoteError("there is no such host")
        return None, of.plan.provider, None

    undone, told = list[str](), list[str]()
    steps = [SimpleNamespace(title="make a queue")]
    shared = [(record("slurm"), steps), (record("aws-batch"), steps)]
    monkeypatch.setattr(end, "list_shared_steps", lambda: shared)
    monkeypatch.setattr(run_record, "list_all", list)
    monkeypatch.setattr(end, "connect", connect)
    undo = lambda steps, journal, context: undone.append(context.client)  # noqa: E731
    monkeypatch.setattr(apply, "undo", undo)
    reporter: Any = SimpleNamespace(wait=told.append, note=told.append)

    with pytest.raises(RemoteError, match="no such host"):
        end.destroy_shared(reporter)

    assert undone == ["aws-batch"]
    assert told == ["not deleted, of slurm: there is no such host"]
