"""One spec at several sizes: the spec of each, and its text, which a run's record keeps. All pure."""

from __future__ import annotations

from runspec_jobs.document.nodes import Value, kind
from runspec_jobs.spec.model import Nodes, Spec

NAMED = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\t": "\\t"}


def named(name: str, size: int) -> str:
    """Give what the runs of *name* on *size* nodes are called.

    >>> named("train", 8)
    'train-n8'
    """
    return f"{name}-n{size}"


def of_size(spec: Spec, size: int) -> Spec:
    """Give *spec* for *size* nodes, under a name of its own."""
    nodes = Nodes(min=size, max=size)
    cluster = spec.cluster.model_copy(update={"nodes": nodes})
    changes = {"name": named(spec.name, size), "cluster": cluster, "scaling": None}
    return spec.model_copy(update=changes)


def sizes(spec: Spec) -> list[Spec]:
    """Give *spec* at each of its sizes, or itself where it has none."""
    if spec.scaling is None:
        return [spec]
    return [of_size(spec, size) for size in spec.scaling.nodes]


def text_of_size(value: Value, size: int) -> bytes:
    """Give the text of the spec that *value* is, for *size* nodes.

    It reads as what `of_size` gives: every scalar keeps its text, and what it looks like to a reader of YAML.
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


def _written(value: Value) -> str:
    if isinstance(value, dict):
        return _mapping({key: _written(inner) for key, inner in value.items()})
    if isinstance(value, list):
        return f"[{', '.join(map(_written, value))}]"
    # What is no word has no character that means anything here.
    return _quoted(value) if kind(value) == "str" else str(value) or "~"


def _mapping(parts: dict[str, str]) -> str:
    return f"{{{', '.join(f'{_quoted(key)}: {part}' for key, part in parts.items())}}}"


def _quoted(text: str) -> str:
    """Give *text* in quotes, in which every text is a word: https://yaml.org/spec/1.2.2/#731-double-quoted-style"""
    return f'"{"".join(map(_character, text))}"'


def _character(c: str) -> str:
    return NAMED.get(c) or (c if c.isprintable() else f"\\U{ord(c):08x}")
