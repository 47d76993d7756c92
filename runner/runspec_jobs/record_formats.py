"""The formats of the records that runspec keeps, and what it says of a record that a newer version has written.

docs/upgrades.md says what is promised. A record that names no format has the first one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from runspec_jobs import __version__
from runspec_jobs.errors import Newer

HINT = "upgrade runspec: pip install --upgrade runspec-jobs"


def written(known: str) -> dict[str, str]:
    """Return what a record of this machine's state says of its form and of the version that wrote it.

    No plan may have the version in it: each version would plan another digest.
    """
    return {"format": known, "runspec": __version__}


def check(found: object, known: str, what: str) -> None:
    """Raise Newer where the record *found* has another format than *known*.

    *what* names the file or the run. A record that is no mapping is left to its reader.
    """
    if not isinstance(found, Mapping):
        return
    told: Mapping[str, Any] = found
    if (its := told.get("format", known)) != known:
        raise newer(what, str(its), known, told.get("runspec"))


def newer(what: str, its: str, known: str, version: object = None) -> Newer:
    """Return the error for a record whose format is *its*, of which this version knows only *known*."""
    who = "a newer version of runspec" if version is None else f"runspec {version}"
    return Newer(
        f"{what}: {who} wrote it, in the format {its!r}; runspec {__version__} reads {known!r}",
        HINT,
    )
