"""Saves exact copies of the logs of a run, until the run has ended if that is wanted."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from runspec_agent.base.light_typing import NamedTuple
from runspec_jobs.engine import clients
from runspec_jobs.engine.reporter import Reporter
from runspec_jobs.engine.wait import is_whole, note_followed, note_job_goes_on, suggest_commands
from runspec_jobs.errors import Conflict, TimedOut
from runspec_jobs.logs import follow as log, save as copying
from runspec_jobs.logs.outage import Outage
from runspec_jobs.provider import Client, Status
from runspec_jobs.provider.streams.log_streams import Stream
from runspec_jobs.state import attempt_history, written_files
from runspec_jobs.state.run_record import Record

PAUSE_S = 0.2


class Wanted(NamedTuple):
    """Which logs to save where; *target* is a file or, for several nodes or tasks, a folder."""

    target: Path
    streams: log.Wanted
    follow: bool = False
    timeout_s: float | None = None
    force: bool = False  # also replace files of the user


class SavedLog(NamedTuple):
    """The copy of one log."""

    path: Path
    bytes: int
    node: int
    task: int


class SavedLogs(NamedTuple):
    """The copies, and the status of the run if it was followed to its end."""

    files: Sequence[SavedLog]
    status: Status | None = None


def save(
    record: Record,
    client: Client,
    wanted: Wanted,
    reporter: Reporter,
    sleep: Callable[[float], None] = time.sleep,
) -> SavedLogs:
    """Save the logs; with *wanted.follow* until the run has ended. Raises TimedOut if that takes too long.

    Raises Conflict if a file of the user would be replaced, unless *wanted.force* is true.
    """
    count, tasks = clients.count_nodes(record)
    source = log.get_log_client(client)
    pause = _make_pause(record.run, wanted.timeout_s, max(PAUSE_S, source.poll_s), sleep)
    whole, watch = is_whole(record), _Watch(record, client, reporter, follows=wanted.follow)

    def choose(task: int, rank: int) -> Path:
        return copying.choose_path(task, rank, wanted.target, count, tasks)

    places = [choose(task, rank) for task in range(tasks) for rank in range(count)]
    # Checked before anything is written: a refusal in the middle would leave half of the copies.
    _demand_own(record.run, places, force=wanted.force)
    folder = places[0].parent
    parts = (part for at in places for part in copying.choose_unfinished_paths(at))
    writing = dict.fromkeys(parts, (written_files.ANY, 0))
    with (
        note_job_goes_on(record),
        written_files.record_writing(folder, "logs", record.run, writing),
    ):
        saved = copying.save(
            lambda: [s for s in source.streams(record.run) if wanted.streams(s)],
            lambda s: choose(s.task, s.rank),
            watch.is_over,
            pause,
            Outage(reporter.wait, patient=wanted.follow),
            lambda stream, path: _demand_free(record.run, stream, path, force=wanted.force),
        )
    for _, path, _ in saved:
        written_files.note(path.parent, "logs", record.run, [path])
    files = [SavedLog(path, size, s.rank, s.task) for s, path, size in saved]
    if watch.status is not None:
        with record.open_journal(reporter.wait) as journal:
            note_followed(record.run, journal, watch.status, whole)
    return SavedLogs(files, watch.status)


class _Watch:
    """Requests the state of a run that is followed, and keeps the last one; without *follows*, it is always over."""

    def __init__(
        self, record: Record, client: Client, reporter: Reporter, *, follows: bool
    ) -> None:
        self.status: Status | None = None
        self._record, self._client, self._reporter = record, client, reporter
        self._follows, self._keeper = follows, attempt_history.Keeper(record, time.time)

    def is_over(self) -> bool:
        """Return whether the run has ended, and send what it needs."""
        if not self._follows:
            return True
        self.status = self._client.state(self._record.run)
        for line in clients.make_reconciler(self._client, self._record.run)():
            self._reporter.wait(line)
        self._keeper(self.status)
        return self.status.state.terminal


def _make_pause(
    run: str, timeout_s: float | None, pause_s: float, sleep: Callable[[float], None]
) -> Callable[[float], None]:
    """Return a function that sleeps at least *pause_s*. It raises TimedOut once *timeout_s* have passed since now."""
    began = time.monotonic()

    def pause(least_s: float) -> None:
        if timeout_s is not None and time.monotonic() - began > timeout_s:
            message = f"the logs of {run} are not complete after {timeout_s:g} s"
            raise TimedOut(
                f"{message}; run the same command again to continue", suggest_commands(run)
            )
        sleep(max(pause_s, least_s))

    return pause


def _demand_own(run: str, places: Iterable[Path], *, force: bool) -> None:
    """Raise Conflict if there is an unfinished copy beside one of *places* that no `logs --save` of *run* has begun.

    Of those that versions without these records have left, the run is not known, and they are continued.
    """
    known = written_files.WrittenFiles()
    pairs = [
        pair for at in places if not _is_older(pair := copying.choose_unfinished_paths(at), known)
    ]
    free = dict.fromkeys((part for pair in pairs for part in pair), "")
    written_files.demand_free(free, "logs", run, force=force, way_out="name another file")


def _is_older(pair: tuple[Path, Path], known: written_files.WrittenFiles) -> bool:
    return copying.is_unfinished(*pair) and not any(known.has(part) for part in pair)


def _demand_free(run: str, stream: Stream, path: Path, *, force: bool) -> None:
    """Raise Conflict if *path* has something else than an older copy of *stream*."""
    try:
        written_files.demand_free({path: ""}, "logs", run, force=force, way_out="name another file")
    except Conflict:
        if path.is_symlink() or not copying.is_beginning(path, stream):
            raise
