"""All tables look like that of `list`: columns without borders, and bold titles at a terminal."""

from __future__ import annotations

import io
import sys

import pytest

from runspec_jobs.cli import output
from runspec_jobs.report.tables import Table

TABLE = Table(
    ("place", "task", "lr", "loss", "state", "why"), ((1, 0, "0.1", 0.25, "succeeded", ""),)
)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def shown(columns: int, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return what a terminal of that width shows of the table."""
    terminal = Terminal()
    monkeypatch.setattr(sys, "stdout", terminal)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", str(columns))
    output.print_table(TABLE)
    return terminal.getvalue()


@pytest.mark.parametrize("columns", [40, 80])
def test_a_terminal_shows_columns_under_bold_titles(
    columns: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)

    titles, row = shown(columns, monkeypatch).splitlines()

    assert titles == "\x1b[1mplace  task  lr   loss  state      why\x1b[0m"
    assert row == "    1     0  0.1  0.25  succeeded"
