"""Writes tables, facts and texts as HTML, and the page around them, which loads nothing from elsewhere. All pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from html import escape

from runspec_jobs.provider import MembershipChange
from runspec_jobs.report.elastic_costs import NOT_KNOWN, When
from runspec_jobs.report.numbers import format_number, parse_fraction, shorten_text
from runspec_jobs.report.page.style import STYLE
from runspec_jobs.report.tables import Cell, Table, list_changes_facts, make_changes_table

BEST, FAILED = ("best", "★"), ("failed", "✗")
# The page allows no scripts and no requests, so text from specs and logs can do nothing.
POLICY = "default-src 'none'; style-src 'unsafe-inline'"
LONG = 40  # characters of a cell that is broken into lines
MOST = 300  # characters of a cell
# How each page begins, by which `report --html` knows a page that it may replace.
HEAD = """<!doctype html>
<html lang="en"><head><meta charset="utf-8">
<meta name="generator" content="runspec">"""


def make_page(title: str, body: Iterable[str]) -> str:
    """Return a page; *title* is escaped here, *body* must be escaped already."""
    return "\n".join(
        [
            HEAD,
            f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<title>{escape(title)}</title>",
            f"<style>\n{STYLE}</style></head><body>",
            f"<h1>{escape(title)}</h1>",
            *body,
            "</body></html>\n",
        ]
    )


def draw_table(table: Table, best: int | None = None, failed: Collection[int] = ()) -> str:
    """Return a table with numbers aligned right and text aligned left; cells that are None are empty.

    The row of the number *best* is marked, by a star too, and those of the numbers *failed* by a cross.
    """
    are_words = [_is_word([row[i] for row in table.rows]) for i in range(len(table.titles))]
    head = "".join(
        _wrap_cell("th", escape(t), w) for t, w in zip(table.titles, are_words, strict=True)
    )
    body = "\n".join(
        _draw_row(row, are_words, BEST if n == best else FAILED if n in failed else None)
        for n, row in enumerate(table.rows)
    )
    inner = f"<thead><tr>{head}</tr></thead><tbody>\n{body}\n</tbody>"
    return f'<div class="wide"><table>{inner}</table></div>'


def drop_empty_columns(table: Table) -> Table:
    """Return a table without the columns that have nothing in any row."""
    kept = [
        i for i in range(len(table.titles)) if any(row[i] not in (None, "") for row in table.rows)
    ]
    rows = tuple(tuple(row[i] for i in kept) for row in table.rows)
    return Table(tuple(table.titles[i] for i in kept), rows)


def _is_word(cells: Sequence[Cell]) -> bool:
    """Return whether a column has texts that are no numbers."""
    texts = (cell for cell in cells if isinstance(cell, str) and cell)
    # Parameters are texts, and a column of numbers is aligned as numbers are.
    return any(not text.isdecimal() and parse_fraction(text) is None for text in texts)


def _draw_row(row: Sequence[Cell], words: Sequence[bool], mark: tuple[str, str] | None) -> str:
    cells = [_draw_cell(value, word) for value, word in zip(row, words, strict=True)]
    if mark is None:
        return f"<tr>{''.join(cells)}</tr>"
    look, sign = mark
    # A sign as well as a colour: not everybody sees the colour, and paper may have none.
    return f'<tr class="{look}">{"".join(cells).replace(">", f">{sign} ", 1)}</tr>'


def _draw_cell(value: Cell, word: bool) -> str:
    if value is None:
        return _wrap_cell("td", "", word)
    if not isinstance(value, str):
        return _wrap_cell("td", format_number(value), word)
    shown = shorten_text(value)
    if shown != value:
        return _wrap_cell("td", escape(shown), word, f' title="{escape(value)}"')
    return _wrap_cell("td", escape(cut(value, MOST)), word, long=len(value) > LONG)


def _wrap_cell(tag: str, inner: str, word: bool, more: str = "", *, long: bool = False) -> str:
    names = " ".join([*(["word"] if word else []), *(["long"] if long else [])])
    look = f' class="{names}"' if names else ""
    return f"<{tag}{look}{more}>{inner}</{tag}>"


def cut(text: str, most: int) -> str:
    """Return the first *most* characters of a text, with a sign that there are more.

    >>> cut("abcdef", 4), cut("abcd", 4)
    ('abc…', 'abcd')
    """
    return text if len(text) <= most else f"{text[: most - 1]}…"


def list_facts(pairs: Iterable[tuple[str, str]]) -> str:
    each = "".join(f"<dt>{escape(name)}</dt><dd>{escape(text)}</dd>" for name, text in pairs)
    return f"<dl>{each}</dl>" if each else ""


def note(text: str) -> str:
    return f'<p class="note">{escape(text)}</p>'


def draw_changes(changes: Sequence[MembershipChange], unknown: str, when: When) -> Iterator[str]:
    """Yield the section on membership changes; *unknown* says why they are not known, or is empty."""
    yield "<h2>Changes of nodes</h2>"
    if unknown:
        yield f"<p>{escape(f'{NOT_KNOWN}: {unknown}')}</p>"
        return
    yield list_facts(list_changes_facts(changes))
    yield draw_table(make_changes_table(changes, when))
