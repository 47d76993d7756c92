"""Reduces curves to as many points as a page can hold, without losing their extremes. All functions are pure."""

from __future__ import annotations

import math
from collections.abc import Sequence

Spot = tuple[float, float]
EACH = (
    4  # points that stay of each part of a curve: the first, the lowest, the highest and the last
)


def thin(numbers: Sequence[float], most: int) -> tuple[Spot, ...]:
    """Return *numbers* as points, counted from 1, at most *most* of them or eight.

    Numbers that are not finite are left out. Of each of several equal parts of the curve, the first, the lowest, the
    highest and the last point stay.

    >>> thin([5.0, float("nan"), 4.0], 100)
    ((1, 5.0), (3, 4.0))
    >>> [y for _, y in thin([1.0] * 50 + [99.0] + [1.0] * 50 + [-5.0] + [1.0] * 50, 8)]
    [1.0, 99.0, 1.0, 1.0, -5.0, 1.0]
    """
    spots = [(index, y) for index, y in enumerate(numbers, 1) if math.isfinite(y)]
    if len(spots) <= most:
        return tuple(spots)
    parts = max(2, most // EACH)
    kept: list[Spot] = []
    for part in range(parts):
        some = spots[part * len(spots) // parts : (part + 1) * len(spots) // parts]
        kept += _find_extremes(some)
    return tuple(kept)


def _find_extremes(some: Sequence[Spot]) -> list[Spot]:
    if not some:
        return []
    low, high = min(some, key=lambda at: at[1]), max(some, key=lambda at: at[1])
    # A peak of one step is what a reader of a loss looks for, and a mean would hide it.
    return sorted({some[0], low, high, some[-1]})


def choose_evenly(count: int, most: int) -> list[int]:
    """Return at most *most* numbers below *count*, at equal distances, the first and the last included.

    >>> choose_evenly(3, 5), choose_evenly(100, 3)
    ([0, 1, 2], [0, 50, 99])
    """
    if count <= most:
        return list(range(count))
    return [round(n * (count - 1) / (most - 1)) for n in range(most)]
