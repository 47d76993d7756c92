"""The processes of a job are told from those of others, whose reading costs little."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from runspec_agent.usage.process_table import FRESH, PAGE_BYTES, TICKS, ProcessTable

NAME = "a (odd) name"


def process(proc: Path, pid: int, parent: int, ticks: int = 0, pages: int = 1) -> None:
    """Make a process as proc_pid_stat(5) describes it."""
    fields = ["S", parent, *[0] * 9, ticks, 0, 0, 0, *[0] * 4, 77, 0, pages, *[0] * 28]
    (proc / str(pid)).mkdir(exist_ok=True)
    (proc / str(pid) / "stat").write_text(f"{pid} ({NAME}) {' '.join(map(str, fields))}\n")


@pytest.fixture
def proc(tmp_path: Path) -> Path:
    """A machine whose process 10 has a child and a grandchild."""
    process(tmp_path, 1, 0)
    process(tmp_path, 9, 1, 5000, 9000)
    process(tmp_path, 10, 9, TICKS, 2)
    process(tmp_path, 11, 10, 2 * TICKS, 3)
    process(tmp_path, 12, 11, 3 * TICKS, 4)
    (tmp_path / "uptime").write_text("1 1")
    return tmp_path


def test_descendants_are_found_with_what_they_use(proc: Path) -> None:
    found = ProcessTable(str(proc)).below(10)

    assert {pid: p.cpu_s for pid, p in found.items()} == {10: 1.0, 11: 2.0, 12: 3.0}
    assert sum(p.memory_bytes for p in found.values()) == 9 * PAGE_BYTES


def test_a_process_of_others_is_read_once(proc: Path) -> None:
    table = ProcessTable(str(proc))
    table.below(10)
    process(proc, 9, 10)  # as if its id now belonged to a process of the job
    process(proc, 13, 12)

    assert set(table.below(10)) == {10, 11, 12, 13}
    found = [set(table.below(10)) for _ in range(FRESH)]
    assert found[-1] == {9, 10, 11, 12, 13}, "and again after some time"


def test_a_process_whose_parent_is_just_ending_is_found_later(proc: Path) -> None:
    table = ProcessTable(str(proc))
    process(proc, 20, 19)
    assert set(table.below(10)) == {10, 11, 12}

    process(proc, 20, 10)

    assert set(table.below(10)) == {10, 11, 12, 20}


def test_this_process_is_below_its_parent() -> None:
    table = ProcessTable()

    assert os.getpid() in table.below(os.getppid())
    assert os.getppid() in table.parents(os.getpid())
    assert table.environment(os.getpid())["PATH"]
