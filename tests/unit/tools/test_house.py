"""What `tools/house.py` counts."""

from __future__ import annotations

import pytest
from house import measure

FILES = {
    "runner/runspec_jobs/__init__.py": "",
    "runner/runspec_jobs/provider/__init__.py": "from a import b, c\n\n__all__ = ['b', 'c', 'd']\n\n",
    "runner/runspec_jobs/plan/__init__.py": '"""Plans."""\n',
    "runner/runspec_jobs/plan/plan.py": """\
def find_job(name):
    found = name  # because
    found = _twice(found) or _once(found)
    return found


def job(name):
    return _twice(name)


def _twice(name): ...


def _once(name):
    return name
""",
    "providers/runspec_x/machine_table.py": '\nTABLE = """\n"""\n',
    "tests/test_it.py": "def test_it(): ...\n",
}
TITLES = [*["Add a word"] * 9, "x" * 70]


@pytest.fixture(scope="module")
def values() -> dict[str, str]:
    return {row.measure.strip(): row.value for row in measure(FILES, TITLES)}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("lines of the product", "23"),
        ("of these, tables written as Python", "3"),
        ("lines of the tests", "1"),
        ("functions that begin with a verb (core)", "25 % of 4"),
        ("commonest local names", "found 2"),
        ("private functions used once, lines (median)", "1, 2"),
        ("modules named like their folder", "1"),
        ("__init__ files of at most three lines", "2"),
        ("names in the face of provider", "3"),
        ("comments in 100 lines of code", "8.333"),
        ("title of a commit, 90th percentile", "70"),
    ],
)
def test_each_measure_counts_what_it_says(values: dict[str, str], name: str, value: str) -> None:
    assert values[name] == value
