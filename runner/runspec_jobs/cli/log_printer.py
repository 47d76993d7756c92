"""Prints the lines of logs: also one that is longer than what is held of it in memory."""

from __future__ import annotations

from typing import Self

from runspec_jobs.cli import output
from runspec_jobs.diagnostics.render import as_json, plain
from runspec_jobs.logs import follow
from runspec_jobs.logs.follow import Line


class LogPrinter:
    """Prints each line with what tells whose it is, or as a JSON object; a long line in parts, as they come.

    A line is broken where another node's comes between its parts, and where a progress bar has drawn over what was
    printed. Used as a context manager: the last line ends with it, unless *exact*.
    """

    def __init__(self, nodes: int, tasks: int, *, json: bool = False, exact: bool = False) -> None:
        self.nodes, self.tasks, self.json, self.exact = nodes, tasks, json, exact
        self._open: tuple[int, int] | None = None  # whose line has begun and not ended
        self._returned = False  # whether what comes next draws over it

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._open is not None and not self.exact:
            output.write(self._tail())
        self._open = None

    def line(self, found: Line) -> None:
        """Print one line, or one part of it."""
        whose = (found.task, found.rank)
        shown = (
            as_json(follow.text(found.text, plain))[1:-1]
            if self.json
            else follow.text(found.text, plain)
        )
        goes_on = found.continues and self._open == whose and not self._drawn_over(found)
        before = self._tail() if self._open is not None and not goes_on else ""
        head = "" if goes_on else self._head(found)
        output.write(before + head + shown + (self._tail() if found.ended else ""))
        self._open = None if found.ended else whose
        self._returned = found.text.endswith(b"\r") or (self._returned and not found.text)

    def _drawn_over(self, found: Line) -> bool:
        text = found.text.rstrip(b"\r")
        return b"\r" in text or (self._returned and bool(text))

    def _head(self, found: Line) -> str:
        if self.json:
            return as_json({"task": found.task, "node": found.rank, "line": ""})[:-2]
        return follow.prefix(found, self.nodes, self.tasks)

    def _tail(self) -> str:
        return '"}\n' if self.json else "\n"
