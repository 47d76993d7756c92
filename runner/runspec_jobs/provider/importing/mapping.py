"""Mappings of other tools' files, whose keys are removed when they are read, so that all others are listed as lost."""

from __future__ import annotations

from pathlib import PurePath

from runspec_jobs.document.nodes import Seq, Text, Value, resolve_kind
from runspec_jobs.provider.importing.documents import find_line

UNKNOWN = "runspec has no such setting"
TRUTHS = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}


class Notes:
    """What an import says to the user, by the lines of the file *name*; no note contains a value of the file."""

    def __init__(self, name: str) -> None:
        self.name = PurePath(name).name
        self._notes: list[tuple[int, str]] = []
        self._maps: list[ForeignMap] = []
        self._others: list[Notes] = []

    def of_other(self, name: str) -> Notes:
        """Return the notes of another file of the same job, which are listed after these."""
        self._others.append(Notes(name))
        return self._others[-1]

    def add(self, text: str, at: object = None) -> None:
        """Add a note about the value *at*, or about the whole file."""
        self._notes.append((find_line(at), text))

    def lose(self, what: str, why: str = UNKNOWN, at: object = None) -> None:
        self.add(f"not imported: {what}: {why}", at)

    def watch(self, mapping: ForeignMap) -> None:
        self._maps.append(mapping)

    def finish(self) -> tuple[str, ...]:
        """Return all notes in the order of their lines, with one for each key that no rule has read."""
        for mapping in self._maps:
            mapping.lose_rest()
        shown = (
            f"{self.name}:{line}: {text}" if line else f"{self.name}: {text}"
            for line, text in sorted(self._notes, key=lambda note: note[0])
        )
        others = (note for other in self._others for note in other.finish())
        return tuple(dict.fromkeys([*shown, *others]))


class ForeignMap:
    """A mapping in a file. Every method removes the key that it reads; a value of another kind is listed as lost."""

    def __init__(self, value: Value | None, path: str, notes: Notes) -> None:
        self.path, self.notes, self.value = path, notes, value
        self._left: dict[str, Value] = dict(value) if isinstance(value, dict) else {}
        self._keys = {str(key): key for key in self._left}
        if not isinstance(value, dict) and not is_empty(value):
            notes.lose(path, "a mapping is expected here", value)
        notes.watch(self)

    def __bool__(self) -> bool:
        return bool(self._keys)

    def __contains__(self, key: str) -> bool:
        return key in self._left

    def list_keys(self) -> list[str]:
        return list(self._left)

    def find_key(self, key: str) -> object:
        """Return *key* as it stands in the file, with its line."""
        return self._keys.get(key, self.value)

    def pop(self, key: str) -> Value | None:
        return self._left.pop(key, None)

    def text(self, key: str, default: str = "") -> str:
        value = self.pop(key)
        if isinstance(value, str):
            return default if is_empty(value) else str(value)
        if value is not None:
            self.lose(key, "a text is expected here")
        return default

    def number(self, key: str) -> int | None:
        """Return a whole number, or None."""
        value = self.pop(key)
        if isinstance(value, str) and value.isdecimal() and len(value) < 10:
            return int(value)
        if not is_empty(value):
            self.lose(key, "a whole number is expected here")
        return None

    def truth(self, key: str) -> bool | None:
        value = self.pop(key)
        known = TRUTHS.get(value.lower()) if isinstance(value, str) else None
        if known is None and not is_empty(value):
            self.lose(key, "true or false is expected here")
        return known

    def map(self, key: str) -> ForeignMap:
        """Return the mapping at *key*, which is empty if there is none."""
        return ForeignMap(self.pop(key), f"{self.path}.{key}".lstrip("."), self.notes)

    def maps(self, key: str) -> list[ForeignMap]:
        """Return the mappings in the list at *key*."""
        path = f"{self.path}.{key}".lstrip(".")
        return [
            ForeignMap(value, f"{path}[{number}]", self.notes)
            for number, value in enumerate(self._list(key))
        ]

    def texts(self, key: str) -> list[Text]:
        """Return the texts in the list at *key*; one text counts as a list of one."""
        value = self._left.get(key)
        if isinstance(value, Text) and not is_empty(value):
            self.pop(key)
            return [value]
        values = self._list(key)
        if not all(isinstance(value, Text) for value in values):
            self.lose(key, "texts are expected in this list")
        return [value for value in values if isinstance(value, Text)]

    def pairs(self, key: str) -> dict[str, Text]:
        """Return the mapping of texts at *key*; an empty value is an empty text."""
        inner = self.map(key)
        found = {name: inner.pop(name) for name in inner.list_keys()}
        for name, value in found.items():
            if not isinstance(value, Text):
                inner.lose(name, "a text is expected here")
        return {name: value for name, value in found.items() if isinstance(value, Text)}

    def skip(self, *keys: str) -> None:
        """Leave out *keys*, which change nothing for a job of runspec."""
        for key in keys:
            self.pop(key)

    def clear(self) -> None:
        """Leave out all keys: something else has named the whole mapping as lost."""
        self._left.clear()

    def lose(self, key: str, why: str = UNKNOWN) -> None:
        """List *key* as lost, without its value, which may be a secret."""
        self.pop(key)
        self.notes.lose(f"{self.path}.{key}".lstrip("."), why, self.find_key(key))

    def lose_rest(self) -> None:
        for key in [key for key, value in self._left.items() if not is_empty(value)]:
            self.lose(key)

    def _list(self, key: str) -> Seq | list[Value]:
        value = self.pop(key)
        if isinstance(value, list):
            return value
        if not is_empty(value):
            self.lose(key, "a list is expected here")
        return []


def is_empty(value: Value | None) -> bool:
    """Return whether *value* says no more than a key that is not there."""
    if isinstance(value, Text):
        return resolve_kind(value) == "null" or not value
    return not value
