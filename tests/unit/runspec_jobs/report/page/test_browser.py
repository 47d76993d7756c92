"""Pages as a browser lays them out: readable at two widths, light and dark."""

from __future__ import annotations

from pathlib import Path

import pytest

from runspec_jobs.report.page.run_page import run_page
from tests.support.chromium import layout
from tests.support.report_runs import RUNS, when
from tests.support.requirements import need

pytestmark = [pytest.mark.process, pytest.mark.slow]


@pytest.mark.parametrize("width", [pytest.param(1200, marks=pytest.mark.matrix), 400])
@pytest.mark.parametrize("name", RUNS)
def test_a_page_is_readable_at_two_widths(name: str, width: int, tmp_path: Path) -> None:
    """No texts of a plot overlap or are cut off, none is tiny, and the page does not scroll sideways."""
    need("chromium")

    found = layout(run_page(RUNS[name](), when), width, tmp_path)

    assert found.width == width and found.scrolled <= width
    assert found.overlaps == [] and found.outside == []
    assert found.smallest >= 12
    assert found.texts and min(found.texts) >= 4


def test_a_page_is_dark_where_the_reader_wants_it(tmp_path: Path) -> None:
    need("chromium")
    page = run_page(RUNS["spot"](), when)

    assert layout(page, 800, tmp_path, dark=False).paper == "rgb(255, 255, 255)"
    assert layout(page, 800, tmp_path, dark=True).paper == "rgb(13, 17, 23)"
