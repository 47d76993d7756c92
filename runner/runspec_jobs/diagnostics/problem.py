"""Problems of a spec or a profile: where each is, what is wrong, and what to do about it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from runspec_agent.base.light_typing import NamedTuple

Path = tuple[str | int, ...]


class Problem(NamedTuple):
    """One problem at *path*; the core adds file, line and column.

    *at* says whether the caret is printed under the key or under its value. A problem of severity
    "note" is printed, but is not an error. If *private* is true, the value is never shown. *lacks* is a
    setting that the profile must have and does not, with an example of its value, such as `bucket: NAME`: the core
    reports all of them as one problem.
    """

    path: Path
    what: str
    hint: str | None = None
    at: Literal["key", "value"] = "value"
    severity: Literal["error", "note"] = "error"
    private: bool = False
    lacks: str = ""


def format_path(path: Path) -> str:
    """Return *path* as text, in the form that users write.

    >>> format_path(("mounts", 0, "source"))
    'mounts[0].source'
    """
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text


WITHOUT = {ord(mark): None for mark in "-_ "}


def did_you_mean(word: str, known: Iterable[str], *, alike: float = 0.6) -> str | None:
    """Return a hint with the known word most similar to *word*, or None if no similarity is at least *alike*.

    >>> did_you_mean("comand", ["command", "run"])
    "did you mean 'command'?"
    >>> did_you_mean("A-100", ["V100", "A100", "A10"])
    "did you mean 'A100'?"
    """
    import difflib  # imported here because it is slow to import, and only errors need it

    words = {name.lower(): name for name in known}
    asked = word.lower()
    for plain, name in words.items():
        if plain.translate(WITHOUT) == asked.translate(WITHOUT):
            return f"did you mean '{name}'?"
    near = difflib.get_close_matches(asked, list(words), n=1, cutoff=alike)
    return f"did you mean '{words[near[0]]}'?" if near else None
