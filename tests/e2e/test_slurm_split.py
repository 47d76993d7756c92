"""A sweep that is larger than an array of a real Slurm: several arrays, one sweep to the user."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from runspec_emulators.slurm import Cluster, Shape
from runspec_slurm.client import SlurmClient
from runspec_slurm.options import SlurmOptions
from tests.support.requirements import need
from tests.support.slurm.project import Project, project as project  # a fixture
from tests.support.slurm.shared_cluster import PROGRAMS

pytestmark = pytest.mark.slow
COUNT, BAD = 22, 12  # tasks 10 to 19 are the second array of three
# sbatch submits the second array, and its caller dies; it refuses the third one as a limit of submitted jobs would.
SBATCH = """\
#!/bin/sh
case " $* " in
*" --job-name="*.1" "*) {real} "$@" >/dev/null; kill -9 $PPID ;;
*" --job-name="*.2" "*) echo "sbatch: error: Batch job submission failed: Job violates accounting/QOS policy" >&2
exit 1 ;;
esac
exec {real} "$@"
"""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    need(*PROGRAMS)
    room = Shape(cpus=16, memory_mb=None)
    more = {"MaxArraySize": 10}
    with Cluster(tmp_path_factory.mktemp("slurm"), nodes=2, shape=room, more=more) as found:
        yield found


@pytest.fixture
def refusing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, project: Project) -> Path:
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "sbatch").write_text(SBATCH.format(real=shutil.which("sbatch")))
    (folder / "sbatch").chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    return folder / "sbatch"


def arrays(project: Project) -> list[str]:
    """Give the name and the id of each array of the project's run."""
    run = project.status()["run"]
    return sorted({line for line in project.jobs("%j %F") if line.startswith(run)})


def state_of(project: Project, task: int) -> str:
    states = {node["task"]: node["state"] for node in project.status()["nodes"]}
    return str(states[task])


def said_in(project: Project, task: int) -> str:
    """Give the log of a task in the workspace, which has the number of the sweep in its name."""
    found = list(project.workspace.glob(f"runs/*/logs/{task}-0.txt"))
    return found[0].read_text() if found else ""


def test_a_split_sweep_is_submitted_once_whatever_breaks_between_its_arrays(
    project: Project, refusing: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also by another machine that adopts it then.

    Its tasks have the numbers of the sweep: in the program, the logs, the outputs and the status.
    """
    go = tmp_path / "go"
    spec = project.write(
        f'echo "number $RUNSPEC_SWEEP_N of $RUNSPEC_TASK" | tee "${{outputs.out}}/said"\n'
        f'while [ ! -e {go} ]; do sleep 0.2; done\n[ "$RUNSPEC_SWEEP_N" != {BAD} ] || exit 9',
        sweep={"n": [str(n) for n in range(COUNT)]},
        outputs=[{"name": "out", "path": "/job/out"}],
    )

    code, _, err = project.said("apply", spec, "--detach")

    assert code != 0 and "repeat the command when some of your jobs have ended" in err
    project.until(lambda: "number 15 of 15\n" in said_in(project, 15))
    found = project.status()
    assert found["state"] == "running" and "Job violates accounting/QOS policy" in found["reason"]
    states = {node["task"]: node["state"] for node in found["nodes"]}
    assert [n for n in range(COUNT) if states[n] == "waiting"] == [20, 21]
    before = arrays(project)
    assert [line.split()[0] for line in before] == [found["run"], f"{found['run']}.1"]

    refusing.unlink()
    monkeypatch.setenv("RUNSPEC_HOME", str(tmp_path / "another machine"))
    assert project.said("adopt", "slurm", found["run"])[0] == 0
    code, _, err = project.said("apply", spec, "--detach")

    assert code == 0, err
    assert arrays(project)[:2] == before and len(arrays(project)) == 3
    project.until(lambda: "number 21 of 21\n" in said_in(project, 21))
    assert project.log("job", "--task", "15") == "[task 15] number 15 of 15\n"
    client = SlurmClient(SlurmOptions(workspace=str(project.workspace)))
    entered = client.shell(found["run"], 21, 0, ["printenv", "RUNSPEC_TASK"], terminal=False)
    assert subprocess.run(entered.argv, capture_output=True, text=True).stdout == "21\n"
    client.stop(found["run"], {16})
    project.until(lambda: state_of(project, 16) == "cancelled")
    go.touch()
    project.until(lambda: not project.alive())
    found = project.status()
    assert (found["state"], found["exit_code"]) == ("failed", 9)
    ended = {node["task"]: (node["state"], node["exit_code"]) for node in found["nodes"]}
    other = {BAD: ("failed", 9), 16: ("cancelled", 143)}
    assert ended == {n: other.get(n, ("succeeded", 0)) for n in range(COUNT)}
    files = project.fetched()
    assert set(files.values()) >= {f"number {n} of {n}\n" for n in (0, 9, 10, 21)}
    assert project.said("destroy", "job")[0] == 0
    assert [file for file in project.left() if file.startswith("runs/")] == []


def test_max_parallel_holds_for_all_arrays_together(project: Project) -> None:
    """There is room for all tasks, and Slurm itself bounds each array alone."""
    project.started("sleep 1", sweep={"n": [str(n) for n in range(13)]}, max_parallel=4)
    most = 0

    def over() -> bool:
        nonlocal most
        states = project.jobs("%T", "--states=pending,running,completing")
        most = max(most, states.count("RUNNING"))
        return not states

    project.until(over)

    assert 1 < most <= 4
    assert project.status()["state"] == "succeeded"


def test_destroy_knows_the_arrays_that_a_dead_apply_has_submitted(
    project: Project, refusing: Path
) -> None:
    project.profile(sbatch=["--hold"])
    spec = project.write("true", sweep={"n": [str(n) for n in range(COUNT)]})
    assert project.said("apply", spec, "--detach")[0] != 0
    assert len(arrays(project)) == 2

    code, _, err = project.said("destroy", "job", "--yes")

    assert code == 0, err
    assert project.alive() == []
    assert [file for file in project.left() if file.startswith("runs/")] == []


def test_a_cluster_that_does_not_say_its_limits_again_goes_on_with_the_same_arrays(
    project: Project, refusing: Path
) -> None:
    """A busy controller may not answer in time."""
    project.profile(sbatch=["--hold"])
    spec = project.write("true", sweep={"n": [str(n) for n in range(COUNT)]})
    assert project.said("apply", spec, "--detach")[0] != 0
    run = project.status()["run"]
    refusing.write_text("#!/bin/sh\nexit 1\n")
    refusing.rename(refusing.with_name("scontrol"))

    code, _, err = project.said("apply", spec, "--detach")

    assert code == 0 and f"continuing run {run}" in err, err
    assert len(arrays(project)) == 3
    assert f"run {run} is already waiting" in project.said("apply", spec, "--detach")[2]
    project.said("destroy", "job", "--yes")


def test_destroy_ends_all_arrays_of_a_run_whose_record_somebody_has_removed(
    project: Project,
) -> None:
    """Scratch file systems remove old files."""
    project.profile(sbatch=["--hold"])
    spec = project.write("true", sweep={"n": [str(n) for n in range(COUNT)]})
    assert project.said("apply", spec, "--detach")[0] == 0
    assert len(arrays(project)) == 3
    for record in project.workspace.glob("runs/*/record.json"):
        record.unlink()

    code, _, err = project.said("destroy", "job", "--yes")

    assert code == 0, err
    assert project.alive() == []
