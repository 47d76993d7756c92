"""Files as `az batchai` took them: JSON, with every flaw told at its line and column."""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterator, Mapping
from typing import Any

from runspec_jobs.provider import ForeignFile, UsageError, did_you_mean

PIECES = re.compile(r'"(?:\\.|[^"\\])*"|[^"\s]+|[ \t\r\n]+|\s', re.DOTALL)
PLAIN_SPACE = " \t\r\n"


def loaded(file: ForeignFile, notes: list[str]) -> Mapping[str, Any]:
    """Return the object in *file*. Raises UsageError with line and column where it is none.

    A space that JSON does not know, such as the full-width one of a Japanese keyboard, is read as one
    and told in *notes*.
    """
    text = _spaces(file, notes)

    def pairs(found: list[tuple[str, Any]]) -> dict[str, Any]:
        keys = [key for key, _ in found]
        for key in sorted({k for k in keys if keys.count(k) > 1}):
            notes.append(f"{file.name}: '{key}' is there twice; the last one is taken")
        return dict(found)

    try:
        value = json.loads(text, object_pairs_hook=pairs)
    except json.JSONDecodeError as exc:
        where = f"{file.name}:{exc.lineno}:{exc.colno}"
        raise UsageError(f"{where}: {exc.msg[:1].lower()}{exc.msg[1:]}", "it is no JSON") from exc
    if not isinstance(value, dict) or not isinstance(value.get("properties"), dict):
        raise UsageError(f"{file.name}: there are no 'properties'", "give a file of az batchai")
    return value


def _spaces(file: ForeignFile, notes: list[str]) -> str:
    text = file.text.removeprefix("\ufeff")
    parts: list[str] = []
    for match in PIECES.finditer(text):
        piece = match[0]
        if piece.isspace() and piece.strip(PLAIN_SPACE):
            notes.append(f"{at(file.name, text, match.start())}: {_named(piece)}; read as a space")
            piece = " " * len(piece)
        parts.append(piece)
    return "".join(parts) if len("".join(parts)) == len(text) else text


def _named(space: str) -> str:
    name = unicodedata.name(space, "a space that is none in JSON").lower()
    name = "full-width space" if space == "\u3000" else name
    return f"a {name} (U+{ord(space):04X})"


def at(name: str, text: str, position: int) -> str:
    """Return FILE:LINE:COLUMN of *position*.

    >>> at("job.json", "{\\n  x", 4)
    'job.json:2:3'
    """
    before = text[:position]
    return f"{name}:{before.count(chr(10)) + 1}:{position - before.rfind(chr(10))}"


class Taken:
    """An object whose keys are taken one by one, so that none is left out in silence."""

    def __init__(self, value: Any, path: str, notes: list[str]) -> None:
        self.value = dict(value) if isinstance(value, Mapping) else {}
        self.path, self.notes = path, notes
        self._asked: set[str] = set()
        if value is not None and not isinstance(value, Mapping):
            self.left(None, "it is no object")

    def __bool__(self) -> bool:
        return bool(self.value)

    def text(self, key: str) -> str | None:
        found = self._pop(key)
        if found is None or isinstance(found, str):
            return found
        if isinstance(found, bool | int | float):
            return json.dumps(found)
        self.left(key, "a text belongs there")
        return None

    def number(self, key: str) -> int | None:
        found = self._pop(key)
        if isinstance(found, str) and found.isdecimal():
            found = int(found)
        if found is None or (isinstance(found, int) and not isinstance(found, bool)):
            return found
        self.left(key, "a whole number belongs there")
        return None

    def inner(self, key: str) -> Taken:
        return Taken(self._pop(key), f"{self.path}.{key}", self.notes)

    def each(self, key: str) -> Iterator[Taken]:
        found = self._pop(key)
        if found is not None and not isinstance(found, list):
            self.left(key, "a list belongs there")
        for i, item in enumerate(found if isinstance(found, list) else ()):
            yield Taken(item, f"{self.path}.{key}[{i}]", self.notes)

    def _pop(self, key: str) -> Any:
        self._asked.add(key)
        return self.value.pop(key, None)

    def left(self, key: str | None, why: str) -> None:
        """Tell what is not carried over; never its value, which may be a secret."""
        where = self.path if key is None else f"{self.path}.{key}"
        self.notes.append(f"not carried over: {where}: {why}")

    def end(self) -> None:
        """Tell of every key that nobody took."""
        for key in self.value:
            near = did_you_mean(key, self._asked)
            self.left(key, f"Batch AI has no such key{f'; {near}' if near else ''}")
