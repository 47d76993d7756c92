"""Lines at the bottom of a terminal that are drawn again and again until they have ended."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from typing import Self

from runspec_jobs.cli import output
from runspec_jobs.diagnostics.terminal_text import clipped

MOST_LINES = 8


class LiveLines:
    """Prints to a terminal, with lines below that have not ended. Use it as a context manager."""

    def __init__(self) -> None:
        self._lines: Sequence[str] = ()
        self._drawn = 0

    def __enter__(self) -> Self:
        output.keep_below(self)
        return self

    def __exit__(self, *_: object) -> None:
        self.print("")
        output.keep_below(None)

    def print(self, text: str, open_lines: Sequence[str] = ()) -> None:
        """Print *text*, and below it *open_lines* in place of those before; see `log_printer.Screen`."""
        erased = self.erase()
        self._lines = open_lines
        output.write(f"{erased}{text}{self.draw()}")

    def erase(self) -> str:
        """Return the control sequences that remove the lines, and leave the cursor where they began."""
        drawn, self._drawn = self._drawn, 0
        up = f"\x1b[{drawn - 1}A" if drawn > 1 else ""
        return f"\r{up}\x1b[J" if drawn else ""

    def draw(self) -> str:
        """Return the text that draws the lines where the cursor is: as many as have room."""
        size = shutil.get_terminal_size()
        room = max(1, min(MOST_LINES, size.lines - 2))
        shown = list(self._lines[:room])
        if len(self._lines) > room:
            shown[-1] = f"... and {len(self._lines) - room + 1} more"
        self._drawn = len(shown)
        return "\n".join(clipped(line, size.columns - 1) for line in shown)
