"""Attempts on Slurm that start no program, and what they say."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from runspec_agent.base.job_env import STOPPED
from runspec_agent.job.slurm_batch import Batch
from runspec_agent.store.folder import FolderBucket

RECORD: dict[str, Any] = {
    "run": "r",
    "shape": "single",
    "nodes": 1,
    "slots": 1,
    "launch": "none",
    "attempts": 1,
    "spot_attempts": 3,
    "sweep": [],
}
ENV = {
    "RUNSPEC_RUN": "r",
    "RUNSPEC_JOB": "7",
    "RUNSPEC_TASK": "0",
    "RUNSPEC_ATTEMPT": "2",
    "SLURM_JOB_ID": "7",
    "SLURMD_NODENAME": "node-a",
}
SIGNALS: Any = None  # it waits for none


@pytest.fixture
def bucket(tmp_path: Path) -> FolderBucket:
    found = FolderBucket({"RUNSPEC_STORE": f"file://{tmp_path}"})
    found.put("runs/r/record.json", json.dumps(RECORD).encode())
    return found


def test_a_requeued_task_that_has_succeeded_says_so_and_succeeds(
    bucket: FolderBucket, capsys: pytest.CaptureFixture[str]
) -> None:
    """Somebody may have the whole of an array queued again."""
    bucket.put("runs/r/ends/0/1/batch", b'{"code": 0, "why": null}')

    code = Batch(bucket, ENV).run(["true"], SIGNALS)

    said = "runspec: an earlier attempt has succeeded: this task has nothing to do\n"
    assert (code, capsys.readouterr().err) == (0, said)
    assert json.loads(bucket.get("runs/r/ends/0/2/batch") or b"{}")["code"] == 0


def test_an_end_that_cannot_be_recorded_is_told(
    bucket: FolderBucket, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bucket.put("runs/r/stop/0", b"")
    (tmp_path / "runs/r/ends").write_text("a file, and no folder")

    code = Batch(bucket, ENV).run(["true"], SIGNALS)

    assert code == STOPPED
    assert "runspec: the exit code cannot be recorded: " in capsys.readouterr().err
