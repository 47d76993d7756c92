"""Machines on AWS Batch, rehearsed: room for all nodes, and one machine for each."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import boto3
import pytest

from runspec_emulators.aws.region import Region
from runspec_jobs.cli.app import run
from tests.support.aws.emulated_account import REGION, Capture, jobs, profile, write

pytestmark = pytest.mark.slow


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
