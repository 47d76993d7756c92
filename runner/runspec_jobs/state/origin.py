"""Where runs come from: the file of their spec, and whether it lies in the current folder."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence
from enum import IntEnum
from pathlib import Path

from runspec_agent.base.light_typing import NamedTuple
from runspec_jobs.errors import Damaged
from runspec_jobs.state.run_record import Record


class Nearness(IntEnum):
    """Where the spec of a run lies, from the current folder."""

    HERE = 0
    BELOW = 1
    ELSEWHERE = 2


class Origin(NamedTuple):
    """The folder to which paths of a spec refer, and the file of the spec; None if they are not on record.

    A run that was adopted has the folder in which it was adopted, and no file.
    """

    folder: Path | None
    file: Path | None

    @property
    def text(self) -> str:
        """What a person calls it."""
        if self.file is not None:
            return f"{self.file}"
        return "an unknown folder" if self.folder is None else f"{self.folder}"

    def measure_nearness(self, here: Path | None) -> Nearness:
        """Return where the spec lies from the folder *here*, None if that does not exist. Links are followed."""
        if self.folder is None or here is None:
            return Nearness.ELSEWHERE
        # A home directory is often a link, and paths in records may be older than it.
        folder, top = Path(os.path.realpath(self.folder)), Path(os.path.realpath(here))
        if folder == top:
            return Nearness.HERE
        return Nearness.BELOW if folder.is_relative_to(top) else Nearness.ELSEWHERE


def read_origin(record: Record) -> Origin:
    """Return where a run comes from. Runs of earlier versions have the folder on record, but not the file.

    If one of the two files that say so is damaged, the other is believed.
    """
    folder = file = None
    with contextlib.suppress(Damaged):
        folder = record.base
    with contextlib.suppress(Damaged):
        named = record.read_memory().about.get("file")
        file = None if named is None else Path(named)
    return Origin(file.parent if folder is None and file is not None else folder, file)


def find_current_folder() -> Path | None:
    """Return the current folder; None if it was deleted."""
    try:
        return Path.cwd()
    except OSError:
        return None


def select_nearest(records: Sequence[Record]) -> list[Record]:
    """Return those of *records* whose specs lie nearest to the current folder, in the same order."""
    top = find_current_folder()
    places = [(read_origin(record).measure_nearness(top), record) for record in records]
    best = min((nearness for nearness, _ in places), default=Nearness.HERE)
    return [record for nearness, record in places if nearness == best]


def is_elsewhere(record: Record) -> bool:
    """Return whether the spec of a run lies neither in the current folder nor below it."""
    return read_origin(record).measure_nearness(find_current_folder()) is Nearness.ELSEWHERE


def is_different(first: Record, second: Record) -> bool:
    """Return whether two runs come from different files, or from different folders if a file is not known."""
    origin, other = read_origin(first), read_origin(second)
    if origin.file is None or other.file is None:
        return origin.folder != other.folder
    return os.path.realpath(origin.file) != os.path.realpath(other.file)


def is_there(record: Record) -> bool:
    """Return whether the file of a run's spec, or its folder if no file is known, still exists."""
    its = read_origin(record)
    path = its.file or its.folder
    return path is not None and path.exists()
