"""The differences between two plans."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from runspec_jobs.plan.model import Plan, step_json


@dataclass(frozen=True)
class Change:
    """One field in which two plans differ; *before* or *after* is None if that plan lacks the field."""

    path: str
    before: Any
    after: Any


def differences(before: Plan, after: Plan) -> list[Change]:
    """Return the fields that differ apart from the run ids."""
    old = {s.id: _neutral(step_json(s), before.run) for s in before.steps}
    new = {s.id: _neutral(step_json(s), after.run) for s in after.steps}
    changes: list[Change] = []
    for step in [*old, *(step for step in new if step not in old)]:
        changes += _differences(step, old.get(step), new.get(step))
    return changes


def _neutral(value: Any, run: str) -> Any:
    text = json.dumps(value)
    return json.loads(text.replace(json.dumps(run)[1:-1], "RUN"))


def _differences(path: str, before: Any, after: Any) -> Iterator[Change]:
    if isinstance(before, dict) and isinstance(after, dict):
        for key in [*before, *(key for key in after if key not in before)]:
            yield from _differences(f"{path}.{key}", before.get(key), after.get(key))
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for i, (one, other) in enumerate(zip(before, after, strict=True)):
            yield from _differences(f"{path}[{i}]", one, other)
    elif before != after:
        yield Change(path, before, after)
