"""What is wrong with a body, closed-world: by the SDK's own models, and by the official description.

The SDK drops keys that it does not know before it sends, and checks nothing: a typo would vanish.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

from azure.mgmt.batchai import models

from tests.support.official_descriptions import DATA

SWAGGER = DATA / "batchai-2018-05-01" / "swagger.json"
EXAMPLES = SWAGGER.parent / "examples"
MODELS = {
    "Workspaces_Create": "WorkspaceCreateParameters",
    "Clusters_Create": "ClusterCreateParameters",
    "Jobs_Create": "JobCreateParameters",
}
BASIC: Mapping[str, type] = {"str": str, "int": int, "bool": bool, "duration": str}
KINDS: Mapping[str, type] = {"string": str, "integer": int, "boolean": bool}


def by_sdk(operation: str, body: Any) -> list[str]:
    """Give what the SDK's models have against *body*."""
    return list(_by_model(getattr(models, MODELS[operation]), body, "body"))


def _by_model(model: Any, value: Any, at: str) -> Iterator[str]:
    if not isinstance(value, Mapping):
        yield f"{at}: no {model.__name__}"
        return
    known = {a["key"]: (name, a["type"]) for name, a in model._attribute_map.items()}
    if any("." in key for key in known):  # flattened by the SDK: one level deeper on the wire
        flat = value.get("properties")
        yield from (f"{at}.{key}: unknown" for key in value if key not in ("properties", *known))
        value = {f"properties.{k}": v for k, v in (flat or {}).items()} | {
            k: v for k, v in value.items() if k != "properties"
        }
    for name, rule in model._validation.items():
        if rule.get("required") and model._attribute_map[name]["key"] not in value:
            yield f"{at}: {model._attribute_map[name]['key']} is missing"
    for key, item in value.items():
        if key not in known:
            yield f"{at}.{key}: unknown to {model.__name__}"
        elif model._validation.get(known[key][0], {}).get("readonly"):
            yield f"{at}.{key}: only the service writes it"
        else:
            yield from _by_type(known[key][1], item, f"{at}.{key}")


def _by_type(kind: str, value: Any, at: str) -> Iterator[str]:
    if kind.startswith("["):
        if not isinstance(value, list):
            yield f"{at}: no list"
            return
        for i, item in enumerate(value):
            yield from _by_type(kind[1:-1], item, f"{at}[{i}]")
    elif kind.startswith("{"):
        for key, item in value.items():
            yield from _by_type(kind[1:-1], item, f"{at}.{key}")
    elif kind in BASIC:
        if type(value) is not BASIC[kind]:
            yield f"{at}: {value!r} is no {kind}"
    else:
        yield from _by_model(getattr(models, kind), value, at)


@cache
def swagger() -> Any:
    return json.loads(SWAGGER.read_text())


def by_description(operation: str, params: Mapping[str, Any]) -> list[str]:
    """Give what the official description has against the *params* of a request."""
    for path, methods in swagger()["paths"].items():
        for found in methods.values():
            if found["operationId"] == operation:
                return list(_by_operation(path, found, params))
    return [f"there is no {operation}"]


def _by_operation(path: str, found: Any, params: Mapping[str, Any]) -> Iterator[str]:
    known = [_resolved(parameter) for parameter in found["parameters"]]
    for where in ("path", "query"):
        names = {p["name"]: p for p in known if p["in"] == where}
        given = params.get(where, {})
        yield from (f"{where}.{name}: unknown" for name in given if name not in names)
        needed = [name for name, p in names.items() if p.get("required")]
        yield from (f"{where}.{name} is missing" for name in needed if name not in given)
    bodies = [p["schema"] for p in known if p["in"] == "body"]
    if bodies:
        yield from _by_schema(bodies[0], params.get("body"), "body")
    elif "body" in params:
        yield f"{path}: a body where there is none"


def _resolved(schema: Any) -> Any:
    if "$ref" not in schema:
        return schema
    found: Any = swagger()
    for part in schema["$ref"].removeprefix("#/").split("/"):
        found = found[part]
    return found


def _by_schema(schema: Any, value: Any, at: str) -> Iterator[str]:
    schema = _resolved(schema)
    kind = schema.get("type", "object")
    if kind == "array":
        for i, item in enumerate(value if isinstance(value, list) else [{}]):
            yield from _by_schema(schema["items"], item, f"{at}[{i}]")
    elif kind in KINDS:
        if type(value) is not KINDS[kind]:
            yield f"{at}: {value!r} is no {kind}"
        elif "enum" in schema and value not in schema["enum"]:
            yield f"{at}: {value} is none of {schema['enum']}"
    elif "additionalProperties" in schema:
        for key, item in value.items():
            yield from _by_schema(schema["additionalProperties"], item, f"{at}.{key}")
    elif not isinstance(value, Mapping):
        yield f"{at}: no mapping"
    else:
        yield from _by_properties(schema, value, at)


def _by_properties(schema: Any, value: Mapping[str, Any], at: str) -> Iterator[str]:
    known = schema.get("properties", {})
    yield from (
        f"{at}: {name} is missing" for name in schema.get("required", ()) if name not in value
    )
    for key, item in value.items():
        if key not in known or _resolved(known[key]).get("readOnly"):
            yield f"{at}.{key}: unknown, or only the service writes it"
        else:
            yield from _by_schema(known[key], item, f"{at}.{key}")


def plain(value: Any) -> Any:
    """Give *value* with text for what is not known yet."""
    if isinstance(value, Mapping):
        if len(value) == 1 and next(iter(value)).startswith("$"):
            return "text"
        return {key: plain(item) for key, item in value.items()}
    return [plain(item) for item in value] if isinstance(value, list) else value
