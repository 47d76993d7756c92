"""The steps that a program tells: a line for each that it has done, at the end of the file `RUNSPEC_PROGRESS`."""

import os
from typing import NamedTuple, Optional

LINE = 64  # bytes that hold one


class Step(NamedTuple):
    """The number of a step, from 1, and when it was told, in Unix time."""

    number: int
    at: float


def last(path: str) -> Optional[Step]:
    """Return the last step whose line is whole; None where is none."""
    try:
        with open(path, "rb") as stream:
            found = os.fstat(stream.fileno())
            stream.seek(max(0, found.st_size - LINE))
            whole = stream.read().rpartition(b"\n")[0]
        return Step(int(whole.split(b"\n")[-1]), found.st_mtime)
    except (OSError, ValueError):
        return None


def first(path: str) -> Optional[int]:
    """Return the number of the first step; None where is none, or its line is not whole."""
    try:
        with open(path, "rb") as stream:
            line = stream.readline(LINE)
        return int(line) if line.endswith(b"\n") else None
    except (OSError, ValueError):
        return None
