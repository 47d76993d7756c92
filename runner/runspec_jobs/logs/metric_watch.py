"""Watches the metric of a run while it is followed, and keeps the best value in its journal."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator, Mapping

from runspec_agent.base.light_typing import NamedTuple
from runspec_jobs.errors import Damaged
from runspec_jobs.logs import measure
from runspec_jobs.logs.follow import Line
from runspec_jobs.logs.measured_tasks import choose_nodes
from runspec_jobs.provider import State, Status
from runspec_jobs.report.ranking import ENDED_BADLY, Task, rank_tasks
from runspec_jobs.spec import placeholders
from runspec_jobs.spec.metric import Metric
from runspec_jobs.state.journal import Journal
from runspec_jobs.state.run_record import Record

KEPT_EVERY_S = 60.0  # while the run is followed; at its end, the value is kept in any case


class Watcher(NamedTuple):
    """The functions that get each status of a run that is followed, and a task with each number of its metric."""

    status: Callable[[Status], None] = lambda status: None
    metric: Callable[[int, float], None] = lambda task, value: None


SILENT = Watcher()


class Shared(NamedTuple):
    """A collector that another one uses, too, and the function that gives it a line."""

    collector: measure.MetricCollector
    take: Callable[[Line], None]


class Best(NamedTuple):
    """The best value of a metric so far, and the task that has it, with its values of the sweep."""

    metric: str
    value: float
    task: int
    values: Mapping[str, str] = {}


def read_recorded_best(record: Record) -> Best | None:
    """Return the best value in the journal of a run; None if none was seen while it was followed."""
    best = record.read_memory().metric
    if best is None:
        return None
    values: Mapping[str, str] = {}
    with contextlib.suppress(Damaged):  # another version of runspec may refuse the spec
        if (known := record.spec).sweep:
            values = placeholders.tasks(known)[best["task"]]
    return Best(best["name"], best["value"], best["task"], values)


class MetricWatch:
    """Takes the lines of a run. Without a *collector*, as for a metric in a file, it knows no value."""

    def __init__(
        self,
        collector: measure.MetricCollector | None,
        take: Callable[[Line], None],
        heard: Callable[[int, float], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._collector, self._take, self._heard, self._clock = collector, take, heard, clock
        self._last: tuple[int, float] | None = None
        self._states: Mapping[int, State] = {}
        self._kept_s = clock()

    def read_line(self, line: Line) -> None:
        """Extract the metric from a line."""
        self._take(line)
        # By identity: the same number may have been printed again.
        if self._collector is not None and self._collector.last is not self._last:
            self._last = self._collector.last
            assert self._last is not None, "BUG: a last number was taken back"
            self._heard(*self._last)

    def note_states(self, status: Status) -> None:
        """Take the states of the tasks: one that has failed is not the best."""
        self._states = {number: node.state for number, node in choose_nodes(status).items()}

    def find_best(self) -> Best | None:
        """Return the best value of all tasks so far, chosen as the metric says; None if there is none."""
        collector = self._collector
        if collector is None or collector.last is None:
            return None
        tasks = [
            Task(
                number,
                {},
                str(self._states.get(number, State.RUNNING)),
                collector.get_measured(number),
            )
            for number in collector.tasks
        ]
        first = rank_tasks(collector.metric, tasks)[0]
        value = first.task.measured.value
        if first.place is None or value is None:
            return None
        return Best(collector.metric.name, value, first.task.number)

    def keep(self, journal: Journal) -> None:
        """Write the best value to *journal* if it is not there."""
        best, before = self.find_best(), journal.memory.metric or {}
        if best is not None:
            fields = {"name": best.metric, "task": best.task, "value": best.value}
        elif before and str(self._states.get(before["task"])) in ENDED_BADLY:
            fields = {"value": None}  # the task that was the best so far has failed since
        else:
            return
        # An event for each look would make the journal as long as the log.
        if any(before.get(name) != value for name, value in fields.items()):
            journal.add("metric", **fields)

    def keep_now_and_then(self, record: Record) -> None:
        """Write the best value to the journal of a run if that was long ago, and no other process is at work on it."""
        if self._collector is None or self._clock() - self._kept_s < KEPT_EVERY_S:
            return
        self._kept_s = self._clock()
        record.note(self.keep)


@contextlib.contextmanager
def watch_metric(
    metric: Metric | None, shared: Shared | None, heard: Callable[[int, float], None]
) -> Iterator[MetricWatch]:
    """Yield what watches the metric, with the *shared* collector if there is one."""
    if shared is not None:
        yield MetricWatch(shared.collector, shared.take, heard)
        return
    if metric is None or metric.file is not None:
        yield MetricWatch(None, lambda line: None, heard)
        return
    collector = measure.MetricCollector(metric)
    if threading.current_thread() is not threading.main_thread():
        yield MetricWatch(collector, collector.read_line, heard)  # no search can be ended here
        return
    with measure.Bounded() as bounded:
        yield MetricWatch(collector, lambda line: bounded.read_line(collector, line), heard)
