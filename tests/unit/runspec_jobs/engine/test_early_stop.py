"""The other tasks of a sweep are stopped for a task that has succeeded, and for no other."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from runspec_jobs.engine import early_stop
from runspec_jobs.logs import measure
from runspec_jobs.logs.follow import Line
from runspec_jobs.provider import NodeStatus, State, Status
from runspec_jobs.spec.metric import Metric

LOSS = Metric.model_validate(
    {"name": "loss", "goal": "min", "pattern": "loss (.*)", "stop": {"below": 0}}
)


class Sweep:
    """A run of three tasks, the client of its service, and the tasks that were asked to stop."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.stopped: set[int] = set()
        self.told: list[str] = []
        self.states = [State.RUNNING] * 3
        monkeypatch.setattr(early_stop, "tasks", lambda spec: ({}, {}, {}))
        monkeypatch.setattr(early_stop, "stop", self._stop)
        of = cast("Any", SimpleNamespace(spec=None, run="r"))
        client = cast("Any", SimpleNamespace(state=lambda run: self.status()))
        self.stopper = early_stop.Stopper(of, client, LOSS, measure.Bounded(), self.told.append)

    def _stop(self, of: Any, client: Any, numbers: set[int], why: str, tell: Any) -> None:
        self.stopped |= numbers

    def status(self) -> Status:
        nodes = tuple(NodeStatus(n, 0, 1, state) for n, state in enumerate(self.states))
        return Status(State.RUNNING, nodes=nodes)

    def prints(self, task: int, text: bytes) -> None:
        self.stopper.read_line(Line(task, 0, text))

    def ends(self, task: int, state: State) -> None:
        self.states[task] = state
        self.stopper.note_states(self.status())


@pytest.fixture
def sweep(monkeypatch: pytest.MonkeyPatch) -> Sweep:
    return Sweep(monkeypatch)


@pytest.mark.parametrize("state", [State.RUNNING, State.FAILED, State.CANCELLED, State.WAITING])
def test_a_good_number_of_a_task_that_has_not_succeeded_stops_nothing(
    sweep: Sweep, state: State
) -> None:
    sweep.prints(1, b"loss -5")
    sweep.stopper.look()
    sweep.ends(1, state)

    sweep.stopper.look()

    assert sweep.stopped == set() and sweep.told == []


def test_once_a_good_task_has_succeeded_the_others_are_stopped(sweep: Sweep) -> None:
    sweep.prints(1, b"loss -5")
    sweep.prints(2, b"loss 3")
    sweep.ends(1, State.SUCCEEDED)

    sweep.stopper.look()

    assert sweep.stopped == {0, 2}
    assert sweep.told == ["task 1 has loss -5: stopping the others"]


def test_the_number_that_counts_at_the_end_decides(sweep: Sweep) -> None:
    """A task that diverges after a good number is not good enough."""
    sweep.prints(1, b"loss -5")
    sweep.prints(1, b"loss nan")
    sweep.ends(1, State.SUCCEEDED)

    sweep.stopper.look()

    assert sweep.stopped == set()
