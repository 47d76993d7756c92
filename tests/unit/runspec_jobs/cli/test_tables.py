"""A table on a terminal has borders, and on one that is too narrow for it, it has none and loses no value."""

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


def test_a_wide_terminal_shows_borders(monkeypatch: pytest.MonkeyPatch) -> None:
    text = shown(80, monkeypatch)

    assert "│ succeeded │" in text and "┏" in text


def test_a_narrow_terminal_shows_every_value(monkeypatch: pytest.MonkeyPatch) -> None:
    text = shown(40, monkeypatch)

    assert text.split() == [*TABLE.titles, "1", "0", "0.1", "0.25", "succeeded"]
