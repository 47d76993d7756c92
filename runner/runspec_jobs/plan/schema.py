"""Makes the JSON Schema of specs and the reference page from the models."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from runspec_jobs.provider import Options
from runspec_jobs.spec.field_marks import KEY, USER
from runspec_jobs.spec.model import Spec
from runspec_jobs.spec.placeholders import WITHOUT_PARAMS
from runspec_jobs.spec.types import DURATION, SAVES, SECONDS

DRAFT = (
    "http://json-schema.org/draft-07/schema#"  # the draft that the YAML servers of editors support
)
LOCATION = "#/definitions/"
HEADER = """\
# Spec reference

This page lists every field of a spec (a job file) and of a profile. `runspec schema --reference` generates it from the
models in the code: change the descriptions there, and not this page.

The first table has the top-level fields of a spec. A type that is a link has a table of its own below. A scalar is a
string, a number or a boolean.

`${params.NAME}` is the value of a parameter: see [params.md](params.md).
In `command`, `run`, `setup` and `smoke`, `${mounts.NAME}`, `${outputs.NAME}` and `${sweep.NAME}` are replaced by the
path of a mount, the path of an output and the value of a parameter. `$${mounts.NAME}` gives the text `${mounts.NAME}`
itself.

The settings of providers have a column `set by`. A spec and a profile may set a field that is marked `anyone`. Only a
profile may set a field that is marked `user`: see [profiles](profile.md).

See also [which files of a mounted folder are uploaded](mounts.md) and [what a job finds around it](inside.md).
"""


def make_job_schema(options: Mapping[str, type[Options]]) -> dict[str, Any]:
    """Return the JSON Schema of a spec; *options* are the options models of the providers in it.

    It lacks the options that only the user may set, because they belong to a profile.
    """
    schema: dict[str, Any] = _drop_user_options(make_full_schema(options))
    needed = _find_referred(schema["properties"], schema["definitions"])
    for name, field in schema["properties"].items():
        if name not in WITHOUT_PARAMS:
            schema["properties"][name] = _take_params(field)
    schema["definitions"] = {
        "Param": {"type": "string", "pattern": r"\$\{params\."},
        **{k: _take_params(v) for k, v in schema["definitions"].items() if k in needed},
    }
    return schema


def _take_params(value: Any) -> Any:
    """Return a schema whose values may be parameters, where no other text is a valid value."""
    if isinstance(value, list):
        return [_take_params(item) for item in value]
    if not isinstance(value, dict):
        return value
    # The keys of mappings are no values, and a field may be called `pattern`.
    kept = {k: v if k in ("propertyNames", *UNIONS) else _take_params(v) for k, v in value.items()}
    if "properties" in value:
        kept["properties"] = {k: _take_params(v) for k, v in value["properties"].items()}
    for union in UNIONS & kept.keys():
        # A parameter is one more member of a union, or `oneOf` would have two members that accept it.
        members = kept[union]
        more = [TAKES_PARAM] if any(map(_is_narrow, members)) else []
        kept[union] = [*(m if _is_narrow(m) else _take_params(m) for m in members), *more]
    if not _is_narrow(value):
        return kept
    about = {k: kept.pop(k) for k in ("description", "default") if k in kept}
    return {"anyOf": [kept, TAKES_PARAM], **about}


def _is_narrow(value: Mapping[str, Any]) -> bool:
    """Return whether the schema of a scalar does not accept any text."""
    return value.get("type") in NARROW or bool({"pattern", "enum", "const"} & value.keys())


UNIONS = {"anyOf", "oneOf"}
NARROW = ("integer", "number", "boolean")
TAKES_PARAM = {"$ref": f"{LOCATION}Param"}


def make_full_schema(options: Mapping[str, type[Options]]) -> dict[str, Any]:
    """Return the schema of a spec with all options of the providers, those of profiles too, each with its mark."""
    spec_schema = Spec.model_json_schema(ref_template=LOCATION + "{model}")
    definitions = spec_schema.pop("$defs", {})
    providers = {}
    for name, model in options.items():
        schema = model.model_json_schema(ref_template=LOCATION + "{model}")
        definitions |= schema.pop("$defs", {})
        schema.pop("title", None)
        providers[name] = schema
    spec_schema["properties"]["providers"] = {
        "type": "object",
        "description": spec_schema["properties"]["providers"]["description"],
        "properties": providers,
        "additionalProperties": {"type": "object"},
    }
    # `rules` checks this for runspec; an editor needs it in the schema.
    spec_schema["oneOf"] = [
        {"required": ["command"]},
        {"required": ["run"]},
        {"required": ["container"], "properties": {"container": {"required": ["entrypoint"]}}},
    ]
    spec_schema["definitions"] = definitions
    schema = {"$schema": DRAFT, "title": "runspec job", **_clean(spec_schema)}
    schema["title"] = "runspec job"
    return schema


def _drop_user_options(value: Any) -> Any:
    """Return a schema without the options that only the user may set, and without all marks."""
    if isinstance(value, list):
        return [_drop_user_options(item) for item in value]
    if not isinstance(value, dict):
        return value
    kept = {
        k: v for k, v in value.items() if not (isinstance(v, dict) and v.get(KEY) == USER.value)
    }
    return {k: _drop_user_options(v) for k, v in kept.items() if k != KEY}


def _find_referred(value: Any, definitions: Mapping[str, Any]) -> set[str]:
    """Return the names of the *definitions* to which *value* refers, directly or indirectly."""
    names: set[str] = set()
    waiting = [value]
    while waiting:
        node = waiting.pop()
        if isinstance(node, list):
            waiting += node
        elif isinstance(node, dict):
            waiting += node.values()
            name = str(node.get("$ref", "")).removeprefix(LOCATION)
            if name and name not in names:
                names.add(name)
                waiting.append(definitions[name])
    return names


def _clean(value: Any) -> Any:
    """Return a schema without keys that editors do not need, and without null, which no field accepts.

    Draft 7 ignores keys beside `$ref`, so a `$ref` with other keys is put into an `allOf`.
    """
    if isinstance(value, list):
        return [_clean(item) for item in value]
    if not isinstance(value, dict):
        return value
    cleaned = {k: _clean(v) for k, v in value.items() if not _is_noise(k, v)}
    # pydantic writes an optional field as a union with null.
    kinds = [kind for kind in cleaned.pop("anyOf", []) if kind != {"type": "null"}]
    if len(kinds) == 1:
        cleaned = {**kinds[0], **cleaned}
    elif kinds:
        cleaned["anyOf"] = kinds
    if "patternProperties" in cleaned:
        cleaned["additionalProperties"] = False
    if "$ref" in cleaned and len(cleaned) > 1:
        cleaned = {"allOf": [{"$ref": cleaned.pop("$ref")}], **cleaned}
    return cleaned


def _is_noise(key: str, value: Any) -> bool:
    if key == "default":
        return value in (None, [], {}) or isinstance(value, dict)
    return key == "title" and isinstance(value, str)


def format_reference(schema: Mapping[str, Any]) -> str:
    """Return the reference page of *schema*, as Markdown."""
    definitions = schema["definitions"]
    lines = [*HEADER.splitlines(), "", *_format_table(schema, definitions)]
    for name, part in definitions.items():
        if part.get("type") == "object":
            described = part.get("description", "")
            lines += ["", f"## {name}", "", described, "", *_format_table(part, definitions)]
    for name, part in schema["properties"]["providers"]["properties"].items():
        described = part.get("description", "")
        lines += ["", f"## providers: {name}", "", described, "", *_format_table(part, definitions)]
    return "\n".join(lines) + "\n"


def _format_table(part: Mapping[str, Any], definitions: Mapping[str, Any]) -> Iterator[str]:
    marked = any(KEY in field for field in part["properties"].values())
    yield f"| key | type | default | {'set by | ' * marked}description |"
    yield f"| --- | --- | --- | {'--- | ' * marked}--- |"
    for name, field in part["properties"].items():
        default = "required" if name in part.get("required", ()) else _format_default(field)
        description = field.get("description", "").replace("|", "\\|")
        mark = f"{field.get(KEY, '')} | " * marked
        yield f"| `{name}` | {_format_type(field, definitions)} | {default} | {mark}{description} |"


def _format_default(field: Mapping[str, Any]) -> str:
    """Return the default of a field in the notation of specs."""
    value = field.get("default")
    if value in (None, {}, [], "") or isinstance(value, dict):
        return ""
    if field.get("pattern") == DURATION:
        value = _format_duration(value)
    elif field.get("pattern") == SAVES:
        value = "last" if value == 1 else f"last {value}"
    elif isinstance(value, bool):
        value = str(value).lower()
    return f"`{value}`"


def _format_duration(seconds: int) -> str:
    """Return a duration in the notation of specs, in the largest unit that divides it.

    >>> _format_duration(43200), _format_duration(90)
    ('12h', '90s')
    """
    unit = next(unit for unit, length in SECONDS.items() if seconds % length == 0)
    return f"{seconds // SECONDS[unit]}{unit}"


def _format_type(field: Mapping[str, Any], definitions: Mapping[str, Any]) -> str:
    """Return the type of a field in a few words, without `|`, which would end the cell."""
    if "$ref" in field:
        name = field["$ref"].removeprefix(LOCATION)
        if (
            definitions[name].get("type") != "object"
        ):  # a type without fields has no section on the page
            return _format_type(definitions[name], definitions)
        return f"[{name}](#{name.lower()})"
    for key in ("anyOf", "oneOf", "allOf"):
        if key in field:
            return " or ".join(_format_type(kind, definitions) for kind in field[key])
    if "const" in field or "enum" in field:
        return ", ".join(f"`{word}`" for word in field.get("enum", [field.get("const")]))
    if examples := field.get("examples"):
        return "such as " + ", ".join(f"`{word}`" for word in examples)
    if field.get("type") == "array":
        return f"list of {_format_type(field.get('items', {}), definitions)}"
    if field.get("type") == "object":
        inner = list(field.get("patternProperties", {}).values())
        return f"mapping to {_format_type(inner[0], definitions)}" if inner else "mapping"
    kind = field.get("type", "value")
    return "scalar" if isinstance(kind, list) else str(kind)
