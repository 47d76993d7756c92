"""Chooses lines of logs: those that a regular expression matches, and the last ones."""

from __future__ import annotations

import re
import threading
import warnings
from collections import deque
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Self

from runspec_jobs.diagnostics.terminal_text import strip_sequences
from runspec_jobs.errors import UsageError
from runspec_jobs.logs.follow import Line, show_line
from runspec_jobs.logs.measure import Bounded
from runspec_jobs.spec.regex_safety import count_unlimited_repetitions, is_ambiguous

GREP_LIMIT_S = 2.0  # processor time that the expression may take for one line
SEARCHED = 10_000  # characters of a line, where a search that takes too long cannot be ended
MOST_PARTS = 16  # of a line of a tail, of 1 MiB each; the last ones are shown
MOST_LINES = 10_000_000  # of a tail; a log is read from its beginning all the same
SIMPLER = "write it without repetitions that follow or contain each other, such as (a+)+"

Whose = tuple[int, int]  # task and node
Show = Callable[[Line], None]


@dataclass(frozen=True)
class Selection:
    """Which lines to show: the last *tail* of each node, of those in which the expression *grep* is found.

    *since_s* leaves out lines that were printed before that time, in seconds since 1970. If *timed*, lines have times.
    Raises UsageError if *grep* is not a regular expression of Python, or *tail* is negative. Outside the main thread,
    where a search that takes too long cannot be ended, also if *grep* has several unlimited repetitions, and only the
    first 10,000 characters of a line are searched.
    """

    tail: int | None = None
    grep: str | None = None
    since_s: float | None = None
    timed: bool = False

    def __post_init__(self) -> None:
        if self.tail is not None and not 0 <= self.tail <= MOST_LINES:
            message = "is negative" if self.tail < 0 else f"is more than {MOST_LINES:,}"
            raise UsageError(f"--tail: {self.tail} {message}", "write a number of lines")
        if self.grep is not None:
            _compile(self.grep)

    @property
    def is_all(self) -> bool:
        return self == Selection(timed=self.timed)

    @property
    def needs_times(self) -> bool:
        return self.timed or self.since_s is not None


ALL = Selection()


def _compile(grep: str) -> re.Pattern[str]:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            pattern = re.compile(grep)
    except (re.error, OverflowError, RecursionError) as exc:
        why = exc.msg if isinstance(exc, re.error) else "it is too large"
        hint = "write \\ before a character that is meant literally, such as \\[ or \\("
        raise UsageError(f"--grep: '{grep}' is not a regular expression: {why}", hint) from exc
    if threading.current_thread() is not threading.main_thread():
        # Only in the main thread, a search that takes too long can be ended.
        if is_ambiguous(grep):
            raise UsageError(f"--grep: '{grep}' can take exponential time", SIMPLER)
        if count_unlimited_repetitions(grep) > 1:
            message = (
                f"--grep: '{grep}' has several unlimited repetitions, which can take very long"
            )
            raise UsageError(message, "search in the main thread, or limit them, as in .{0,20}")
    return pattern


def limit() -> Bounded | None:
    """Return what ends a search that takes too long; None outside the main thread, where nothing can."""
    if threading.current_thread() is not threading.main_thread():
        return None
    return Bounded(GREP_LIMIT_S, "--grep", SIMPLER)


class Selector:
    """Passes on the lines that are chosen; the last ones once `catch_up` says that all earlier lines were read.

    A line of several parts is chosen by its first one. Use it as a context manager.
    """

    def __init__(self, selection: Selection, show: Show, unfinished: Show | None = None) -> None:
        self._show, self._unfinished = show, unfinished
        self._tail, self._since_s = selection.tail, selection.since_s
        self._pattern = None if selection.grep is None else _compile(selection.grep)
        self._bounded = None if selection.grep is None else limit()
        self._chosen: dict[Whose, bool] = {}  # whether the line that has not ended was chosen
        self._last: dict[Whose, deque[deque[Line]]] = {}  # the last lines, each with its parts

    def __enter__(self) -> Self:
        (self._bounded or nullcontext()).__enter__()
        return self

    def __exit__(self, *raised: object) -> None:
        if self._bounded is not None:
            self._bounded.__exit__(None, None, None)

    def take_line(self, line: Line) -> None:
        """Take a line, or a part of one."""
        whose = (line.task, line.rank)
        if not line.continues:
            self._chosen[whose] = self._is_new(line) and self._is_match(line)
        if not self._chosen.get(whose, True):
            return
        if self._tail is None:
            self._show(line)
            return
        # Each node has a tail of its own, so that a busy node does not push out the lines of the others.
        kept = self._last.setdefault(whose, deque(maxlen=self._tail))
        if line.continues and kept:
            kept[-1].append(line)
        elif not line.continues:
            kept.append(deque([line], MOST_PARTS))

    def take_unfinished(self, line: Line) -> None:
        """Take the current text of a line that has not ended."""
        if self._unfinished is not None and self._tail is None:
            whose = (line.task, line.rank)
            if self._chosen.get(whose, True) if line.continues else self._is_match(line):
                self._unfinished(line)

    def catch_up(self) -> None:
        """Show the last lines that were taken; those that follow are shown when they are taken."""
        if self._tail is None:
            return
        self._tail = None
        for whose, lines in sorted(self._last.items()):
            for part in (part for parts in lines for part in parts):
                self._show(part)
            if not lines:
                self._chosen[whose] = False  # the rest of a line that was not shown
        self._last.clear()

    def _is_new(self, line: Line) -> bool:
        """Return whether a line was printed late enough; one without a time was printed just now."""
        return self._since_s is None or line.at is None or line.at >= self._since_s

    def _is_match(self, line: Line) -> bool:
        if self._pattern is None:
            return True
        text = show_line(line.text, strip_sequences)
        if self._bounded is None:
            return self._pattern.search(text[:SEARCHED]) is not None
        return self._bounded.call(self._pattern.search, text) is not None
