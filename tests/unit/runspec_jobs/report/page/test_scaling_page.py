"""The page that compares sizes."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from runspec_jobs.report.page.scaling_page import make_scaling_page
from runspec_jobs.report.scaling_law import Asked, Baseline, Point, Series, make_report
from tests.support.pages import dots, parsed, rows_of

EVIL = "</title><script>alert(1)</script>&\"'"


def series(*found: tuple[float, float | None]) -> Series:
    return Series("job", "nodes", tuple(Point(size, speed) for size, speed in found))


def test_text_of_a_spec_is_escaped_on_a_scaling_page() -> None:
    told = Series(EVIL, EVIL, (Point(1, 2, EVIL, EVIL), Point(2, 3)), Baseline(software=EVIL))

    found = parsed(make_scaling_page(EVIL, [make_report(told, Asked())], [EVIL]))

    assert "script" not in {one.tag for one in found.iter()}
    assert EVIL in "".join(found.itertext())


@given(st.lists(st.tuples(st.floats(1e-9, 1e15), st.floats(1e-9, 1e15)), max_size=4))
def test_a_page_can_be_made_of_any_figures(found: list[tuple[float, float]]) -> None:
    told = make_report(series(*found), Asked(price_per_node_hour=1e15, samples=1e15))

    assert rows_of(parsed(make_scaling_page("x", [told]))) == len(told.rows)


def test_a_plot_has_a_dot_for_each_size_and_they_go_up() -> None:
    found = parsed(
        make_scaling_page("x", [make_report(series((1, 10), (2, 19), (4, 30)), Asked())])
    )

    throughput, efficiency = found.iter("figure")
    spots = dots(throughput)
    across, up = [x for x, _ in spots], [y for _, y in spots]
    assert across == sorted(across) and up == sorted(up, reverse=True) and len(spots) == 3
    assert across[1] - across[0] == pytest.approx(across[2] - across[1], abs=0.2)
    assert len(dots(efficiency)) == 3


@pytest.mark.parametrize(
    "found", [series(), series((1, None)), series((3, 5)), series((1, 5), (2, 5))]
)
def test_a_page_can_be_made_of_any_report(found: Series) -> None:
    page = parsed(
        make_scaling_page("x", [make_report(found, Asked(price_per_node_hour=1, samples=1))])
    )

    assert rows_of(page) == len(found.points)
