"""Folders on their way to S3: one that was cut off is taken up, and nothing is left of one that was given up."""

from __future__ import annotations

import hashlib
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import boto3
import pytest

from runspec_emulators.aws.region import Objects, Region
from runspec_jobs.cli.app import run
from tests.support.aws.emulated_account import BUCKET, REGION, Capture, write

pytestmark = pytest.mark.slow

SIZE = 160 << 20  # twenty parts
ENOUGH = 3


@pytest.fixture
def cut_off(region: Region, tmp_path: Path) -> str:
    """Give the sum of a large file whose upload was killed when some parts had arrived."""
    (tmp_path / "data").mkdir()
    content = os.urandom(SIZE)
    (tmp_path / "data" / "large.bin").write_bytes(content)
    write(
        "sha256sum < ${mounts.data}/large.bin",
        mounts=[{"name": "data", "source": "./data", "target": "/job/data"}],
    )
    line = [sys.executable, "-m", "runspec_jobs", "apply", "job.yaml", "--detach"]
    going = subprocess.Popen(line, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    end = time.monotonic() + 60
    while len(arrived()) < ENOUGH:
        assert going.poll() is None, "it was through before it could be killed"
        assert time.monotonic() < end
        time.sleep(0.01)
    going.send_signal(signal.SIGKILL)
    going.wait()
    return hashlib.sha256(content).hexdigest()


def uploads() -> list[dict[str, Any]]:
    s3 = boto3.client("s3", region_name=REGION)
    found: list[dict[str, Any]] = s3.list_multipart_uploads(Bucket=BUCKET).get("Uploads", [])
    return found


def arrived() -> list[dict[str, Any]]:
    s3 = boto3.client("s3", region_name=REGION)
    return [
        part
        for upload in uploads()
        for part in s3.list_parts(
            Bucket=BUCKET, Key=upload["Key"], UploadId=upload["UploadId"]
        ).get("Parts", ())
    ]


def parts_sent(objects: Objects) -> int:
    log = (objects.folder / "moto.log").read_text(errors="replace")
    return len(re.findall(r"PUT \S+partNumber=", log))


def test_a_repeated_upload_sends_no_part_twice(
    cut_off: str, objects: Objects, capsys: Capture
) -> None:
    there, before = len(arrived()), parts_sent(objects)

    assert run(["apply", "job.yaml"]) == 0

    whole = -(-SIZE // (8 << 20)) + 1
    assert cut_off in capsys.readouterr().out
    assert there >= ENOUGH
    assert parts_sent(objects) - before <= whole - there
    assert uploads() == []


def test_nothing_is_left_of_an_upload_that_was_given_up(cut_off: str) -> None:
    assert uploads() != []

    assert run(["destroy", "job"]) == 0
    assert run(["destroy", "--site"]) == 0

    assert uploads() == []
