"""Draws plots as SVG, so that a page needs no library. The functions are pure: equal arguments give equal bytes."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from html import escape
from typing import NamedTuple

WIDTH, HEIGHT = 560, 320
LEFT, RIGHT, TOP, BOTTOM = 70, 20, 20, 48
MOST = 10  # ticks of an axis, or one or two more
Spot = tuple[float, float]


class Line(NamedTuple):
    """One set of points in a plot: drawn as dots if it was measured, or as a line if a law gives it."""

    name: str
    spots: tuple[Spot, ...]
    look: str  # a class of the page's style
    dots: bool = False


class Axis(NamedTuple):
    """The range of an axis; a logarithmic one needs both ends above 0, and may have powers of *twos* as ticks."""

    title: str
    low: float
    high: float
    log: bool = False
    twos: bool = False

    def share(self, value: float) -> float:
        """Return the position of *value* on the axis: 0 at the low end, 1 at the high end."""
        low, high, at = (
            (math.log(v) for v in (self.low, self.high, value))
            if self.log
            else (self.low, self.high, value)
        )
        return (at - low) / (high - low) if high > low else 0.5


def plot(title: str, across: Axis, up: Axis, lines: Sequence[Line]) -> str:
    """Return a plot of *lines*; all text is escaped, and screen readers read *title*."""

    def spot(x: float, y: float) -> Spot:
        return (
            LEFT + across.share(x) * (WIDTH - LEFT - RIGHT),
            HEIGHT - BOTTOM - up.share(y) * (HEIGHT - TOP - BOTTOM),
        )

    parts = [
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(title)}">',
        f"<title>{escape(title)}</title>",
        *_grid(across, up, spot),
    ]
    for line in lines:
        parts += _drawn(line, [spot(*at) for at in line.spots])
    return "\n".join([*parts, "</svg>", _legend(lines)])


def _grid(across: Axis, up: Axis, spot: Callable[[float, float], Spot]) -> Iterator[str]:
    left, right, low, high = LEFT, WIDTH - RIGHT, HEIGHT - BOTTOM, TOP
    for value in ticks(up):
        _, y = spot(across.low, value)
        yield f'<line class="grid" x1="{left}" x2="{right}" y1="{y:.1f}" y2="{y:.1f}"/>'
        yield f'<text x="{left - 8}" y="{y + 4:.1f}" text-anchor="end">{brief(value)}</text>'
    for value in ticks(across):
        x, _ = spot(value, up.low)
        yield f'<line class="grid" x1="{x:.1f}" x2="{x:.1f}" y1="{high}" y2="{low}"/>'
        yield f'<text x="{x:.1f}" y="{low + 18}" text-anchor="middle">{brief(value)}</text>'
    middle = (left + right) / 2
    yield f'<text x="{middle:.1f}" y="{HEIGHT - 8}" text-anchor="middle">{escape(across.title)}</text>'
    yield f'<text x="{left}" y="{high - 7}" text-anchor="start">{escape(up.title)}</text>'


def _drawn(line: Line, spots: Sequence[Spot]) -> Iterator[str]:
    if line.dots:
        for (x, y), (size, value) in zip(spots, line.spots, strict=True):
            told = f"{escape(line.name)}: {brief(size)}, {brief(value)}"
            yield f'<circle class="{line.look}" cx="{x:.1f}" cy="{y:.1f}" r="4.5"><title>{told}</title></circle>'
    elif spots:
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in spots)
        yield f'<polyline class="{line.look}" points="{path}"/>'


def _legend(lines: Sequence[Line]) -> str:
    each = "".join(
        f'<li><svg class="key" viewBox="0 0 24 12">{_key(line)}</svg>{escape(line.name)}</li>'
        for line in lines
    )
    return f'<ul class="legend">{each}</ul>'


def _key(line: Line) -> str:
    if line.dots:
        return f'<circle class="{line.look}" cx="12" cy="6" r="4.5"/>'
    return f'<polyline class="{line.look}" points="1,6 23,6"/>'


def ticks(axis: Axis) -> list[float]:
    """Return round values for the ticks of *axis*: about five, or powers of two or ten on a logarithmic axis.

    >>> ticks(Axis("", 0, 1))
    [0.0, 0.2, 0.4, 0.6, 0.8, 1.0]
    """
    if axis.high <= axis.low:
        return [axis.low]
    if axis.log and (found := _magnitudes(axis)):
        return found
    rough = (axis.high - axis.low) / 5
    power = 10 ** math.floor(math.log10(rough))
    step = next(m * power for m in (1, 2, 5, 10) if m * power >= rough * 0.999)
    first = math.ceil(axis.low / step - 1e-9)
    last = math.floor(axis.high / step + 1e-9)
    return [round(n * step, 12) for n in range(first, last + 1)]


def _magnitudes(axis: Axis) -> list[float]:
    """Return the powers of two, or 1, 2, 5, 10 and so on; fewer over a long range, and none over a short one."""
    base, between = (2, (1,)) if axis.twos else (10, (1, 2, 5))
    first = math.floor(math.log(axis.low, base) + 1e-9)
    last = math.floor(math.log(axis.high, base) + 1e-9)
    found = [m * float(base) ** n for n in range(first, last + 1) for m in between]
    low, high = axis.low * (1 - 1e-9), axis.high * (1 + 1e-9)
    found = [value for value in found if low <= value <= high]
    if len(found) > MOST and not axis.twos:
        found = [value for value in found if math.log10(value) % 1 < 0.1]
    return found[:: 1 + len(found) // (MOST + 1)] if len(found) > 1 else []


def brief(value: float) -> str:
    """Return a number for readers, with four significant digits.

    >>> brief(140000), brief(0.74481), brief(8.0), brief(1.157e-7)
    ('140,000', '0.7448', '8', '1.157e-07')
    """
    if value == int(value) and abs(value) < 1e9:
        return f"{int(value):,}"
    if 1000 <= abs(value) < 1e9:
        return f"{value:,.0f}"
    return f"{value:.4g}"
