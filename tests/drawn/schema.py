"""Values drawn from the schema of an answer, whichever language describes it."""

from __future__ import annotations

import copy
import functools
import operator
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from typing import Any, Literal, NamedTuple

from hypothesis import strategies as st

Kind = Literal[
    "object", "list", "map", "string", "integer", "number", "boolean", "time", "bytes", "any"
]
Draw = Callable[[st.SearchStrategy[Any]], Any]

UNKNOWN_NAME = "xNotInTheDescription"  # a member that a later version of the service may have
UNKNOWN_ENUM = "NOT_IN_THE_DESCRIPTION"  # so may be a word of an enumeration
DEEPEST = 4  # below it, only what is required is drawn

TEXTS = ("", "x", "a b", "ジョブ", "-", "0", "null", "a/b:c#1", "line\nline", "\t", "x" * 300, "𝄞é")
INTEGERS = (0, 1, -1, 2, 75, 143, 2**31 - 1, 2**53)
TIMES = tuple(datetime(y, 1, 2, 3, 4, 5, tzinfo=UTC) for y in (1970, 2001, 2026, 2038, 2100))


@dataclass(frozen=True)
class Schema:
    """What a description says of one value. Members are a function, since schemas may contain themselves."""

    kind: Kind
    members_of: Callable[[], Mapping[str, Schema]] = dict
    required: frozenset[str] = frozenset()
    item_of: Callable[[], Schema] | None = None  # of a list or a map
    enum: tuple[str, ...] = ()
    least: float | None = None
    most: float | None = None
    note: Any = field(default=None, compare=False)  # whatever the reader of a description keeps

    @cached_property
    def members(self) -> Mapping[str, Schema]:
        return self.members_of()

    @cached_property
    def item(self) -> Schema:
        assert self.item_of is not None, f"a {self.kind} has no items"
        return self.item_of()


@dataclass(frozen=True)
class Ways:
    """What may be drawn beside plain values; a protocol without nulls says `nulls=False`."""

    nulls: bool = True
    unknown_names: bool = True
    unknown_enums: bool = True


ALL = Ways()


def values(schema: Schema, ways: Ways = ALL) -> st.SearchStrategy[Any]:
    """Return a strategy for what *schema* allows: optional members come, or are missing, null or empty."""

    @st.composite
    def whole(draw: Draw) -> Any:
        return drawn(draw, schema, ways, 0)

    return whole()


def drawn(draw: Draw, schema: Schema, ways: Ways, depth: int) -> Any:
    """Draw one value. Times are datetimes and bytes are bytes: the protocol says how they are written."""
    if schema.kind == "object":
        return _object(draw, schema, ways, depth)
    if schema.kind == "list":
        count = draw(st.integers(0, 2)) if depth < DEEPEST else 0
        return [drawn(draw, schema.item, ways, depth + 1) for _ in range(count)]
    if schema.kind == "map":
        count = draw(st.integers(0, 2)) if depth < DEEPEST else 0
        return {f"k{n}": drawn(draw, schema.item, ways, depth + 1) for n in range(count)}
    return _scalar(draw, schema, ways)


def _object(draw: Draw, schema: Schema, ways: Ways, depth: int) -> dict[str, Any]:
    found = {n: drawn(draw, schema.members[n], ways, depth + 1) for n in sorted(schema.required)}
    if depth < DEEPEST:
        for name in _some(draw, [n for n in schema.members if n not in schema.required]):
            found[name] = _optional(draw, schema.members[name], ways, depth)
    if ways.unknown_names and draw(_SELDOM):
        found[UNKNOWN_NAME] = draw(_ANY)
    return found


_SELDOM = st.sampled_from((False, False, False, True))
_FORMS = st.sampled_from(("value", "value", "value", "empty", "null"))
_ANY = st.sampled_from(({"a": [1, None]}, [{}], "x", 0, True, {}))
_EMPTY: Mapping[str, Any] = {"object": {}, "map": {}, "list": [], "string": "", "bytes": b""}


def _optional(draw: Draw, schema: Schema, ways: Ways, depth: int) -> Any:
    form = draw(_FORMS)
    if form == "null" and ways.nulls:
        return None
    # What an object requires is required of an empty one, too.
    if form == "empty" and schema.kind in _EMPTY and not schema.required and not schema.enum:
        return _EMPTY[schema.kind]
    return drawn(draw, schema, ways, depth + 1)


def _some(draw: Draw, names: list[str]) -> list[str]:
    """Choose about a quarter of *names* by two draws, however many there are."""
    if not names:
        return []
    bits = st.integers(0, (1 << len(names)) - 1)
    chosen = draw(bits) & draw(bits)
    return [name for n, name in enumerate(names) if chosen >> n & 1]


def _scalar(draw: Draw, schema: Schema, ways: Ways) -> Any:
    if schema.enum:
        more = (UNKNOWN_ENUM,) if ways.unknown_enums else ()
        return draw(st.sampled_from((*schema.enum, *more)))
    if schema.kind == "any":
        return draw(_ANY)
    if schema.kind in ("integer", "number"):
        least = -(2**53) if schema.least is None else schema.least
        most = 2**53 if schema.most is None else schema.most
        known = tuple(n for n in INTEGERS if least <= n <= most)
        return draw(st.sampled_from(known or (int(least),)))
    return draw(_SCALARS[schema.kind])


_SCALARS: Mapping[str, st.SearchStrategy[Any]] = {
    "string": st.sampled_from(TEXTS)
    | st.text(st.characters(codec="utf-8", exclude_categories=("Cc", "Cs")), max_size=6),
    "boolean": st.booleans(),
    "time": st.sampled_from(TIMES),
    "bytes": st.binary(max_size=8),
}


def anchored(value: Any, truth: Any) -> Any:
    """Return *value* with everything that *truth* has put over it: what a test knows beforehand.

    A list of *truth* has the length it has there; its objects keep what was drawn beside their own members.

    >>> anchored({"a": [{"x": 1, "y": 2}], "b": 3}, {"a": [{"x": 9}, {"x": 8}]})
    {'a': [{'x': 9, 'y': 2}, {'x': 8}], 'b': 3}
    """
    if isinstance(truth, Mapping):
        base = value if isinstance(value, Mapping) else {}
        return {**base, **{k: anchored(base.get(k), v) for k, v in truth.items()}}
    if isinstance(truth, list):
        items = value if isinstance(value, list) else []
        return [anchored(items[n] if n < len(items) else None, v) for n, v in enumerate(truth)]
    return truth


def grown(draw: Draw, value: Any) -> Any:
    """Return *value* with one member more in one of its objects, at any depth: a later version of the service has it.

    Half of all values are left as they are.
    """
    places = [path for path in ((), *_places(value, ())) if isinstance(_at(value, path), dict)]
    if not places or draw(st.booleans()):
        return value
    found = copy.deepcopy(value)
    _at(found, draw(st.sampled_from(places))).setdefault(UNKNOWN_NAME, draw(_ANY))
    return found


def _at(value: Any, path: tuple[Any, ...]) -> Any:
    return functools.reduce(operator.getitem, path, value)


Lack = tuple[int, str]
LACKS: st.SearchStrategy[Lack] = st.tuples(
    st.integers(0, 2**16), st.sampled_from(("out", "null", "empty"))
)


class Lacking(NamedTuple):
    """A value that lacks something: which member, and what that was."""

    value: Any
    path: tuple[Any, ...]
    was: Any
    how: str


def lacking(value: Any, lack: Lack, ways: Ways = ALL) -> Lacking:
    """Return *value* with one of its members taken out, null or empty, at any depth: *lack* says which and how."""
    places = list(_places(value, ()))
    if not places:
        return Lacking(value, (), None, "out")
    pick, how = lack
    path = places[pick % len(places)]
    was = _at(value, path)
    if (how == "null" and not ways.nulls) or (how == "empty" and not isinstance(was, list | dict)):
        how = "out"
    return Lacking(_without(value, path, how), path, was, how)


def _places(value: Any, path: tuple[Any, ...]) -> Iterator[tuple[Any, ...]]:
    if path and isinstance(path[-1], str):
        yield path
    pairs: Iterable[tuple[Any, Any]] = value.items() if isinstance(value, Mapping) else ()
    pairs = enumerate(value) if isinstance(value, list) else pairs
    for key, member in pairs:
        yield from _places(member, (*path, key))


def _without(value: Any, path: tuple[Any, ...], how: str) -> Any:
    key, rest = path[0], path[1:]
    found: Any = dict(value) if isinstance(value, Mapping) else list(value)
    if rest:
        found[key] = _without(value[key], rest, how)
    elif how == "out":
        del found[key]
    else:
        found[key] = None if how == "null" else type(value[key])()
    return found
