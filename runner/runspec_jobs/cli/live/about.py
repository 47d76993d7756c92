"""The line about a run that is followed, at the bottom of a terminal: its state, age, nodes and last metric."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

from runspec_jobs.api.lifecycle import State, Status
from runspec_jobs.diagnostics.render import count_columns, escape_control
from runspec_jobs.diagnostics.terminal_text import clip
from runspec_jobs.report.numbers import format_number, format_seconds

COLOURS = {"waiting": 33, "starting": 36, "running": 32, "ending": 36}
SEPARATOR = " | "
LEAST = 12  # columns for the reason of waiting


class AboutRun:
    """Keeps what is known of a run that is followed. *born* is when it was started, in seconds since 1970.

    *metric* is the name of the metric of its spec, or "", and *interrupt* says what Ctrl-C does.
    """

    def __init__(
        self,
        born: float,
        tasks: int,
        metric: str = "",
        *,
        coloured: bool = False,
        interrupt: str = "Ctrl-C detaches",
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._born, self._tasks, self._name = born, tasks, metric
        self._coloured, self._interrupt, self._clock = coloured, interrupt, clock
        self._status: Status | None = None
        self._ran_s: float | None = None  # when it was first seen running
        self._metric: tuple[int, float] | None = None

    def status(self, status: Status) -> None:
        """Take a status."""
        self._status = status
        if status.state is State.RUNNING and self._ran_s is None:
            self._ran_s = self._clock()

    def metric(self, task: int, value: float) -> None:
        """Take a number of the metric."""
        self._metric = task, value

    def text(self, width: int) -> str:
        """Return the line; what has no room in *width* columns is left out, the least important first."""
        word, since_s, why = self._phase()
        age = _age(max(0.0, self._clock() - since_s))
        parts = [f"{word} {age}", *self._parts()]
        if why:
            room = width - count_columns(parts[0]) - 2
            return self._tinted(word, f"{parts[0]}: {_cut(why, max(LEAST, room))}", width)
        while len(parts) > 1 and count_columns(SEPARATOR.join(parts)) > width:
            parts.pop()
        return self._tinted(word, SEPARATOR.join(parts), width)

    def _phase(self) -> tuple[str, float, str]:
        """Return the state as a word, the time since which it is in that state, and the reason for it."""
        status = self._status
        if status is None:
            return "starting", self._born, ""
        nodes = status.nodes  # without the nodes of tasks that have not begun
        ended = bool(nodes) and all(node.state.terminal for node in nodes)
        began = [self._ran_s] if self._ran_s is not None else []
        began += [one.began_s for one in nodes if one.began_s is not None]
        began += [a.began_s for one in nodes for a in one.attempts if a.began_s is not None]
        since_s = min(began, default=self._born)
        if ended and len({node.task for node in nodes}) == self._tasks:
            return "ending", since_s, ""
        if status.state is not State.RUNNING and not ended:
            return "waiting", self._born, escape_control(status.reason)
        runs = not status.nodes or any(node.state is not State.WAITING for node in status.nodes)
        return ("running", since_s, "") if runs else ("starting", since_s, "")

    def _parts(self) -> Iterator[str]:
        """Yield what there is to say of a run, the most important first."""
        if self._metric is not None:
            task, value = self._metric
            of = f" (task {task})" if self._tasks > 1 else ""
            yield f"{escape_control(self._name)} {format_number(value)}{of}"
        nodes = () if self._status is None else self._status.nodes
        if len(nodes) > 1:
            run = sum(node.state is State.RUNNING for node in nodes)
            ended = sum(node.state.terminal for node in nodes)
            yield f"{run:,} of {len(nodes):,} nodes run" + (f", {ended:,} ended" if ended else "")
        yield self._interrupt

    def _tinted(self, word: str, text: str, width: int) -> str:
        shown = clip(text, width)
        if not self._coloured or not shown.startswith(word):
            return shown
        return f"\x1b[{COLOURS[word]}m{word}\x1b[0m{shown.removeprefix(word)}"


def _age(value: float) -> str:
    return f"{int(value)} s" if value < 60 else format_seconds(int(value))


def _cut(text: str, width: int) -> str:
    """Return *text*, or its beginning and "..." if it has more than *width* columns.

    >>> _cut("the queue is full", 12), _cut("short", 12)
    ('the queue...', 'short')
    """
    return text if count_columns(text) <= width else f"{clip(text, width - 3).rstrip()}..."
