"""Prints results to standard output, and progress to standard error."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, Self, TextIO

from runspec_jobs.api.events import Event
from runspec_jobs.diagnostics.render import as_json, columns, plain
from runspec_jobs.errors import OutputFailed
from runspec_jobs.report.numbers import brief

if TYPE_CHECKING:
    from rich.progress import Progress as Bars, TaskID
    from rich.status import Status as Spinner

    from runspec_jobs.report.tables import Cell, Table

LONG_S = 0.3  # a transfer that is shorter has no progress bar
BETWEEN_S = 0.1  # between two updates of a bar


class Below(Protocol):
    """What stays below everything that is printed to a terminal."""

    def erase(self) -> str:
        """Return the text that removes it."""

    def draw(self) -> str:
        """Return the text that draws it where the cursor is, at the beginning of a line."""


_below: list[Below] = []


def keep_below(what: Below | None) -> None:
    """Keep *what* below all progress that is printed from now on; None ends that."""
    _below[:] = [] if what is None else [what]


def out(text: str) -> None:
    """Print a result. Raises OutputFailed if standard output cannot be written, and BrokenPipeError if it is closed."""
    write(f"{text}\n")


def write(text: str) -> None:
    """Print a part of a result without a line end; raises the errors of `out`."""
    try:
        print(text, end="", flush=True)
    except BrokenPipeError:
        raise
    except OSError as exc:
        raise OutputFailed(exc) from exc


def out_json(form: str, fields: Mapping[str, Any]) -> None:
    """Print a document of the format *form*, such as "runspec.status/v1", which `json_formats` describes."""
    out(as_json({"format": form, **fields}))


def tell(text: str) -> None:
    """Print a line of progress, or an error, to standard error."""
    tell_lines(f"runspec: {plain(text)}")


def at_terminal() -> bool:
    """Return whether a person can be asked: both standard input and standard error are terminals."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def agreed(question: str) -> bool:
    """Ask *question* at the terminal, and return whether the answer is yes; anything else is no."""
    print(f"{question} [y/N] ", end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def tell_lines(text: str) -> None:
    """Print *text* to standard error, if that can be written: a full disk does not end what works without it."""
    below = _below if sys.stderr.isatty() else ()
    for one in below:
        write(one.erase())
    try:
        print(text, file=sys.stderr, flush=True)
    except BrokenPipeError:
        raise
    except OSError:
        lead_nowhere(sys.stderr)
    for one in below:
        write(one.draw())


def lead_nowhere(stream: TextIO) -> None:
    """Lead *stream* nowhere, so that Python does not fail when it flushes at its exit what could not be written."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def tell_event(event: Event) -> None:
    """Print the text of an event to standard error, whatever its kind."""
    tell(event.text)


def print_table(table: Table) -> None:
    """Print a table: with borders on a terminal, else in plain columns."""
    rows = [[_cell(cell) for cell in row] for row in table.rows]
    words = [any(isinstance(row[i], str) for row in table.rows) for i in range(len(table.titles))]
    if sys.stdout.isatty():
        _draw(table.titles, rows, words)
        return
    lines = [[plain(title) for title in table.titles], *rows]
    widths = [max(columns(line[i]) for line in lines) for i in range(len(table.titles))]
    for line in lines:
        cells = zip(line, widths, words, strict=True)
        out("  ".join(_padded(*cell) for cell in cells).rstrip())


def _cell(cell: Cell) -> str:
    return plain(cell) if isinstance(cell, str) else "" if cell is None else brief(cell)


def _padded(text: str, width: int, word: bool) -> str:
    room = " " * (width - columns(text))
    return f"{text}{room}" if word else f"{room}{text}"


def _draw(titles: Sequence[str], rows: Sequence[Sequence[str]], words: Sequence[bool]) -> None:
    from rich.console import Console
    from rich.table import Table as Drawn
    from rich.text import Text

    drawn = Drawn()
    for title, word in zip(titles, words, strict=True):
        drawn.add_column(Text(plain(title)), justify="left" if word else "right")
    for row in rows:
        drawn.add_row(*map(Text, row))
    Console().print(drawn)


@contextlib.contextmanager
def interruptible() -> Iterator[Callable[[float], None]]:
    """Yield a sleep function, the only place at which Ctrl-C raises KeyboardInterrupt.

    Raised anywhere else, KeyboardInterrupt can get lost in a destructor. A second Ctrl-C raises it at once.
    """
    asked = threading.Event()

    def on_interrupt(*_: object) -> None:
        if asked.is_set():
            raise KeyboardInterrupt
        asked.set()

    def sleep(seconds: float) -> None:
        if asked.wait(seconds):
            raise KeyboardInterrupt

    before = signal.signal(signal.SIGINT, on_interrupt)
    try:
        yield sleep
    finally:
        signal.signal(signal.SIGINT, before)


def interactive() -> bool:
    """Return whether standard error is a terminal that can draw progress bars."""
    return sys.stderr.isatty() and os.environ.get("TERM") != "dumb"


def coloured() -> bool:
    """Return whether standard output is a terminal that may show colours; see https://no-color.org."""
    return redrawable() and not os.environ.get("NO_COLOR")


def redrawable() -> bool:
    """Return whether standard output is a terminal on which lines can be drawn again."""
    return sys.stdout.isatty() and os.environ.get("TERM") != "dumb"


@dataclass
class Transfer:
    """A transfer with the times, in seconds, at which it began and its bar was drawn last."""

    began: float
    drawn: float = 0.0
    task: TaskID | None = None


class ProgressPrinter:
    """Prints the events of a plan that is carried out: bars and a spinner on a terminal, else lines.

    With *quiet*, only what has to be waited for is printed.
    """

    def __init__(self, *, quiet: bool = False) -> None:
        self.quiet = quiet
        self._bars: Bars | None = None
        self._spinner: Spinner | None = None
        self._transfer: tuple[str, Transfer] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __call__(self, event: Event) -> None:
        if event.kind == "wait":
            tell(event.text)
        elif event.kind == "transfer":
            self._move(event)
        elif event.kind == "line":
            self.line(event.text)
        else:
            if event.kind == "step":
                self.close()
            if not self.quiet:
                tell(event.text)

    def _move(self, event: Event) -> None:
        """Draw the bar of a transfer, once it has taken a while."""
        if self.quiet or not interactive():
            return
        now = time.monotonic()
        if self._transfer is None or self._transfer[0] != event.text:
            self._transfer = event.text, Transfer(now)
        bar = self._transfer[1]
        if now - bar.began < LONG_S or (now - bar.drawn < BETWEEN_S and event.done < event.total):
            return
        bar.drawn = now
        if bar.task is None:
            bar.task = self._open().add_task(plain(event.text), total=event.total or None)
        self._open().update(bar.task, completed=event.done, total=event.total or None)

    def line(self, text: str) -> None:
        """Print a line that a tool printed while it works; on a terminal, each line replaces the one before."""
        if self.quiet:
            return
        if not interactive():
            tell(f"  {text}")
            return
        if self._spinner is None:
            from rich.console import Console

            self._spinner = Console(stderr=True).status("")
            self._spinner.start()
        self._spinner.update(plain(text).replace("[", r"\["))

    def _open(self) -> Bars:
        if self._bars is None:
            from rich.console import Console
            from rich.progress import (
                BarColumn,
                DownloadColumn,
                Progress,
                TextColumn,
                TransferSpeedColumn,
            )

            columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn())
            console = Console(stderr=True)
            self._bars = Progress(*columns, TransferSpeedColumn(), console=console, transient=True)
            self._bars.start()
        return self._bars

    def close(self) -> None:
        """Remove the bars and the spinner from the terminal."""
        if self._spinner is not None:
            self._spinner.stop()
            self._spinner = None
        if self._bars is not None:
            self._bars.stop()
            self._bars = None
        self._transfer = None
