"""The main job, as the README has it: Chainer over MPI on two nodes, from the spec to the model."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.main_job import SPEC, MainJob, apply_main_job

ROW = re.compile(r"^(?:\[node 0\] )?(\d+)((?:\s+[\d.e-]+){5})\s*$")

pytestmark = pytest.mark.slow


def runspec(*words: str) -> subprocess.CompletedProcess[str]:
    line = [sys.executable, "-m", "runspec_jobs", *words]
    return subprocess.run(line, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def applied(tmp_path_factory: pytest.TempPathFactory) -> MainJob:
    return apply_main_job(tmp_path_factory)


@pytest.fixture(autouse=True)
def _home(applied: MainJob, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RUNSPEC_HOME", str(applied.home))


def lines(applied: MainJob) -> list[str]:
    return [line.removeprefix("[node 0] ") for line in applied.log.splitlines()]


def test_the_first_line_says_which_data_it_is(applied: MainJob) -> None:
    """Of the program's own lines: the preparation and MPI's launcher may have said something before."""
    log = lines(applied)
    own = [line for line in log if not re.match(r"prepare_data:|\[\S+:\d+\]|$", line)]

    assert re.match(r"data: (MNIST|scikit-learn digits), \d+ training and \d+ validation", own[0])


def test_the_log_reports_processes_communicator_unit_batch_and_epochs(
    applied: MainJob,
) -> None:
    log = "\n".join(lines(applied))

    assert "Num process (COMM_WORLD): 2" in log
    assert "Using naive communicator" in log
    assert "Num unit: 1000" in log
    assert "Num Minibatch-size: 100" in log
    assert "Num epoch: 20" in log


def test_the_table_has_its_six_columns_and_a_row_for_every_epoch(
    applied: MainJob,
) -> None:
    header = (
        "epoch main/loss validation/main/loss main/accuracy validation/main/accuracy elapsed_time"
    )
    log = lines(applied)

    assert header in [" ".join(line.split()) for line in log]
    assert [int(m[1]) for m in map(ROW.match, log) if m] == list(range(1, 21))


@pytest.mark.essential
def test_fetch_brings_back_a_model_that_is_right_nine_times_of_ten(
    applied: MainJob, tmp_path: Path
) -> None:
    done = runspec("fetch", "mnist-chainer", str(tmp_path))

    assert done.returncode == 0, done.stderr
    snapshot = tmp_path / "node-0" / "model" / "model_epoch_20.npz"
    assert snapshot.stat().st_size > 1_000_000
    log = json.loads((tmp_path / "node-0" / "model" / "log.json").read_text())
    assert log[-1]["validation/main/accuracy"] >= 0.9
    shown = [line.split() for line in lines(applied) if ROW.match(line)]
    assert float(shown[-1][4]) == pytest.approx(log[-1]["validation/main/accuracy"], rel=1e-3)


def test_both_nodes_worked_in_folders_of_their_own(applied: MainJob) -> None:
    nodes = list((applied.home / "local" / "runs").glob("*/tasks/0/nodes/*"))

    assert sorted(node.name for node in nodes) == ["0", "1"]


def test_an_environment_is_built_once_and_its_progress_shown(
    applied: MainJob,
) -> None:
    told = applied.told

    assert "build the environment of" in told
    assert re.search(r"Installed \d+ packages", told)
    assert len([e for e in (applied.home / "local" / "envs").iterdir() if e.is_dir()]) == 1


def test_applying_it_again_starts_nothing(applied: MainJob) -> None:
    done = runspec("apply", str(SPEC))

    assert done.returncode == 0
    assert "starting no other" in done.stderr


def test_a_python_that_is_too_new_is_told_before_anything_is_built(tmp_path: Path) -> None:
    spec = tmp_path / "job.yaml"
    text = SPEC.read_text().replace('">=3.8,<3.12"', '">=3.99"')
    spec.write_text(text.replace("mnist/requirements.txt", "[six]").replace("./mnist", "."))

    done = runspec("plan", str(spec))

    assert done.returncode == 2
    assert "container.python: no Python on this machine satisfies '>=3.99'; found" in done.stderr
    assert "hint: install one" in done.stderr
