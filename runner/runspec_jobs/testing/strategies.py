"""Draws valid specs for hypothesis from the schema of the models, so that new fields are drawn too."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from runspec_jobs.diagnostics.problem import Path
from runspec_jobs.plan.schema import LOCATION, make_job_schema
from runspec_jobs.provider import Spec
from runspec_jobs.spec.placeholders import KINDS
from runspec_jobs.testing import documents

Schema = Mapping[str, Any]

MOST = 3  # the most items of a list or a mapping
LARGEST = 1_000_000  # the largest number where the models have no limit
CHARACTERS = st.characters(exclude_categories=["Cs"])  # a file in UTF-8 contains no surrogates


def specs(provider: str) -> SearchStrategy[Spec]:
    """Return a strategy for specs that pass all checks of the core; *provider* may still refuse them.

    The schema does not contain the rules between fields, so fields that break a rule are removed.
    """
    schema, skipped = make_job_schema({}), {"provider", "providers"}
    ways = [alternative["required"] for alternative in schema["oneOf"]]  # command or run
    jobs = []
    for alternative in ways:
        # The alternatives exclude each other, which the schema of a field alone does not say.
        left_out = skipped.union(*ways) - set(alternative)
        fields = {k: v for k, v in schema["properties"].items() if k not in left_out}
        wanted = {"properties": fields, "required": [*schema["required"], *alternative]}
        jobs.append(_make_objects(wanted, schema["definitions"]))
    return st.one_of(jobs).map(lambda job: _mend({**job, "provider": provider}))


def _make_values(schema: Schema, definitions: Schema) -> SearchStrategy[Any]:
    """Return a strategy for values that *schema* accepts; it supports the forms of schemas that pydantic writes."""
    if "allOf" in schema:
        return _make_values(schema["allOf"][0], definitions)
    if "$ref" in schema:
        return _make_values(definitions[schema["$ref"].removeprefix(LOCATION)], definitions)
    if "enum" in schema or "const" in schema:
        return st.sampled_from(schema.get("enum", [schema.get("const")]))
    if choices := schema.get("oneOf") or schema.get("anyOf"):
        kept = [choice for choice in choices if not _is_resolved(choice)]
        return st.one_of([_make_values(choice, definitions) for choice in kept])
    match schema["type"]:
        case "object":
            return _make_objects(schema, definitions)
        case "array":
            return _make_lists(schema, definitions)
        case "integer":
            return st.integers(schema.get("minimum", -LARGEST), schema.get("maximum", LARGEST))
        case "number":
            # A file may write 1 for 1.0, so both are drawn.
            return st.integers(-LARGEST, LARGEST) | st.floats(-LARGEST, LARGEST)
        case "boolean":
            return st.booleans()
        case "string":
            return _make_texts(schema)
        case ["string", "number", "boolean"]:
            return st.one_of(_make_texts({}), st.integers(-LARGEST, LARGEST), st.booleans())
    raise AssertionError(f"BUG: this form of schema is not supported: {schema}")


def _is_resolved(schema: Schema) -> bool:
    """Return whether *schema* is of what no provider sees: references to parameters, and the caller's shell."""
    from_caller = schema.get("properties", {}).get("from") == {"const": "caller"}
    return from_caller or schema == {"$ref": f"{LOCATION}Param"}


def _make_objects(schema: Schema, definitions: Schema) -> SearchStrategy[dict[str, Any]]:
    fields = {
        k: _make_field(k, inner, definitions) for k, inner in schema.get("properties", {}).items()
    }
    if schema.get("maxProperties") == 1:
        return st.one_of([st.fixed_dictionaries({k: inner}) for k, inner in fields.items()])
    needed = {key: fields.pop(key) for key in schema.get("required", ()) if key in fields}
    known = st.fixed_dictionaries(needed, optional=fields)
    if patterns := schema.get("patternProperties"):
        ((pattern, inner),) = patterns.items()
        keys, least = _make_texts({"pattern": pattern}), schema.get("minProperties", 0)
        named = st.dictionaries(
            keys, _make_values(inner, definitions), min_size=least, max_size=MOST
        )
        return st.builds(lambda pair, other: {**pair, **other}, known, named)
    return known


def _make_field(name: str, schema: Schema, definitions: Schema) -> SearchStrategy[Any]:
    """Return the strategy of a field; `trials` is kept small, because each trial is a task."""
    return st.integers(1, MOST) if name == "trials" else _make_values(schema, definitions)


def _make_lists(schema: Schema, definitions: Schema) -> SearchStrategy[list[Any]]:
    items = _make_values(schema["items"], definitions)
    most = min(MOST, schema.get("maxItems", MOST))
    return st.lists(items, min_size=schema.get("minItems", 0), max_size=most)


def _make_texts(schema: Schema) -> SearchStrategy[str]:
    if "pattern" not in schema:
        return st.text(CHARACTERS, min_size=schema.get("minLength", 0), max_size=60)
    matching = st.from_regex(schema["pattern"], alphabet=CHARACTERS)
    return matching.map(
        lambda text: text.removesuffix("\n")
    )  # "$" also matches before a final newline


def _mend(job: dict[str, Any]) -> Spec:
    """Return *job* as a spec that uses all its placeholders, without the fields that break a rule."""
    if "command" in job:
        job = {**job, "command": [*job["command"], *_find_placeholders(job)]}
    while True:
        spec, problems = documents.parse_spec(job)
        if spec is not None:
            return spec
        job = (
            # Without the field of the first problem; a problem of the whole spec is that it runs nothing.
            _drop_path(job, problems[0].path) if problems[0].path else {**job, "command": ["true"]}
        )


def _find_placeholders(job: Schema) -> Iterable[str]:
    for kind in KINDS:
        for name in (
            _list_parameters(job)
            if kind == "sweep"
            else job.get(kind, {})
            if kind == "params"
            else [item["name"] for item in job.get(kind, ())]
        ):
            yield f"${{{kind}.{name}}}"


def _list_parameters(job: Schema) -> Iterable[str]:
    for name, part in job.get("sweep", {}).items():
        given = part.get("draw", part) if isinstance(part, dict) else [name]
        yield from given


def _drop_path(value: Any, path: Path) -> Any:
    """Return *value* without the item at *path*, or None if *path* does not exist."""
    first, *rest = path
    items: dict[Any, Any] = dict(value if isinstance(value, Mapping) else enumerate(value))
    if first not in items:
        return None
    inner = items[first]
    left = _drop_path(inner, tuple(rest)) if rest and isinstance(inner, Mapping | list) else None
    if left:
        items[first] = left
    else:
        del items[first]
    return items if isinstance(value, Mapping) else list(items.values())
