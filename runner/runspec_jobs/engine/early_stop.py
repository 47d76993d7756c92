"""Stops tasks of a sweep that are not needed any more, for `report --stop-rest` or the spec's `metric.stop`."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Collection, Iterator, Mapping

from runspec_jobs.errors import RunspecError, Unavailable
from runspec_jobs.logs import measure
from runspec_jobs.logs.follow import Line
from runspec_jobs.logs.measured_tasks import choose_nodes
from runspec_jobs.logs.outage import is_passing
from runspec_jobs.provider import Client, State, Status, SupportsTaskStop
from runspec_jobs.report import ranking
from runspec_jobs.report.metric_extraction import Measured
from runspec_jobs.report.numbers import format_number
from runspec_jobs.report.ranking import Task
from runspec_jobs.spec.metric import Metric
from runspec_jobs.spec.placeholders import tasks
from runspec_jobs.state.run_record import Record

Show = Callable[[Line], None]
Sleep = Callable[[float], None]
Tell = Callable[[str], None]  # takes a line about progress, for a person
# Between two requests to stop the same tasks; each pause is longer than the one before.
AGAIN_S, GROWS, LONGEST_S = 1.0, 1.5, 15.0


def stop(record: Record, client: Client, numbers: Collection[int], why: str, tell: Tell) -> None:
    """Stop the tasks *numbers*, after a note in the journal. Raises Unavailable if the provider cannot stop tasks."""
    if not isinstance(client, SupportsTaskStop):
        message = f"'{record.plan.provider}' cannot stop single tasks"
        raise Unavailable(message, f"runspec cancel {record.run} ends all of them")
    with record.open_journal(tell) as journal:
        if not set(numbers) <= journal.memory.stopped:
            journal.add("stop", tasks=sorted(numbers), why=why)
    client.stop(record.run, numbers)


def list_left(status: Status, count: int) -> set[int]:
    """Return the numbers of the tasks, of *count*, that have not ended."""
    if status.state.terminal:
        return set()
    ended: dict[int, bool] = {}
    for node in status.nodes:
        # A task has ended when all of its nodes have.
        ended[node.task] = ended.get(node.task, True) and node.state.terminal
    return {task for task in range(count) if not ended.get(task, False)}


class Stopper:
    """Watches the log and the states of a run, and stops the other tasks once one good enough has succeeded."""

    def __init__(
        self, record: Record, client: Client, metric: Metric, bounded: measure.Bounded, tell: Tell
    ) -> None:
        self.of, self.client, self.metric, self.tell = record, client, metric, tell
        self.bounded, self.watch = bounded, measure.MetricCollector(metric)
        self.values = tasks(record.spec)
        self.winner: Task | None = None
        self._states: Mapping[int, State] = {}
        self._next_s, self._pause_s, self._announced = 0.0, AGAIN_S, False

    def read_line(self, line: Line) -> None:
        """Extract the metric from a line."""
        self.bounded.read_line(self.watch, line)

    def note_states(self, status: Status) -> None:
        """Take the states of the tasks; the lines that they printed before are read before the next `look`."""
        self._states = {number: node.state for number, node in choose_nodes(status).items()}

    def look(self) -> None:
        """Stop the other tasks that have not ended, if a task has won; call it repeatedly."""
        if self.winner is None:
            tasks_ = [self._get_task(number) for number in self.watch.tasks]
            self.winner = ranking.find_reached(self.metric, tasks_)
        # The winner stays: a later number of the same task does not revoke it.
        if self.winner is None or time.monotonic() < self._next_s:
            return
        self._next_s = time.monotonic() + self._pause_s
        self._pause_s = min(LONGEST_S, self._pause_s * GROWS)
        try:
            self._stop(self.winner)
        except RunspecError as exc:
            if not is_passing(exc):
                raise  # else the request is repeated after a pause

    def _stop(self, winner: Task) -> None:
        rest = list_left(self.client.state(self.of.run), len(self.values)) - {winner.number}
        if rest:
            if not self._announced:
                value = winner.measured.value
                assert value is not None, "BUG: a task without a value has won"
                reached = f"task {winner.number} has {self.metric.name} {format_number(value)}"
                self.tell(f"{reached}: stopping the others")
                self._announced = True
            stop(self.of, self.client, rest, f"task {winner.number} was good enough", self.tell)

    def _get_task(self, number: int) -> Task:
        measured: Measured = self.watch.get_measured(number)
        state = self._states.get(number, State.RUNNING)
        return Task(number, self.values[number], str(state), measured)


@contextlib.contextmanager
def make_stopper(
    record: Record, client: Client, metric: Metric | None, tell: Tell
) -> Iterator[Stopper | None]:
    """Yield a Stopper for the run if its *metric* has `stop` and the provider can stop tasks, else None."""
    if metric is None or metric.stop is None:
        yield None
        return
    if not isinstance(client, SupportsTaskStop):
        tell(f"'{record.plan.provider}' cannot stop single tasks: all of them run to their end")
        yield None
        return
    with measure.Bounded() as bounded:
        yield Stopper(record, client, metric, bounded, tell)


def watch_sleep(sleep: Sleep, stopper: Stopper | None) -> Sleep:
    """Return a function that lets the stopper look before each *sleep*."""
    if stopper is None:
        return sleep

    def sleep_and_look(seconds: float) -> None:
        stopper.look()
        sleep(seconds)

    return sleep_and_look
