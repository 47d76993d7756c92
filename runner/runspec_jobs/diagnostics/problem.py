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


def did_you_mean(word: str, known: Iterable[str], *, alike: float = 0.6) -> str | None:
    """Return a hint with the known word most similar to *word*, or None if no similarity is at least *alike*.

    >>> did_you_mean("comand", ["command", "run"])
    "did you mean 'command'?"
    """
    import difflib  # imported here because it is slow to import, and only errors need it

    near = difflib.get_close_matches(word.lower(), list(known), n=1, cutoff=alike)
    return f"did you mean '{near[0]}'?" if near else None
