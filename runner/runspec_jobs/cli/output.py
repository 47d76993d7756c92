"""Prints results to standard output, and progress to standard error."""

from __future__ import annotations

import contextlib
import os
import re
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Protocol, TextIO

from runspec_jobs.diagnostics.render import (
    count_columns,
    escape_control,
    format_annotation,
    format_json,
)
from runspec_jobs.errors import OutputFailed
from runspec_jobs.report.numbers import format_number

if TYPE_CHECKING:
    from runspec_jobs.api.events import Event
    from runspec_jobs.report.tables import Cell, Table


class Below(Protocol):
    """What stays below everything that is printed to a terminal."""

    def hide(self) -> None:
        """Remove it."""

    def show(self) -> None:
        """Draw it where the cursor is, at the beginning of a line."""


_below: list[Below] = []


def keep_below(what: Below | None) -> None:
    """Keep *what* below all progress that is printed from now on; None ends that."""
    _below[:] = [] if what is None else [what]


def out(text: str) -> None:
    """Print a result. Raises OutputFailed if standard output cannot be written, and BrokenPipeError if it is closed."""
    write(f"{inert(text)}\n")


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
    write(f"{format_json({'format': form, **fields})}\n")


def tell(text: str) -> None:
    """Print a line of progress, or an error, to standard error."""
    tell_lines(f"runspec: {escape_control(text)}")


def in_github_actions() -> bool:
    """Return whether this process runs in GitHub Actions, which takes some lines of output for workflow commands."""
    return os.environ.get("GITHUB_ACTIONS") == "true"


def inert(text: str) -> str:
    """Return *text* so that GitHub Actions, if this process runs there, takes no line of it for a workflow command.

    Its runner takes lines whose first characters besides spaces are `::`, and `##[` anywhere in a line:
    https://github.com/actions/runner/blob/main/src/Runner.Common/ActionCommand.cs
    """
    if not in_github_actions() or not ("::" in text or "##[" in text):
        return text
    return re.sub(r"(?m)^(\s*)::", r"\1\\::", text).replace("##[", "##\\[")


def tell_failure(text: str) -> None:
    """Print an error to standard error; in GitHub Actions as one that the page of the workflow run shows."""
    if in_github_actions():
        command(format_annotation(text))
    else:
        tell(text)


def command(line: str) -> None:
    """Print a workflow command of GitHub Actions to standard error."""
    _print_lines(line)


def at_terminal() -> bool:
    """Return whether a person can be asked: both standard input and standard error are terminals."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def ask(question: str) -> str:
    """Ask *question* at the terminal, and return the answer."""
    print(f"{question} ", end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip()


def agreed(question: str) -> bool:
    """Ask *question* at the terminal, and return whether the answer is yes; anything else is no."""
    return ask(f"{question} [y/N]").lower() in ("y", "yes")


def tell_lines(text: str) -> None:
    """Print *text* to standard error, if that can be written: a full disk does not end what works without it."""
    _print_lines(inert(text))


def _print_lines(text: str) -> None:
    below = _below if sys.stderr.isatty() else ()
    for part in below:
        part.hide()
    try:
        print(text, file=sys.stderr, flush=True)
    except BrokenPipeError:
        raise
    except OSError:
        lead_nowhere(sys.stderr)
    for part in below:
        part.show()


def lead_nowhere(stream: TextIO) -> None:
    """Lead *stream* nowhere, so that Python does not fail when it flushes at its exit what could not be written."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def tell_event(event: Event) -> None:
    """Print the text of an event to standard error, whatever its kind."""
    tell(event.text)


def print_table(table: Table) -> None:
    """Print a table in columns, as `list` does: at a terminal, the titles are bold."""
    rows = [[_cell(cell) for cell in row] for row in table.rows]
    words = [any(isinstance(row[i], str) for row in table.rows) for i in range(len(table.titles))]
    lines = [[escape_control(title) for title in table.titles], *rows]
    widths = [max(count_columns(line[i]) for line in lines) for i in range(len(table.titles))]
    for number, line in enumerate(lines):
        cells = zip(line, widths, words, strict=True)
        text = "  ".join(_padded(*cell) for cell in cells).rstrip()
        out(f"\x1b[1m{text}\x1b[0m" if number == 0 and coloured() else text)


def _cell(cell: Cell) -> str:
    return (
        escape_control(cell)
        if isinstance(cell, str)
        else ""
        if cell is None
        else format_number(cell)
    )


def _padded(text: str, width: int, word: bool) -> str:
    room = " " * (width - count_columns(text))
    return f"{text}{room}" if word else f"{room}{text}"


@contextlib.contextmanager
def interruptible() -> Iterator[Callable[[float], None]]:
    """Yield a sleep function, the only place at which Ctrl-C raises KeyboardInterrupt.

    Raised anywhere else, KeyboardInterrupt can get lost in a destructor. A second Ctrl-C raises it at once.
    """
    import signal  # it makes all its enums, which `validate` does not need

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
