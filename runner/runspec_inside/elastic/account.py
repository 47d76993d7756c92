"""What changes of an elastic job's members have cost: seconds without a step, and steps that were done twice.

A program says how far it is by a line for each step that it has done, its number from 1, at the end of the file
`RUNSPEC_PROGRESS`. Without that, the seconds are those in which no program ran.
"""

import json
import os
import time
from typing import Any, Dict, List, NamedTuple, Optional

from .. import files
from ..bucket import Bucket
from ..words import Failure
from .engine import Turn

CHANGES, PROGRESS = "changes/{:07}", "progress"
EVERY_S = 10.0  # between two notes of how far it is, for a time when all nodes are lost
TAIL = 64  # bytes that hold the last line


class Mark(NamedTuple):
    """How far a program was, and when, in Unix time."""

    step: Optional[int]
    at: float


class Account:
    """Kept by each node, and written down by the first of a generation."""

    def __init__(self, bucket: Bucket, prefix: str, folder: str) -> None:
        self.bucket, self.prefix, self.folder = bucket, prefix, folder
        self._last: Optional[Mark] = None  # of the generations before
        self._turn: Optional[Turn] = None
        self._open: Optional[Dict[str, Any]] = None  # what is known of a change that is not over
        self._noted = 0.0

    @property
    def path(self) -> str:
        return os.path.join(self.folder, "progress")

    def begin(self, turn: Turn, why: str) -> None:
        """Call it before the program of a generation starts."""
        self._turn, self._noted = turn, time.monotonic()
        files.write(self.path, b"", 0o666)
        if turn.rank > 0:
            return
        if self._last is None:
            self._last = self._kept()
        now, last = time.time(), self._last
        self._open = {
            "generation": turn.generation,
            "why": why,
            "nodes": len(turn.hosts),
            "hosts": turn.hosts,
            "at": round(now, 3),
            "gap_s": None if last is None else round(now - last.at, 3),
            "lost_steps": None,
        }
        self._put(CHANGES.format(turn.generation), self._open)

    def look(self) -> None:
        """Call it often: the first step of a generation ends the gap before it."""
        if self._turn is None or self._turn.rank > 0:
            return
        if self._open is not None:
            first = self._first()
            if first is not None:
                self._close(first, time.time())
        elif time.monotonic() - self._noted > EVERY_S:
            self._noted = time.monotonic()
            self._note()

    def _close(self, first: int, now: float) -> None:
        found, last = self._open, self._last
        assert found is not None, "BUG: there is no change"
        self._open = None
        found["first_step"] = first
        if last is not None:
            found["gap_s"] = round(now - last.at, 3)
            found["lost_steps"] = None if last.step is None else max(0, last.step + 1 - first)
        self._put(CHANGES.format(found["generation"]), found)

    def end(self) -> None:
        """Call it when the program of a generation has ended."""
        if self._turn is not None:
            first = self._first() if self._open is not None else None
            if first is not None:
                self._close(first, time.time())
            self._note()
        self._turn = self._open = None

    def _note(self) -> None:
        found = self._at()
        if found.step is not None or self._last is None or self._last.step is None:
            self._last = found
        if self._turn is not None and self._turn.rank == 0:
            self._put(PROGRESS, self._last._asdict())

    def _at(self) -> Mark:
        try:
            with open(self.path, "rb") as stream:
                found = os.fstat(stream.fileno())
                stream.seek(max(0, found.st_size - TAIL))
                whole = stream.read().rpartition(b"\n")[0]
            return Mark(int(whole.split(b"\n")[-1]), found.st_mtime)
        except (OSError, ValueError):
            return Mark(None, time.time())

    def _first(self) -> Optional[int]:
        try:
            with open(self.path, "rb") as stream:
                line = stream.readline(TAIL)
            return int(line) if line.endswith(b"\n") else None
        except (OSError, ValueError):
            return None

    def _kept(self) -> Optional[Mark]:
        try:
            found = self.bucket.get(self.prefix + PROGRESS)
            return None if found is None else Mark(**json.loads(found.decode("ascii")))
        except (Failure, ValueError, TypeError):
            return None

    def _put(self, key: str, record: Dict[str, Any]) -> None:
        try:
            self.bucket.put(self.prefix + key, json.dumps(record, sort_keys=True).encode("ascii"))
        except Failure:  # the account of a change is not worth a job
            pass


def changes(bucket: Bucket, prefix: str) -> List[Dict[str, Any]]:
    """Return the changes of a task so far, in order."""
    found = [bucket.get(entry.key) for entry in bucket.listing(prefix + "changes/")]
    return [json.loads(content.decode("ascii")) for content in found if content is not None]
