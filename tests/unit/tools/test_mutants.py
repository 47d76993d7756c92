"""Mutants are valid sources that differ in one place, and leave texts and annotations alone."""

from __future__ import annotations

import pytest
from mutants import list_mutants

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
