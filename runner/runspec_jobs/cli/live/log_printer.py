"""Prints the lines of logs, also progress bars, and lines that do not fit into memory and arrive in parts."""

from __future__ import annotations

import bisect
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, Self

from runspec_jobs.api.lifecycle import Line, format_prefix, show_line
from runspec_jobs.cli import output
from runspec_jobs.cli.live.area import MOST_LINES
from runspec_jobs.diagnostics.render import format_json
from runspec_jobs.diagnostics.terminal_text import Colours, strip_sequences, tint

BAR_EVERY_S = 10.0  # between two texts of a progress bar in a pipe

Whose = tuple[int, int]  # task and node


class Screen(Protocol):
    """A terminal that can draw lines again which have not ended."""

    def print(self, text: str, open_lines: Sequence[str] = (), more: int = 0) -> None:
        """Print *text*, and below it *open_lines* in place of those before, without a line end.

        There are no open lines while *text* has no line end. They have no control sequences but SGR, and may be cut.
        *more* is the number of those after MOST_LINES, which are left out.
        """


@dataclass
class Bar:
    """A line that has not ended, such as a progress bar, which overwrites itself.

    *text* is its current text in the log, *shown* is that text as a reader sees it, and *printed* is the text that was
    printed last, at the time *at_s*.
    """

    text: bytes = b""
    shown: str = ""
    printed: str | None = None
    at_s: float = 0.0


class LogPrinter:
    """Prints each line after the number of its task and node, or as a JSON object; a long line in parts.

    Of a line that overwrites itself, a *screen* shows the current text. Without one, such as in a pipe, the first text
    is printed, the current one every BAR_EVERY_S seconds, and the last one; in JSON, the last one.

    A long line is broken if another node's line arrives between its parts, or if it begins to overwrite itself. Use
    the printer as a context manager, which ends the last line at its exit, unless *exact* is true. With *timed*, each
    line begins with its time. The colours of a
    line, and one for the prefix of each node and task, are printed only if *coloured* is true; those of a line end with
    it. No other control sequence is printed.
    """

    def __init__(
        self,
        nodes: int,
        tasks: int,
        *,
        json: bool = False,
        exact: bool = False,
        coloured: bool = False,
        timed: bool = False,
        screen: Screen | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.nodes, self.tasks, self.json, self.exact = nodes, tasks, json, exact
        self.coloured, self.timed = coloured and not json, timed
        self.screen = None if json else screen
        self.clock = clock
        self._colours: dict[Whose, Colours] = {}
        self._heads: dict[Whose, str] = {}  # the prefixes of lines
        self._bars: dict[Whose, Bar] = {}
        self._order: list[
            Whose
        ] = []  # those of the bars, sorted: sorting many again for each line would take long
        self._open: Whose | None = None  # the task and node of the long line that has not ended

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        left = [(whose, self._bars[whose]) for whose in self._order if self._bars[whose].shown]
        self._bars.clear()
        self._order.clear()
        last = [whose for whose, bar in left if bar.shown != bar.printed]
        if self._open is not None and (last or not self.exact):
            self._break()
        for whose, bar in left:
            if whose in last:
                end = "" if self.exact and whose == last[-1] else self._tail()
                self._write(f"{self._head(whose)}{bar.shown}{end}")
        self._open = None

    def line(self, line: Line) -> None:
        """Print one line, or one part of a line."""
        whose = (line.task, line.rank)
        if not self._bars and b"\r" not in line.text:
            self._print(whose, line, line.text)
            return
        bar = self._taken(whose)
        text = line.text if bar is None else bar.text + line.text
        if b"\r" not in text:
            self._print(whose, line, text)
            return
        if self._open == whose and b"\r" in text.rstrip(b"\r"):
            self._break()
        if not line.ended and b"\r" in line.text and self._open != whose:
            self._hold(whose, bar or Bar(), text)
            return
        if self.screen is None and not self.json and self._open != whose:
            self._begin(whose, bar := bar or Bar(), text)
            if bar.printed == self._shown(whose, text, once=True):
                return
        self._print(whose, line, text)
        if not line.ended and text.endswith(b"\r"):
            # The next text, if there is one, overwrites what was printed.
            self._kept(whose, Bar(b"\r"))

    def unfinished(self, line: Line) -> None:
        """Show the text of a line that has not ended; `line` gets the text again when more of it is known."""
        whose = (line.task, line.rank)
        redrawn = whose in self._bars or line.text.startswith(b"\r")
        if self._open is None and not self.json and (redrawn or self.screen is not None):
            bar = self._kept(whose, self._bars.get(whose) or Bar())
            self._draw(whose, bar, bar.text + line.text)

    def _hold(self, whose: Whose, bar: Bar, text: bytes) -> None:
        """Keep the current text of a line that overwrites itself, and show it."""
        if self.screen is None and not self.json:
            self._begin(whose, bar, text)
        self._kept(whose, bar)
        bar.text = current(text)
        self._draw(whose, bar, bar.text)

    def _begin(self, whose: Whose, bar: Bar, text: bytes) -> None:
        """Print the first text of a line that overwrites itself, if nothing of it was printed."""
        if bar.printed is None:
            first = next((part for part in text.split(b"\r") if part.strip()), b"")
            bar.shown = self._shown(whose, first, once=True)
            self._print_shown(whose, bar)

    def _draw(self, whose: Whose, bar: Bar, text: bytes) -> None:
        """Show the current text of a line: on a screen always, else from time to time."""
        bar.shown = self._shown(whose, text, once=True)
        if self.screen is not None:
            self._write("")
        elif not self.json and (bar.printed is None or self.clock() - bar.at_s >= BAR_EVERY_S):
            self._print_shown(whose, bar)

    def _print_shown(self, whose: Whose, bar: Bar) -> None:
        """Print the current text of a line that overwrites itself as a line of its own."""
        if bar.shown.strip() and bar.shown != bar.printed:
            if self._open is not None:
                self._break()
            self._write(f"{self._head(whose)}{bar.shown}\n")
            bar.printed, bar.at_s = bar.shown, self.clock()

    def _print(self, whose: Whose, line: Line, text: bytes) -> None:
        """Print a line, or a part of it, for good."""
        before, head = "", self._head(whose, line.at)
        if self._open is not None:
            if line.continues and self._open == whose:
                head = ""
            else:
                before = self._tail()
        end = self._tail() if line.ended else ""
        self._open = None if line.ended else whose
        self._write(f"{before}{head}{self._shown(whose, text)}{end}")

    def _break(self) -> None:
        """End the long line, which has not ended in the log."""
        self._open = None
        self._write(self._tail())

    def _write(self, text: str) -> None:
        if self.screen is None:
            output.write(text)
            return
        order = self._order if self._open is None else []
        lines = [f"{self._head(whose)}{self._bars[whose].shown}" for whose in order[:MOST_LINES]]
        self.screen.print(text, lines, max(0, len(order) - MOST_LINES))

    def _kept(self, whose: Whose, bar: Bar) -> Bar:
        if whose not in self._bars:
            bisect.insort(self._order, whose)
        self._bars[whose] = bar
        return bar

    def _taken(self, whose: Whose) -> Bar | None:
        bar = self._bars.pop(whose, None)
        if bar is not None:
            del self._order[bisect.bisect_left(self._order, whose)]
        return bar

    def _shown(self, whose: Whose, text: bytes, *, once: bool = False) -> str:
        if self.coloured:
            colours = self._colours.setdefault(whose, Colours())
            return show_line(text, colours.show_once if once else colours.show)
        shown = show_line(text, strip_sequences)
        return format_json(shown)[1:-1] if self.json else shown

    def _head(self, whose: Whose, at: float | None = None) -> str:
        if self.json and self.timed:
            return self._new_head(*whose, {"at": at})
        if whose not in self._heads:
            self._heads[whose] = self._new_head(*whose)
        return f"{stamp(at)} {self._heads[whose]}" if self.timed else self._heads[whose]

    def _new_head(self, task: int, node: int, more: Mapping[str, float | None] = {}) -> str:
        if self.json:
            document = {"task": task, "node": node, **more, "line": ""}
            return format_json({"format": "runspec.log/v1", **document})[:-2]
        head = format_prefix(Line(task, node, b""), self.nodes, self.tasks)
        return f"{tint(head[:-1], task * self.nodes + node)} " if self.coloured and head else head

    def _tail(self) -> str:
        return '"}\n' if self.json else "\n"


def stamp(at: float | None) -> str:
    """Return the time of a line as text of one width; blanks if it is not known."""
    return (
        " " * len("2026-01-31 12:00:00")
        if at is None
        else time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(at))
    )


def current(text: bytes) -> bytes:
    """Return the text that a line shows which overwrites itself, with the carriage return at its end, if it has one.

    >>> current(b"10%\\r20%"), current(b"10%\\r20%\\r")
    (b'20%', b'20%\\r')
    """
    state = text.rstrip(b"\r")
    return state[state.rfind(b"\r") + 1 :] + (b"\r" if state != text else b"")
