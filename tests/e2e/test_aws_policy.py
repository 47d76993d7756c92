"""The rights that `runspec policy` prints are those that a whole life of a job uses."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from runspec_aws import timing
from runspec_emulators.aws.region import Objects, Region
from runspec_jobs.cli.app import run
from tests.support.aws import iam_requests
from tests.support.aws.emulated_account import (
    BUCKET,
    REGION,
    Capture,
    calls,
    ended,
    profile,
    write,
)
from tests.support.aws.iam_policy import Asked, allows, covers

pytestmark = pytest.mark.slow

OTHER_COMMANDS = ("Doctor", "Prices")  # what no command about a job calls


@pytest.fixture
def seen(tmp_path: Path) -> Path:
    """Give where moto writes down what it is asked."""
    return tmp_path / "seen"


@pytest.fixture
def region(seen: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Region]:
    monkeypatch.setattr(timing, "DEFAULT", timing.Timing(settle_s=1.0, quiet_s=0.2))
    recording = {"MOTO_ENABLE_RECORDING": "true", "MOTO_RECORDER_FILEPATH": str(seen)}
    objects = Objects(tmp_path / "objects", recording)
    objects.make_bucket(BUCKET, REGION)
    seen.write_text("")
    found = Region(tmp_path / "region", REGION, objects, terminate_grace_s=2.0)
    for name, value in found.env.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(tmp_path)
    profile(tmp_path)
    yield found
    found.close()
    objects.close()


def printed(capsys: Capture, *words: str) -> dict[str, Any]:
    capsys.readouterr()
    assert run(["policy", *words]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def test_no_call_falls_outside_the_policy(
    region: Region,
    seen: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: Capture,
) -> None:
    """Actions, resources and conditions; of whoever applies, and of the job by its own role."""
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "a").write_text("a")
    job = write(
        "cp ${mounts.src}/a ${outputs.o}/a; sleep 1",
        mounts=[{"name": "src", "source": "./src", "target": "/job/src"}],
        outputs=[{"name": "o", "path": "/job/o", "sync": "1s"}],
        cluster={"nodes": 2, "placement": "close", "disk": "40GiB"},
        secrets={"TOKEN": {"from": "caller"}},
    )
    monkeypatch.setenv("TOKEN", "s3cret")
    mine, of_job = printed(capsys, job), printed(capsys, "--job", job)

    first = ended(capsys, job)
    assert first["state"] == "succeeded"
    for words in (
        ["logs", "job"],
        ["fetch", "job", "out"],
        ["apply", job, "--new", "--detach"],
        ["cancel", "job"],
        ["destroy", "job"],
        ["destroy", first["run"]],
        ["destroy", "--site"],
        ["apply", job, "--new", "--detach"],
    ):
        assert run(words) == 0, words
    monkeypatch.setenv("RUNSPEC_HOME", str(tmp_path / "another"))
    assert run(["gc", "aws-batch", "--yes", "--alive"]) == 0

    wires = list(iam_requests.recorded(seen))
    theirs = [wire for wire in wires if not wire.agent]  # SDKs say who they are
    asked = [a for call in calls(region) for a in iam_requests.of_batch(call)]
    asked += [a for wire in wires if wire not in theirs for a in iam_requests.of_wire(wire)]
    by_job = [a for wire in theirs for a in iam_requests.of_wire(wire)]
    assert sorted({a[:2] for a in asked if not allows(mine, a)}) == []
    assert sorted({a[:2] for a in by_job if not allows(of_job, a)}) == []
    assert {"batch:SubmitJob", "ec2:CreateLaunchTemplate", "s3:PutObject"} <= {
        a.action for a in asked
    }
    read = {"s3:GetObject", "s3:PutObject", "s3:ListBucket", "secretsmanager:GetSecretValue"}
    assert read <= {a.action for a in by_job}
    lists = {wire.query["prefix"][0] for wire in wires if "list-type" in wire.query}
    assert f"{tmp_path.name}/runs/{first['run']}/ends/" in lists
    needed = [s for s in mine["Statement"] if s["Sid"] not in OTHER_COMMANDS]
    unused = {action for s in needed for action in s["Action"]} - {a.action for a in asked}
    assert unused <= {"s3:AbortMultipartUpload", "s3:ListMultipartUploadParts"}  # of broken uploads


ARN = "arn:aws:batch:eu-central-1:123456789012:job-queue/"
RULE = {
    "Effect": "Allow",
    "Action": ["iam:PassRole"],
    "Resource": ["arn:aws:iam::*:role/a*"],
    "Condition": {"StringEquals": {"iam:PassedToService": "ec2.amazonaws.com"}},
}


@pytest.mark.parametrize(
    "asked,allowed",
    [
        (Asked("iam:PassRole", "arn:aws:iam::1:role/ab", iam_requests.MACHINES), True),
        (Asked("iam:PassRole", "arn:aws:iam::1:role/ab", iam_requests.TASKS), False),
        (Asked("iam:PassRole", "arn:aws:iam::1:role/ab"), False),
        (Asked("iam:PassRole", "arn:aws:iam::1:role/b", iam_requests.MACHINES), False),
        (Asked("iam:PassRole", "arn:aws-cn:iam::1:role/ab", iam_requests.MACHINES), False),
        (Asked("iam:GetRole", "arn:aws:iam::1:role/ab", iam_requests.MACHINES), False),
    ],
)
def test_a_right_is_of_an_action_a_resource_and_a_condition(asked: Asked, allowed: bool) -> None:
    assert allows({"Statement": [RULE]}, asked) is allowed


@pytest.mark.parametrize("directive,tags", [("COPY", True), ("REPLACE", False)])
def test_a_copy_asks_for_its_source_as_well(directive: str, tags: bool) -> None:
    sent = {"x-amz-copy-source": "/b/from%20%2B", "x-amz-tagging-directive": directive}

    found = list(iam_requests.of_s3(iam_requests.Wire("", "PUT", "/b/to", {}, b"", sent)))

    target, source = "arn:aws:s3:::b/to", "arn:aws:s3:::b/from +"
    of_tags = [Asked("s3:GetObjectTagging", source), Asked("s3:PutObjectTagging", target)]
    assert found == [
        Asked("s3:PutObject", target),
        Asked("s3:GetObject", source),
        *(of_tags if tags else ()),
    ]


@pytest.mark.parametrize(
    "wanted,covered",
    [
        ("*", True),
        ("arn:aws:batch:eu-central-1:*:job-queue/q", True),
        ("arn:aws:batch:eu-central-1:*:job-queue/?", True),
        ("arn:aws:batch:*:job-queue/q", False),  # over two segments
        ("arn:aws:batch:eu-west-1:*:job-queue/q", False),
        ("arn:aws:batch:eu-central-1:*:job-queue/", False),
    ],
)
def test_a_wildcard_stays_in_its_part_of_an_arn(wanted: str, covered: bool) -> None:
    assert covers(wanted, f"{ARN}q") is covered
