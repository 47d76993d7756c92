"""A test that fails beside others and passes alone is named, and does not fail the run."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.root import ROOT

pytestmark = pytest.mark.process
STEADY = "def test_steady():\n    pass\n"
# Each fails until its file is there, which its first run makes.
UNSTEADY = """
import pathlib, pytest
@pytest.mark.parametrize("number", range({number}))
def test_unsteady(number):
    made = pathlib.Path(__file__).with_name(f"made-{{number}}")
    was_there = made.exists()
    made.touch()
    assert was_there
"""
BROKEN = "def test_broken():\n    assert False\n"


def run_tests(folder: Path, source: str) -> tuple[int, str]:
    (folder / "pytest.ini").write_text("[pytest]\n")
    (folder / "test_it.py").write_text(source)
    ended = subprocess.run(
        [sys.executable, str(ROOT / "tools/run_tests.py"), "-q", "-n", "2"],
        cwd=folder,
        capture_output=True,
        text=True,
    )
    return ended.returncode, ended.stdout


def test_a_run_without_failures_runs_nothing_again(tmp_path: Path) -> None:
    code, printed = run_tests(tmp_path, STEADY)

    assert code == 0
    assert "once more" not in printed


def test_three_tests_that_pass_alone_are_named_and_accepted(tmp_path: Path) -> None:
    code, printed = run_tests(tmp_path, STEADY + UNSTEADY.format(number=3))

    assert code == 0
    assert printed.count("UNSTEADY: ") == 3
    assert "UNSTEADY: test_it.py::test_unsteady[2] failed" in printed
    assert "4 passed" not in printed.split("once more alone")[1]  # only what failed is run again


def test_four_unsteady_tests_are_named_and_fail_the_run(tmp_path: Path) -> None:
    code, printed = run_tests(tmp_path, STEADY + UNSTEADY.format(number=4))

    assert code == 1
    assert printed.count("UNSTEADY: ") == 4


def test_of_many_failed_tests_none_is_run_again(tmp_path: Path) -> None:
    code, printed = run_tests(tmp_path, UNSTEADY.format(number=21))

    assert code == 1
    assert "once more" not in printed


def test_a_test_that_fails_twice_fails_the_run(tmp_path: Path) -> None:
    code, printed = run_tests(tmp_path, UNSTEADY.format(number=1) + BROKEN)

    assert code == 1
    assert printed.count("UNSTEADY: ") == 1
    assert "UNSTEADY: test_it.py::test_broken" not in printed


def test_an_error_of_the_collection_is_not_tried_again(tmp_path: Path) -> None:
    code, printed = run_tests(tmp_path, STEADY + "import there_is_no_such_module\n")

    assert code != 0
    assert "once more" not in printed
