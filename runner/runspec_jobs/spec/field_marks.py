"""Marks that say who may set an option of a provider: only the user, in a profile, or anyone, in a job file too.

A job file may come from a stranger. Options that name a host, an endpoint, a command, an interpreter, a location of
secrets, keys or data, an account or a role belong to the user's profile. Options that choose among the resources of
the user's own account may also be set in a job file. `User[...]` and `Anyone[...]` around a field's type say which.
"""

from __future__ import annotations

from collections import abc
from collections.abc import Iterator, Mapping
from enum import Enum
from typing import Annotated, Any, TypeVar, get_args, get_origin

from pydantic import BaseModel, GetJsonSchemaHandler

from runspec_jobs.diagnostics.problem import Path

T = TypeVar("T")
KEY = "x-set-by"  # in the JSON Schema of a provider's options


class SetBy(Enum):
    """The mark of a field, which also appears in its JSON Schema."""

    USER = "user"
    ANYONE = "anyone"

    def __get_pydantic_json_schema__(self, core: Any, handler: GetJsonSchemaHandler) -> Any:
        return {**handler(core), KEY: self.value}


USER, ANYONE = SetBy.USER, SetBy.ANYONE
User = Annotated[T, USER]
"""A field that only a profile may set, which the user wrote or has trusted."""
Anyone = Annotated[T, ANYONE]
"""A field that a job file may set too."""


def find_unmarked(kind: type[BaseModel]) -> list[str]:
    """Return the fields of *kind*, and of every model in it, that do not have exactly one mark."""
    unmarked = []
    for model in list_with_nested(kind):
        for name, field in model.model_fields.items():
            if len([mark for mark in field.metadata if isinstance(mark, SetBy)]) != 1:
                unmarked.append(f"{model.__name__}.{name}")
    return unmarked


def find_user_settings(kind: type[BaseModel], settings: Any, at: Path = ()) -> Iterator[Path]:
    """Yield the path of every value in *settings*, the parsed options of a *kind*, that only the user may set.

    A field without a mark counts as one that only the user may set. Keys that *kind* does not have are skipped.
    """
    if not isinstance(settings, Mapping):
        return
    for name, value in settings.items():
        field = kind.model_fields.get(str(name))
        if field is None:
            continue
        # Refused by default: a new option without a mark stays out of job files.
        if ANYONE not in field.metadata:
            yield (*at, name)
            continue
        yield from _find_nested(field.annotation, value, (*at, name))


def _find_nested(annotation: Any, value: Any, at: Path) -> Iterator[Path]:
    """Yield the paths that `find_user_settings` yields for the models in *value*, which is of the type *annotation*."""
    kinds = get_args(annotation)
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield from find_user_settings(annotation, value, at)
    elif get_origin(annotation) is abc.Mapping:
        for name, item in value.items() if isinstance(value, Mapping) else ():
            yield from _find_nested(kinds[1], item, (*at, name))
    elif get_origin(annotation) is tuple:
        for number, item in enumerate(value if isinstance(value, list) else ()):
            yield from _find_nested(kinds[0], item, (*at, number))
    else:  # a union, or an annotated type
        for kind in kinds:
            yield from _find_nested(kind, value, at)


def list_models(annotation: Any) -> Iterator[type[BaseModel]]:
    """Yield the models that *annotation* names."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for inner in getattr(annotation, "__args__", ()):
        yield from list_models(inner)


def list_with_nested(kind: type[BaseModel]) -> Iterator[type[BaseModel]]:
    """Yield *kind* and every model in its fields, each once."""
    seen, waiting = set(), [kind]
    while waiting:
        model = waiting.pop(0)
        if model not in seen:
            seen.add(model)
            yield model
            waiting += [
                m for field in model.model_fields.values() for m in list_models(field.annotation)
            ]
