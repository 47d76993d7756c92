"""Makes specs from plain values with the same checks as for a file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from runspec_jobs.diagnostics.problem import Problem
from runspec_jobs.document.nodes import Document, Text, Value
from runspec_jobs.provider import Spec
from runspec_jobs.spec import validate


def parse_spec(document: Mapping[str, Any]) -> tuple[Spec | None, list[Problem]]:
    """Return the spec in *document*, or None, and the problems in it."""
    return validate.parse_spec(Document(write_value(document)))


def write_value(value: Any) -> Value:
    """Return *value* as if it were parsed from a file: all scalars become text, and strings become quoted text.

    >>> write_value({"nodes": 2})
    {'nodes': '2'}
    """
    if isinstance(value, Mapping):
        return {Text(key): write_value(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [write_value(item) for item in value]
    if isinstance(value, str):
        return Text(value, plain=False)
    return Text(str(value).lower() if isinstance(value, bool) else str(value))


def merge(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """Return *below* overridden by *above*; mappings are merged recursively.

    >>> merge({"cluster": {"cpus": 1}}, {"cluster": {"nodes": 2}})
    {'cluster': {'cpus': 1, 'nodes': 2}}
    """
    merged = dict(below)
    for key, value in above.items():
        old = merged.get(key)
        if isinstance(old, Mapping) and isinstance(value, Mapping):
            merged[key] = merge(old, value)
        else:
            merged[key] = value
    return merged
