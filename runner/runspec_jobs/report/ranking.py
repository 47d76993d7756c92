"""Ranks the tasks of a sweep by their metric, the best first. All functions are pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from runspec_jobs.report.metric_extraction import Measured
from runspec_jobs.spec.metric import Metric


class Task(NamedTuple):
    """One task: its parameter values, its state as a word, and its metric."""

    number: int
    values: Mapping[str, str]
    state: str
    measured: Measured


class Placed(NamedTuple):
    """A task and its place in the ranking, from 1, or None if it has no metric."""

    place: int | None
    task: Task


def ranked(metric: Metric, tasks: Sequence[Task]) -> tuple[Placed, ...]:
    """Return the tasks with places, the best first; equal ones share a place, and those without a metric are last."""
    known = [task for task in tasks if task.measured.value is not None]
    ordered = sorted(known, key=lambda task: (_rank(metric, task), task.number))
    found: list[Placed] = []
    for i, task in enumerate(ordered, 1):
        same = bool(found) and found[-1].task.measured.value == task.measured.value
        found.append(Placed(found[-1].place if same else i, task))
    return (*found, *(Placed(None, task) for task in tasks if task.measured.value is None))


def _rank(metric: Metric, task: Task) -> float:
    value = task.measured.value
    assert value is not None and math.isfinite(value), "BUG: a task without a number is ranked"
    return -value if metric.goal == "max" else value


def reached(metric: Metric, tasks: Sequence[Task]) -> Task | None:
    """Return the best task that meets the stop condition of the metric, or None."""
    if metric.stop is None:
        return None
    for placed in ranked(metric, tasks):
        value = placed.task.measured.value
        if value is not None and metric.stop.reached(value):
            return placed.task
    return None


def row(placed: Placed) -> dict[str, Any]:
    """Return a row of the ranking in the form of `--json`."""
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
