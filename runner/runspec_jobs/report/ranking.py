"""Ranks the tasks of a sweep by their metric, the best first. All functions are pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from runspec_agent.base.light_typing import NamedTuple
from runspec_jobs.provider import State
from runspec_jobs.report.metric_extraction import Measured
from runspec_jobs.spec.metric import Metric

ENDED_BADLY = frozenset(map(str, (State.FAILED, State.CANCELLED, State.GONE)))


class Task(NamedTuple):
    """One task, by its *number*: its parameter *values*, its *state* as a word, and its metric, *measured*."""

    number: int
    values: Mapping[str, str]
    state: str
    measured: Measured


class Placed(NamedTuple):
    """A task and its place in the ranking, from 1, or None if it has no metric or has ended badly."""

    place: int | None
    task: Task


def has_ended_badly(task: Task) -> bool:
    """Return whether *task* failed, was cancelled or is gone: whatever it measured, it has no result."""
    return task.state in ENDED_BADLY


def rank_tasks(metric: Metric, tasks: Sequence[Task]) -> tuple[Placed, ...]:
    """Return the tasks with places, the best first; equal ones share a place.

    Those without a metric follow, and tasks that have ended badly are last. None of these has a place.
    """
    healthy = [task for task in tasks if not has_ended_badly(task)]
    ranking: list[Placed] = []
    for i, task in enumerate(_order_tasks(metric, healthy), 1):
        same = bool(ranking) and ranking[-1].task.measured.value == task.measured.value
        ranking.append(Placed(ranking[-1].place if same else i, task))
    bad = [task for task in tasks if has_ended_badly(task)]
    # A failed task may have printed the best number of all before it failed; it gets no place.
    rest = [*_list_unmeasured(healthy), *_order_tasks(metric, bad), *_list_unmeasured(bad)]
    return (*ranking, *(Placed(None, task) for task in rest))


def _order_tasks(metric: Metric, tasks: Sequence[Task]) -> list[Task]:
    known = [task for task in tasks if task.measured.value is not None]
    return sorted(known, key=lambda task: (_rank(metric, task), task.number))


def _list_unmeasured(tasks: Sequence[Task]) -> list[Task]:
    return [task for task in tasks if task.measured.value is None]


def _rank(metric: Metric, task: Task) -> float:
    value = task.measured.value
    assert value is not None and math.isfinite(value), "BUG: a task without a number is ranked"
    return -value if metric.goal == "max" else value


def find_reached(metric: Metric, tasks: Sequence[Task]) -> Task | None:
    """Return the best task that has succeeded and meets the stop condition of the metric, or None.

    A task that still runs does not count: if it fails, the others have the result.
    """
    if metric.stop is None:
        return None
    for task in _order_tasks(metric, [task for task in tasks if task.state == State.SUCCEEDED]):
        value = task.measured.value
        if value is not None and metric.stop.is_reached(value):
            return task
    return None


def explain(task: Task) -> str:
    """Return why a task has no number or no place, or an empty text if it has both."""
    if has_ended_badly(task) and not task.measured.why:
        return f"the task {'failed' if task.state == State.FAILED else f'is {task.state}'}"
    return task.measured.why


def write_row(placed: Placed) -> dict[str, Any]:
    """Return a row of the ranking in the form of `--json`."""
    task, measured = placed.task, placed.task.measured
    return {
        "place": placed.place,
        "task": task.number,
        "values": dict(task.values),
        "state": task.state,
        "value": measured.value,
        "why": explain(task),
        "among": measured.among,
    }
