"""Tables on standard output: drawn on a terminal, plain columns elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from runspec_jobs.cli import output
from runspec_jobs.diagnostics.render import columns, plain
from runspec_jobs.report.svg import brief
from runspec_jobs.report.tables import Cell, Table


def show(table: Table) -> None:
    """Print a table: drawn on a terminal, plain columns elsewhere."""
    rows = [[_cell(cell) for cell in row] for row in table.rows]
    words = [any(isinstance(row[i], str) for row in table.rows) for i in range(len(table.titles))]
    if sys.stdout.isatty():
        _draw(table.titles, rows, words)
        return
    lines = [[plain(title) for title in table.titles], *rows]
    widths = [max(columns(line[i]) for line in lines) for i in range(len(table.titles))]
    for line in lines:
        cells = zip(line, widths, words, strict=True)
        output.out("  ".join(_padded(*cell) for cell in cells).rstrip())


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
