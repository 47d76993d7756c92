"""Values checked against the models of Azure's SDKs.

The models have the names on the wire, types, enums, what is required and what is read-only.
"""

from __future__ import annotations

import datetime
import enum
import inspect
import re
import sys
import typing
from collections.abc import Iterator
from functools import cache
from typing import Any, NamedTuple

from azure.batch._utils.model_base import Model
from azure.mgmt.batch._utils.model_base import Model as ManagementModel
from azure.mgmt.resource.resources._utils.model_base import Model as ResourceModel


def bare(kind: Any) -> Any:
    """Return X of Optional[X]."""
    args = [a for a in typing.get_args(kind) if a is not type(None)]
    return args[0] if is_optional(kind) and len(args) == 1 else kind


def is_optional(kind: Any) -> bool:
    return typing.get_origin(kind) is typing.Union and type(None) in typing.get_args(kind)


class Field(NamedTuple):
    """One property of a model, by its name on the wire."""

    kind: Any
    required: bool
    read_only: bool


class Digits:
    """The kind of a number that the wire has as a string, since it may have more than 53 bits."""


class Namespace:
    """The types that `_models.X` can name in the annotations of an SDK, this one or that of the Resource Manager."""

    def __init__(self, module: str) -> None:
        self.models = sys.modules[module]
        self.enums = sys.modules[module.replace("_models", "_enums")]

    def __getattr__(self, name: str) -> Any:
        return getattr(self.models, name, None) or getattr(self.enums, name)


@cache
def fields(model: Any) -> dict[str, Field]:
    """Return the properties of a model."""
    fields: dict[str, Field] = {}
    model({})  # a class makes its table of properties with its first instance
    for base in reversed(model.__mro__):
        # In Python 3.14, vars() of a class has no annotations.
        names = inspect.get_annotations(base)
        scope = {**vars(sys.modules[model.__module__]), "_models": Namespace(model.__module__)}
        holder = type("holder", (), {"__annotations__": names})
        known = getattr(model, "_attr_to_rest_field", {})
        hints = {k: v for k, v in names.items() if k in known}
        holder.__annotations__ = hints
        for name, kind in typing.get_type_hints(holder, scope).items():
            rest = known[name]
            shown = rest._visibility  # noqa: SLF001
            digits = bare(kind) is int and rest._format == "str"  # noqa: SLF001
            fields[rest._rest_name] = Field(  # noqa: SLF001
                Digits if digits else kind,
                not is_optional(kind),
                bool(shown) and not {"create", "update"} & set(shown),
            )
    return fields


class Problem(NamedTuple):
    """A problem of a body: an error code of the service, the path of the value, the value, and the reason."""

    code: str
    path: str
    value: Any
    reason: str


def problems(value: Any, kind: Any, path: str = "", *, answered: bool = False) -> Iterator[Problem]:
    """Yield the problems of *value* by the models; read-only properties are allowed only if *value* is *answered*."""
    kind = bare(kind)
    origin, args = typing.get_origin(kind), typing.get_args(kind)
    if isinstance(kind, type) and issubclass(kind, (Model, ManagementModel, ResourceModel)):
        yield from of_model(value, kind, path, answered)
    elif origin in (list, dict):
        if not isinstance(value, origin):
            yield Problem("InvalidPropertyValue", path, value, f"not a {origin.__name__}")
            return
        items = enumerate(value) if origin is list else value.items()
        for key, member in items:
            yield from problems(member, args[-1], f"{path}[{key}]", answered=answered)
    elif not fits(value, kind):
        yield Problem("InvalidPropertyValue", path, value, f"not of {said(kind)}")


def of_model(value: Any, model: Any, path: str, answered: bool) -> Iterator[Problem]:
    if not isinstance(value, dict):
        yield Problem("InvalidPropertyValue", path, value, "not an object")
        return
    known = fields(model)
    for name, member in value.items():
        at = f"{path}.{name}".strip(".")
        if name not in known:
            yield Problem("UnsupportedProperty", at, member, "there is no such property")
        elif known[name].read_only and not answered:
            yield Problem("UnsupportedProperty", at, member, "it is read only")
        else:
            yield from problems(member, known[name].kind, at, answered=answered)
    for name, field in known.items():
        if field.required and (answered or not field.read_only) and name not in value:
            yield Problem("MissingRequiredProperty", f"{path}.{name}".strip("."), None, "missing")


def enum_of(kind: Any) -> type[enum.Enum] | None:
    """Return the closed set that a kind is: the SDK says `Union[str, SomeEnum]`."""
    for arg in (kind, *typing.get_args(kind)):
        if isinstance(arg, type) and issubclass(arg, enum.Enum):
            return arg
    return None


DURATION = re.compile(r"-?P(?=.)(\d+W|(\d+D)?(T(?=\d)(\d+H)?(\d+M)?(\d+(\.\d+)?S)?)?)")


def fits(value: Any, kind: Any) -> bool:
    """Return whether a value that is no object and no list is of this kind."""
    closed = enum_of(kind)
    if closed is not None:
        return value in [member.value for member in closed]
    if kind is Digits:
        return isinstance(value, str) and value.isdecimal()
    if kind is datetime.timedelta:
        return isinstance(value, str) and DURATION.fullmatch(value) is not None
    if kind is datetime.datetime:
        return isinstance(value, str) and re.match(r"\d{4}-\d\d-\d\dT", value) is not None
    if kind is float:
        return isinstance(value, int | float) and not isinstance(value, bool)
    if kind is int:
        return isinstance(value, int) and not isinstance(value, bool)
    return kind is Any or isinstance(value, kind)


def said(kind: Any) -> str:
    closed = enum_of(kind)
    if closed is not None:
        return f"{[member.value for member in closed]}"
    return str(getattr(kind, "__name__", kind))
