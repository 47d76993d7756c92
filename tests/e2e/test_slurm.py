"""Jobs on a real Slurm, from the spec to nothing left: codes, tries, dependencies, secrets, cancel, destroy, gc."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.support import process_table
from tests.support.slurm.project import Project, cluster as cluster, project as project  # fixtures

pytestmark = pytest.mark.slow
WORD = "canary-of-slurm-5309"
CANARY = f"{WORD} 'q' $x"


@pytest.mark.essential
def test_a_job_gives_its_log_and_its_files_and_leaves_nothing(
    project: Project, tmp_path: Path
) -> None:
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "x.txt").write_text("here\n")

    found = project.ended(
        'cat "${mounts.code}/x.txt"; cp "${mounts.code}/x.txt" "${outputs.out}"; echo "$WORD"',
        mounts=[{"name": "code", "source": "./code", "target": "/job/code"}],
        outputs=[{"name": "out", "path": "/job/out"}],
        env={"WORD": "a, b=c #d"},
    )

    assert (found["state"], found["exit_code"]) == ("succeeded", 0)
    assert project.log() == "here\na, b=c #d\n"
    assert project.fetched() == {"out/x.txt": "here\n"}
    assert project.said("destroy", "job")[0] == 0
    assert project.said("destroy", "--site")[0] == 0
    assert project.left() == []


def test_a_failure_has_its_code_and_is_tried_as_often_as_the_spec_says(project: Project) -> None:
    """Each try appends to the log, and is shown with its own end."""
    found = project.ended('echo "try $RUNSPEC_ATTEMPT"; exit 9', retry={"attempts": 2})

    assert (found["state"], found["exit_code"]) == ("failed", 9)
    assert found["reason"] == "exited with code 9"
    (node,) = project.status()["nodes"]
    assert [(a["number"], a["exit_code"]) for a in node["attempts"]] == [(1, 9), (2, 9)]
    own = [line for line in project.log().splitlines() if line.startswith("try ")]
    assert own == ["try 1", "try 2"]


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        pytest.param(75, "exited with code 75", marks=pytest.mark.matrix),
        (143, "exited with code 143 (SIGTERM)"),
    ],
)
def test_a_code_that_the_program_chose_is_its_own_and_runs_once(
    project: Project, code: int, reason: str
) -> None:
    found = project.ended(f'echo "try $RUNSPEC_ATTEMPT"; exit {code}')

    assert (found["exit_code"], found["reason"]) == (code, reason)
    assert len(project.status()["nodes"][0]["attempts"]) == 1
    assert project.log().splitlines()[0] == "try 1"
    assert "try 2" not in project.log()


def test_a_secret_is_seen_by_the_program_alone(
    project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not by who looks at the plan, the record, the job as Slurm shows it, its script, or any process."""
    monkeypatch.setenv("SOURCE", CANARY)
    project.profile(secrets={"token": "env:SOURCE"})
    name = project.started(
        'printf %s "$TOKEN" >"${outputs.out}/token"; echo ready; sleep 600',
        secrets={"TOKEN": "token"},
        outputs=[{"name": "out", "path": "/job/out"}],
    )
    project.until_said("ready")

    shown = project.cluster.run("scontrol", "show", "job", "-dd")
    number = project.jobs("%i", f"--name={name}")[0]
    shown += project.cluster.run("scontrol", "write", "batch_script", number, "-")
    shown += "".join(project.said("plan", "job.yaml", "--json")[1:]) + project.log()
    lines = b"".join(words for _, words in process_table.words())
    holding = [p for p in project.folder.rglob("*") if p.is_file() and WORD.encode() in read(p)]
    home = Path(project.cluster.places.folder)
    holding += [p for p in home.rglob("*") if p.is_file() and WORD.encode() in read(p)]

    assert "batch -- " in shown
    assert WORD not in shown
    assert WORD.encode() not in lines
    secrets = project.workspace / "runs" / name / "secrets"
    assert holding == [secrets]
    assert secrets.stat().st_mode & 0o777 == 0o600
    assert project.said("cancel", "job")[0] == 0
    assert project.fetched() == {"out/token": CANARY}
    project.said("destroy", "job")
    assert not secrets.exists()


def read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:  # it has gone
        return b""


def test_cancel_lets_a_running_job_save_and_ends_one_that_waits(project: Project) -> None:
    project.started(
        'trap "echo saved >${outputs.out}/state; exit 0" TERM; echo ready; while :; do sleep 0.1; done',
        name="runs",
        outputs=[{"name": "out", "path": "/job/out"}],
    )
    project.profile(after=["afterany:" + project.jobs("%i")[-1]])
    project.started("echo never", name="waits")
    project.until_said("ready", "runs")
    waits = project.status("waits")

    codes = [project.said("cancel", name)[0] for name in ("waits", "runs")]

    assert codes == [0, 0]
    assert (waits["state"], waits["reason"]) == (
        "waiting",
        "waits for other jobs, those of `needs` or of option after (Dependency)",
    )
    assert [project.status(name)["state"] for name in ("waits", "runs")] == ["cancelled"] * 2
    assert project.fetched("runs") == {"out/state": "saved\n"}
    assert project.log("waits") == ""
    assert project.alive() == []


def test_a_job_comes_after_another_and_is_ended_where_it_never_can(project: Project) -> None:
    """`after: [ID]` is for jobs that succeed; by itself Slurm would let it wait for ever."""
    first = project.ended("exit 3", name="first")
    number = re.split(r"\s", project.jobs("%i", f"--name={first['run']}")[0])[0]

    project.profile(after=[f"afterany:{number}"])
    then = project.ended("echo then", name="then")
    project.profile(after=[number])
    never = project.ended("echo never", name="never")

    assert then["state"] == "succeeded"
    assert never["state"] == "failed"
    assert "a job in option after did not end as required" in never["reason"]


def test_gc_deletes_a_run_without_a_record(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With its job, where that is alive, and where that is asked for."""
    name = project.started("sleep 600")
    monkeypatch.setenv("RUNSPEC_HOME", str(project.folder / "another"))

    _, out, _ = project.said("gc", "slurm", "--yes")
    kept = project.alive()
    again = project.said("gc", "slurm", "--yes", "--alive")

    assert f"run {name}, whose job is alive" in out
    assert kept == [name]
    assert again[0] == 0
    project.until(lambda: project.alive() == [])
    assert project.left() == []
