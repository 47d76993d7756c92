"""Makes one spec for each size in `scaling`, and its text, which the record of a run contains."""

from __future__ import annotations

from runspec_jobs.document.nodes import Value, kind
from runspec_jobs.spec.model import Nodes, Spec

NAMED = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\t": "\\t"}


def named(spec: Spec, size: int) -> str:
    """Return the name of the runs of *spec* at *size*: `train-n8` on 8 nodes, `train-p8` with 8 processes."""
    assert spec.scaling is not None, "BUG: a spec without sizes"
    return _named(spec.name, spec.scaling.unit, size)


def _named(name: str, unit: str, size: int) -> str:
    """Return the name of a size.

    >>> _named("train", "nodes", 8), _named("train", "processes", 2)
    ('train-n8', 'train-p2')
    """
    return f"{name}-{unit[0]}{size}"


def of_size(spec: Spec, size: int) -> Spec:
    """Return *spec* at *size*, under a name of its own."""
    assert spec.scaling is not None, "BUG: a spec without sizes"
    changes = {"name": named(spec, size), "scaling": None}
    if spec.scaling.unit == "processes":
        return spec.model_copy(update={**changes, "processes_per_node": size})
    cluster = spec.cluster.model_copy(update={"nodes": Nodes(min=size, max=size)})
    return spec.model_copy(update={**changes, "cluster": cluster})


def sizes(spec: Spec) -> list[Spec]:
    """Return *spec* at each size in its `scaling`, or *spec* alone without `scaling`."""
    if spec.scaling is None:
        return [spec]
    return [of_size(spec, size) for size in spec.scaling.sizes]


def text_of_size(value: Value, size: int) -> bytes:
    """Return *value*, a parsed spec, as the YAML text of the spec at *size*.

    The text parses to the spec that `of_size` returns: every scalar keeps its text and its YAML type.
    """
    assert isinstance(value, dict), "BUG: a spec is a mapping"
    parts = {key: _written(inner) for key, inner in value.items() if key != "scaling"}
    scaling = value["scaling"]
    if isinstance(scaling, dict) and "processes" in scaling:
        parts["name"] = _named(str(value["name"]), "processes", size)
        parts["processes_per_node"] = str(size)
    else:
        cluster = value.get("cluster")
        machines = {}
        if isinstance(cluster, dict):
            machines = {key: _written(inner) for key, inner in cluster.items()}
        parts["name"] = _named(str(value["name"]), "nodes", size)
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
