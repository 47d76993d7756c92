"""From plain values to a spec, by the very checks that a file goes through."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from runspec_jobs.diagnostics.problem import Problem
from runspec_jobs.document.nodes import Document, Text, Value
from runspec_jobs.provider import Spec
from runspec_jobs.spec import validate


def spec(document: Mapping[str, Any]) -> tuple[Spec | None, list[Problem]]:
    """Give the spec that *document* says, or None, and what is wrong with it."""
    return validate.spec(Document(written(document)))


def written(value: Any) -> Value:
    """Give *value* as a file would hold it: text everywhere, in quotes where it was text before.

    >>> written({"nodes": 2})
    {'nodes': '2'}
    """
    if isinstance(value, Mapping):
        return {Text(key): written(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [written(item) for item in value]
    if isinstance(value, str):
        return Text(value, plain=False)
    return Text(str(value).lower() if isinstance(value, bool) else str(value))


def merged(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """Give *below* with *above* over it, mapping by mapping.

    >>> merged({"cluster": {"cpus": 1}}, {"cluster": {"nodes": 2}})
    {'cluster': {'cpus': 1, 'nodes': 2}}
    """
    found = dict(below)
    for key, value in above.items():
        old = found.get(key)
        if isinstance(old, Mapping) and isinstance(value, Mapping):
            found[key] = merged(old, value)
        else:
            found[key] = value
    return found
