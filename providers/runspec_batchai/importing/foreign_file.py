"""Read JSON files of `az batchai`, with line and column in messages."""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterator, Mapping
from typing import Any

from runspec_jobs.provider import OtherFormat, UsageError, did_you_mean
from runspec_jobs.provider.types import ForeignFile

PIECES = re.compile(r'"(?:\\.|[^"\\])*"|[^"\s]+|[ \t\r\n]+|\s', re.DOTALL)
PLAIN_SPACE = " \t\r\n"


def loaded(file: ForeignFile, notes: list[str]) -> Mapping[str, Any]:
    """Return the object in *file*. Raise UsageError with line and column if it is not a JSON object.

    A character that is not a space in JSON, such as the full-width space of a Japanese keyboard, is read as one
    and reported in *notes*.
    """
    text = _spaces(file, notes)

    def pairs(items: list[tuple[str, Any]]) -> dict[str, Any]:
        keys = [key for key, _ in items]
        for key in sorted({k for k in keys if keys.count(k) > 1}):
            notes.append(f"{file.name}: '{key}' occurs twice; the last one is used")
        return dict(items)

    try:
        value = json.loads(text, object_pairs_hook=pairs)
    except json.JSONDecodeError as exc:
        where = f"{file.name}:{exc.lineno}:{exc.colno}"
        kind = UsageError if text.lstrip().startswith("{") else OtherFormat
        raise kind(
            f"{where}: {exc.msg[:1].lower()}{exc.msg[1:]}", "the file is not valid JSON"
        ) from exc
    if not isinstance(value, dict) or not isinstance(value.get("properties"), dict):
        raise OtherFormat(f"{file.name}: the file has no 'properties'", "use a file for az batchai")
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
    name = unicodedata.name(space, "space that JSON does not allow").lower()
    name = "full-width space" if space == "\u3000" else name
    return f"a {name} (U+{ord(space):04X})"


def at(name: str, text: str, position: int) -> str:
    """Return FILE:LINE:COLUMN of *position*.

    >>> at("job.json", "{\\n  x", 4)
    'job.json:2:3'
    """
    before = text[:position]
    return f"{name}:{before.count(chr(10)) + 1}:{position - before.rfind(chr(10))}"


class ForeignObject:
    """An object whose keys are removed when they are read, so that the others can be reported."""

    def __init__(self, value: Any, path: str, notes: list[str]) -> None:
        self.value = dict(value) if isinstance(value, Mapping) else {}
        self.path, self.notes = path, notes
        self._read: set[str] = set()
        if value is not None and not isinstance(value, Mapping):
            self.left(None, "the value is not an object")

    def __bool__(self) -> bool:
        return bool(self.value)

    def text(self, key: str) -> str | None:
        """Return the text at *key*; None if it is empty, which means the same as a key that is not there."""
        value = self._pop(key)
        if value is None or isinstance(value, str):
            return value or None
        if isinstance(value, bool | int | float):
            return json.dumps(value)
        self.left(key, "the value is not a string")
        return None

    def number(self, key: str) -> int | None:
        value = self._pop(key)
        if isinstance(value, str) and value.isdecimal():
            value = int(value)
        if value is None or (isinstance(value, int) and not isinstance(value, bool)):
            return value
        self.left(key, "the value is not a whole number")
        return None

    def inner(self, key: str) -> ForeignObject:
        return ForeignObject(self._pop(key), f"{self.path}.{key}", self.notes)

    def each(self, key: str) -> Iterator[ForeignObject]:
        value = self._pop(key)
        if value is not None and not isinstance(value, list):
            self.left(key, "the value is not a list")
        for i, item in enumerate(value if isinstance(value, list) else ()):
            yield ForeignObject(item, f"{self.path}.{key}[{i}]", self.notes)

    def _pop(self, key: str) -> Any:
        self._read.add(key)
        return self.value.pop(key, None)

    def left(self, key: str | None, why: str) -> None:
        """Add a note about a key that is not imported, without its value, which may be a secret."""
        where = self.path if key is None else f"{self.path}.{key}"
        self.notes.append(f"not imported: {where}: {why}")

    def end(self) -> None:
        """Add a note for every key that was not read."""
        for key in self.value:
            near = did_you_mean(key, self._read)
            self.left(key, f"Batch AI has no such key{f'; {near}' if near else ''}")


# Find secrets in imported files, so that their values are written nowhere.


# 64 bytes in base64: https://learn.microsoft.com/azure/storage/common/storage-account-keys-manage
ACCOUNT_KEY = r"[A-Za-z0-9+/]{86}=="
SHOWN = re.compile(
    rf"{ACCOUNT_KEY}|(?<=\bsig=)[^&\s\"']+|(?<=password=)[^,\s\"']+|(?<=pass=)[^,\s\"']+"
)
TELLING = re.compile(
    r"SECRET|TOKEN|PASSWORD|PASSWD|CREDENTIAL|(ACCOUNT|ACCESS|API|STORAGE|PRIVATE)_?KEY|CONNECTION_?STRING",
    re.IGNORECASE,
)
GONE = "REMOVED"
SHORTEST = 6  # a shorter value would occur in too many other texts


def is_secret(name: str, value: str) -> bool:
    """Return whether a variable is probably a secret, by its name or the form of its value.

    >>> is_secret("HF_TOKEN", "x"), is_secret("EPOCHS", "20")
    (True, False)
    """
    return bool(TELLING.search(name) or SHOWN.search(value))


class SecretRedactor:
    """Removes the values of known secrets from texts."""

    def __init__(self) -> None:
        self.values: set[str] = set()

    def add(self, value: str | None) -> None:
        if value and len(value) >= SHORTEST:
            self.values.add(value)

    def scrubbed(self, value: Any, path: str, notes: list[str]) -> Any:
        """Return *value* without any secrets; add each replacement to *notes*."""
        if isinstance(value, Mapping):
            return {
                self._text(k, path, notes): self.scrubbed(v, f"{path}.{k}".lstrip("."), notes)
                for k, v in value.items()
            }
        if isinstance(value, list):
            return [self.scrubbed(v, f"{path}[{i}]", notes) for i, v in enumerate(value)]
        return self._text(value, path, notes) if isinstance(value, str) else value

    def _text(self, text: str, path: str, notes: list[str]) -> str:
        redacted = text
        for secret in sorted(self.values, key=len, reverse=True):
            redacted = redacted.replace(secret, GONE)
        redacted = SHOWN.sub(GONE, redacted)
        if redacted != text:
            notes.append(f"{path} would contain a secret, which was replaced by {GONE}")
        return redacted
