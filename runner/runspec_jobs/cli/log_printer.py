"""Prints the lines of logs, also lines that do not fit into memory and arrive in parts."""

from __future__ import annotations

from typing import Self

from runspec_jobs.api.lifecycle import Line, line_text, prefix
from runspec_jobs.cli import output
from runspec_jobs.diagnostics.render import as_json
from runspec_jobs.diagnostics.terminal_text import Colours, without_sequences


class LogPrinter:
    """Prints each line after the number of its task and node, or as a JSON object; a long line in parts.

    A line is broken if another node's line arrives between its parts, or if a progress bar overwrites the part that was
    printed. Use it as a context manager, which ends the last line at its exit, unless *exact* is true.
    The colours of a line are shown only if *coloured* is true, and end with it; no other control sequence is printed.
    """

    def __init__(
        self,
        nodes: int,
        tasks: int,
        *,
        json: bool = False,
        exact: bool = False,
        coloured: bool = False,
    ) -> None:
        self.nodes, self.tasks, self.json, self.exact = nodes, tasks, json, exact
        self.coloured = coloured and not json
        self._colours: dict[tuple[int, int], Colours] = {}
        self._open: tuple[int, int] | None = None  # task and node of the line that has not ended
        self._returned = False  # whether the next part overwrites it

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._open is not None and not self.exact:
            output.write(self._tail())
        self._open = None

    def line(self, found: Line) -> None:
        """Print one line, or one part of a line."""
        whose = (found.task, found.rank)
        shown = self._shown(found)
        goes_on = found.continues and self._open == whose and not self._drawn_over(found)
        before = self._tail() if self._open is not None and not goes_on else ""
        head = "" if goes_on else self._head(found)
        output.write(before + head + shown + (self._tail() if found.ended else ""))
        self._open = None if found.ended else whose
        self._returned = found.text.endswith(b"\r") or (self._returned and not found.text)

    def _shown(self, found: Line) -> str:
        if self.coloured:
            colours = self._colours.setdefault((found.task, found.rank), Colours())
            return line_text(found.text, colours.shown)
        text = line_text(found.text, without_sequences)
        return as_json(text)[1:-1] if self.json else text

    def _drawn_over(self, found: Line) -> bool:
        text = found.text.rstrip(b"\r")
        return b"\r" in text or (self._returned and bool(text))

    def _head(self, found: Line) -> str:
        if self.json:
            whose = {"task": found.task, "node": found.rank, "line": ""}
            return as_json({"format": "runspec.log/v1", **whose})[:-2]
        return prefix(found, self.nodes, self.tasks)

    def _tail(self) -> str:
        return '"}\n' if self.json else "\n"
