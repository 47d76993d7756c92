"""What the supervisor says of a job that has ended, and that it sleeps while there is nothing to do."""

from __future__ import annotations

import re
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from runspec_jobs.provider import State
from runspec_local.supervisor import process, supervision
from tests.support.wait import until
from tests.unit.runspec_local.supervisor.test_supervisor import World, world as world  # a fixture


@pytest.mark.parametrize(
    ("codes", "cancelled", "expected"),
    [
        ({0: 0, 1: 0}, False, ("succeeded", 0, "")),
        ({0: 0, 1: 3}, False, ("failed", 3, "1 of 2 tasks failed; task 1 exited with 3")),
        ({0: 0, 1: 143}, True, ("cancelled", 143, "")),
        ({}, False, ("cancelled", 0, "")),
    ],
    ids=["all succeed", "one fails", "cancelled", "all are stopped"],
)
def test_a_job_ends_as_its_tasks_do(
    codes: dict[int, int], cancelled: bool, expected: tuple[str, int, str], tmp_path: Path
) -> None:
    supervisor: Any = SimpleNamespace(
        wanted=codes,
        cancelled=cancelled,
        reasons={task: f"exited with {code}" for task, code in codes.items() if code},
        never="",
        stopped=set(),
        unsaved=[],
    )
    code = next((code for code in codes.values() if code), 0)

    end = supervision.describe_end(supervisor, code, tmp_path / "log")

    assert (end["state"], end["exit_code"], end["reason"]) == expected


@pytest.mark.process
def test_the_supervisor_sleeps_while_its_program_runs(world: World) -> None:
    """A job of many days costs no time of the processor beside it."""
    world.start("exec sleep 600")
    until(lambda: world.state is State.RUNNING)
    supervisor = process.supervisor_in(world.folder)
    assert supervisor is not None
    status = Path(f"/proc/{supervisor['pid']}/status")

    def count_wakes() -> int:
        found = re.search(r"^voluntary_ctxt_switches:\s+(\d+)$", status.read_text(), re.MULTILINE)
        assert found is not None
        return int(found[1])

    def sleeps() -> bool:
        before = count_wakes()
        time.sleep(0.5)
        return count_wakes() == before

    until(sleeps, limit_s=20)
