"""Nodes of a real Slurm lose their power while a job saves: the next start finds one save, whole, and the last one.

`RUNSPEC_FAULTS=all` has 54 losses, and files of 400 MB. A job has ten tries at the most.
"""

from __future__ import annotations

import random
import time
from pathlib import Path

import pytest

from runspec_agent.store.folder import FolderBucket
from runspec_agent.store.manifest import MANIFEST, OBJECTS, parsed
from tests.faults.chosen import ALL
from tests.support.slurm.project import Project, cluster as cluster, project as project  # fixtures
from tests.support.two_files import NAMES, PROGRAM

pytestmark = pytest.mark.slow


class Job:
    """The job, and what of it counts in the store."""

    def __init__(self, project: Project, size: int, losses: int) -> None:
        self.project, self.end = project, project.folder / "end"
        program = project.folder / "program.py"
        program.write_text(PROGRAM)
        self.run = project.started(
            outputs=[{"name": "model", "path": "/job/out", "sync": "1s"}],
            retry={"spot_attempts": losses + 1},
            command=["python3", str(program), "RUNSPEC_OUTPUT_MODEL", str(size), str(self.end)],
        )
        self.at = f"runs/{self.run}/outputs/model/0/0/"
        self.store = FolderBucket({"RUNSPEC_STORE": f"file://{project.workspace}"})

    def counted(self) -> int:
        """Give the step of the save that counts; 0 where there is none. Its files are of one step, and whole."""
        files = parsed(self.store.get(self.at + MANIFEST), MANIFEST).files
        assert sorted(files) in ([], list(NAMES))
        steps = set()
        for entry in files.values():
            path = Path(self.store.root) / self.at / OBJECTS / entry.object
            assert path.stat().st_size == entry.size
            steps.add(first(path))
        assert len(steps) <= 1, f"the save that counts has files of the steps {sorted(steps)}"
        return steps.pop() if steps else 0

    def found(self) -> list[list[int]]:
        """Give what each start has found."""
        lines = self.project.log().splitlines()
        return [[int(w) for w in line.split()[1:]] for line in lines if line.startswith("found ")]

    def is_lost(self) -> None:
        """Have the node that it runs on lose its power, and come back without the job."""
        cluster = self.project.cluster
        (node,) = self.project.jobs("%N", f"--name={self.run}", "--states=running")
        cluster.lose(node)
        cluster.set_node(node, "DOWN", "its power is gone")
        cluster.mend(cancel=False)


def first(path: Path) -> int:
    with path.open("rb") as file:
        return int(file.read(8))


# The size of a file, the losses of the job, and what says when they come.
JOBS = [pytest.param(1_000_000, 5, 1, id="1 MB")]
if ALL:
    JOBS = [pytest.param(1_000_000, 9, seed, id=f"1 MB {seed}") for seed in range(1, 7)]
    JOBS.append(pytest.param(400_000_000, 6, 7, id="400 MB"))


@pytest.mark.timeout(3600)
@pytest.mark.parametrize(("size", "losses", "seed"), JOBS)
def test_no_start_sees_two_saves_and_none_that_counted_is_lost(
    project: Project, size: int, losses: int, seed: int
) -> None:
    """A loss after the other, of one job, which Slurm queues again each time."""
    job = Job(project, size, losses)
    dice, counts = random.Random(seed), 0
    expected = []
    for number in range(1, losses + 1):
        expected.append([counts, counts])
        project.until(lambda number=number: len(job.found()) == number)  # type: ignore[misc]
        time.sleep(dice.uniform(0.2, 4.0) * (1 + size // 50_000_000))
        before = job.counted()
        job.is_lost()
        after = job.counted()
        assert after >= before >= counts, "a save that counted is lost"
        counts = after
    assert counts > 0, "nothing was saved at all"
    job.end.touch()
    found = project.until_over()

    assert (found["state"], job.found()) == ("succeeded", [*expected, [counts, counts]])
    assert job.counted() == counts + 1
    target = project.folder / "fetched"
    assert project.said("fetch", "job", str(target))[0] == 0
    assert {name: first(target / "model" / name) for name in NAMES} == dict.fromkeys(
        NAMES, counts + 1
    )
    assert project.said("destroy", "job")[0] == 0
    assert project.said("destroy", "--site")[0] == 0
    assert project.left() == []
