"""Mutants are valid sources that differ in one place, and leave texts and annotations alone."""

from __future__ import annotations

import pytest
from mutants import (
    Break,
    Mutant,
    apart,
    lines_of,
    list_mutants,
    nearest_tests,
    process_suites,
)
from reached_lines import Reached

from tests.support.root import ROOT


@pytest.mark.parametrize(
    ("source", "changed"),
    [
        ("a = b == c\n", ["a = (b != c)\n"]),
        ("a = b and c\n", ["a = (b or c)\n"]),
        ("a = not b\n", ["a = (b)\n"]),
        ("a = True\n", ["a = (False)\n"]),
        ("a = 3\n", ["a = (4)\n"]),
        ("def f():\n    return b\n", ["def f():\n    return None\n"]),
        ("f()\n", ["pass\n"]),
        ("if a():\n    b\n", ["if (not a()):\n    b\n"]),
        ("while a.b:\n    c\n", ["while (not a.b):\n    c\n"]),
        ("a = b if c else d\n", ["a = (b if not c else d)\n"]),
        ("ä = 'ü' or 1\n", ["ä = ('ü' and 1)\n", "ä = 'ü' or (2)\n"]),
    ],
)
def test_each_kind_of_change_is_made_once(source: str, changed: list[str]) -> None:
    assert [mutant.apply(source) for mutant in list_mutants(source)] == changed


@pytest.mark.parametrize(
    "source",
    [
        '"""A text."""\n',
        "__all__ = ['a', 'b']\n",
        "# a = 3\n",
        "a: Literal[3]\n",
        "def f(a: Literal[True]) -> Literal[1]: ...\n",
        "if TYPE_CHECKING:\n    a = 3\n",
        "raise ValueError(f'{a == b}')\n",
        "a = 'x' + b\n",
    ],
)
def test_texts_and_types_are_left_alone(source: str) -> None:
    assert list_mutants(source) == []


def test_mutants_of_a_module_of_ours_compile() -> None:
    source = (ROOT / "runner/runspec_jobs/engine/apply.py").read_text()

    for mutant in list_mutants(source):
        compile(mutant.apply(source), "apply.py", "exec")


SOURCE = """\
A = 3

def f(
    b=4,
):
    if b == 5:
        return g(
            6,
        )
"""


@pytest.mark.parametrize(("line", "lines"), [(1, None), (4, None), (6, {6}), (8, {7, 8, 9})])
def test_a_mutant_is_reached_by_any_line_of_its_statement(
    line: int, lines: set[int] | None
) -> None:
    (mutant,) = [m for m in list_mutants(SOURCE) if m.line == line and m.before.isdigit()] or [
        m for m in list_mutants(SOURCE) if m.line == line and "==" in m.before
    ]

    assert lines_of(SOURCE, mutant) == lines


@pytest.mark.parametrize(
    ("file", "chosen", "met"),
    [
        ("runner/p/a.py", ["tests/unit/p/x"], "1 of 1 tests that run the line"),
        (
            "runner/p/b.py",
            ["tests/unit/p/x"],
            "1 of 1 tests that run the module; none runs the line",
        ),
        (
            "runner/p/q/c.py",
            ["tests/unit/p/x", "tests/unit/p/y"],
            "2 of 2 tests of tests/unit/p/; none runs the module",
        ),
    ],
)
def test_a_mutant_meets_the_nearest_tests_the_quickest_first(
    file: str, chosen: list[str], met: str
) -> None:
    tests = {
        "tests/unit/p/y": Reached(2.0, {}),
        "tests/unit/p/x": Reached(1.0, {"runner/p/a.py": 1 << 2, "runner/p/b.py": 1 << 9}),
        "tests/unit/r/z": Reached(0.1, {"runner/p/a.py": 1 << 9}),
    }
    broken = Break(file, Mutant(2, 0, 1, "a", "b"))

    assert nearest_tests(tests, broken, "def f():\n    a\n") == (chosen, met)


def test_mutants_that_overlap_are_tried_apart() -> None:
    one, inner, other = (
        Break("a.py", Mutant(1, start, end, "", "")) for start, end in [(0, 9), (3, 4), (9, 12)]
    )

    assert apart([one, inner, other]) == [[one, other], [inner]]


@pytest.mark.parametrize(
    ("file", "suites"),
    [
        (
            "providers/runspec_slurm/lookup/jobs.py",
            [
                ("tests/unit/runspec_slurm/lookup",),
                ("tests/unit/runspec_slurm",),
                ("-k", "slurm", "tests/contract"),
            ],
        ),
        (
            "runner/runspec_agent/__main__.py",
            [("tests/unit/runspec_agent",), ("-k", "local", "tests/contract")],
        ),
    ],
)
def test_a_mutant_that_lives_meets_the_tests_with_processes_of_its_package_and_provider(
    file: str, suites: list[tuple[str, ...]]
) -> None:
    assert process_suites(ROOT, file) == suites
