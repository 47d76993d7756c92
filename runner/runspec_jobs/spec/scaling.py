"""Makes one spec for each size in `scaling`, and its text, which the record of a run contains."""

from __future__ import annotations

from runspec_jobs.document.nodes import Value, resolve_kind
from runspec_jobs.spec.model import Spec
from runspec_jobs.spec.models.machines import Nodes

NAMED = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\t": "\\t"}


def make_name(spec: Spec, size: int) -> str:
    """Return the name of the runs of *spec* at *size*: `train-n8` on 8 nodes, `train-p8` with 8 processes."""
    assert spec.scaling is not None, "BUG: a spec without sizes"
    return _format_name(spec.name, spec.scaling.unit, size)


def _format_name(name: str, unit: str, size: int) -> str:
    """Return the name of a size.

    >>> _format_name("train", "nodes", 8), _format_name("train", "processes", 2)
    ('train-n8', 'train-p2')
    """
    return f"{name}-{unit[0]}{size}"


def select_size(spec: Spec, size: int) -> Spec:
    """Return *spec* at *size*, under a name of its own."""
    assert spec.scaling is not None, "BUG: a spec without sizes"
    changes = {"name": make_name(spec, size), "scaling": None}
    if spec.scaling.unit == "processes":
        return spec.model_copy(update={**changes, "processes_per_node": size})
    cluster = spec.cluster.model_copy(update={"nodes": Nodes(min=size, max=size)})
    return spec.model_copy(update={**changes, "cluster": cluster})


def list_sizes(spec: Spec) -> list[Spec]:
    """Return *spec* at each size in its `scaling`, or *spec* alone without `scaling`."""
    if spec.scaling is None:
        return [spec]
    return [select_size(spec, size) for size in spec.scaling.sizes]


def write_size(value: Value, size: int) -> bytes:
    """Return *value*, a parsed spec, as the YAML text of the spec at *size*.

    The text parses to the spec that `select_size` returns: every scalar keeps its text and its YAML type.
    """
    assert isinstance(value, dict), "BUG: a spec is a mapping"
    # The parsed file is written anew, not the model: a record must not gain fields that the user left out.
    parts = {key: _write_value(inner) for key, inner in value.items() if key != "scaling"}
    scaling = value["scaling"]
    if isinstance(scaling, dict) and "processes" in scaling:
        parts["name"] = _format_name(str(value["name"]), "processes", size)
        parts["processes_per_node"] = str(size)
    else:
        cluster = value.get("cluster")
        machines = {}
        if isinstance(cluster, dict):
            machines = {key: _write_value(inner) for key, inner in cluster.items()}
        parts["name"] = _format_name(str(value["name"]), "nodes", size)
        parts["cluster"] = _write_mapping({**machines, "nodes": str(size)})
    return "".join(f"{_quote(key)}: {part}\n" for key, part in parts.items()).encode()


def write_spec(value: Value) -> bytes:
    """Return *value*, a parsed spec, as YAML text; every scalar keeps its text and its YAML type."""
    assert isinstance(value, dict), "BUG: a spec is a mapping"
    return "".join(
        f"{_quote(key)}: {_write_value(inner)}\n" for key, inner in value.items()
    ).encode()


def _write_value(value: Value) -> str:
    if isinstance(value, dict):
        return _write_mapping({key: _write_value(inner) for key, inner in value.items()})
    if isinstance(value, list):
        return f"[{', '.join(map(_write_value, value))}]"
    # The text of a number, a boolean or null has no special characters.
    return _quote(value) if resolve_kind(value) == "str" else str(value) or "~"


def _write_mapping(parts: dict[str, str]) -> str:
    return f"{{{', '.join(f'{_quote(key)}: {part}' for key, part in parts.items())}}}"


def _quote(text: str) -> str:
    """Return *text* in double quotes, so that it is a string: https://yaml.org/spec/1.2.2/#731-double-quoted-style"""
    return f'"{"".join(map(_escape_character, text))}"'


def _escape_character(c: str) -> str:
    return NAMED.get(c) or (c if c.isprintable() else f"\\U{ord(c):08x}")
