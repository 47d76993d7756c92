"""What reads leave alone, `reconcile` ends or notes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from runspec_jobs.provider import State
from runspec_slurm.client import SlurmClient
from runspec_slurm.status import states
from tests.support.slurm.forgetful_queue import forgetful


@pytest.mark.process
def test_an_end_is_kept_by_reconcile_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    client, run = forgetful(tmp_path, monkeypatch, "7", 3600), tmp_path / "runs/job-a1"
    (run / "ends/0/1").mkdir(parents=True)
    (run / "ends/0/1/batch").write_text('{"code": 3}')

    found = client.state("job-a1")

    assert (found.state, found.exit_code) == (State.FAILED, 3)
    assert not (run / "last").exists(), "a read has changed the workspace"
    assert client.reconcile("job-a1") == ()
    assert states.from_json(json.loads((run / "last").read_text())) == found
    assert SlurmClient(client.options).state("job-a1") == found


@pytest.mark.process
def test_a_second_job_of_a_run_is_ended_by_reconcile_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Which is there after a reply of sbatch was lost; the run is claimed for the first one before."""
    waits = "|N/A|PENDING|Priority|0|0|9|N/A|N/A||/w|job-a1|"
    client = forgetful(tmp_path, monkeypatch, "", 0, f"12{waits}\n7{waits}")
    run, called = tmp_path / "runs/job-a1", tmp_path / "called"
    (run / "claim").unlink()
    (tmp_path / "bin/scancel").write_text(f'#!/bin/sh\necho "$*" >>{called}\n')
    (tmp_path / "bin/scancel").chmod(0o700)

    assert client.jobs.find("job-a1") == {"job": "7"}
    assert client.state("job-a1").state is State.WAITING
    assert not called.exists(), "a read has ended a job"
    assert not (run / "claim").exists(), "a read has claimed the run"

    assert list(client.reconcile("job-a1")) == ["cancelled 1 job of the same run"]
    assert called.read_text() == "-- 12\n"
    assert (run / "claim").read_text() == "7"
    assert list(client.reconcile("job-a1")) == []


@pytest.mark.process
def test_the_queue_is_read_without_making_the_workspace(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = forgetful(tmp_path, monkeypatch, "7", 0)
    away = SlurmClient(client.options.model_copy(update={"workspace": f"{tmp_path}/away"}))

    assert away.queue.of_name("job-a1") == []
    assert away.queue.all() == []

    assert not (tmp_path / "away").exists()
