"""What runs share on AWS Batch, and what nobody's record knows, rehearsed."""

from __future__ import annotations

from pathlib import Path

import boto3
import pytest

from runspec_emulators.aws.region import Region
from runspec_jobs.cli.app import run
from tests.support.aws.emulated_account import (
    REGION,
    Capture,
    await_job,
    jobs,
    left,
    write,
)

pytestmark = pytest.mark.slow


def test_gc_deletes_resources_without_a_record(
    region: Region, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    run(["apply", write("sleep 60"), "--detach"])
    await_job(region)
    monkeypatch.setenv("RUNSPEC_HOME", str(tmp_path / "another"))
    capsys.readouterr()

    assert run(["gc", "aws-batch"]) == 0
    found = capsys.readouterr().out
    assert run(["gc", "aws-batch", "--yes"]) == 0
    spared = [j for j in jobs(region) if j["running"]]
    assert run(["gc", "aws-batch", "--yes", "--alive"]) == 0

    assert "whose job is alive" in found
    assert len(spared) == 1
    assert left(region, tmp_path) == []
    assert not any(j["running"] for j in jobs(region))


def test_gc_deletes_launch_templates_and_placement_groups(
    region: Region, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    """They have no tags: a name that only looks like ours is somebody else's."""
    run(["apply", write("echo hi", cluster={"disk": "47GiB", "placement": "close"})])
    ec2 = boto3.client("ec2", region_name=REGION)
    for name in ("runspec-machine-of-mine", "machine-0123456789ab"):
        ec2.create_launch_template(LaunchTemplateName=name, LaunchTemplateData={})
    monkeypatch.setenv("RUNSPEC_HOME", str(tmp_path / "another"))

    assert run(["gc", "aws-batch", "--yes"]) == 0

    assert left(region, tmp_path) == []
    templates = ec2.describe_launch_templates()["LaunchTemplates"]
    assert {t["LaunchTemplateName"] for t in templates} == {
        "runspec-machine-of-mine",
        "machine-0123456789ab",
    }
    assert ec2.describe_placement_groups()["PlacementGroups"] == []
    for template in templates:
        ec2.delete_launch_template(LaunchTemplateId=template["LaunchTemplateId"])


def test_a_queue_with_anybodys_jobs_in_it_is_not_taken_away(
    region: Region, capsys: Capture
) -> None:
    run(["apply", write("echo ours")])
    batch = boto3.client("batch", region_name=REGION)
    queue = batch.describe_job_queues()["jobQueues"][0]["jobQueueName"]
    definition = batch.describe_job_definitions(status="ACTIVE")["jobDefinitions"][0]
    region.control("PUT", "settings", {"capacity": "none"})
    theirs = definition["jobDefinitionArn"]
    batch.submit_job(jobName="theirs", jobQueue=queue, jobDefinition=theirs)
    run(["destroy", "job"])

    assert run(["destroy", "--site"]) == 4

    assert "theirs is" in capsys.readouterr().err
    assert [q["jobQueueName"] for q in batch.describe_job_queues()["jobQueues"]] == [queue]


def test_destroy_spares_shared_resources_that_another_user_needs(
    region: Region, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    """Two records of equal specs: one queue, one definition, one upload, and a job that waits."""
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "x").write_text("still here\n")
    job = write(
        "cat ${mounts.code}/x | tee ${outputs.o}/y",
        mounts=[{"name": "code", "source": "./code", "target": "/job/code"}],
        outputs=[{"name": "o", "path": "/job/o"}],
    )
    mine, theirs = (str(tmp_path / name) for name in ("mine", "theirs"))
    monkeypatch.setenv("RUNSPEC_HOME", mine)
    assert run(["apply", job]) == 0
    region.control("PUT", "settings", {"capacity": "none"})
    monkeypatch.setenv("RUNSPEC_HOME", theirs)
    assert run(["apply", job, "--detach"]) == 0

    monkeypatch.setenv("RUNSPEC_HOME", mine)
    ended = run(["destroy", "job"]), run(["destroy", "--site"])
    region.control("PUT", "settings", {"capacity": "all"})
    monkeypatch.setenv("RUNSPEC_HOME", theirs)
    capsys.readouterr()

    assert ended == (0, 4)
    assert run(["logs", "-f", "job"]) == 0
    assert capsys.readouterr().out == "still here\n"
    assert run(["fetch", "job", "out"]) == 0
    assert (tmp_path / "out/o/y").read_text() == "still here\n"
    assert run(["apply", job, "--new"]) == 0
    assert run(["destroy", "job"]) == 0
