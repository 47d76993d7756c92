"""Shows lines again and again: in place at a terminal, elsewhere whenever they have changed."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Iterable

from runspec_jobs.cli import output
from runspec_jobs.diagnostics.terminal_text import clip
from runspec_jobs.errors import OK

EVERY_S = 2.0


def repeat(look: Callable[[], Iterable[str]], over: Callable[[], bool] = lambda: False) -> int:
    """Show the lines that *look* returns, until *over* says that they are the last ones, or Ctrl-C."""
    in_place = output.redrawable()
    shown: list[str] = []
    try:
        with output.interruptible() as sleep:
            while True:
                lines = list(look())
                if in_place:
                    _redraw(shown, lines)
                elif lines != shown:
                    output.out("\n".join(lines) + "\n")
                shown = lines
                if over():
                    return OK
                sleep(EVERY_S)
    except KeyboardInterrupt:  # the usual way to end it, so no error
        return OK


def room() -> int | None:
    """Return how many lines have room at the terminal; None if standard output is none."""
    return max(2, shutil.get_terminal_size().lines - 1) if sys.stdout.isatty() else None


def _redraw(before: list[str], lines: list[str]) -> None:
    """Draw lines in place of those before. Each has one row of the terminal, or else they could not be removed."""
    width = shutil.get_terminal_size().columns
    most = room()
    kept = lines if most is None else lines[:most]
    up = f"\x1b[{min(len(before), most or len(before))}A" if before else ""
    text = "".join(f"{clip(line, width - 1)}\n" for line in kept)
    output.write(f"\r{up}\x1b[J{text}")
