"""What Azure Batch's own SDK, and the official description, have against a body: a closed world."""

from __future__ import annotations

import datetime
import enum
import functools
import json
import typing
from collections.abc import Iterator, Mapping
from typing import Any

from azure.batch import models
from azure.batch._utils.model_base import Model

from tests.support.official_descriptions import DATA

SWAGGER = DATA / "azure-batch" / "swagger-2024-07-01.20.0.json"
MODELS: Mapping[str, Any] = {
    "Pool_EnableAutoScale": models.BatchPoolEnableAutoScaleOptions,
    "Pool_Add": models.BatchPoolCreateOptions,
    "Job_Add": models.BatchJobCreateOptions,
    "Job_Patch": models.BatchJobUpdateOptions,
    "Task_AddCollection": models.BatchTaskGroup,
}
OPERATIONS = {"Pool_Delete", "Job_Delete"}  # without a body
# What is newer than the description, or is called by another name there: none so far.
NEWER: frozenset[str] = frozenset()


def by_the_sdk(operation: str, body: Any) -> list[str]:
    if operation in OPERATIONS:
        return [] if body is None else [f"{operation} has no body"]
    return list(_by_model(body, MODELS[operation], operation))


@functools.cache
def _fields(model: Any) -> dict[str, tuple[Any, Any]]:
    """Give the type and the descriptor of every key, by its name on the wire."""
    hints = typing.get_type_hints(model, localns={"_models": models})
    found = {}
    for base in reversed(model.__mro__):
        for name, field in vars(base).items():
            if type(field).__name__ == "_RestField":
                found[field._rest_name_input or name] = (hints[name], field)
    return found


def _by_model(value: Any, kind: Any, at: str) -> Iterator[str]:
    if _is_mark(value):
        value = "text"
    options = [one for one in typing.get_args(kind) if one is not type(None)]
    if typing.get_origin(kind) in (list, typing.List):  # noqa: UP006 - as the SDK has it
        if not isinstance(value, list):
            yield f"{at}: no list"
            return
        for item in value:
            yield from _by_model(item, options[0], at)
    elif typing.get_origin(kind) is dict:
        return
    elif options:
        if any(isinstance(one, type) and issubclass(one, enum.Enum) for one in options):
            options = [one for one in options if one is not str]  # more than the SDK knows
        wrong = [list(_by_model(value, one, at)) for one in options]
        if all(wrong):
            yield from min(wrong, key=len)
    elif isinstance(kind, type) and issubclass(kind, Model):
        yield from _by_keys(value, kind, at)
    else:
        yield from _by_scalar(value, kind, at)


def _by_scalar(value: Any, kind: Any, at: str) -> Iterator[str]:
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        if value not in [one.value for one in kind]:
            yield f"{at}: {value} is none of {[one.value for one in kind]}"
    elif kind is datetime.timedelta:
        if not str(value).startswith("P"):
            yield f"{at}: {value} is no duration"
    elif kind in (str, int, bool, float) and type(value) is not kind:
        yield f"{at}: {value!r} is no {kind.__name__}"


def _by_keys(value: Any, kind: Any, at: str) -> Iterator[str]:
    if not isinstance(value, dict):
        yield f"{at}: no object"
        return
    known = _fields(kind)
    for key, item in value.items():
        if key not in known:
            yield f"{at}.{key} is not known"
        elif known[key][1]._visibility == ["read"]:
            yield f"{at}.{key} is read only"
        else:
            yield from _by_model(item, known[key][0], f"{at}.{key}")
    for key, (hint, _) in known.items():
        if key not in value and type(None) not in typing.get_args(hint):
            yield f"{at}.{key} is missing"


def by_the_description(operation: str, body: Any) -> list[str]:
    """Give what the official description has against *body*; nothing where it is not at hand."""
    if not SWAGGER.exists() or body is None:
        return []
    return list(_by_schema(body, _schema(operation), operation))


@functools.cache
def _swagger() -> Any:
    return json.loads(SWAGGER.read_text())


def _schema(operation: str) -> Any:
    for methods in _swagger()["paths"].values():
        for found in methods.values():
            if found.get("operationId") == operation:
                return next(p["schema"] for p in found["parameters"] if p.get("in") == "body")
    raise AssertionError(f"{operation} is not in the description")


def _by_schema(value: Any, schema: Any, at: str) -> Iterator[str]:
    if "$ref" in schema:
        schema = _swagger()["definitions"][schema["$ref"].rpartition("/")[2]]
    if _is_mark(value):
        return
    kinds = {"string": str, "integer": int, "boolean": bool, "array": list, "object": dict}
    kind = kinds.get(schema.get("type", "object"), object)
    if not isinstance(value, kind):
        yield f"{at}: {value!r} is no {schema.get('type')}"
    elif isinstance(value, list):
        for item in value:
            yield from _by_schema(item, schema["items"], at)
    elif isinstance(value, dict):
        known = schema.get("properties", {})
        yield from (
            f"{at}.{key} is missing" for key in schema.get("required", ()) if key not in value
        )
        for key, item in value.items():
            if key not in known:
                yield f"{at}.{key} is not known"
            elif known[key].get("readOnly"):
                yield f"{at}.{key} is read only"
            else:
                yield from _by_schema(item, known[key], f"{at}.{key}")
    elif "enum" in schema and value not in schema["enum"]:
        yield f"{at}: {value} is none of {schema['enum']}"


def _is_mark(value: Any) -> bool:
    return isinstance(value, dict) and len(value) == 1 and next(iter(value)).startswith("$")
