"""Writes numbers and times for readers: in tables, on the axes of plots, and in sentences. All functions are pure."""

from __future__ import annotations

import math
from collections.abc import Sequence

MINUTE_S, HOUR_S, DAY_S = 60, 3600, 86400


def format_number(value: float) -> str:
    """Return a number for readers, with four significant digits.

    >>> format_number(140000), format_number(0.74481), format_number(8.0), format_number(1.157e-7)
    ('140,000', '0.7448', '8', '1.157e-07')
    """
    if value == int(value) and abs(value) < 1e9:
        return f"{int(value):,}"
    if 1000 <= abs(value) < 1e9:
        return f"{value:,.0f}"
    return f"{value:.4g}"


def shorten_text(text: str) -> str:
    """Return a parameter's value for readers: a fraction with many digits is rounded, all other texts stay.

    >>> shorten_text("0.00015642140528861185"), shorten_text("12345678901"), shorten_text("tanh")
    ('0.0001564', '12345678901', 'tanh')
    """
    value = parse_fraction(text) if len(text) > 8 else None
    return text if value is None else format_number(value)


def parse_fraction(text: str) -> float | None:
    """Return the value of a text that is a finite number with a point or an exponent, else None."""
    if text.isdecimal():
        return None
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def make_labels(values: Sequence[float]) -> list[str]:
    """Return short texts for the ticks of an axis, which differ from each other.

    >>> make_labels([0.0, 2e10, 4e10]), make_labels([1e-7, 0.001, 1.0, 50000.0])
    (['0', '2e10', '4e10'], ['1e-7', '0.001', '1', '50,000'])
    >>> make_labels([1000.01, 1000.02])
    ['1,000.01', '1,000.02']
    """
    # The fewest digits that tell all values apart; a double has hardly more than 16.
    for digits in range(1, 17):
        labels = [_label(value, digits) for value in values]
        if len(set(labels)) == len(set(values)) and all(map(_is_near, values, labels)):
            return labels
    return [f"{value:g}" for value in values]


def _label(value: float, digits: int) -> str:
    if value and not 1e-4 <= abs(value) < 1e6:
        head, _, power = f"{value:.{digits - 1}e}".partition("e")
        head = head.rstrip("0").rstrip(".") if "." in head else head
        return f"{head}e{int(power)}"
    text = f"{value:.{digits}g}"
    return f"{float(text):,.{_count_places(text)}f}"


def _count_places(text: str) -> int:
    return 0 if "e" in text else len(text.partition(".")[2])


def _is_near(value: float, text: str) -> bool:
    return math.isclose(float(text.replace(",", "")), value, rel_tol=1e-9, abs_tol=1e-300)


def format_seconds(value: float) -> str:
    """Return a length of time, with its two largest units.

    >>> format_seconds(0.42), format_seconds(75), format_seconds(7260), format_seconds(180000)
    ('0.4 s', '1 min 15 s', '2 h 1 min', '2 d 2 h')
    """
    if value < 10:
        return f"{value:.1f} s"
    whole = round(value)
    units = ((DAY_S, "d"), (HOUR_S, "h"), (MINUTE_S, "min"), (1, "s"))
    first = next((i for i, (unit_s, _) in enumerate(units) if whole >= unit_s), len(units) - 1)
    parts = []
    for unit_s, name in units[first : first + 2]:
        count, whole = divmod(whole, unit_s)
        parts += [f"{count} {name}"] if count else []
    return " ".join(parts)


def format_usd(amount: float) -> str:
    """Return an amount of money as text.

    >>> format_usd(0.0104), format_usd(0.5), format_usd(12345.678), format_usd(0.00001)
    ('0.0104 USD', '0.50 USD', '12,345.68 USD', 'under 0.0001 USD')
    """
    if 0 < amount < 0.0001:
        return "under 0.0001 USD"
    return f"{amount:,.4f} USD" if 0 < amount < 0.1 else f"{amount:,.2f} USD"


def format_size(count: float) -> str:
    """Return a number of bytes as text.

    >>> format_size(9 << 30), format_size(315 << 20), format_size(25276510208)
    ('9 GiB', '315 MiB', '23.5 GiB')
    """
    gib = count / (1 << 30)
    return (
        f"{gib:,.4g} GiB"
        if gib >= 100
        else f"{gib:.3g} GiB"
        if gib >= 1
        else f"{count / (1 << 20):.0f} MiB"
    )
