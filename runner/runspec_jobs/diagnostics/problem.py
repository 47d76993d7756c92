"""What is wrong with a spec or a profile: the place in it, what, and what to do about it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, NamedTuple

Path = tuple[str | int, ...]


class Problem(NamedTuple):
    """One thing that is wrong at *path*; the core adds file, line and column.

    *at* says whether the key or its value is what the caret goes under. A problem of severity
    "note" is told and stops nothing. Of a *private* one the value is shown nowhere.
    """

    path: Path
    what: str
    hint: str | None = None
    at: Literal["key", "value"] = "value"
    severity: Literal["error", "note"] = "error"
    private: bool = False


def dotted(path: Path) -> str:
    """Give *path* as a person writes it.

    >>> dotted(("mounts", 0, "source"))
    'mounts[0].source'
    """
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text


def did_you_mean(word: str, known: Iterable[str], *, alike: float = 0.6) -> str | None:
    """Give the hint that names the known word nearest to *word*, if one is near: *alike* of 1 at least.

    >>> did_you_mean("comand", ["command", "run"])
    "did you mean 'command'?"
    """
    import difflib  # slow to import, and of no use where nothing is wrong

    near = difflib.get_close_matches(word.lower(), list(known), n=1, cutoff=alike)
    return f"did you mean '{near[0]}'?" if near else None
