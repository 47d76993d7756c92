"""The whole run begins with what takes long, on every worker."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple, cast

import pytest

from tests.support.dealing_order import CONTRACT, LONG, dealt, measured, seconds
from tests.support.root import ROOT

WORKERS = 5  # as tools/test --all has them


class Item(NamedTuple):
    nodeid: str
    slow: bool

    def get_closest_marker(self, name: str) -> Any:
        return True if self.slow and name == "slow" else None


def listed() -> list[Item]:
    files = [part for part in LONG if part.endswith(".py")]
    long = [Item(f"tests/{file}::test_{n}", True) for file in files for n in range(3)]
    others = [
        Item(f"tests/unit/test_{n}.py::test_{k}", k < 5) for n in range(40) for k in range(20)
    ]
    asked = [Item(f"tests/{CONTRACT}::TestContract::test_it[{n}]", True) for n in range(30)]
    return [*asked, *long, *others]


def stretches() -> list[list[Item]]:
    """As xdist's worksteal cuts them: what is left, by who is left."""
    found = cast("list[Item]", dealt(cast("list[pytest.Item]", listed()), WORKERS))
    cut = []
    for n in range(WORKERS, 0, -1):
        cut.append(found[: len(found) // n])
        found = found[len(found) // n :]
    return cut


def test_each_test_is_dealt_out_once() -> None:
    found = [test for stretch in stretches() for test in stretch]

    assert sorted(found) == sorted(listed())


def test_each_worker_begins_with_the_longest_and_has_the_quick_ones_last() -> None:
    for stretch in stretches():
        slow = [test.slow for test in stretch]
        assert any(part in stretch[0].nodeid for part in LONG)
        assert slow == sorted(slow, reverse=True)
        assert not slow[-1]


def test_a_file_of_slow_tests_stays_with_one_worker() -> None:
    homes = [
        {test.nodeid.partition("::")[0] for test in stretch if test.slow} for stretch in stretches()
    ]

    shared = set.intersection(*homes)
    assert shared == {f"tests/{CONTRACT}"}
    assert sum(map(len, homes)) == len(set.union(*homes)) + WORKERS - 1


def test_the_table_is_written_from_what_a_whole_run_took(tmp_path: Path) -> None:
    file = tmp_path / "junit.xml"
    cases = [("tests.e2e.test_a", "test_b[1]", 40.0), ("tests.e2e.test_a", "test_c", 30.6)]
    cases += [("tests.contract.test_contract.TestContract", "test_d[x-y]", 50.0)]
    cases += [("tests.unit.test_e", "test_f", 39.0)]
    text = "".join(f'<testcase classname="{c}" name="{n}" time="{s}"/>' for c, n, s in cases)
    file.write_text(f"<testsuites><testsuite>{text}</testsuite></testsuites>")

    assert measured(str(file)) == {
        "e2e/test_a.py": 71,
        "test_d[x-y]": 50,
    }


def test_every_file_that_takes_long_is_there() -> None:
    files = [part for part in LONG if part.endswith(".py")]

    assert [part for part in files if not list(ROOT.glob(f"tests/**/{part}"))] == []
    assert seconds("tests/contract/test_contract.py::test_x[y]", 2) == 6.0
