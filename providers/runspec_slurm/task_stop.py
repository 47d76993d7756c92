"""How jobs are told to end: what waits leaves the queue, and what runs saves its work."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable

from runspec_slurm import timing
from runspec_slurm.queue import Queue, Row
from runspec_slurm.status import states


class Endings:
    """Those that were told to end, once each: a program may take the second time for an order to drop everything."""

    def __init__(self, queue: Queue, longest_s: float) -> None:
        self.queue, self.longest_s = queue, longest_s
        self._told: set[tuple[str, int, int]] = set()  # job, task, restarts
        self._began_s: dict[str, float] = {}
        self._next_s: dict[str, float] = {}

    def tell(
        self,
        run: str,
        rows: Callable[[], Iterable[Row]],
        *,
        array: bool,
        tasks: Collection[int] | None = None,
    ) -> bool:
        """End what waits of *run*, and have the rest save its work; return False when that took too long.

        *rows* gives its jobs; of an array, *tasks* may be all that it is about.
        """
        now, what = time.monotonic(), run if tasks is None else f"{run} {sorted(tasks)}"
        if now - self._began_s.setdefault(what, now) > self.longest_s:
            return False
        if now >= self._next_s.get(what, 0.0):
            for row in alive(rows()):
                if tasks is None:
                    self._end(row, array=array)
                elif mine := tuple(task for task in row.tasks if task in tasks):
                    self._end(row._replace(tasks=mine), array=array, whole=False)
            self._next_s[what] = time.monotonic() + timing.TELL_S
        return True

    def _end(self, row: Row, *, array: bool, whole: bool = True) -> None:
        if row.state == "COMPLETING":
            return
        if row.state == "PENDING" and array and whole:
            self.queue.cancel_waiting(row.job)
            return
        each = {(row.job, task, row.restarts) for task in row.tasks} - self._told
        # The id of an array is that of all its tasks.
        names = [f"{job}_{task}" if array else job for job, task, _ in sorted(each)]
        if row.state == "RUNNING":
            self.queue.tell(names)
            self._told |= each
        else:
            self.queue.cancel(names)


def alive(rows: Iterable[Row]) -> list[Row]:
    return [row for row in rows if states.alive(row.state)]
