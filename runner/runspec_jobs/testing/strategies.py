"""Valid specs for hypothesis, drawn from the schema of the models, so that a new field is drawn too."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from runspec_jobs.diagnostics.problem import Path
from runspec_jobs.plan.schema import LOCATION, job_schema
from runspec_jobs.provider import Spec
from runspec_jobs.spec.placeholders import KINDS
from runspec_jobs.testing import documents

Schema = Mapping[str, Any]

MOST = 3  # items of a list or a mapping
LARGEST = 1_000_000  # where the models set no bound
CHARACTERS = st.characters(exclude_categories=["Cs"])  # a file in UTF-8 holds no surrogates


def specs(provider: str) -> SearchStrategy[Spec]:
    """Give a strategy for specs that pass every check before those of *provider*.

    Between fields some rules hold that no schema tells: what breaks one is taken away.
    """
    schema, skipped = job_schema({}), {"provider", "providers"}
    ways = [way["required"] for way in schema["oneOf"]]  # command or run
    jobs = []
    for way in ways:
        left_out = skipped.union(*ways) - set(way)
        fields = {k: v for k, v in schema["properties"].items() if k not in left_out}
        wanted = {"properties": fields, "required": [*schema["required"], *way]}
        jobs.append(_objects(wanted, schema["definitions"]))
    return st.one_of(jobs).map(lambda job: _mended({**job, "provider": provider}))


def _values(schema: Schema, definitions: Schema) -> SearchStrategy[Any]:
    """Give a strategy for what *schema*, one of the few forms that pydantic writes, lets through."""
    if "allOf" in schema:
        return _values(schema["allOf"][0], definitions)
    if "$ref" in schema:
        return _values(definitions[schema["$ref"].removeprefix(LOCATION)], definitions)
    if "enum" in schema or "const" in schema:
        return st.sampled_from(schema.get("enum", [schema.get("const")]))
    if choices := schema.get("oneOf") or schema.get("anyOf"):
        return st.one_of([_values(choice, definitions) for choice in choices])
    match schema["type"]:
        case "object":
            return _objects(schema, definitions)
        case "array":
            return _lists(schema, definitions)
        case "integer":
            return st.integers(schema.get("minimum", -LARGEST), schema.get("maximum", LARGEST))
        case "number":
            return st.integers(-LARGEST, LARGEST) | st.floats(-LARGEST, LARGEST)
        case "boolean":
            return st.booleans()
        case "string":
            return _texts(schema)
        case ["string", "number", "boolean"]:
            return st.one_of(_texts({}), st.integers(-LARGEST, LARGEST), st.booleans())
    raise AssertionError(f"BUG: nothing is known here of {schema}")


def _objects(schema: Schema, definitions: Schema) -> SearchStrategy[dict[str, Any]]:
    fields = {k: _field(k, inner, definitions) for k, inner in schema.get("properties", {}).items()}
    if schema.get("maxProperties") == 1:
        return st.one_of([st.fixed_dictionaries({k: inner}) for k, inner in fields.items()])
    needed = {key: fields.pop(key) for key in schema.get("required", ()) if key in fields}
    known = st.fixed_dictionaries(needed, optional=fields)
    if patterns := schema.get("patternProperties"):
        ((pattern, inner),) = patterns.items()
        keys, least = _texts({"pattern": pattern}), schema.get("minProperties", 0)
        named = st.dictionaries(keys, _values(inner, definitions), min_size=least, max_size=MOST)
        return st.builds(lambda one, other: {**one, **other}, known, named)
    return known


def _field(name: str, schema: Schema, definitions: Schema) -> SearchStrategy[Any]:
    """Each trial is a task: few of them are as good as many."""
    return st.integers(1, MOST) if name == "trials" else _values(schema, definitions)


def _lists(schema: Schema, definitions: Schema) -> SearchStrategy[list[Any]]:
    items = _values(schema["items"], definitions)
    most = min(MOST, schema.get("maxItems", MOST))
    return st.lists(items, min_size=schema.get("minItems", 0), max_size=most)


def _texts(schema: Schema) -> SearchStrategy[str]:
    if "pattern" not in schema:
        return st.text(CHARACTERS, min_size=schema.get("minLength", 0), max_size=60)
    found = st.from_regex(schema["pattern"], alphabet=CHARACTERS)
    return found.map(lambda text: text.removesuffix("\n"))  # "$" matches before it, too


def _mended(job: dict[str, Any]) -> Spec:
    """Give *job* as a spec without what breaks a rule, and with a use of each thing it names."""
    if "command" in job:
        job = {**job, "command": [*job["command"], *_places(job)]}
    while True:
        spec, problems = documents.spec(job)
        if spec is not None:
            return spec
        job = _without(job, problems[0].path) if problems[0].path else {**job, "command": ["true"]}


def _places(job: Schema) -> Iterable[str]:
    for kind in KINDS:
        for name in (
            _swept(job) if kind == "sweep" else [item["name"] for item in job.get(kind, ())]
        ):
            yield f"${{{kind}.{name}}}"


def _swept(job: Schema) -> Iterable[str]:
    for name, part in job.get("sweep", {}).items():
        given = part.get("draw", part) if isinstance(part, dict) else [name]
        yield from given


def _without(value: Any, path: Path) -> Any:
    """Give *value* without what stands at *path*; empty where that is not there or was all."""
    first, *rest = path
    items: dict[Any, Any] = dict(value if isinstance(value, Mapping) else enumerate(value))
    if first not in items:
        return None
    inner = items[first]
    left = _without(inner, tuple(rest)) if rest and isinstance(inner, Mapping | list) else None
    if left:
        items[first] = left
    else:
        del items[first]
    return items if isinstance(value, Mapping) else list(items.values())
