"""The steps that a program reports: one line for each in the file `RUNSPEC_PROGRESS`."""

import os
from typing import NamedTuple, Optional

LINE = 64  # bytes, more than one line has


class Step(NamedTuple):
    """The number of a step, from 1, and the time of its report, in Unix time."""

    number: int
    at: float


def last(path: str) -> Optional[Step]:
    """Return the last step whose line is complete, or None."""
    try:
        with open(path, "rb") as stream:
            found = os.fstat(stream.fileno())
            stream.seek(max(0, found.st_size - LINE))
            whole = stream.read().rpartition(b"\n")[0]
        return Step(int(whole.split(b"\n")[-1]), found.st_mtime)
    except (OSError, ValueError):  # no step yet, or the program has cut its file
        return None


def first(path: str) -> Optional[int]:
    """Return the number of the first step, or None if its line is missing or incomplete."""
    try:
        with open(path, "rb") as stream:
            line = stream.readline(LINE)
        return int(line) if line.endswith(b"\n") else None
    except (OSError, ValueError):
        return None
