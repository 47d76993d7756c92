"""What a YAML text is made of once it is read: scalars as written, and where everything stands.

A scalar keeps its source text. `kind` and `resolve` say what a YAML 1.2 reader (an editor, a
schema checker) would make of it; what it means here is for the type of its field to say.
"""

from __future__ import annotations

import json
import math
import re
from typing import Any, Literal, NamedTuple, Self, cast

Kind = Literal["null", "bool", "int", "float", "str"]
Path = tuple[str | int, ...]
Span = tuple[int, int, int, int]  # first line and column, last line and column; all from 0

# https://yaml.org/spec/1.2.2/#1032-tag-resolution
CORE = re.compile(
    r"(?P<null>null|Null|NULL|~|)"
    r"|(?P<bool>true|True|TRUE|false|False|FALSE)"
    r"|(?P<int>[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+)"
    r"|(?P<float>[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?"
    r"|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))"
)
BASES = {"0o": 8, "0x": 16}
# In no YAML as they are: https://yaml.org/spec/1.2.2/#51-character-set
UNSHOWN = re.compile("[\x7f-\x9f\u2028\u2029\ud800-\udfff\ufeff\ufffe\uffff]")
# Python prints no whole number of more than 4300 digits; 3500 hexadecimal ones are 4214 of them.
INT_CHARACTERS = 3500


class Mark(NamedTuple):
    """A place in a text: line and column from 1, the column in characters."""

    line: int
    column: int


class Text(str):
    """A scalar as its author wrote it, without its quotes and escapes.

    *plain* says that nothing but its looks gives its type: no quotes, no block, no `!!str`.
    """

    __slots__ = ("plain", "span")
    plain: bool
    span: Span

    def __new__(cls, text: str, plain: bool = True, span: Span = (0, 0, 0, 0)) -> Self:
        self = str.__new__(cls, text)
        self.plain = plain
        self.span = span
        return self

    @property
    def mark(self) -> Mark:
        return _first(self.span)

    @property
    def end(self) -> Mark:
        """Where the text after it begins; for a block scalar that is a later line."""
        return _last(self.span)


class Map(dict[str, "Value"]):
    """A mapping that knows where it stands; its keys are Text."""

    __slots__ = ("span",)
    span: Span


class Seq(list["Value"]):
    """A sequence that knows where it stands."""

    __slots__ = ("span",)
    span: Span


Value = Text | dict[str, "Value"] | list["Value"]


class Document(NamedTuple):
    """A value and the place of every key and item in it."""

    value: Value

    def key_mark(self, path: Path) -> Mark | None:
        """Where the key or the item stands that *path* ends with; None if it is not there."""
        if not path:
            return self.value_mark(path)
        parent = self._at(path[:-1])
        if isinstance(parent, dict):
            key = next((key for key in parent if key == path[-1]), None)
            return key.mark if isinstance(key, Text) else None
        return self.value_mark(path)

    def value_mark(self, path: Path) -> Mark | None:
        """Where the value at *path* begins; one that an alias gives stands where the alias does."""
        value = self._at(path)
        return None if value is None else _first(_span(value))

    def value_end(self, path: Path) -> Mark | None:
        """Where the text after the value at *path* begins."""
        value = self._at(path)
        return None if value is None else _last(_span(value))

    def nearest(self, path: Path) -> tuple[Path, Mark]:
        """Give the longest part of *path* that is there, and where its last key or item stands."""
        for length in range(len(path), 0, -1):
            if mark := self.key_mark(path[:length]):
                return path[:length], mark
        return (), _first(_span(self.value))

    def _at(self, path: Path) -> Value | None:
        value: Value = self.value
        for part in path:
            if isinstance(value, dict) and part in value:
                value = value[str(part)]
            elif isinstance(value, list) and isinstance(part, int) and 0 <= part < len(value):
                value = value[part]
            else:
                return None
        return value


def kind(text: Text) -> Kind:
    """Give the type that YAML 1.2's core schema sees in *text*.

    >>> [kind(Text(word)) for word in ("NO", "010", "1e3", "~", "1:00")]
    ['str', 'int', 'float', 'null', 'str']
    """
    if not text.plain:
        return "str"
    found = CORE.fullmatch(text)
    return cast(Kind, found.lastgroup) if found else "str"


def resolve(value: object) -> Any:
    """Give what a reader of YAML 1.2 would see of *value*, in plain Python types.

    Keys stay text, as in JSON. A whole number too long to be printed is infinite. What is not from
    a Document stays as it is.
    """
    if isinstance(value, dict):
        return {str(key): resolve(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [resolve(item) for item in value]
    return _scalar(value) if isinstance(value, Text) else value


def flow(value: object) -> str:
    """Give *value* as YAML in one line that reads as it was read: a number is none in quotes.

    >>> flow({"max_vcpus": Text("64"), "region": Text("eu-central-1")})
    '{"max_vcpus": 64, "region": "eu-central-1"}'
    """
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_quoted(k)}: {flow(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(flow(inner) for inner in value) + "]"
    return str(value) if isinstance(value, Text) and kind(value) != "str" else _quoted(value)


def _quoted(value: object) -> str:
    """JSON, with what YAML wants escaped in addition; it has no pairs of surrogates."""
    text = json.dumps(value, ensure_ascii=False)
    return UNSHOWN.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def moved(value: Value, span: Span) -> Value:
    """Give *value* another place; what is in it is shared and keeps its own."""
    if isinstance(value, Text):
        return Text(value, value.plain, span)
    node: Map | Seq = Map(value) if isinstance(value, dict) else Seq(value)
    node.span = span
    return node


def last_span(node: Map | Seq) -> Span:
    """Where the last value in *node* stands, or else *node*: a block ends with it."""
    if not node:
        return node.span
    return _span(node[-1] if isinstance(node, Seq) else next(reversed(node.values())))


def _scalar(text: Text) -> str | int | float | bool | None:
    match kind(text):
        case "null":
            return None
        case "bool":
            return text in ("true", "True", "TRUE")
        case "int":
            return _whole(text)
        case "float":
            return float(text.lower().replace(".inf", "inf").replace(".nan", "nan"))
        case "str":
            return str(text)


def _whole(text: str) -> int | float:
    if len(text) > INT_CHARACTERS:
        return -math.inf if text.startswith("-") else math.inf
    return int(text, BASES.get(text[:2], 10))


def _span(value: Value) -> Span:
    return value.span if isinstance(value, (Text, Map, Seq)) else (0, 0, 0, 0)


def _first(span: Span) -> Mark:
    return Mark(span[0] + 1, span[1] + 1)


def _last(span: Span) -> Mark:
    return Mark(span[2] + 1, span[3] + 1)
