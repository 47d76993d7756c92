"""Whole lines of logs, for callers in Python."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime, timedelta

from runspec_agent.base.light_typing import NamedTuple
from runspec_jobs.diagnostics.terminal_text import strip_sequences
from runspec_jobs.engine.reporter import Reporter
from runspec_jobs.engine.wait import View, wait
from runspec_jobs.logs.follow import Line, Wanted, show_line
from runspec_jobs.logs.select import ALL, Selection, Selector
from runspec_jobs.provider import Client
from runspec_jobs.state.run_record import Record

QUEUED = 1000  # lines of a followed log that wait for the caller
REDRAWN_S = 1.0  # between two texts of a line of a node that overwrites itself


class LogLine(NamedTuple):
    """One line of the log of a *node* of a *task*: its *text* without its line end and colours.

    Bytes that are not UTF-8 are replaced.

    *at* is when it was printed, to a second and in UTC, if that was asked for and is known. *ended* is false for the
    current text of a line that overwrites itself, such as a progress bar; all of the line comes once it has ended.
    """

    task: int
    node: int
    text: str
    at: datetime | None = None
    ended: bool = True


def make_selection(
    tail: int | None, grep: str | None, since: datetime | timedelta | None, timestamps: bool
) -> Selection:
    """Return what chooses lines; *since* is a time, that of this machine if it has no zone, or a length of time."""
    if isinstance(since, timedelta):
        since = datetime.now(UTC) - since
    return Selection(tail, grep, None if since is None else since.timestamp(), timestamps)


class Joined:
    """Joins the parts of long lines, which may come mixed with those of other nodes, and passes on whole lines."""

    def __init__(
        self, show: Callable[[LogLine], None], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._show, self._clock = show, clock
        self._redrawn: dict[tuple[int, int], float] = {}  # when a text of it was passed on
        self._parts: dict[tuple[int, int], list[bytes]] = {}
        self._at: dict[tuple[int, int], float | None] = {}  # when the last part was printed

    def __call__(self, line: Line) -> None:
        key = (line.task, line.rank)
        parts = self._parts.setdefault(key, [])
        parts.append(line.text)
        self._at[key] = line.at
        if line.ended:
            self._pass(key)

    def take_unfinished(self, line: Line) -> None:
        """Pass on the current text of a line that overwrites itself, at most once in REDRAWN_S for each node."""
        key, now = (line.task, line.rank), self._clock()
        text = show_line(line.text.removeprefix(b"\r"), strip_sequences)
        if not line.text.startswith(b"\r") or not text.strip():
            return
        if now - self._redrawn.get(key, now - REDRAWN_S) >= REDRAWN_S:
            self._redrawn[key] = now
            self._show(LogLine(*key, text, ended=False))

    def flush(self) -> None:
        """Pass on the lines that have no line end."""
        for key in list(self._parts):
            self._pass(key)

    def _pass(self, key: tuple[int, int]) -> None:
        text = b"".join(self._parts.pop(key))
        at_s = self._at.pop(key)
        at = None if at_s is None else datetime.fromtimestamp(at_s, UTC)
        self._show(LogLine(*key, show_line(text, strip_sequences), at))


def join_parts(lines: Iterator[Line]) -> Iterator[LogLine]:
    """Yield *lines* with their parts joined; lines without a line end come last."""
    whole: list[LogLine] = []
    joined = Joined(whole.append)
    for line in lines:
        joined(line)
        yield from whole
        whole.clear()
    joined.flush()
    yield from whole


class _Closed(Exception):
    """The caller has closed the iterator over a followed log."""


def select_lines(parts: Iterable[Line], selection: Selection) -> Iterator[Line]:
    """Yield the lines of a whole log that *selection* chooses."""
    lines: list[Line] = []
    with Selector(selection, lines.append) as selector:
        for part in parts:
            selector.take_line(part)
            yield from lines
            lines.clear()
        selector.catch_up()
    yield from lines


class _Handover:
    """Passes lines from the thread that follows a run to the caller, who may close the iterator at any time."""

    def __init__(self) -> None:
        self.lines: queue.Queue[LogLine | BaseException | None] = queue.Queue(QUEUED)
        self.closed = threading.Event()

    def put(self, line: LogLine | BaseException | None) -> None:
        """Add a line, the error that ended following, or None at the end. Raises _Closed if nobody takes it."""
        while not self.closed.is_set():
            try:
                # Not blocking for ever: the caller may close the iterator while the queue is full.
                return self.lines.put(line, timeout=0.1)
            except queue.Full:
                continue
        raise _Closed

    def sleep(self, seconds: float) -> None:
        if self.closed.wait(seconds):
            raise _Closed

    def follow(self, record: Record, client: Client, wanted: Wanted, selection: Selection) -> None:
        """Put every line of a run until it ends."""
        joined = Joined(self.put)
        view = View(joined, joined.take_unfinished, selection, wanted)
        try:
            wait(record, client, view, Reporter(), stops=False, sleep=self.sleep)
            joined.flush()
            self.put(None)
        except _Closed:
            pass
        except Exception as exc:  # noqa: BLE001 - it is raised in the thread of the caller
            self.put(exc)


def follow_lines(
    record: Record, client: Client, wanted: Wanted, selection: Selection = ALL
) -> Iterator[LogLine]:
    """Yield the lines of a run that another thread follows, which waits while QUEUED lines are not taken."""
    handover = _Handover()
    # A daemon: an iterator that was never closed must not keep the process alive.
    thread = threading.Thread(
        target=handover.follow,
        args=(record, client, wanted, selection),
        name=f"logs of {record.run}",
        daemon=True,
    )
    thread.start()
    try:
        while (line := handover.lines.get()) is not None:
            if isinstance(line, BaseException):
                raise line
            yield line
    finally:
        # The thread ends at its next line or pause; a connection that hangs is given up by its own time limit.
        handover.closed.set()
        thread.join()
