"""A batch script and its import run side by side on a real Slurm, and write the same files with the same exit codes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.emulators.slurm.hand import job, until
from tests.support.slurm.project import (
    Project,
    cluster as cluster,  # a fixture
    project as project,  # a fixture
)

pytestmark = pytest.mark.slow
OVER = {"COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL"}
SCRIPTS = {
    "one task": """#!/bin/bash
#SBATCH --job-name=One --time=2
#SBATCH --cpus-per-task=1
array=(a b)   # a word of bash
echo "${array[1]} $SLURM_JOB_NAME $SLURM_CPUS_PER_TASK" > said
cat input >> said; echo more >> input
mkdir -p deep/er && ln -s ../../said deep/er/link
exit 3
""",
    "an array": """#!/bin/bash
#SBATCH --array=2,5-6 --mem=50
echo "$SLURM_ARRAY_TASK_ID of $SLURM_ARRAY_TASK_COUNT to $SLURM_ARRAY_TASK_MAX" > task-$SLURM_ARRAY_TASK_ID
[ "$SLURM_ARRAY_TASK_ID" != 5 ] || exit 7
""",
    "tasks of srun": """#!/bin/bash
#SBATCH -N 2 --ntasks-per-node=2 --job-name=ranks
export GREETING="two words"
srun --label --kill-on-bad-exit \\
  sh -c 'echo "$GREETING $SLURM_PROCID of $SLURM_NTASKS" > rank-$SLURM_PROCID'
""",
    "a script of two nodes without srun": """#!/bin/sh
#SBATCH --nodes=2
echo "$SLURM_NNODES nodes" > once-$SLURM_NODEID
""",
    "steps of several tasks on one node": """#!/bin/bash
#SBATCH --ntasks-per-node=2
false
srun sh -c 'echo first > step-1-$SLURM_PROCID'
srun -n 1 sh -c 'echo second > step-2-$SLURM_PROCID'
""",
    "one task with calls of srun": """#!/bin/bash
#SBATCH --chdir=.
for i in 1 2; do srun -n 1 sh -c "echo $i > loop-$i"; done
srun cat input > copied
""",
    "words of Slurm's own": """#!/bin/bash
#SBATCH --exclusive --exclude=node1 --begin=now --comment="for the paper"
#SBATCH --mail-type=NONE,END --mail-user=me@example.org
echo "$SLURM_CPUS_ON_NODE processors" > said
[ "$SLURMD_NODENAME" != node1 ] || exit 5
""",
    "several steps": """#!/bin/bash
#SBATCH -N 2 -n 2
srun -N 1 -n 1 sh -c 'echo first > step-1'
srun sh -c 'echo second > step-2-$SLURM_PROCID' || exit 4
""",
}


def run_by_sbatch(project: Project, folder: Path, script: Path) -> tuple[dict[str, str], set[int]]:
    """Return the files that the script writes, and the exit codes of its tasks."""
    words = ["sbatch", "--parsable", "--output=/dev/null", f"--chdir={folder}", str(script)]
    number = project.cluster.run(*words).strip()
    until(lambda: set(job(project.cluster, number).split()) <= OVER)
    codes = project.cluster.run("scontrol", "show", "job", number, "--oneliner")
    ended = {int(word[9:].partition(":")[0]) for word in codes.split() if word[:9] == "ExitCode="}
    return read_files(folder), ended


def read_files(folder: Path) -> dict[str, str]:
    files = (path for path in folder.rglob("*") if path.is_file() or path.is_symlink())
    return {
        str(path.relative_to(folder)): path.readlink().as_posix()
        if path.is_symlink()
        else path.read_text()
        for path in files
        if path.name not in (".copied", "job.yaml", "runspec-profile.yaml")
    }


@pytest.mark.parametrize("name", SCRIPTS)
def test_an_import_does_what_its_script_does(
    project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    theirs, ours = tmp_path / "theirs", tmp_path / "ours"
    for folder in (theirs, ours):
        folder.mkdir()
        (folder / "input").write_text("input\n")
        (folder / "train.sbatch").write_text(SCRIPTS[name])
    expected, codes = run_by_sbatch(project, theirs, theirs / "train.sbatch")

    monkeypatch.chdir(ours)
    code, _, err = project.said("import", "train.sbatch", "--to", ".")
    assert code == 0, err
    (ours / "runspec-profile.yaml").unlink()  # the test's own is that of the user
    ended = project.told("apply", "job.yaml")["run"]
    assert project.said("fetch", ended, str(tmp_path / "fetched"))[0] == 0

    found: dict[str, str] = {}
    for path, text in read_files(tmp_path / "fetched").items():
        found[path.split("work/", 1)[-1]] = text
    shown = {
        path.split("/", 1)[-1] if path.split("/")[0].isdecimal() else path: text
        for path, text in found.items()
    }
    assert shown == expected
    assert {node["exit_code"] for node in project.status(ended)["nodes"]} == codes
