"""Machines on AWS Batch, rehearsed: room for all nodes, one machine for each, and queues that exist already."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import boto3
import pytest

from runspec_emulators.aws.region import Region
from runspec_jobs.cli.app import run
from runspec_jobs.state import run_record
from tests.support.aws.emulated_account import PROFILE, REGION, Capture, jobs, profile, write
from tests.support.wait import until

pytestmark = pytest.mark.slow
NOBODY = "http://127.0.0.1:9"


def queue(name: str, **resources: Any) -> None:
    """Make a queue and an environment, as another tool would."""
    batch = boto3.client("batch", region_name=REGION)
    given = {
        "type": "EC2",
        "maxvCpus": 64,
        "instanceTypes": ["c6i.4xlarge"],
        "instanceRole": PROFILE["instance_role"],
        "subnets": ["subnet-1"],
        "allocationStrategy": "BEST_FIT_PROGRESSIVE",
    }
    batch.create_compute_environment(
        computeEnvironmentName=name, type="MANAGED", computeResources={**given, **resources}
    )

    def valid() -> bool:
        asked = batch.describe_compute_environments(computeEnvironments=[name])
        return bool(asked["computeEnvironments"][0]["status"] == "VALID")

    until(valid)
    order = [{"order": 1, "computeEnvironment": name}]
    batch.create_job_queue(jobQueueName=name, priority=1, computeEnvironmentOrder=order)


def machines(region: Region) -> list[str]:
    """Give the machine of each attempt there was."""
    batch = boto3.client("batch", region_name=REGION)
    every = [job["id"] for job in jobs(region)]
    found = batch.describe_jobs(jobs=every)["jobs"]
    attempts = [attempt for job in found for attempt in job.get("attempts", ())]
    return [attempt["container"]["containerInstanceArn"] for attempt in attempts]


def test_four_of_the_largest_machines_have_room(region: Region, tmp_path: Path) -> None:
    """They have 768 vCPUs; the environment had 256, and the job waited for ever."""
    profile(tmp_path, instance_types=["p5.48xlarge"])

    assert run(["apply", write("true", cluster={"nodes": 4, "gpus": 8, "cpus": 16})]) == 0


def test_a_limit_that_is_too_low_is_told_before_anything_is_made(
    region: Region, tmp_path: Path, capsys: Capture
) -> None:
    profile(tmp_path, instance_types=["p5.48xlarge"], max_vcpus=256)

    assert run(["apply", write("true", cluster={"nodes": 4, "gpus": 8, "cpus": 16})]) == 2

    assert "have 768 vCPUs, but max_vcpus is 256" in capsys.readouterr().err
    assert jobs(region) == []


@pytest.mark.parametrize(
    "cluster,types",
    [({"gpus": 2}, []), ({}, ["c6i.8xlarge", "c6i.large"]), ({"gpus": 1}, ["p4d.24xlarge"])],
)
def test_nodes_of_a_launcher_have_a_spot_machine_each(
    region: Region, tmp_path: Path, cluster: dict[str, Any], types: list[str]
) -> None:
    region.control("PUT", "settings", {"instance_choice": "largest"})
    profile(tmp_path, instance_types=types)
    job = write("true", launch="torchrun", cluster={"nodes": 3, "capacity": "spot", **cluster})

    run(["apply", job])

    assert len(machines(region)) >= 3
    assert len(set(machines(region)[:3])) == 3


def test_nodes_run_in_a_queue_of_one_s_own_whatever_runspec_would_choose(
    region: Region, tmp_path: Path
) -> None:
    """The definition named a type of runspec's table, which the queue does not have: it waited for ever."""
    queue("mine")
    profile(tmp_path, queue="mine")

    assert run(["apply", write("true", cluster={"nodes": 2})]) == 0

    (record,) = run_record.list_all()
    survey = json.loads((record.folder / "facts.json").read_bytes())["survey"]
    assert survey == {
        "environments": [
            {"name": "mine", "type": "EC2", "max_vcpus": 64, "instance_types": ["c6i.4xlarge"]}
        ]
    }


def test_nodes_for_a_queue_of_spot_machines_are_refused_with_a_way_out(
    region: Region, tmp_path: Path, capsys: Capture
) -> None:
    """SubmitJob accepts such a job, which stays RUNNABLE for ever."""
    queue("mine", type="SPOT", allocationStrategy="SPOT_PRICE_CAPACITY_OPTIMIZED")
    profile(tmp_path, queue="mine")

    assert run(["apply", write("true", cluster={"nodes": 2})]) == 2

    said = capsys.readouterr().err
    assert "AWS Batch never runs multi-node jobs in the environments of the queue mine" in said
    assert run(["apply", write("true", cluster={"nodes": 2, "capacity": "spot"})]) == 0


def requests(plan: str) -> tuple[str, str]:
    """Give the digest of a plan and its requests: what it costs stands between them."""
    return plan.partition("\n")[0], plan.partition("\nrequests\n")[2]


def test_a_plan_for_a_queue_is_made_without_a_network_and_says_so(
    region: Region, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    queue("mine")
    profile(tmp_path, queue="mine")
    job = write("true", cluster={"nodes": 2})
    note = "AWS was not asked whether this job can run in the queue mine"
    assert run(["plan", job]) == 0
    asked = capsys.readouterr()
    assert note not in asked.err

    monkeypatch.setenv("AWS_ENDPOINT_URL_BATCH", NOBODY)
    assert run(["plan", job]) == 0

    offline = capsys.readouterr()
    assert note in offline.err
    assert requests(offline.out) == requests(asked.out)
    assert "x c6i.4xlarge: " in asked.out  # a machine of the queue
    assert "unknown, because the queue mine chooses the machines" in offline.out
