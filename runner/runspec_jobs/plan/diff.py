"""The differences between two plans."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from runspec_agent.base.light_typing import NamedTuple
from runspec_jobs.plan.model import Plan, replace_run, write_step


class Change(NamedTuple):
    """One field in which two plans differ; *before* or *after* is None if that plan lacks the field."""

    path: str
    before: Any
    after: Any


def find_differences(before: Plan, after: Plan) -> list[Change]:
    """Return the fields that differ apart from the run ids."""
    old = {s.id: replace_run(write_step(s), before.run, "RUN") for s in before.steps}
    new = {s.id: replace_run(write_step(s), after.run, "RUN") for s in after.steps}
    changes: list[Change] = []
    for step in [*old, *(step for step in new if step not in old)]:
        changes += _find_differences(step, old.get(step), new.get(step))
    return changes


def _find_differences(path: str, before: Any, after: Any) -> Iterator[Change]:
    if isinstance(before, dict) and isinstance(after, dict):
        for key in [*before, *(key for key in after if key not in before)]:
            yield from _find_differences(f"{path}.{key}", before.get(key), after.get(key))
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for i, (old, other) in enumerate(zip(before, after, strict=True)):
            yield from _find_differences(f"{path}[{i}]", old, other)
    elif before != after:
        yield Change(path, before, after)
