"""What is refused, or taken from the spec, before a service is asked about a run."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, NoReturn, cast

import pytest

from runspec_jobs.api import nodes
from runspec_jobs.api.lifecycle import Run
from runspec_jobs.engine import apply as engine, clients
from runspec_jobs.errors import Unavailable, UsageError


class Connected(Exception):
    """The service is asked."""


def connect(*_: object) -> NoReturn:
    raise Connected


def test_only_a_submitted_run_can_be_entered(monkeypatch: pytest.MonkeyPatch) -> None:
    record = SimpleNamespace(plan=None, read_memory=lambda: SimpleNamespace(status=None))
    run = SimpleNamespace(
        id="job-abc123", provider="local", record=record, demand_node=lambda *_: None
    )
    monkeypatch.setattr(clients, "connect", connect)

    monkeypatch.setattr(engine, "is_submitted", lambda *_: False)
    with pytest.raises(Unavailable, match="job-abc123 is not submitted yet"):
        nodes.enter(cast(Any, run), "shell")
    monkeypatch.setattr(engine, "is_submitted", lambda *_: True)
    with pytest.raises(Connected):
        nodes.enter(cast(Any, run), "shell")


def test_the_metric_of_a_spec_is_read_where_no_other_is_asked_for() -> None:
    spec = SimpleNamespace(metric="loss")
    run = SimpleNamespace(record=SimpleNamespace(spec=spec), connect=connect)

    with pytest.raises(Connected):
        Run.metrics(cast(Any, run))

    spec.metric = None
    with pytest.raises(UsageError, match="the spec has no metric"):
        Run.metrics(cast(Any, run))
