"""A second opinion: AWS Batch as moto has it, which nobody here wrote, with jobs in podman's containers.

What needs no container is in test_aws_both.py. What moto's Batch lacks, so that only the rehearsal is asked: exit codes
in DescribeJobs, attempts and retries, children of arrays that know their index, nodes that know theirs, logs while a
job runs, secrets that reach the job, machines that are reclaimed, jobs that wait for a machine, lists that lag, faults
on request.
"""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import boto3
import pytest

from runspec_aws import timing
from runspec_emulators.aws.region import KEYS, Objects
from runspec_jobs.cli.app import run
from tests.e2e.test_podman import IMAGE, podman as podman
from tests.support.aws.emulated_account import BUCKET, PROFILE, REGION, Capture, account, write
from tests.support.profiles import own_profile

pytestmark = [pytest.mark.slow, pytest.mark.podman]


@pytest.fixture
def moto(
    podman: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Objects]:
    """Give moto's server for everything, with podman as its docker."""
    for name, value in podman.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/docker.sock")
    socket = os.environ["DOCKER_HOST"]
    service = subprocess.Popen(["podman", "system", "service", "--time=0", socket])
    end = time.monotonic() + 90
    while not (tmp_path / "docker.sock").exists():
        assert time.monotonic() < end, "podman does not answer as docker"
        time.sleep(0.05)
    objects = Objects(tmp_path / "moto", {"MOTO_DOCKER_NETWORK_MODE": "host"})
    objects.make_bucket(BUCKET, REGION)
    for name, value in {**KEYS, "AWS_ENDPOINT_URL": objects.url}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(timing, "DEFAULT", timing.Timing(quiet_s=3.0))
    monkeypatch.chdir(tmp_path)
    settings = {**PROFILE, "image": IMAGE, **account()}
    own_profile().write_text(json.dumps({"providers": {"aws-batch": settings}}))
    yield objects
    objects.close()
    service.terminate()
    service.wait()


def reaching(objects: Objects) -> dict[str, str]:
    """Give what a machine of AWS would give to a job, and moto does not."""
    return {**KEYS, "AWS_ENDPOINT_URL_S3": objects.url}


def test_a_job_runs_is_read_fetched_and_taken_away(
    moto: Objects, tmp_path: Path, capsys: Capture
) -> None:
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "x.txt").write_text("from a file\n")
    job = write(
        "cat /job/code/x.txt; echo last; cp /job/code/x.txt /job/out/",
        mounts=[{"name": "code", "source": "./code", "target": "/job/code"}],
        outputs=[{"name": "out", "path": "/job/out"}],
        env=reaching(moto),
    )

    assert run(["apply", job]) == 0, capsys.readouterr()

    assert capsys.readouterr().out.splitlines() == ["from a file", "last"]
    assert run(["fetch", "job", "got"]) == 0
    assert (tmp_path / "got" / "out" / "x.txt").read_text() == "from a file\n"
    assert run(["destroy", "job"]) == 0
    assert run(["destroy", "--site"]) == 0
    s3, batch = boto3.client("s3", region_name=REGION), boto3.client("batch", region_name=REGION)
    assert "Contents" not in s3.list_objects_v2(Bucket=BUCKET)
    assert batch.describe_job_queues()["jobQueues"] == []
    assert batch.describe_compute_environments()["computeEnvironments"] == []


@pytest.mark.matrix
def test_a_job_that_fails_has_failed(moto: Objects, capsys: Capture) -> None:
    job = write("echo no; exit 9", env=reaching(moto))

    assert run(["apply", job]) == 1

    assert capsys.readouterr().out.splitlines() == ["no"]


def test_a_job_is_ended_and_says_by_whom(moto: Objects, capsys: Capture) -> None:
    run(["apply", write("exec sleep 60", env=reaching(moto)), "--detach"])

    assert run(["cancel", "job"]) == 0

    capsys.readouterr()
    run(["status", "job", "--json"])
    found = json.loads(capsys.readouterr().out)
    assert (found["state"], found["reason"]) == ("cancelled", "cancelled by runspec")
