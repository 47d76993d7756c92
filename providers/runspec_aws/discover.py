"""Facts for plans: the compute environments behind a job queue of the profile, and what a new region offers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from botocore.config import Config

from runspec_aws.errors import got, translated
from runspec_aws.options import AwsOptions
from runspec_aws.resources import OFFERED
from runspec_aws.session import Session
from runspec_ec2 import ec2_catalogue
from runspec_jobs.provider import RunspecError

# A plan does not wait long for a network that is not there: it is made without these facts.
BRIEF = Config(
    retries={"mode": "standard", "total_max_attempts": 2}, connect_timeout=3, read_timeout=10
)


def survey(options: AwsOptions) -> dict[str, Any]:
    """Return the environments of the profile's queue, in the order of the queue; nothing if they cannot be read.

    The list is empty if there is no such queue, or if it has no compute environments. What jobs use at the moment
    is left out, so that a plan is the same tomorrow.
    """
    try:
        batch = Session(options).new_client("batch", BRIEF)
        return {"environments": environments(batch, options.queue or "")}
    except RunspecError:  # a plan needs no answer: `check` then notes that nobody was asked
        return {}


def offers(options: AwsOptions) -> dict[str, Any]:
    """Return the instance types that EC2 offers in the region, of those in the catalogue; nothing if it is not told.

    https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_DescribeInstanceTypeOfferings.html
    """
    try:
        ec2 = Session(options).new_client("ec2", BRIEF)
        with translated("describe_instance_type_offerings"):
            pages = ec2.get_paginator("describe_instance_type_offerings")
            offered = {
                offering["InstanceType"]
                for page in pages.paginate(LocationType="region")
                for offering in got(page, "InstanceTypeOfferings")
            }
    except RunspecError:  # then the catalogue decides what the region offers
        return {}
    return {OFFERED: sorted(offered & {machine.name for machine in ec2_catalogue().machines})}


def environments(batch: Any, queue: str) -> list[dict[str, Any]]:
    """Return what the environments of *queue* are. Raises the errors of `Client.call`."""
    with translated("describe_job_queues"):
        queues = got(batch.describe_job_queues(jobQueues=[queue]), "jobQueues")
    order = [entry for queue in queues for entry in queue.get("computeEnvironmentOrder", ())]
    names = [e["computeEnvironment"] for e in sorted(order, key=lambda entry: entry["order"])]
    if not names:
        return []
    with translated("describe_compute_environments"):
        answer = batch.describe_compute_environments(computeEnvironments=names)
    there = {e["computeEnvironmentArn"]: e for e in got(answer, "computeEnvironments")}
    return [_shown(there[name]) for name in names if name in there]


def _shown(environment: Mapping[str, Any]) -> dict[str, Any]:
    resources = environment.get("computeResources", {})
    return {
        "name": environment["computeEnvironmentName"],
        "type": resources.get("type", "UNMANAGED"),
        "max_vcpus": resources.get("maxvCpus"),
        "instance_types": list(resources.get("instanceTypes", ())),
    }
