"""The field `sweep`: values of parameters, lists of values that go together, and values drawn at random."""

import functools
import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, Self

from pydantic import (
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    Tag,
    WithJsonSchema,
    model_validator,
)
from pydantic_core import CoreSchema

from runspec_jobs.document.nodes import Text, resolve, resolve_kind
from runspec_jobs.spec.types import (
    KEY,
    Free,
    Key,
    Model,
    Natural,
    Whole,
    compiled,
    make_error,
    make_serializer,
    parse_whole,
)

if TYPE_CHECKING:
    from runspec_jobs.spec.sampling import Draw

# Such a sweep is planned in seconds, and its status is a few megabytes. Providers have limits of their own.
MAX_TASKS = 100_000
RANGE = r"^-?[0-9]{1,9}\.\.-?[0-9]{1,9}$"
NUMBER_CHARACTERS = 40
LIST, RANDOM = (
    "list",
    "random",
)  # keys of a sweep with a meaning of their own if they hold a mapping


def _check_values(value: Any) -> Any:
    if isinstance(value, str):
        if not compiled(RANGE).fullmatch(value):
            raise make_error(f"'{value}' is not a range", "write 1..50, or a list of values")
        first, last = (int(end) for end in value.split(".."))
        # Checked before the values are made: `1..999999999` would take gigabytes.
        if not 0 <= last - first < MAX_TASKS:
            raise make_error(
                f"'{value}' has {max(0, last - first + 1):,} values, not 1 to {MAX_TASKS:,}"
            )
        return tuple(str(n) for n in range(first, last + 1))
    if isinstance(value, Mapping):
        hint = "write [0.1, 0.01] or 1..50; only list: and random: take mappings"
        raise make_error("a list or a range is expected here", hint)
    return value


VALUES_SCHEMA: dict[str, Any] = {
    "oneOf": [
        {"type": "string", "pattern": RANGE},
        {
            "type": "array",
            "minItems": 1,
            "items": {"type": ["string", "number", "boolean"]},
        },
    ]
}
Values = Annotated[
    tuple[Free, ...],
    Field(min_length=1),
    BeforeValidator(_check_values),
    WithJsonSchema(VALUES_SCHEMA),
]


def _normalize_number(value: Any) -> Any:
    """Return a number as text in base ten, which every language reads as the same number."""
    if isinstance(value, Text):
        if resolve_kind(value) not in ("int", "float"):
            raise make_error(f"'{value}' is not a number")
        # `0x10` is a number in YAML and none in most programs; `1e-3` is written as the user wrote it.
        text = str(resolve(value)) if resolve_kind(value) == "int" else str(value)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        text = repr(value)
    else:
        return value
    if len(text) > NUMBER_CHARACTERS or not math.isfinite(float(text)):
        raise make_error(
            f"'{str(value)[:NUMBER_CHARACTERS]}' is not a finite number of at most 40 characters"
        )
    return text


Number = Annotated[
    str,
    BeforeValidator(_normalize_number),
    make_serializer(Text),
    WithJsonSchema({"type": "number"}),
]


def _check_two(value: Any) -> Any:
    if isinstance(value, list) and len(value) != 2:
        raise make_error("two numbers are expected here", "write [LOWEST, HIGHEST]")
    return value


def _describe_pair(of: str) -> WithJsonSchema:
    return WithJsonSchema({"type": "array", "items": {"type": of}, "minItems": 2, "maxItems": 2})


Numbers = Annotated[tuple[Number, Number], BeforeValidator(_check_two), _describe_pair("number")]
Wholes = Annotated[tuple[Whole, Whole], BeforeValidator(_check_two), _describe_pair("integer")]


class Distribution(Model):
    """A distribution from which one parameter is drawn. Write one of the fields."""

    model_config = ConfigDict(json_schema_extra={"minProperties": 1, "maxProperties": 1})

    uniform: Numbers | None = Field(
        default=None, description="A number between two numbers, all equally likely: `[0, 0.5]`."
    )
    log_uniform: Numbers | None = Field(
        default=None,
        description="A number between two numbers above 0, all orders of magnitude equally likely: "
        "`[1e-5, 1e-1]`.",
    )
    integer: Wholes | None = Field(
        default=None, description="A whole number between two numbers, both included: `[1, 8]`."
    )
    choice: Values | None = Field(
        default=None, description="One value of a list, or of a range `a..b`."
    )

    @model_validator(mode="after")
    def _require_one(self) -> Self:
        if len(self.model_fields_set) != 1:
            kinds = "uniform, log_uniform, integer or choice"
            raise make_error(f"one of {kinds} is expected here", "write {uniform: [0, 1]}")
        return self

    @property
    def bounds(self) -> tuple[float, float] | None:
        """The least and the greatest number; None for a choice."""
        ends = self.uniform or self.log_uniform or self.integer
        return None if ends is None else (float(ends[0]), float(ends[1]))

    def draw_value(self, draw: "Draw") -> str:
        """Return the value that *draw* takes in this distribution."""
        if self.uniform is not None:
            return draw.draw_uniform(*self.uniform)
        if self.log_uniform is not None:
            return draw.log_uniform(*self.log_uniform)
        if self.integer is not None:
            return draw.draw_integer(*self.integer)
        assert self.choice is not None, "BUG: a distribution without a field"
        return self.choice[draw.draw_below(len(self.choice))]


Trials = Annotated[int, Field(ge=1, le=MAX_TASKS), BeforeValidator(parse_whole)]


class Random(Model):
    """Parameter values drawn at random. The same seed gives the same values on every machine."""

    trials: Trials = Field(
        description="Number of draws. Each is one task, or one part of the product with other parameters."
    )
    seed: Natural = Field(
        default=0, description="Seed of the draws. Another seed gives other values."
    )
    draw: Annotated[Mapping[Key, Distribution], Field(min_length=1)] = Field(
        description="How each parameter is drawn."
    )

    @functools.cached_property
    def rows(self) -> tuple[tuple[str, ...], ...]:
        """The values of each trial, in the order of *draw*."""
        from runspec_jobs.spec.sampling import (
            Draw,
        )  # imported here because it needs `decimal`, and few specs draw values

        return tuple(
            tuple(how.draw_value(Draw(self.seed, trial, name)) for name, how in self.draw.items())
            for trial in range(self.trials)
        )


class _Listed(dict[str, Any]):
    """The mapping under the key `list`."""


class _Drawn(dict[str, Any]):
    """The mapping under the key `random`."""


def _mark_parts(value: Any) -> Any:
    """Mark the mappings under `list` and `random` by their classes, so that `_get_class` recognises them."""
    if not isinstance(value, Mapping):
        return value
    # A discriminator of pydantic sees a value without its key, and the key decides here.
    kinds = {LIST: _Listed, RANDOM: _Drawn}
    return {
        key: kinds[key](part) if key in kinds and isinstance(part, Mapping) else part
        for key, part in value.items()
    }


def _get_class(value: Any) -> str:
    return (
        "=together" if isinstance(value, _Listed) else "=drawn" if _is_drawn(value) else "=values"
    )


def _is_drawn(value: Any) -> bool:
    return isinstance(value, _Drawn | Random)


Together = Annotated[Mapping[Key, Values], Field(min_length=1)]
Part = Annotated[
    Annotated[Values, Tag("=values")]
    | Annotated[Together, Tag("=together")]
    | Annotated[Random, Tag("=drawn")],
    Discriminator(_get_class),
]
OTHER_KEY = rf"^(?!({LIST}|{RANDOM})$){KEY[1:]}"


class _Schema:
    """Writes a JSON Schema that depends on the key, where pydantic's validation depends on the value."""

    @staticmethod
    def __get_pydantic_json_schema__(core: CoreSchema, handler: Any) -> dict[str, Any]:
        schema: dict[str, Any] = handler(core)
        # JSON Schema has the keys, so it needs no marks: `list` and `random` become properties of their own.
        (part,) = schema.pop("patternProperties").values()
        values, together, drawn = part["oneOf"]
        schema["patternProperties"] = {OTHER_KEY: values}
        schema["properties"] = {
            LIST: {"oneOf": [*values["oneOf"], together]},
            RANDOM: {"oneOf": [*values["oneOf"], drawn]},
        }
        return schema


Sweep = Annotated[Mapping[Key, Part], BeforeValidator(_mark_parts), _Schema]
