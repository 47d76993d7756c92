"""Agents and batch scripts that get SIGKILL on a real Slurm, as from the kernel when a node has no memory left."""

from __future__ import annotations

import contextlib
import os
import re
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.test_slurm_elastic import elastic, members
from tests.support.slurm.project import Project, cluster as cluster, project as project  # fixtures
from tests.support.wait import until

pytestmark = pytest.mark.slow

# The first attempt says who its agent and its batch script are, and waits.
SCRIPT = """
read -r _ _ _ batch _ </proc/$PPID/stat
[ "$RUNSPEC_ATTEMPT" -gt 1 ] || { echo "agent=$PPID batch=$batch"; sleep 600; }
echo "attempt $RUNSPEC_ATTEMPT with $SLURM_MEM_PER_NODE MiB"
"""
WHO = [
    pytest.param(["agent"], id="agent", marks=pytest.mark.matrix),
    pytest.param(["batch"], id="batch"),
    pytest.param(["batch", "agent"], id="both", marks=pytest.mark.matrix),
]


def processes(job: str) -> tuple[int, int]:
    """Return the ids of the batch script of a job and of its agent, which is a fork of it."""
    batch, agent = until(lambda: _look_for_processes(job))
    return batch, agent


def _look_for_processes(job: str) -> tuple[int, int] | None:
    """Return the ids, or None while there is another fork, which is about to run something else."""
    ours: dict[int, int] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            words, held = (folder / "cmdline").read_bytes(), (folder / "environ").read_bytes()
            if b"\0batch\0--\0" in words and f"SLURM_JOB_ID={job}\0".encode() in held:
                ours[int(folder.name)] = int((folder / "stat").read_text().split()[3])
    agents = [pid for pid, parent in ours.items() if parent in ours]
    return (ours[agents[0]], agents[0]) if len(agents) == 1 else None


def killed(project: Project, who: list[str], **fields: Any) -> dict[str, Any]:
    """Apply a spec, kill processes of its first attempt, and return how the run ended."""
    project.started(SCRIPT, **fields)
    project.until_said("batch=")
    pids = dict(re.findall(r"(agent|batch)=(\d+)", project.log()))
    for name in who:
        os.kill(int(pids[name]), signal.SIGKILL)
    return project.until_over()


@pytest.mark.parametrize("who", WHO)
def test_a_killed_process_of_ours_uses_an_attempt_as_that_of_the_program(
    project: Project, who: list[str]
) -> None:
    """Also where its next attempt has more memory."""
    grows = {"exit_codes": [137], "action": "retry", "memory": {"grow": 2, "most": "1GiB"}}
    retry = {"attempts": 2, "on": [grows]}

    found = killed(project, who, retry=retry, cluster={"memory": "60MiB"})

    assert (found["state"], found["exit_code"]) == ("succeeded", 0), project.log()
    assert "attempt 2 with 120 MiB\n" in project.log()
    tries = [(a["exit_code"], a["reclaimed"]) for a in found["nodes"][0]["attempts"]]
    assert tries == [(137, False), (0, False)]


@pytest.mark.matrix
@pytest.mark.parametrize("who", WHO)
def test_a_killed_process_of_ours_without_attempts_is_a_failure(
    project: Project, who: list[str]
) -> None:
    found = killed(project, who)

    assert (found["state"], found["exit_code"]) == ("failed", 137)
    assert found["reason"].startswith("exited with code 137 (SIGKILL")
    assert len(found["nodes"][0]["attempts"]) == 1


@pytest.mark.parametrize("who", [WHO[0], pytest.param(["batch"], id="batch")])
def test_a_killed_node_of_an_elastic_job_comes_back(project: Project, who: list[str]) -> None:
    run = project.started(**elastic(project, 1, 2))
    project.until(lambda: members(project, run) == [0, 1])
    name = f"{(project.workspace / 'runs' / run / 'claim').read_text()}_1"
    shown = project.cluster.run("scontrol", "show", "job", name)
    (number,) = re.findall(r"^JobId=(\d+)", shown)
    batch, agent = processes(number)
    os.kill(agent if who == ["agent"] else batch, signal.SIGKILL)
    project.until(lambda: members(project, run) == [0])

    project.until(lambda: members(project, run) == [0, 1])

    (project.folder / "pace").write_text("0")
    assert project.until_over()["state"] == "succeeded"
