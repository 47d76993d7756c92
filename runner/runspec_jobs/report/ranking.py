"""The tasks of a sweep, the best first, and why some have no place. All pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from runspec_jobs.report.metric_extraction import Measured
from runspec_jobs.spec.metric import Metric


class Task(NamedTuple):
    """One task: its values in the sweep, how it stands (a word), and what was measured."""

    number: int
    values: Mapping[str, str]
    state: str
    measured: Measured


class Placed(NamedTuple):
    """A task and its place, from 1; None for one that has no number."""

    place: int | None
    task: Task


def ranked(metric: Metric, tasks: Sequence[Task]) -> tuple[Placed, ...]:
    """Give the tasks in order, the best first; equal ones share a place, and those without a number come last."""
    known = [task for task in tasks if task.measured.value is not None]
    ordered = sorted(known, key=lambda task: (_rank(metric, task), task.number))
    found: list[Placed] = []
    for i, task in enumerate(ordered, 1):
        same = bool(found) and found[-1].task.measured.value == task.measured.value
        found.append(Placed(found[-1].place if same else i, task))
    return (*found, *(Placed(None, task) for task in tasks if task.measured.value is None))


def _rank(metric: Metric, task: Task) -> float:
    value = task.measured.value
    assert value is not None and math.isfinite(value), "BUG: what has no number has no rank"
    return -value if metric.goal == "max" else value


def reached(metric: Metric, tasks: Sequence[Task]) -> Task | None:
    """Give the best task of those that are good enough to stop the others; None without any."""
    if metric.stop is None:
        return None
    for placed in ranked(metric, tasks):
        value = placed.task.measured.value
        if value is not None and metric.stop.reached(value):
            return placed.task
    return None


def row(placed: Placed) -> dict[str, Any]:
    """Give a row of the ranking as JSON."""
    task, found = placed.task, placed.task.measured
    return {
        "place": placed.place,
        "task": task.number,
        "values": dict(task.values),
        "state": task.state,
        "value": found.value,
        "why": found.why,
        "among": found.among,
    }
