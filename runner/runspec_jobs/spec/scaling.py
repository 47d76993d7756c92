"""Makes one spec for each number of nodes in `scaling`, and its text, which the record of a run contains."""

from __future__ import annotations

from runspec_jobs.document.nodes import Value, kind
from runspec_jobs.spec.model import Nodes, Spec

NAMED = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\t": "\\t"}


def named(name: str, size: int) -> str:
    """Return the name of the runs of *name* on *size* nodes.

    >>> named("train", 8)
    'train-n8'
    """
    return f"{name}-n{size}"


def of_size(spec: Spec, size: int) -> Spec:
    """Return *spec* for *size* nodes, under a name of its own."""
    nodes = Nodes(min=size, max=size)
    cluster = spec.cluster.model_copy(update={"nodes": nodes})
    changes = {"name": named(spec.name, size), "cluster": cluster, "scaling": None}
    return spec.model_copy(update=changes)


def sizes(spec: Spec) -> list[Spec]:
    """Return *spec* for each number of nodes in its `scaling`, or *spec* alone without `scaling`."""
    if spec.scaling is None:
        return [spec]
    return [of_size(spec, size) for size in spec.scaling.nodes]


def text_of_size(value: Value, size: int) -> bytes:
    """Return *value*, a parsed spec, as the YAML text of the spec for *size* nodes.

    The text parses to the spec that `of_size` returns: every scalar keeps its text and its YAML type.
    """
    assert isinstance(value, dict), "BUG: a spec is a mapping"
    parts = {key: _written(inner) for key, inner in value.items() if key != "scaling"}
    cluster = value.get("cluster")
    machines = {}
    if isinstance(cluster, dict):
        machines = {key: _written(inner) for key, inner in cluster.items()}
    parts["name"] = named(str(value["name"]), size)
    parts["cluster"] = _mapping({**machines, "nodes": str(size)})
    return "".join(f"{_quoted(key)}: {part}\n" for key, part in parts.items()).encode()


def text_of(value: Value) -> bytes:
    """Return *value*, a parsed spec, as YAML text; every scalar keeps its text and its YAML type."""
    assert isinstance(value, dict), "BUG: a spec is a mapping"
    return "".join(f"{_quoted(key)}: {_written(one)}\n" for key, one in value.items()).encode()


def _written(value: Value) -> str:
    if isinstance(value, dict):
        return _mapping({key: _written(inner) for key, inner in value.items()})
    if isinstance(value, list):
        return f"[{', '.join(map(_written, value))}]"
    # The text of a number, a boolean or null has no special characters.
    return _quoted(value) if kind(value) == "str" else str(value) or "~"


def _mapping(parts: dict[str, str]) -> str:
    return f"{{{', '.join(f'{_quoted(key)}: {part}' for key, part in parts.items())}}}"


def _quoted(text: str) -> str:
    """Return *text* in double quotes, so that it is a string: https://yaml.org/spec/1.2.2/#731-double-quoted-style"""
    return f'"{"".join(map(_character, text))}"'


def _character(c: str) -> str:
    return NAMED.get(c) or (c if c.isprintable() else f"\\U{ord(c):08x}")
