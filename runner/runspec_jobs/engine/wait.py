"""Follows a run to its end, and notes in its journal how it has ended."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator

from runspec_agent.base.light_typing import NamedTuple
from runspec_jobs.engine import (
    apply as engine,
    clients,
    early_stop,
    status as status_of,
)
from runspec_jobs.engine.outputs import publish
from runspec_jobs.engine.reporter import Reporter
from runspec_jobs.engine.start_run import read_ended_status
from runspec_jobs.errors import CredentialsError, FileFailed, TimedOut, UnknownOutcome
from runspec_jobs.logs import follow, metric_watch, select
from runspec_jobs.logs.metric_watch import SILENT, Watcher
from runspec_jobs.provider import Client, State, Status
from runspec_jobs.state import attempt_history
from runspec_jobs.state.journal import Journal
from runspec_jobs.state.run_record import Record

Show = Callable[[follow.Line], None]


class View(NamedTuple):
    """Who gets the lines of a run, and which: those of *selection* in the streams that are *wanted*.

    *unfinished* gets the current text of lines that have not ended.
    """

    show: Show
    unfinished: Show | None = None
    selection: select.Selection = select.ALL
    wanted: follow.Wanted = follow.accept_every


def wait(
    record: Record,
    client: Client,
    view: View,
    reporter: Reporter,
    *,
    watcher: Watcher = SILENT,
    timeout_s: float | None = None,
    answered: bool = False,
    stops: bool = True,
    publishes: bool = False,
    sleep: Callable[[float], None] = time.sleep,
) -> Status:
    """Show the lines of *view* until a run has ended, note its status in the journal, and return it.

    *watcher* gets each status, and each number of the metric. With *stops*, tasks are stopped as the metric of the spec
    demands; with *publishes*, outputs get their plain names if the last agent of the run could not give them.
    *answered* is true if the service has just answered for this run. Raises TimedOut if the run does not end within
    *timeout_s*; the run goes on then.
    """
    if not (whole := is_whole(record)):
        reporter.note(f"{record.run}: {status_of.explain_unfinished(record.read_memory())}")
    with _observe(record, client, view, watcher, reporter.wait, stops=stops) as observer:
        status = follow.follow(
            client,
            record.run,
            # Without a choice and a metric, lines need no second look.
            observer.take_line if observer.needs_lines else view.show,
            view.wanted,
            unfinished=observer.selector.take_unfinished if view.unfinished else None,
            timed=view.selection.needs_times,
            caught_up=observer.selector.catch_up,
            waits=lambda why: reporter.note(f"{record.run} {why}"),
            tell=reporter.wait,
            timeout_s=timeout_s,
            answered=answered,
            reconcile=clients.make_reconciler(client, record.run),
            seen=observer.take_status,
            sleep=early_stop.watch_sleep(sleep, observer.stopper),
        )
    with record.open_journal(reporter.wait) as journal:
        # The journal is read under the lock: `cancel` or `destroy` may have ended the run while it was followed.
        if status.state is State.GONE and journal.memory.want != "run":
            status = read_ended_status(journal.memory)
        if observer.keeps:
            observer.watch.keep(journal)
        note_followed(record.run, journal, status, whole)
        if publishes and record.spec.outputs:
            publish.publish_ended(journal, record.run, client, status, reporter.wait)
    return status


@contextlib.contextmanager
def _observe(
    record: Record,
    client: Client,
    view: View,
    watcher: Watcher,
    tell: Callable[[str], None],
    *,
    stops: bool,
) -> Iterator[_Observer]:
    """Yield what takes the lines and states of a run, until the block that follows it ends.

    Adds to errors of the block that the job goes on.
    """
    spec = record.spec if stops else clients.read_spec(record)
    metric = None if spec is None else spec.metric
    keeper = attempt_history.Keeper(record, time.time)
    try:
        with (
            early_stop.make_stopper(record, client, metric if stops else None, tell) as stopper,
            metric_watch.watch_metric(metric, _share_collector(stopper), watcher.metric) as watch,
            note_job_goes_on(record),
            select.Selector(view.selection, view.show, view.unfinished) as selector,
        ):
            # The metric of some streams alone is not that of the run.
            keeps = view.wanted is follow.accept_every
            needs_lines = metric is not None or not view.selection.is_all
            yield _Observer(record, watcher, keeper, watch, selector, stopper, needs_lines, keeps)
    except TimedOut as exc:
        raise TimedOut(exc.message, suggest_commands(record.run)) from None


class _Observer(NamedTuple):
    """Passes the lines and states of a run on; with *keeps*, writes the metric into the record now and then."""

    record: Record
    watcher: Watcher
    keeper: attempt_history.Keeper
    watch: metric_watch.MetricWatch
    selector: select.Selector
    stopper: early_stop.Stopper | None
    needs_lines: bool
    keeps: bool

    def take_line(self, line: follow.Line) -> None:
        self.selector.take_line(line)
        self.watch.read_line(line)

    def take_status(self, status: Status) -> None:
        self.watcher.status(status)
        self.keeper(status)
        self.watch.note_states(status)
        if self.stopper is not None:
            self.stopper.note_states(status)
        if self.keeps:
            self.watch.keep_now_and_then(self.record)


def is_whole(record: Record) -> bool:
    """Return whether all jobs of a run are submitted, or were."""
    memory = record.read_memory()
    ended = memory.status is not None or memory.deleted
    return ended or engine.is_made(record.plan, memory)


def note_followed(run: str, journal: Journal, status: Status, whole: bool) -> None:
    """Note how a run ended that was followed; *whole* says whether all of its jobs were submitted before that.

    Raises UnknownOutcome if they were not, and those that were have ended by themselves.
    """
    if not whole and status.state in (State.SUCCEEDED, State.FAILED):
        message = f"{run} had not been submitted completely, and what had been has {status.state}"
        raise UnknownOutcome(message, f"{status_of.REPEAT}; then follow it again")
    engine.note_end(journal, status)


def _share_collector(stopper: early_stop.Stopper | None) -> metric_watch.Shared | None:
    return None if stopper is None else metric_watch.Shared(stopper.watch, stopper.read_line)


@contextlib.contextmanager
def note_job_goes_on(record: Record) -> Iterator[None]:
    """Add to an error that only this command has, such as refused credentials or a full disk, that the job goes on.

    Nothing is added if the run is known to have ended.
    """
    try:
        yield
    except FileFailed as exc:
        if goes_on := _explain_goes_on(record):
            exc.hint = f"{exc.hint}; {goes_on}" if exc.hint else goes_on
        raise
    except CredentialsError as exc:
        hints = [exc.hint or "log in again", _explain_goes_on(record)]
        raise CredentialsError(exc.message, "; ".join(filter(None, hints))) from exc


def _explain_goes_on(record: Record) -> str:
    memory = record.read_memory()
    ended = memory.status is not None or memory.deleted
    return "" if ended else f"the job goes on. {suggest_commands(record.run)}"


def suggest_commands(run: str) -> str:
    """Return the commands that follow and stop a run, as a hint."""
    return f"follow: runspec logs -f {run}   stop: runspec cancel {run}"
