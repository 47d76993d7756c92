"""What nobody remembers at AWS Batch, rehearsed: many runs cost no more calls than few, and what lives is spared."""

from __future__ import annotations

import os
from pathlib import Path

import boto3
import pytest

from runspec_aws import timing
from runspec_emulators.aws.region import Region
from runspec_jobs.cli.app import run
from tests.support.aws.emulated_account import (
    BUCKET,
    REGION,
    Capture,
    await_job,
    calls,
    jobs,
    left,
    write,
)

pytestmark = pytest.mark.slow


def forgotten(folder: Path, first: int, count: int) -> None:
    """Have runs in the bucket that AWS Batch has forgotten, and so have we."""
    s3 = boto3.client("s3", region_name=REGION)
    for number in range(first, first + count):
        for name in ("record.json", "claim"):
            key = f"{folder.name}/runs/old-{number:06}/{name}"
            s3.put_object(Bucket=BUCKET, Key=key, Body=b"{}")


def made_by(region: Region, *words: str) -> list[str]:
    before = len(calls(region))
    assert run(["gc", "aws-batch", *words]) == 0
    return [call["operation"] for call in calls(region)[before:]]


def test_the_calls_do_not_grow_with_the_runs_that_are_forgotten(
    region: Region, tmp_path: Path, capsys: Capture
) -> None:
    run(["apply", write("echo kept")])
    forgotten(tmp_path, 0, 2)
    few = made_by(region)
    forgotten(tmp_path, 2, 30)

    many = made_by(region)
    capsys.readouterr()
    removing = made_by(region, "--yes")

    assert few == many == removing
    assert capsys.readouterr().out.count("removed run old-") == 32
    assert made_by(region).count("ListJobs") == 0  # with nothing forgotten


def test_a_job_that_no_list_shows_yet_is_spared(
    region: Region, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    """It was submitted a moment ago, from another machine."""
    run(["apply", write("sleep 60"), "--detach"])
    await_job(region)
    monkeypatch.setattr(timing, "DEFAULT", timing.Timing(settle_s=8.0, quiet_s=0.2))
    monkeypatch.setenv("RUNSPEC_HOME", str(tmp_path / "another"))
    forgotten(tmp_path, 0, 1)
    region.control("PUT", "settings", {"list_lag_s": 8.0})

    assert run(["gc", "aws-batch", "--yes"]) == 0

    assert "found   run job-" in capsys.readouterr().out
    assert [job["running"] for job in jobs(region)] == [True]
    run(["gc", "aws-batch", "--yes", "--alive"])


@pytest.mark.parametrize("verb", ["cancel", "destroy"])
def test_a_run_whose_record_is_damaged_is_ended(
    region: Region, tmp_path: Path, capsys: Capture, verb: str
) -> None:
    """By what the service and the bucket have of it, as gc finds it."""
    run(["apply", write("exec sleep 600"), "--detach"])
    name = capsys.readouterr().out.strip()
    await_job(region)
    Path(os.environ["RUNSPEC_HOME"], "runs", name, "plan.json").write_bytes(b"{garbage")

    assert run([verb, name]) == 0

    assert not any(job["running"] for job in jobs(region))
    kept = [key for key in left(region, tmp_path) if f"/{name}/" in key]
    assert bool(kept) is (verb == "cancel")
