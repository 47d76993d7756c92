"""The arrays of a run, and the numbers that their tasks have in the run."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

from runspec_agent.base.light_typing import NamedTuple
from runspec_slurm.naming import array_of, job_name, run_of
from runspec_slurm.queue import Past, Row
from runspec_slurm.reasons import NOT_SUBMITTED
from runspec_slurm.timing import Clock, Timing

WAITING = Row(  # stands for an array that is not submitted yet
    job="",
    tasks=(),
    state="PENDING",
    reason=NOT_SUBMITTED,
    code=None,
    restarts=0,
    began_s=None,
    ended_s=None,
    nodes="",
    folder="",
    name="",
)


class Arrays(NamedTuple):
    """The arrays of *run*, which has *total* tasks: one, or one for every *each* of them."""

    run: str
    total: int = 1
    each: int = 1

    @classmethod
    def of(cls, run: str, record: Mapping[str, Any]) -> Arrays:
        count = record["count"]
        return cls(run, count, record.get("slurm", {}).get("each", count))

    @property
    def numbers(self) -> range:
        return range(-(-self.total // self.each))

    @property
    def names(self) -> list[str]:
        """Return the names of the jobs."""
        return [job_name(self.run, number) for number in self.numbers]

    def number(self, row: Row) -> int:
        return row.offset // self.each

    def placed(self, rows: Iterable[Row], held: Mapping[int, str]) -> list[Row]:
        """Return *rows* with the numbers that tasks have in the run; *held* are known jobs, which may be renamed."""
        if len(self.numbers) == 1:
            return list(rows)
        numbers = {job: number for number, job in held.items()}
        placed = []
        for row in rows:
            index = array_of(row.name) if run_of(row.name) == self.run else 0
            offset = numbers.get(row.job, index) * self.each
            tasks = tuple(offset + task for task in row.tasks)
            placed.append(row._replace(tasks=tasks, offset=offset))
        return placed

    def missing(self, known: Collection[int]) -> Iterator[Row]:
        """Yield rows that wait, in place of those of the arrays that are not submitted yet; *known* are all others."""
        for number in self.numbers:
            if number not in known:
                first = number * self.each
                tasks = tuple(range(first, min(first + self.each, self.total)))
                name = job_name(self.run, number)
                yield WAITING._replace(tasks=tasks, name=name, offset=first)

    def past(self, array: int, pasts: Iterable[Past]) -> list[Past]:
        """Return the *pasts* of an array with the numbers of tasks in the run, in place of those in the array."""
        return [past._replace(task=past.task + array * self.each) for past in pasts]


# When to poll the controller for the jobs of a run.


class Pace:
    """Decides when to poll the controller: at once after a change of the run, else less and less often."""

    def __init__(self, timing: Timing, clock: Clock) -> None:
        self.timing, self.clock = timing, clock
        self.rows: list[Row] = []
        self._mark: Any = None
        self.next_s = 0.0
        self.pause_s = timing.ask_first_s

    def due(self, mark: Any) -> bool:
        """Return whether to poll now. *mark* is the state of the run in the workspace."""
        if mark != self._mark:
            self._mark, self.next_s, self.pause_s = mark, 0.0, self.timing.ask_first_s
        return self.clock.monotonic() >= self.next_s

    def take(self, rows: list[Row]) -> None:
        if rows != self.rows:
            self.pause_s = self.timing.ask_first_s
        self.rows = rows
        self.next_s = self.clock.monotonic() + self.pause_s
        self.pause_s = min(self.timing.ask_last_s, self.pause_s * self.timing.ask_grows)
