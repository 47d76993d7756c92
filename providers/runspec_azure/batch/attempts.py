"""The attempts of tasks that have ended: how, and when.

Azure Batch reports the times of the last attempt only. The agent of a job writes a blob when an attempt begins, and
another one when it fails; the store has their times.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from runspec_agent.base.light_typing import NamedTuple
from runspec_azure.batch import reasons
from runspec_azure.batch.timing import DEFAULT, Timing
from runspec_azure.store import Blobs
from runspec_azure.timing import CLOCK, Clock
from runspec_jobs.provider import Attempt
from runspec_jobs.provider.node_ends import NodeEnds, unrecorded

# The exit code of the agent when another attempt is needed, whatever its program's code was.
AGAIN = 75
Place = tuple[int, int]


class Failure(NamedTuple):
    """The exit code of a failed attempt, and when the agent wrote it, in seconds since 1970."""

    code: int
    at_s: float | None


class AttemptNotes:
    """What jobs have written of their attempts; recent answers are cached."""

    def __init__(self, blobs: Blobs, timing: Timing = DEFAULT, clock: Clock = CLOCK) -> None:
        self.blobs, self.timing, self.clock = blobs, timing, clock
        self._failures: dict[str, dict[tuple[int, int, int], Failure]] = {}
        self._looked: dict[tuple[str, str], float] = {}
        self._begins: dict[tuple[str, int], Mapping[int, float | None]] = {}

    def recorded_s(self, run: str, task: int) -> float | None:
        """Return when the end record was written that the attempts of a task share."""
        base = self.blobs.key("runs", run, "ends", str(task), "")
        return max((entry.modified_s or 0.0 for entry in self.blobs.listing(base)), default=None)

    def forget(self) -> None:
        """Discard the cached answers."""
        self._looked.clear()

    def forget_begins(self, run: str, task: int) -> None:
        self._looked.pop((f"begins {task}", run), None)

    def begins(self, run: str, task: int) -> Mapping[int, float | None]:
        """Return when each attempt of a task began, by number: its first node writes that for all nodes."""
        if self._is_old(f"begins {task}", run, self.timing.slow_s):
            base = self.blobs.key("runs", run, "tries", f"{task}-0", "")
            times = {entry.key[len(base) :]: entry.modified_s for entry in self.blobs.listing(base)}
            numbered = {int(name): at_s for name, at_s in times.items() if name.isdigit()}
            self._begins[run, task] = numbered
            self._looked_at(f"begins {task}", run)
        return self._begins[run, task]

    def failure(self, run: str, place: Place, number: int, *, fresh_s: float) -> Failure | None:
        """Return how an attempt failed, from the name of a blob, or None if its agent wrote none."""
        known = self._failures.setdefault(run, {})
        if (*place, number) not in known and self._is_old("failures", run, fresh_s):
            base = self.blobs.key("runs", run, "failures", "")
            for entry in self.blobs.listing(base):
                if note := noted(entry.key[len(base) :]):
                    known[note[0]] = Failure(note[1], entry.modified_s)
            self._looked_at("failures", run)
        return known.get((*place, number))

    def _is_old(self, kind: str, run: str, fresh_s: float) -> bool:
        return self.clock.monotonic() - self._looked.get((kind, run), -math.inf) >= fresh_s

    def _looked_at(self, kind: str, run: str) -> None:
        self._looked[kind, run] = self.clock.monotonic()

    def past(
        self, run: str, place: Place, last: int, info: Mapping[str, Any], ends: NodeEnds
    ) -> Iterator[Attempt]:
        """Yield the attempts before the *last*; one without a failure of its own lost its machine."""
        begins = self.begins(run, place[0]) if last > 1 else {}
        for number in range(1, last):
            failure = self.failure(run, place, number, fresh_s=self.timing.slow_s)
            reclaimed = failure is None and bool(info.get("requeueCount"))
            code, ended_s = failure or (None, None)
            if reclaimed:
                reason = reasons.RECLAIMED
            elif code is None:
                reason = reasons.KILLED if number in begins else unrecorded(reasons.COUNTED)
            else:
                reason = reasons.ended({}, code)
            end = ends.of((*place, number))
            if end is not None and not (reclaimed and end.told):
                code, reason, reclaimed = end.code, end.reason(ends.record), end.preempted
            setup_s = None if end is None else end.setup_s
            yield Attempt(number, code, reason, reclaimed, begins.get(number), ended_s, setup_s)


def noted(name: str) -> tuple[tuple[int, int, int], int] | None:
    """Return the task, rank and attempt of a failure and its exit code, from the name of its blob; None for others.

    >>> noted("2-0/1-139")
    ((2, 0, 1), 139)
    """
    node, _, attempt = name.partition("/")
    numbers = [*node.split("-"), *attempt.split("-")]
    if len(numbers) != 4 or not all(word.isdigit() for word in numbers):
        return None
    task, rank, number, code = map(int, numbers)
    return (task, rank, number), code
