"""The formats of the records that runspec keeps, and the error for a record of a newer version.

docs/upgrades.md lists the promises about formats. A record without a format has the first one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from runspec_jobs import __version__
from runspec_jobs.errors import Newer

HINT = "upgrade runspec, as runspec docs upgrades says"


def make_format_keys(known: str) -> dict[str, str]:
    """Return the keys of a local record that name its format and the version of runspec that wrote it.

    A plan must not contain the version, because its digest would change with each version.
    """
    return {"format": known, "runspec": __version__}


def check(record: object, known: str, what: str) -> None:
    """Raise Newer if the record *record* has another format than *known*.

    *what* names the file or the run in the message. A record that is not a mapping is not checked.
    """
    if not isinstance(record, Mapping):
        return
    fields: Mapping[str, Any] = record
    if (its := fields.get("format", known)) != known:
        raise make_newer_error(what, str(its), known, fields.get("runspec"))


def make_newer_error(name: str, its: str, known: str, version: object = None) -> Newer:
    """Return the error for a record in the format *its*, when this version reads only *known*."""
    who = "a newer version of runspec" if version is None else f"runspec {version}"
    return Newer(
        f"{name}: {who} wrote it, in the format {its!r}; runspec {__version__} reads {known!r}",
        HINT,
    )
