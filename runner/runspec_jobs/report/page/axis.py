"""The axes of plots: their ranges, their ticks, and when they are logarithmic. All functions are pure."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Literal

from runspec_agent.base.light_typing import NamedTuple
from runspec_jobs.report import numbers
from runspec_jobs.report.numbers import DAY_S, HOUR_S, MINUTE_S

MOST = 10  # ticks of an axis, or one or two more
SPAN = 100.0  # values whose quotient is at least that are drawn on a logarithmic axis
LEAST_DRAWN, MOST_DRAWN = 1e-200, 1e200  # so that nothing overflows on the way
ROOM = 0.05  # of the axis, beyond the first and the last value
CLOCK_S = (
    *(0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30),
    *(n * MINUTE_S for n in (1, 2, 5, 10, 15, 30)),
    *(n * HOUR_S for n in (1, 2, 3, 6, 12)),
    *(n * DAY_S for n in (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)),
)  # the distances between ticks of an axis of time


class Axis(NamedTuple):
    """The range of an axis; a logarithmic one needs both ends above 0, and may have powers of *twos* as ticks.

    An axis of the unit "s" has texts such as "10 min".
    """

    title: str
    low: float
    high: float
    log: bool = False
    twos: bool = False
    unit: Literal["", "s"] = ""

    def share(self, value: float) -> float:
        """Return the position of *value* on the axis: 0 at the low end, 1 at the high end."""
        low, high, at = (
            (math.log(v) for v in (self.low, self.high, value))
            if self.log
            else (self.low, self.high, value)
        )
        return (at - low) / (high - low) if high > low else 0.5


def is_drawable(value: float, *, log: bool = False) -> bool:
    """Return whether an axis can have *value*."""
    return (
        math.isfinite(value)
        and (value >= LEAST_DRAWN if log else True)
        and abs(value) <= MOST_DRAWN
    )


def make_axis(title: str, values: Iterable[float], span: float = SPAN) -> Axis | None:
    """Return an axis for *values*, or None if none can be drawn.

    It is logarithmic if no value is negative and the largest is at least *span* times the smallest one above 0; then 0
    has no place on it.
    """
    drawable = [value for value in values if is_drawable(value)]
    above = [value for value in drawable if value >= LEAST_DRAWN]
    if not drawable:
        return None
    # A division, because the product of large values would overflow.
    if above and min(drawable) >= 0 and max(above) / span >= min(above):
        low, high = min(above), max(above)
        room = math.exp((math.log(high) - math.log(low)) * ROOM) if high > low else 2.0
        return Axis(title, low / room, high * room, log=True)
    low, high = min(drawable), max(drawable)
    more = (high - low) * ROOM or abs(low) * ROOM or 1.0
    # An axis that nearly begins at 0 begins at 0.
    bottom = 0.0 if 0 <= low <= more else low - more
    return Axis(title, bottom, high + more)


def choose_ticks(axis: Axis) -> list[float]:
    """Return round values for the ticks of *axis*: about five, or powers of two or ten on a logarithmic axis.

    >>> choose_ticks(Axis("", 0, 1))
    [0.0, 0.2, 0.4, 0.6, 0.8, 1.0]
    """
    if axis.high <= axis.low:
        return [axis.low]
    if axis.log and (magnitudes := _list_magnitudes(axis)):
        return magnitudes
    step = _choose_clock_step(axis) if axis.unit == "s" else _round_step((axis.high - axis.low) / 5)
    # The addends keep a tick that lies on an end of the axis, in spite of rounding.
    first = math.ceil(axis.low / step - 1e-9)
    last = math.floor(axis.high / step + 1e-9)
    return [float(f"{n * step:.12g}") for n in range(first, last + 1)]


def _round_step(rough: float) -> float:
    power = 10.0 ** math.floor(math.log10(rough))
    # Slightly less will do: 0.19999 comes from dividing 1 by 5.
    return next(m * power for m in (1, 2, 5, 10) if m * power >= rough * 0.999)


def _choose_clock_step(axis: Axis) -> float:
    rough = (axis.high - axis.low) / 6
    return next((step for step in CLOCK_S if step >= rough), None) or _round_step(rough)


def _list_magnitudes(axis: Axis) -> list[float]:
    """Return the powers of two, or 1, 2, 5, 10 and so on; fewer over a long range, and none over a short one."""
    base, between = (2, (1,)) if axis.twos else (10, (1, 2, 5))
    first = math.floor(math.log(axis.low, base) + 1e-9)
    last = math.floor(math.log(axis.high, base) + 1e-9)
    values = [m * float(base) ** n for n in range(first, last + 1) for m in between]
    low, high = axis.low * (1 - 1e-9), axis.high * (1 + 1e-9)
    values = [value for value in values if low <= value <= high]
    if len(values) > MOST and not axis.twos:
        values = [value for value in values if abs(math.remainder(math.log10(value), 1)) < 0.1]
    return values[:: 1 + len(values) // (MOST + 1)] if len(values) > 1 else []


def label_ticks(axis: Axis) -> list[tuple[float, str]]:
    """Return the ticks of *axis* with their texts."""
    ticks = choose_ticks(axis)
    if axis.unit == "s":
        return [(value, _format_clock(value)) for value in ticks]
    return list(zip(ticks, numbers.make_labels(ticks), strict=True))


def _format_clock(value: float) -> str:
    if value == 0:
        return "0"
    return numbers.format_seconds(value) if value >= MINUTE_S else f"{value:g} s"
