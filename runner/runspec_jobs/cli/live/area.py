"""The live area at the bottom of a terminal: lines of logs that have not ended, and a line about the run."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Sequence
from typing import Self

from runspec_jobs.cli import output
from runspec_jobs.diagnostics.terminal_text import clip

MOST_LINES = 8  # that have not ended
TICK_S = 0.5  # between two updates of the line about the run

Sleep = Callable[[float], None]


class LiveArea:
    """Prints to a terminal, with lines below that are drawn again. Use it as a context manager.

    *about* returns the line about the run for a number of columns.
    """

    def __init__(self, about: Callable[[int], str] | None = None) -> None:
        self._about = about
        self._lines: Sequence[str] = ()
        self._more = 0  # lines that do not fit into the area
        self._footer = ""
        self._drawn = 0
        self._within = False  # a line that has been printed without its end

    def __enter__(self) -> Self:
        output.keep_below(self)
        return self

    def __exit__(self, *_: object) -> None:
        self._about = None
        self.print("")
        output.keep_below(None)

    def print(self, text: str, open_lines: Sequence[str] = (), more: int = 0) -> None:
        """Print *text*, and below it *open_lines* in place of those before; see `log_printer.Screen`."""
        erased = self._erased()
        self._lines, self._more = open_lines, more
        if text:
            self._within = not text.endswith("\n")
        # The line about the run follows with the next tick, so that many lines are printed as fast as without it.
        output.write(f"{erased}{text}{self._drawing() if open_lines else ''}")

    def tick(self) -> None:
        """Bring the line about the run up to date."""
        if self._about is None or self._within:
            return
        if self._about(self._columns()) != self._footer or not self._drawn:
            output.write(f"{self._erased()}{self._drawing()}")

    def ticking(self, sleep: Sleep) -> Sleep:
        """Return a function that sleeps as *sleep* does, and calls `tick` meanwhile."""

        def slept(seconds: float) -> None:
            end = time.monotonic() + seconds
            self.tick()
            while (left := end - time.monotonic()) > TICK_S:
                sleep(TICK_S)
                self.tick()
            sleep(max(0.0, left))

        return slept

    def hide(self) -> None:
        """Remove the area, because something else is printed in its place."""
        output.write(self._erased())

    def show(self) -> None:
        """Draw the area where the cursor is, at the beginning of a line."""
        output.write(self._drawing())

    def _erased(self) -> str:
        """Return the control sequences that remove the area, and leave the cursor where it began."""
        drawn, self._drawn = self._drawn, 0
        up = f"\x1b[{drawn - 1}A" if drawn > 1 else ""
        return f"\r{up}\x1b[J" if drawn else ""

    def _drawing(self) -> str:
        """Return the text that draws the area where the cursor is: as many lines as have room."""
        size = shutil.get_terminal_size()
        room = max(1, min(MOST_LINES, size.lines - 3))
        shown = list(self._lines[:room])
        left = len(self._lines) + self._more - room
        if left > 0:
            shown[-1] = f"... and {left + 1} more"
        if self._about is not None and not self._within:
            self._footer = self._about(self._columns())
            shown.append(self._footer)
        self._drawn = len(shown)
        return "\n".join(clip(line, size.columns - 1) for line in shown)

    def _columns(self) -> int:
        return shutil.get_terminal_size().columns - 1
