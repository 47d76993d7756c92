"""Thinned curves keep their ends and their extremes."""

from __future__ import annotations

import math

from hypothesis import given, strategies as st

from runspec_jobs.report.page.thinning import thin


@given(st.lists(st.floats(), max_size=300), st.integers(8, 40))
def test_the_extremes_and_the_ends_of_a_curve_stay(numbers: list[float], most: int) -> None:
    real = [(place, y) for place, y in enumerate(numbers, 1) if math.isfinite(y)]

    found = thin(numbers, most)

    assert len(found) <= most
    assert set(found) <= set(real) and list(found) == sorted(found)
    if real:
        assert (found[0], found[-1]) == (real[0], real[-1])
        values = [y for _, y in found]
        assert min(values) == min(y for _, y in real) and max(values) == max(y for _, y in real)
