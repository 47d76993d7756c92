"""Mutants live in forks of one process of pytest, and meet the nearest tests there."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from forked_mutants import Change, Verdict, nearness

from tests.support.root import ROOT

SOURCE = """\
import functools

LIMIT = 3

@functools.cache
def double(a):
    return a * 2

def half(a):
    return a / 2

def unseen(a):
    return a

def started(a):
    return [a]
"""
TESTS = """\
import sys
import pytest
sys.path.insert(0, "runner/p")
import numbers_of_p

def test_half():
    assert numbers_of_p.half(8) == 4

def test_double():
    assert numbers_of_p.double(2) == 4
    assert numbers_of_p.half(8) == 4

@pytest.mark.parametrize("n", range(600), ids="{:0120}".format)  # names of more than a pipe holds
def test_unseen(n):
    numbers_of_p.unseen(1)

@pytest.mark.process
def test_started():
    assert numbers_of_p.started(1) == [1]

def test_last():
    pass

numbers_of_p.double(2)  # is remembered when the mutant comes
"""


@pytest.mark.process
def test_mutants_meet_the_tests_in_forks(tmp_path: Path) -> None:
    """What is changed in one fork is not in the next, and what runs at the import is left over."""
    for file, text in {
        "runner/p/numbers_of_p.py": SOURCE,
        "tests/unit/p/test_numbers_of_p.py": TESTS,
    }.items():
        (tmp_path / file).parent.mkdir(parents=True)
        (tmp_path / file).write_text(text)
    changes = [
        ("double", "a * 2", "a // 2"),
        ("half", "a / 2", "a * 2"),
        ("unseen", "return a\n", "return None\n"),
        ("", "LIMIT = 3", "LIMIT = 4"),
        ("started", "return [a]", "return None"),
    ]
    mutants, verdicts = tmp_path / "mutants", tmp_path / "verdicts"
    mutants.write_text(
        "".join(
            json.dumps(Change(n, "runner/p/numbers_of_p.py", SOURCE.replace(old, new), function))
            + "\n"
            for n, (function, old, new) in enumerate(changes, 1)
        )
    )

    words = [sys.executable, "-m", "pytest", "-p", "forked_mutants", "tests"]
    words += [f"--mutants={mutants}", f"--verdicts={verdicts}"]
    env = {**os.environ, "PYTHONPATH": str(ROOT / "tools")}
    subprocess.run(words, cwd=tmp_path, env=env, check=True, capture_output=True)

    test = "tests/unit/p/test_numbers_of_p.py::test_"
    unseen = [f"{test}unseen[{n:0120}]" for n in range(600)]
    found = sorted(Verdict(*json.loads(line)) for line in verdicts.read_text().splitlines())
    assert found == [
        Verdict(1, f"{test}double", 1, []),
        Verdict(2, f"{test}half", 0, []),
        Verdict(3, "", 604, []),
        Verdict(4, "", 0, [f"{test}half", f"{test}double", *unseen[:58]]),
        Verdict(5, f"{test}started", 603, []),
    ]


def test_tests_of_the_same_folder_and_name_are_the_nearest() -> None:
    change = Change(1, "runner/p/q/jobs.py", "", "Jobs.find_one")

    def near(file: str, text: str = "") -> int:
        return nearness(file, text, change)

    assert near("runner/p/q/jobs.py") > near("tests/unit/p/q/test_jobs.py", "find_one")
    assert near("tests/unit/p/q/test_jobs.py") > near("tests/unit/p/q/test_other.py")
    assert near("tests/unit/p/q/test_other.py", "find_one") > near("tests/unit/p/q/test_other.py")
    assert near("tests/unit/p/q/test_other.py", "p.q.jobs") > near("tests/unit/p/q/test_other.py")
    assert near("tests/unit/p/q/test_other.py") > near("tests/unit/p/test_other.py") > 0
    assert near("tests/unit/r/test_jobs.py") == 0
