"""The nodes of a parsed YAML text: scalars as they were written, mappings and sequences, with their positions.

A scalar keeps its source text. `resolve_kind` and `resolve` return what a YAML 1.2 reader (an editor, a
schema checker) would read; in a spec, the type of the field interprets the text.
"""

from __future__ import annotations

import json
import math
from typing import Any, Literal, Self, cast

from runspec_agent.base.light_typing import NamedTuple
from runspec_jobs.regex import regex

Kind = Literal["null", "bool", "int", "float", "str"]
Path = tuple[str | int, ...]
Span = tuple[int, int, int, int]  # first line and column, last line and column; all from 0
NOWHERE: Span = (0, 0, 0, 0)  # of what stands in no file

# https://yaml.org/spec/1.2.2/#1032-tag-resolution
CORE = regex(
    r"(?P<null>null|Null|NULL|~|)"
    r"|(?P<bool>true|True|TRUE|false|False|FALSE)"
    r"|(?P<int>[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+)"
    r"|(?P<float>[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?"
    r"|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))"
)
BASES = {"0o": 8, "0x": 16}
# Characters that YAML does not allow unescaped: https://yaml.org/spec/1.2.2/#51-character-set
UNSHOWN = regex("[\x7f-\x9f\u2028\u2029\ud800-\udfff\ufeff\ufffe\uffff]")
# Python prints no whole number of more than 4300 digits; 3500 hexadecimal ones are 4214 of them.
INT_CHARACTERS = 3500


class Mark(NamedTuple):
    """A position in a text: line and column count from 1, columns in characters."""

    line: int
    column: int


class Text(str):
    """A scalar as its author wrote it, without its quotes and escapes.

    *plain* is true if only the text decides its type: it has no quotes, is no block scalar, and has no `!!str`.
    """

    __slots__ = ("plain", "span")
    plain: bool
    span: Span

    def __new__(cls, text: str, plain: bool = True, span: Span = NOWHERE) -> Self:
        self = str.__new__(cls, text)
        self.plain = plain
        self.span = span
        return self

    @property
    def mark(self) -> Mark:
        return _find_start(self.span)

    @property
    def end(self) -> Mark:
        """The position after the scalar; for a block scalar it is on a later line."""
        return _find_end(self.span)


class Map(dict[str, "Value"]):
    """A mapping with its position; its keys are Text."""

    __slots__ = ("span",)
    span: Span


class Seq(list["Value"]):
    """A sequence with its position."""

    __slots__ = ("span",)
    span: Span


Value = Text | dict[str, "Value"] | list["Value"]


class Document(NamedTuple):
    """A value with the position of every key and item in it."""

    value: Value

    def find_key_mark(self, path: Path) -> Mark | None:
        """Return the position of the last key or item of *path*, or None if it does not exist."""
        if not path:
            return self.find_value_mark(path)
        parent = self._get_value(path[:-1])
        if isinstance(parent, dict):
            # The key of the mapping is a Text with a position; the one in *path* may be a plain str.
            key = next((key for key in parent if key == path[-1]), None)
            return key.mark if isinstance(key, Text) else None
        return self.find_value_mark(path)

    def find_value_mark(self, path: Path) -> Mark | None:
        """Return the start of the value at *path*, or None; for an alias, the position of the alias."""
        value = self._get_value(path)
        return None if value is None else _find_start(_make_span(value))

    def find_value_end(self, path: Path) -> Mark | None:
        """Return the position after the value at *path*, or None if it does not exist."""
        value = self._get_value(path)
        return None if value is None else _find_end(_make_span(value))

    def find_nearest(self, path: Path) -> tuple[Path, Mark]:
        """Return the longest prefix of *path* that exists, and the position of its last key or item."""
        for length in range(len(path), 0, -1):
            if mark := self.find_key_mark(path[:length]):
                return path[:length], mark
        return (), _find_start(_make_span(self.value))

    def _get_value(self, path: Path) -> Value | None:
        value: Value = self.value
        for part in path:
            if isinstance(value, dict) and part in value:
                value = value[str(part)]
            elif isinstance(value, list) and isinstance(part, int) and 0 <= part < len(value):
                value = value[part]
            else:
                return None
        return value


def resolve_kind(text: Text) -> Kind:
    """Return the type of *text* by the core schema of YAML 1.2.

    >>> [resolve_kind(Text(word)) for word in ("NO", "010", "1e3", "~", "1:00")]
    ['str', 'int', 'float', 'null', 'str']
    """
    if not text.plain:
        return "str"
    match = CORE.fullmatch(text)
    return cast(Kind, match.lastgroup) if match else "str"


def resolve(value: object) -> Any:
    """Return *value* as a reader of YAML 1.2 would see it, in plain Python types.

    Keys stay text, as in JSON. A whole number that is too long to be printed becomes infinite. Values
    that are not from a Document are returned unchanged.
    """
    if isinstance(value, dict):
        return {str(key): resolve(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [resolve(item) for item in value]
    return _parse_scalar(value) if isinstance(value, Text) else value


def format_flow(value: object) -> str:
    """Return *value* as one line of YAML that parses to the same value: numbers get no quotes.

    >>> format_flow({"max_vcpus": Text("64"), "region": Text("eu-central-1")})
    '{"max_vcpus": 64, "region": "eu-central-1"}'
    """
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_quote(k)}: {format_flow(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(format_flow(inner) for inner in value) + "]"
    return str(value) if isinstance(value, Text) and resolve_kind(value) != "str" else _quote(value)


def _quote(value: object) -> str:
    """Return *value* as JSON that is also valid YAML, which needs more escapes and has no pairs of surrogates."""
    text = json.dumps(value, ensure_ascii=False)
    return UNSHOWN.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def move_value(value: Value, span: Span) -> Value:
    """Return a copy of *value* at the position *span*; the values in it are shared and keep their positions."""
    if isinstance(value, Text):
        return Text(value, value.plain, span)
    node: Map | Seq = Map(value) if isinstance(value, dict) else Seq(value)
    node.span = span
    return node


def find_last_span(node: Map | Seq) -> Span:
    """Return the span of the last value in *node*, with which a block ends, or of *node* if it is empty."""
    if not node:
        return node.span
    return _make_span(node[-1] if isinstance(node, Seq) else next(reversed(node.values())))


def _parse_scalar(text: Text) -> str | int | float | bool | None:
    match resolve_kind(text):
        case "null":
            return None
        case "bool":
            return text in ("true", "True", "TRUE")
        case "int":
            if len(text) > INT_CHARACTERS:
                return -math.inf if text.startswith("-") else math.inf
            return int(text, BASES.get(text[:2], 10))
        case "float":
            return float(text.lower().replace(".inf", "inf").replace(".nan", "nan"))
        case "str":
            return str(text)


def _make_span(value: Value) -> Span:
    return value.span if isinstance(value, (Text, Map, Seq)) else NOWHERE


def _find_start(span: Span) -> Mark:
    return Mark(span[0] + 1, span[1] + 1)


def _find_end(span: Span) -> Mark:
    return Mark(span[2] + 1, span[3] + 1)
