"""Tables for notebooks, as `_repr_html_` returns them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

SHOWN = 50  # rows


def make_html_table(title: str, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return *rows* as an HTML table with a title; beyond 50 of them, the number of the others is told.

    >>> make_html_table("a & b", ["x"], [[1]])
    '<b>a &amp; b</b><table><thead><tr><th>x</th></tr></thead><tbody><tr><td>1</td></tr></tbody></table>'
    """
    every = [tuple(row) for row in rows]
    head = "".join(f"<th>{escape(column)}</th>" for column in columns)
    body = "".join(
        f"<tr>{''.join(f'<td>{escape(_show(cell))}</td>' for cell in row)}</tr>"
        for row in every[:SHOWN]
    )
    more = f"<p>and {len(every) - SHOWN:,} more</p>" if len(every) > SHOWN else ""
    table = f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>" if every else ""
    return f"<b>{escape(title)}</b>{table}{more}"


def _show(cell: object) -> str:
    return "" if cell is None else f"{cell:.4g}" if isinstance(cell, float) else str(cell)
