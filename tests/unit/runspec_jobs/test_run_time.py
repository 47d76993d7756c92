"""How long a run took is known from its record and the status that was read last, without a request."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from runspec_jobs.api.lifecycle import Run
from runspec_jobs.provider import State, Status
from runspec_jobs.state import attempt_history


def test_the_time_of_a_run_is_measured_from_its_record(monkeypatch: pytest.MonkeyPatch) -> None:
    memory, status = object(), Status(State.RUNNING)
    record = SimpleNamespace(read_memory=lambda: memory)
    measured: list[object] = []

    def measure(*given: object) -> float:
        measured.extend(given[:2])
        return 5.0

    monkeypatch.setattr(attempt_history, "measure_seconds", measure)

    assert Run.measure_seconds(cast(Any, SimpleNamespace(record=record)), status) == 5.0
    assert measured == [memory, status]
