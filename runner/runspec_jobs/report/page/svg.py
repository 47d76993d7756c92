"""Draws plots as SVG, so that a page needs no library. The functions are pure: equal arguments give equal bytes.

Positions are in percent of the plot, so that it has any width while its texts keep their size. A percentage cannot be
in a polyline: lines are in an SVG of their own, which is stretched.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from html import escape

from runspec_agent.base.light_typing import NamedTuple
from runspec_jobs.report.numbers import format_number
from runspec_jobs.report.page import axis
from runspec_jobs.report.page.axis import Axis

INNER = 1000  # units of a line's coordinates across and up
WIDE, WHOLE, NARROW = (
    420,
    800,
    250,
)  # pixels of a plot beside another, alone, and in a narrow window, for labels
LETTER, GAP = 7, 12  # pixels that a letter takes, and between two labels
Spot = tuple[float, float]


class Line(NamedTuple):
    """A set of points in a plot, drawn as dots or joined by a line.

    *look* is a class of the page's style. *told* has a text for each dot, or one for the line.
    """

    name: str
    spots: tuple[Spot, ...]
    look: str
    dots: bool = False
    told: tuple[str, ...] = ()


def draw_plot(
    title: str, across: Axis, up: Axis, lines: Sequence[Line], desc: str = "", wide: int = WIDE
) -> str:
    """Return a figure with a plot of *lines*, the last one on top; all text is escaped.

    Screen readers read *title* and *desc*.
    """
    room = max((len(text) for _, text in axis.label_ticks(up)), default=1) + 1
    parts = [
        f"<figure><figcaption>{escape(title)}</figcaption>",
        f'<svg class="area" style="--room:{room}ch" role="img" aria-label="{escape(title)}">',
        f"<desc>{escape(desc or title)}</desc>",
        *_draw_grid(across, up, wide),
        *_draw_lines(across, up, [line for line in lines if not line.dots]),
    ]
    for line in lines:
        if line.dots:
            parts += _draw_dots(across, up, line)
    return "\n".join([*parts, "</svg>", draw_legend(lines), "</figure>"])


def format_percent(share: float) -> str:
    """Return a share as a percentage.

    >>> format_percent(0.5), format_percent(1 / 3)
    ('50%', '33.33%')
    """
    return f"{share * 100:.2f}".rstrip("0").rstrip(".") + "%"


def _draw_grid(across: Axis, up: Axis, wide: int) -> Iterator[str]:
    for value, text in axis.label_ticks(up):
        y = format_percent(1 - up.share(value))
        yield f'<line class="grid" x1="0" x2="100%" y1="{y}" y2="{y}"/>'
        yield f'<text x="-8" y="{y}" dy="4" text-anchor="end">{text}</text>'
    yield from draw_bottom_grid(across, wide)
    yield f'<text x="50%" y="100%" dy="36" text-anchor="middle">{escape(across.title)}</text>'
    scale = " (log)" if up.log else ""
    yield f'<text x="0" y="0" dy="-9" text-anchor="start">{escape(up.title)}{scale}</text>'


def draw_bottom_grid(across: Axis, wide: int = WIDE) -> Iterator[str]:
    """Yield the grid and labels of the axis at the bottom, *wide* pixels long; a narrow window has fewer labels."""
    labels = axis.label_ticks(across)
    longest = max((len(text) for _, text in labels), default=1) * LETTER + GAP
    every = math.ceil(len(labels) * longest / wide)
    sparse = every * math.ceil(len(labels) * longest / NARROW / every)
    for number, (value, text) in enumerate(labels):
        x = format_percent(across.share(value))
        yield f'<line class="grid" x1="{x}" x2="{x}" y1="0" y2="100%"/>'
        if number % every == 0:
            where = "" if number % sparse == 0 else ' class="wide-only"'
            yield f'<text{where} x="{x}" y="100%" dy="18" text-anchor="middle">{text}</text>'


def _draw_lines(across: Axis, up: Axis, lines: Sequence[Line]) -> Iterator[str]:
    if not lines:
        return
    yield f'<svg class="lines" viewBox="0 0 {INNER} {INNER}" preserveAspectRatio="none">'
    for line in lines:
        at = " ".join(
            f"{across.share(x) * INNER:.0f},{(1 - up.share(y)) * INNER:.0f}" for x, y in line.spots
        )
        tooltip = f"<title>{escape(line.told[0])}</title>" if line.told else ""
        yield f'<polyline class="{line.look}" points="{at}">{tooltip}</polyline>'
    yield "</svg>"


def _draw_dots(across: Axis, up: Axis, line: Line) -> Iterator[str]:
    yield f'<g class="{line.look}">'
    for number, (x, y) in enumerate(line.spots):
        tooltip = (
            f"{line.name}: {format_number(x)}, {format_number(y)}"
            if not line.told
            else line.told[number]
        )
        cx, cy = format_percent(across.share(x)), format_percent(1 - up.share(y))
        inner = f"<title>{escape(tooltip)}</title>" if tooltip else ""
        yield f'<circle cx="{cx}" cy="{cy}" r="5">{inner}</circle>'
    yield "</g>"


def draw_legend(lines: Iterable[Line]) -> str:
    """Return the names of *lines*, each with its look; lines of the same name have one entry."""
    each = {(line.name, line.look): line for line in lines}.values()
    if len(each) < 2:
        return ""
    shown = "".join(
        f"<li>{draw_key(line.look, dots=line.dots)}{escape(line.name)}</li>" for line in each
    )
    return f'<ul class="legend">{shown}</ul>'


def draw_key(look: str, *, dots: bool) -> str:
    """Return the sample of a look that stands before its name."""
    inner = (
        f'<g class="{look}"><circle cx="12" cy="6" r="5"/></g>'
        if dots
        else f'<polyline class="{look}" points="1,6 23,6"/>'
    )
    return f'<svg class="key" viewBox="0 0 24 12" aria-hidden="true">{inner}</svg>'
