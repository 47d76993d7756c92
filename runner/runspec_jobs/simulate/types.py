"""The types of values in the files of a simulation, beside those of a spec."""

from __future__ import annotations

import math
from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from runspec_jobs.document.nodes import Text, resolve, resolve_kind
from runspec_jobs.spec.types import make_error, parse_seconds


def _parse_number(value: Any) -> Any:
    if isinstance(value, Text):
        number = resolve(value) if resolve_kind(value) in ("int", "float") else None
        if number is None or not math.isfinite(number):
            hint = "remove the quotes" if not value.plain else None
            raise make_error(f"'{value}' is not a number", hint)
        return number
    return value


def _parse_moment(value: Any) -> Any:
    plain = isinstance(value, Text) and resolve_kind(value) in ("int", "float")
    return _parse_number(value) if plain else parse_seconds(value)


def _parse_rate(value: Any) -> Any:
    number = _parse_number(value)
    if isinstance(number, int | float) and number <= 0:
        raise make_error(f"must be above 0 (got {number})")
    return number


def _refuse_unknown(value: Any) -> Any:
    return None if isinstance(value, Text) and resolve_kind(value) == "null" else _parse_rate(value)


Number = Annotated[float, Field(ge=0), BeforeValidator(_parse_number)]
Rate = Annotated[float, BeforeValidator(_parse_rate)]
Known = Annotated[float | None, BeforeValidator(_refuse_unknown)]
Count = Annotated[int, Field(ge=0), BeforeValidator(_parse_number)]
Moment = Annotated[float, Field(ge=0), BeforeValidator(_parse_moment)]
