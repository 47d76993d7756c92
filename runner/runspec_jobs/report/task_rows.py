"""The tasks of a run as rows of a table for programs, with typed values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from runspec_jobs.report.ranking import Task

OWN = ("task", "state", "seconds", "usd")  # columns that no parameter takes


def make_rows(
    tasks: Sequence[Task],
    metric: str | None,
    spent: Mapping[int, tuple[float | None, float | None]],
) -> list[dict[str, Any]]:
    """Return a row for each task; *spent* has the seconds and the USD of those that have started.

    A parameter with the name of another column has `param_` before it.
    """
    names = list(tasks[0].values) if tasks else []
    typed = {name: convert_values([task.values[name] for task in tasks]) for name in names}
    taken = {*OWN, metric}
    rows: list[dict[str, Any]] = []
    for at, task in enumerate(tasks):
        seconds, usd = spent.get(task.number, (None, None))
        parameters = {
            f"param_{name}" if name in taken else name: values[at] for name, values in typed.items()
        }
        measured = {} if metric is None else {metric: task.measured.value}
        row = {"task": task.number, **parameters, "state": task.state, **measured}
        rows.append({**row, "seconds": seconds, "usd": usd})
    return rows


def convert_values(values: Sequence[str]) -> Sequence[Any]:
    """Return texts as numbers or truth values if all of them are such, else as they are.

    >>> convert_values(["1", "20"]), convert_values(["1e-3", "1"]), convert_values(["true", "false"])
    ([1, 20], [0.001, 1.0], [True, False])
    >>> convert_values(["1", "relu"]), convert_values(["007"])
    (['1', 'relu'], ['007'])
    """
    truths = {"true": True, "false": False}
    if values and all(value in truths for value in values):
        return [truths[value] for value in values]
    try:
        numbers = [int(value) for value in values]
        return numbers if [str(number) for number in numbers] == list(values) else values
    except ValueError:
        pass
    try:
        return [float(value) for value in values] if not any("_" in v for v in values) else values
    except ValueError:
        return values
