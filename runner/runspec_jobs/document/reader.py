"""Reads YAML from strangers: reports every problem with its position, and takes a bounded time.

The tree is built from libyaml's events, one by one and without recursion, so that reading ends as
soon as a limit is exceeded; libyaml's own constructor crashes on deep nesting.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, NoReturn

import yaml

from runspec_agent.base.light_typing import NamedTuple
from runspec_jobs.document.nodes import (
    NOWHERE,
    Document,
    Map,
    Mark,
    Seq,
    Span,
    Text,
    Value,
    find_last_span,
    move_value,
    resolve,
    resolve_kind,
)
from runspec_jobs.document.syntax_errors import SyntaxProblem, clamp_position, make_syntax_flaw
from runspec_jobs.regex import regex

__all__ = [
    "Document",
    "Map",
    "Mark",
    "Seq",
    "SyntaxProblem",
    "Text",
    "Value",
    "YamlError",
    "read",
    "read_all",
    "resolve",
    "resolve_kind",
    "split_lines",
]

# Every limit leaves room for a hundred ordinary specs. The slowest text found within all limits is
# read in a tenth of a second; most hostile ones are refused in a hundredth.
TEXT_BYTES = 1024 * 1024
SCALAR_CHARACTERS = 256 * 1024  # for a script in a block scalar; argv and env allow less
NODES = 20_000  # each takes 3 to 15 us; a large spec has 300
DEPTH = 64  # libyaml takes quadratic time in the depth; functions that walk the tree may recurse
ALIASES = 100
EXPANDED_NODES = 40_000  # with every alias expanded, as functions that walk the tree see it
BLANKS = 1000  # for each gap, libyaml clears a buffer that is as long as the longest gap
FLAWS = 20  # more are no help, and finding the first of two equal keys takes a walk over the keys

ALLOWED = bytes([*b"\t\n\r", *range(0x20, 0x7F)])
# Characters that YAML forbids, lone surrogates, and the line ends of YAML 1.1 that editors do not show.
REFUSED = (
    "[^\t\n\r\x20-\x7e\xa0-\u2027\u202a-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010ffff]"
)
WHITE = bytes(0x20 if byte in b"\t\n\r " else 0x78 for byte in range(256))
TAG_DIRECTIVE = regex(rb"(?:^|[\r\n])%TAG")
LINE_END = regex(r"\r\n|\r|\n")
UNUSABLE = regex("[\0\ud800-\udfff]")  # cannot be in an argument, a path or the environment
EMPTY = "the file is empty"  # or has comments alone
STR_TAG = "tag:yaml.org,2002:str"


Expand = Callable[[str], str | None]


class YamlError(Exception):
    """The text cannot be read; *flaws* are its problems in the order of their lines."""

    def __init__(self, *flaws: SyntaxProblem) -> None:
        self.flaws = tuple(sorted(flaws, key=lambda flaw: (flaw.mark.line, flaw.mark.column)))
        super().__init__(self.flaws[0].what)


if yaml.__with_libyaml__:
    from yaml._yaml import CParser

    parser: Callable[[bytes], Any] = CParser
else:  # many times slower, and just as safe
    parser = yaml.SafeLoader


def read(text: str | bytes) -> Document:
    """Read the one document of *text*; raise YamlError, and nothing else, if there is none."""
    text, data = _decode(text)
    _check_text(text, data)
    value = _Builder(text).build(data)
    if isinstance(value, Text) and value.plain and not value:
        raise YamlError(SyntaxProblem(Mark(1, 1), EMPTY))
    return Document(value)


def read_all(text: str | bytes, expand: Expand = lambda _: None) -> list[Document]:
    """Read all documents of *text*, a file of another tool, except those that are empty; raise YamlError.

    A value with a tag that *expand* knows becomes a mapping with one key, which *expand* returns.
    """
    text, data = _decode(text)
    _check_text(text, data)
    builder = _Builder(text, several=True, expand=expand)
    builder.build(data)
    documents: list[Value] = list(builder.node) if isinstance(builder.node, Seq) else []
    values = [v for v in documents if not (isinstance(v, Text) and v.plain and not v)]
    if not values:
        raise YamlError(SyntaxProblem(Mark(1, 1), EMPTY))
    return [Document(value) for value in values]


def split_lines(text: str | bytes) -> list[str]:
    """Return the lines of *text* as marks count them; bytes that are not UTF-8 are replaced."""
    if isinstance(text, bytes):
        text = text.decode("utf-8", "replace")
    return LINE_END.split(text.removeprefix("\ufeff"))


def _decode(text: str | bytes) -> tuple[str, bytes]:
    if len(text) > TEXT_BYTES:
        raise YamlError(SyntaxProblem(Mark(1, 1), "the file is larger than 1 MiB"))
    if isinstance(text, str):
        text = text.removeprefix("\ufeff")
        return text, text.encode("utf-8", "surrogatepass")
    if text[:2] in (b"\xff\xfe", b"\xfe\xff"):
        raise YamlError(
            SyntaxProblem(Mark(1, 1), "the file is UTF-16 or UTF-32", "save it as UTF-8")
        )
    data = text.removeprefix(b"\xef\xbb\xbf")
    try:
        return data.decode("utf-8"), data
    except UnicodeDecodeError as exc:
        mark = _mark_after(data[: exc.start].decode("utf-8"))
        message = f"the byte 0x{data[exc.start]:02x} is not UTF-8 text"
        raise YamlError(SyntaxProblem(mark, message, "save the file as UTF-8")) from None


def _check_text(text: str, data: bytes) -> None:
    """Raise YamlError if *text* has forbidden characters, or is known to make libyaml slow."""
    if len(data) > TEXT_BYTES:
        raise YamlError(SyntaxProblem(Mark(1, 1), "the file is larger than 1 MiB"))
    if data.translate(None, ALLOWED) and (flaws := _refuse_characters(text)):
        raise YamlError(*flaws)
    # One pass in C over the bytes; a regular expression would take longer than the parser.
    if len(data) > BLANKS and (at := data.translate(WHITE).find(b" " * BLANKS)) >= 0:
        # A file of blanks alone is empty, and not unusual in another way.
        if not data.strip():
            raise YamlError(SyntaxProblem(Mark(1, 1), EMPTY))
        mark = _mark_after(data[:at].decode("utf-8"))
        raise YamlError(
            SyntaxProblem(mark, f"{BLANKS} spaces or empty lines in a row", "remove them")
        )
    if b"%TAG" in data and (at_tag := TAG_DIRECTIVE.search(data)):
        mark = _mark_after(data[: at_tag.end() - 4].decode("utf-8"))
        raise YamlError(SyntaxProblem(mark, "tags are not supported", "remove the %TAG line"))


def _refuse_characters(text: str) -> list[SyntaxProblem]:
    flaws = []
    for match in re.finditer(REFUSED, text):
        char = match[0]
        in_vain = char == "\ufeff" or UNUSABLE.match(char)
        hint = "remove it" if in_vain else f'write "\\u{ord(char):04x}" in double quotes'
        mark = _mark_after(text[: match.start()])
        flaws.append(SyntaxProblem(mark, f"the character {_format_character(char)}", hint))
        if len(flaws) == FLAWS:
            break
    return flaws


def _format_character(char: str) -> str:
    return "NUL" if char == "\0" else f"U+{ord(char):04X}"


def _mark_after(text: str) -> Mark:
    before = LINE_END.split(text)
    return Mark(len(before), len(before[-1]) + 1)


class _Frame(NamedTuple):
    """The state of an outer collection, kept while an inner one is read."""

    node: Map | Seq
    key: Text | None
    anchor: str | None
    tag: str | None
    deepest: int
    size: int


class _Anchored(NamedTuple):
    value: Value
    height: int
    size: int


class _Builder:
    """Builds a tree from libyaml's events."""

    def __init__(self, text: str, several: bool = False, expand: Expand = lambda _: None) -> None:
        self.text, self.several, self.expand = text, several, expand
        self.flaws: list[SyntaxProblem] = []
        self.node: Map | Seq = Seq()  # the collection being read; the outermost holds the document
        self.key: Text | None = None  # the key whose value is read next
        self.outer: list[_Frame] = []
        self.deepest = 0  # the depth of self.node from the root, with aliases expanded
        self.anchors: dict[str, _Anchored | None] = {}  # None until the node is complete
        self.nodes = self.repeated = self.aliases = self.documents = 0

    def build(self, data: bytes) -> Value:
        take: dict[type, Callable[[Any], None]] = {
            yaml.ScalarEvent: self.add_scalar,
            yaml.MappingStartEvent: self.open,
            yaml.SequenceStartEvent: self.open,
            yaml.MappingEndEvent: self.close,
            yaml.SequenceEndEvent: self.close,
            yaml.AliasEvent: self.add_alias,
            yaml.DocumentStartEvent: self.open_document,
        }
        next_event = parser(data).get_event
        try:
            while (event := next_event()) is not None:
                if method := take.get(type(event)):
                    method(event)
        except yaml.MarkedYAMLError as exc:
            # libyaml cannot go on after an error, so at most one of its own is reported.
            self.flaws.append(make_syntax_flaw(exc, self.text))
        except (
            yaml.YAMLError,
            ValueError,
            OverflowError,
        ):  # raised by the Python parser for some escapes
            self.flaws.append(SyntaxProblem(Mark(1, 1), "this is not YAML"))
        if self.flaws:
            raise YamlError(*self.flaws)
        return self.node[0] if isinstance(self.node, Seq) and self.node else Text("")

    def open_document(self, event: Any) -> None:
        self.documents += 1
        if self.documents > 1 and not self.several:
            hint = "keep one document per file: remove the '---'"
            self.stop(_make_span(event), "a second document begins", hint)

    def add_scalar(self, event: Any) -> None:
        text = str.__new__(Text, event.value)
        # Quotes, a block scalar and `!!str` each say that it is text, whatever it looks like.
        text.plain = not event.style and event.tag is None
        text.span = span = _make_span(event)
        # At the end of the text, the marks of an empty value are one line too far.
        if not text and not event.style:
            first, last = event.start_mark, event.end_mark
            text.span = span = (*clamp_position(first, self.text), *clamp_position(last, self.text))
        if len(text) > SCALAR_CHARACTERS:
            self.stop(span, f"a text of more than {SCALAR_CHARACTERS} characters", "use a file")
        key = self.expand_tag(event.tag, span) if event.tag not in (None, STR_TAG) else None
        if event.style == '"' and (match := UNUSABLE.search(text)):
            self.add_flaw(
                span,
                f"an escape for {_format_character(match[0])}",
                "no program accepts this character: remove it",
            )
        if event.anchor is not None:
            self.anchors[event.anchor] = _Anchored(text, 0, 1)
        self.put(_wrap(text, key), span)

    def expand_tag(self, tag: str, span: Span) -> str | None:
        key = self.expand(tag)
        if key is None:
            self.add_flaw(span, *_refuse_tag(tag))
        return key

    def open(self, event: Any) -> None:
        node: Map | Seq = Map() if isinstance(event, yaml.MappingStartEvent) else Seq()
        node.span = _make_span(event)
        size = self.nodes + self.repeated
        tag = self.expand_tag(event.tag, node.span) if event.tag is not None else None
        self.outer.append(_Frame(self.node, self.key, event.anchor, tag, self.deepest, size))
        self.deepest = len(self.outer)
        self.node, self.key = node, None
        self.check_depth(node.span)
        if event.anchor is not None:
            # Known from here on, so that an alias inside of it is recognised as a cycle.
            self.anchors[event.anchor] = None

    def close(self, event: Any) -> None:
        node, frame = self.node, self.outer.pop()
        # A collection in blocks has no end of its own, and libyaml reports the start of the next token.
        bracket = event.end_mark.index > event.start_mark.index
        node.span = (*node.span[:2], *(_make_span(event) if bracket else find_last_span(node))[2:])
        if frame.anchor is not None:
            size = self.nodes + self.repeated - frame.size + 1
            height = self.deepest - len(self.outer)
            self.anchors[frame.anchor] = _Anchored(node, height, size)
        self.node, self.key = frame.node, frame.key
        self.deepest = max(self.deepest, frame.deepest)
        self.put(_wrap(node, frame.tag), node.span)

    def add_alias(self, event: Any) -> None:
        span = _make_span(event)
        self.aliases += 1
        if self.aliases > ALIASES:
            self.stop(span, f"more than {ALIASES} aliases", "write the values out")
        anchored = self.anchors.get(event.anchor)
        if anchored is None:
            self.add_flaw(span, *_refuse_anchor(event.anchor, event.anchor in self.anchors))
            # An empty value in its place lets the rest of the file be checked.
            anchored = _Anchored(Text(""), 0, 1)
        self.deepest = max(self.deepest, len(self.outer) + anchored.height)
        self.check_depth(span)
        # Nothing is copied, but functions that walk the tree visit the value once for each alias.
        self.repeated += anchored.size - 1
        self.put(move_value(anchored.value, span), span)

    def put(self, value: Value, span: Span) -> None:
        self.nodes += 1
        if self.nodes > NODES:
            self.stop(span, f"more than {NODES} keys and values")
        if self.nodes + self.repeated > EXPANDED_NODES:
            self.stop(span, f"more than {EXPANDED_NODES} keys and values, with aliases written out")
        node = self.node
        if isinstance(node, Seq):
            node.append(value)
        elif self.key is None:
            self.key = self.check_key(node, value, span)
        else:
            node[self.key] = value
            self.key = None

    def check_key(self, node: Map, key: Value, span: Span) -> Text:
        if not isinstance(key, Text):
            self.add_flaw(span, "a list or a mapping cannot be a key", "put it in quotes")
            return Text("", span=span)
        if key in node:
            first = next(other for other in node if other == key)
            line = first.mark.line if isinstance(first, Text) else 0
            message = f"'{_shorten(key)}' is a duplicate key; the first is on line {line}"
            self.add_flaw(span, message, "keep one of them")
        elif key == "<<" and key.plain:
            self.add_flaw(span, "merge keys are not supported", "write the keys out")
        return key

    def check_depth(self, span: Span) -> None:
        if self.deepest > DEPTH:
            self.stop(span, f"more than {DEPTH} nested lists and mappings")

    def add_flaw(self, span: Span, message: str, hint: str | None = None) -> None:
        self.flaws.append(SyntaxProblem(Mark(span[0] + 1, span[1] + 1), message, hint))
        if len(self.flaws) >= FLAWS:
            raise YamlError(*self.flaws)

    def stop(self, span: Span, message: str, hint: str | None = None) -> NoReturn:
        self.add_flaw(span, message, hint)
        raise YamlError(*self.flaws)


def _wrap(value: Value, key: str | None) -> Value:
    if key is None:
        return value
    span = value.span if isinstance(value, (Text, Map, Seq)) else NOWHERE
    node = Map({Text(key, span=span): value})
    node.span = span
    return node


def _refuse_tag(tag: str) -> tuple[str, str]:
    short = _shorten(tag.replace("tag:yaml.org,2002:", "!!"))
    return f"the tag '{short}' is not supported", "remove it"


def _refuse_anchor(anchor: str, is_open: bool) -> tuple[str, str]:
    name = _shorten(anchor)
    if is_open:
        return f"'*{name}' refers to the value that contains it", "write the value out"
    return (
        f"'*{name}' has no anchor '&{name}' before it",
        f'put text that begins with * in quotes: "*{name}"',
    )


def _make_span(event: Any) -> Span:
    start, end = event.start_mark, event.end_mark
    return start.line, start.column, end.line, end.column


def _shorten(word: str) -> str:
    shown = word if word.isprintable() else repr(word)[1:-1]
    return shown if len(shown) <= 60 else shown[:59] + "…"
