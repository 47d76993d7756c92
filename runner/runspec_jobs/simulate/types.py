"""The types of values in the files of a simulation, beside those of a spec."""

from __future__ import annotations

import math
from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from runspec_jobs.document.nodes import Text, resolve, resolve_kind
from runspec_jobs.spec.types import make_error, parse_seconds


def _number(value: Any) -> Any:
    if isinstance(value, Text):
        found = resolve(value) if resolve_kind(value) in ("int", "float") else None
        if found is None or not math.isfinite(found):
            hint = "remove the quotes" if not value.plain else None
            raise make_error(f"'{value}' is not a number", hint)
        return found
    return value


def _moment(value: Any) -> Any:
    plain = isinstance(value, Text) and resolve_kind(value) in ("int", "float")
    return _number(value) if plain else parse_seconds(value)


def _rate(value: Any) -> Any:
    found = _number(value)
    if isinstance(found, int | float) and found <= 0:
        raise make_error(f"must be above 0 (got {found})")
    return found


def _known(value: Any) -> Any:
    return None if isinstance(value, Text) and resolve_kind(value) == "null" else _rate(value)


Number = Annotated[float, Field(ge=0), BeforeValidator(_number)]
Rate = Annotated[float, BeforeValidator(_rate)]
Known = Annotated[float | None, BeforeValidator(_known)]
Count = Annotated[int, Field(ge=0), BeforeValidator(_number)]
Moment = Annotated[float, Field(ge=0), BeforeValidator(_moment)]
