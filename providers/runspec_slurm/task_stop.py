"""Stopping of jobs: waiting ones leave the queue, and running ones save their work first."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable

from runspec_slurm.queue import Queue, Row
from runspec_slurm.status import states


class JobStopper:
    """Stops jobs; signals each only once, because a program may take a second SIGTERM as an order to quit at once."""

    def __init__(self, queue: Queue, longest_s: float) -> None:
        self.queue, self.longest_s = queue, longest_s
        self._signalled: set[tuple[str, int, int]] = set()  # job, task, restarts
        self._began_s: dict[str, float] = {}
        self._next_s: dict[str, float] = {}

    def stop(
        self,
        run: str,
        rows: Callable[[], Iterable[Row]],
        *,
        array: bool,
        tasks: Collection[int] | None = None,
    ) -> bool:
        """Cancel the waiting jobs of *run* and signal the running ones; return False once that has taken too long.

        *rows* returns the jobs of the run. With *tasks*, only these tasks of the array are stopped.
        """
        now, what = (
            self.queue.store.clock.monotonic(),
            run if tasks is None else f"{run} {sorted(tasks)}",
        )
        if now - self._began_s.setdefault(what, now) > self.longest_s:
            return False
        if now >= self._next_s.get(what, 0.0):
            for row in alive(rows()):
                if tasks is None:
                    self._end(row, array=array)
                elif mine := tuple(task for task in row.tasks if task in tasks):
                    self._end(row._replace(tasks=mine), array=array, whole=False)
            self._next_s[what] = (
                self.queue.store.clock.monotonic() + self.queue.store.timing.stop_poll_s
            )
        return True

    def _end(self, row: Row, *, array: bool, whole: bool = True) -> None:
        if row.state == "COMPLETING":
            return
        if row.state == "PENDING" and array and whole:
            self.queue.cancel_waiting(row.job)
            return
        each = {(row.job, task, row.restarts) for task in row.tasks} - self._signalled
        names = [row.task_id(task) if array else job for job, task, _ in sorted(each)]
        if row.state == "RUNNING":
            self.queue.terminate(names)
            self._signalled |= each
        else:
            self.queue.cancel(names)


def alive(rows: Iterable[Row]) -> list[Row]:
    return [row for row in rows if states.alive(row.state)]
