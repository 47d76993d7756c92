"""Mutants are valid sources that differ in one place, and leave texts and annotations alone."""

from __future__ import annotations

import pytest
from mutants import (
    Break,
    Mutant,
    apart,
    function_of,
    list_mutants,
    process_suites,
)

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

class C:
    B = 4

    @cached(5)
    def f(self, b=6):
        def g():
            return 7
        return [8 for a in b]

    C = 9
"""


@pytest.mark.parametrize(
    ("constant", "function"),
    [
        ("3", ""),
        ("4", ""),
        ("6", ""),
        ("7", "C.f.<locals>.g"),
        ("8", "C.f"),
        ("9", ""),
    ],
)
def test_a_mutant_is_in_the_innermost_function_that_runs_it(constant: str, function: str) -> None:
    (mutant,) = [m for m in list_mutants(SOURCE) if m.before == constant]

    assert function_of(SOURCE, mutant) == function


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
