"""Cells of the tables of machines."""

from __future__ import annotations

Row = dict[str, str]
Prices = dict[str, dict[str, str]]  # by region and name


def number(value: float | None, digits: int = 4) -> str:
    """Return *value* as a cell; an unknown value is an empty cell.

    >>> number(2.0), number(0.0625), number(None)
    ('2', '0.0625', '')
    """
    return "" if value is None else f"{round(value, digits):.10g}"
