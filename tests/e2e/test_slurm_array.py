"""An array on a real Slurm: its bound, its states, its codes and its logs."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from runspec_emulators.slurm import Cluster, Shape
from tests.faults import chosen
from tests.support.requirements import need
from tests.support.slurm.project import Project, project as project  # a fixture
from tests.support.slurm.shared_cluster import PROGRAMS

pytestmark = pytest.mark.slow
COUNT = 1000 if chosen.ALL else 150
# Slurm fills what room there is once a second: with six at once, that was three minutes of waiting.
AT_ONCE, BAD = 18, 77
LIMIT_S = 1500.0


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Give a cluster with room for two tasks more than may run at once."""
    need(*PROGRAMS)
    with Cluster(tmp_path_factory.mktemp("slurm"), shape=Shape(cpus=(AT_ONCE + 2) // 4)) as found:
        yield found


def test_every_task_ends_with_its_own_code_and_log(project: Project, tmp_path: Path) -> None:
    """And no more of them run at a time than the spec says, though there is room for two more."""
    name = project.started(
        f'echo "number $RUNSPEC_SWEEP_N"; [ "$RUNSPEC_SWEEP_N" != {BAD} ] || exit 9',
        sweep={"n": [str(n) for n in range(COUNT)]},
        max_parallel=AT_ONCE,
    )
    most = 0

    def over() -> bool:
        nonlocal most
        time.sleep(0.5)  # a list of a thousand is what the controller would be busy with
        states = project.jobs("%T", "--states=pending,running,completing", f"--name={name}")
        most = max(most, states.count("RUNNING"))
        return not states

    project.until(over, LIMIT_S)
    found = project.status()
    assert project.said("logs", "job", "--save", str(tmp_path / "saved"))[0] == 0

    assert 1 < most <= AT_ONCE
    assert (found["state"], found["exit_code"]) == ("failed", 9)
    assert found["reason"] == "exited with code 9"
    ended = {node["task"]: (node["state"], node["exit_code"]) for node in found["nodes"]}
    expected = {n: ("failed", 9) if n == BAD else ("succeeded", 0) for n in range(COUNT)}
    assert ended == expected
    logs = [path.read_text() for path in (tmp_path / "saved").iterdir() if path.suffix != ".cursor"]
    assert sorted(logs) == sorted(f"number {n}\n" for n in range(COUNT))
    assert project.log("job", "--task", "31").endswith("number 31\n")
