"""Axes: which are logarithmic, and ticks that are few, round, short and different."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, strategies as st

from runspec_jobs.report.page.axis import Axis, choose_ticks, is_drawable, label_ticks, make_axis

ANY = st.floats(allow_nan=True, allow_infinity=True)


@given(st.floats(-1e9, 1e9), st.floats(1e-6, 1e9))
def test_ticks_are_few_and_on_the_axis(low: float, more: float) -> None:
    found = choose_ticks(Axis("x", low, low + more))

    assert 1 <= len(found) <= 12


@given(st.floats(1e-9, 1e9), st.floats(1, 1e9), st.booleans())
def test_ticks_of_magnitudes_are_few(low: float, times: float, twos: bool) -> None:
    assert 1 <= len(choose_ticks(Axis("x", low, low * times, log=True, twos=twos))) <= 12


@pytest.mark.parametrize(
    ("axis", "found"),
    [
        (Axis("x", 1, 8, log=True, twos=True), [1, 2, 4, 8]),
        (Axis("x", 90, 1000, log=True), [100, 200, 500, 1000]),
        (Axis("x", 1e-5, 1e-1, log=True), [1e-5, 1e-4, 1e-3, 1e-2, 1e-1]),
        (Axis("x", 110, 150, log=True), [110, 120, 130, 140, 150]),
        (Axis("x", 0, 7200, unit="s"), [0, 1800, 3600, 5400, 7200]),
    ],
)
def test_ticks_are_round(axis: Axis, found: list[float]) -> None:
    assert choose_ticks(axis) == pytest.approx(found)


@pytest.mark.parametrize(
    ("values", "log"),
    [
        ([0.03, 9e10], True),
        ([1.0, 100.0], True),
        ([1.0, 99.0], False),
        ([0.0, 0.001, 50.0], True),
        ([-1.0, 0.001, 50.0], False),
        ([0.0, 0.0], False),
        ([5.0], False),
    ],
)
def test_an_axis_is_logarithmic_where_values_span_two_decades(
    values: list[float], log: bool
) -> None:
    found = make_axis("loss", values)

    assert found is not None and found.log == log
    assert all(0 <= found.share(v) <= 1 for v in values if is_drawable(v, log=log))


def test_the_quotient_of_an_axis_need_not_be_a_number() -> None:
    found = make_axis("loss", [1e-199, 1e199])

    assert found is not None and found.log
    assert 0 < found.share(1e-199) < found.share(1e199) < 1


def test_there_is_no_axis_for_no_number() -> None:
    assert make_axis("loss", [math.nan, math.inf]) is None
    assert make_axis("loss", []) is None


@given(st.lists(ANY, max_size=6))
def test_an_axis_for_any_numbers_has_labels_that_differ_and_are_short(values: list[float]) -> None:
    found = make_axis("x", values)
    if found is None:
        return

    told = [text for _, text in label_ticks(found)]

    assert len(set(told)) == len(told)
    assert all(0 <= found.share(v) <= 1 for v in values if is_drawable(v, log=found.log))
    if found.log or found.high - found.low > abs(found.high) * 1e-3:
        assert max(map(len, told), default=0) <= 10


def test_times_are_labelled_in_their_units() -> None:
    assert [text for _, text in label_ticks(Axis("t", 0, 5000, unit="s"))] == [
        *("0", "15 min", "30 min", "45 min", "1 h", "1 h 15 min")
    ]
