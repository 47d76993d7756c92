"""The least rights: of whoever applies a plan, and of what runs in the job."""

from __future__ import annotations

from typing import Any

import pytest

from runspec_aws import plan, policy
from runspec_jobs.provider import Spec
from tests.support.aws.iam_policy import Asked, allows
from tests.support.aws.specs import SHARED, spec
from tests.unit.runspec_aws.test_plan import RUN, facts, steps


def test_a_policy_names_what_the_plan_makes_and_no_more() -> None:
    wanted = spec()

    found = policy.policy(plan.steps(wanted, RUN, facts(wanted)), facts(wanted).options)

    by_name = {statement["Sid"]: statement for statement in found["Statement"]}
    queue = steps(wanted)["queue"].do.params["jobQueueName"]
    assert by_name["JobQueue"]["Resource"] == [f"arn:aws:batch:eu-central-1:*:job-queue/{queue}"]
    assert by_name["Objects"]["Resource"] == ["arn:aws:s3:::jobs/runspec/*"]
    assert [s["Sid"] for s in found["Statement"] if s["Resource"] == ["*"]] == [
        "Look",
        "LookAtMachines",
    ]
    assert not any("*" in action for s in found["Statement"] for action in s["Action"])


def test_a_policy_for_a_queue_that_is_there_makes_none() -> None:
    wanted = spec()
    with_queue = facts(wanted, queue="mine")

    found = policy.policy(plan.steps(wanted, RUN, with_queue), with_queue.options)

    actions = {action for s in found["Statement"] for action in s["Action"]}
    assert not any(a.startswith(("batch:Create", "batch:Delete")) for a in actions)


@pytest.mark.parametrize(
    "region,partition",
    [("eu-central-1", "aws"), ("cn-north-1", "aws-cn"), ("us-gov-west-1", "aws-us-gov")],
)
def test_a_policy_is_of_the_partition_of_its_region(region: str, partition: str) -> None:
    found = facts(spec(), region=region)

    made = policy.policy(plan.steps(spec(), RUN, found), found.options)

    arns = [arn for s in made["Statement"] for arn in s["Resource"] if arn.startswith("arn:")]
    ours = [arn for arn in arns if ":iam::1" not in arn]  # those of the profile are as they are
    assert {arn.split(":")[1] for arn in ours} == {partition}


def by_name(made: Any) -> dict[str, dict[str, Any]]:
    return {statement["Sid"]: statement for statement in made["Statement"]}


def of_job(wanted: Spec, **profile: Any) -> dict[str, dict[str, Any]]:
    found = facts(wanted, **profile)
    return by_name(policy.job_policy(plan.steps(wanted, RUN, found), found.options))


def test_machines_are_made_under_their_names_and_looked_for_under_any() -> None:
    wanted = spec(cluster={"disk": "100GiB", "nodes": 2, "placement": "close"})

    found = by_name(policy.policy(plan.steps(wanted, RUN, facts(wanted)), facts(wanted).options))

    group = steps(wanted)["placement"].do.params["GroupName"]
    assert found["Close"]["Resource"] == [f"arn:aws:ec2:eu-central-1:*:placement-group/{group}"]
    assert found["Templates"]["Resource"] == ["arn:aws:ec2:eu-central-1:*:launch-template/*"]
    looking = ["ec2:DescribeLaunchTemplates", "ec2:DescribePlacementGroups"]
    assert (found["LookAtMachines"]["Action"], found["LookAtMachines"]["Resource"]) == (
        looking,
        ["*"],
    )


@pytest.mark.parametrize(
    ("key", "may"),
    [
        ("runspec/runs/r-1/outputs/model/0/0/a b", True),
        ("runspec/runs/r-1/record.json", False),
        ("runspec/runs/r-1/claim", False),
        ("runspec/blobs/sha256/1.tar", False),
        ("runspec/store/data/a", False),
        ("other/runs/r-1/outputs/model/0/0/a", False),
    ],
)
def test_a_job_may_delete_outputs_of_runs_alone(key: str, may: bool) -> None:
    wanted, found = spec(), facts(spec())

    made = policy.job_policy(plan.steps(wanted, RUN, found), found.options)

    assert allows(made, Asked("s3:DeleteObject", f"arn:aws:s3:::jobs/{key}")) is may


def test_a_job_by_signed_urls_may_delete_nothing() -> None:
    found = of_job(spec(), job_role=None, files="signed")

    assert not any("s3:DeleteObject" in statement["Action"] for statement in found.values())


POINT = "efs:fs-12345678:fsap-12345678"


@pytest.mark.parametrize("nodes", [1, 2])
@pytest.mark.parametrize("mode,writes", [("ro", False), ("rw", True)])
def test_a_file_system_that_is_mounted_by_iam_is_a_right_of_the_job(
    nodes: int, mode: str, writes: bool
) -> None:
    wanted = spec(mounts=[{**SHARED, "mode": mode}], cluster={"nodes": nodes})

    found = of_job(wanted, shared={"work": POINT})["Shared0"]

    actions = ["elasticfilesystem:ClientMount", "elasticfilesystem:ClientWrite"]
    assert found["Action"] == actions[: 1 + writes]
    assert found["Resource"] == ["arn:aws:elasticfilesystem:eu-central-1:*:file-system/fs-12345678"]
    point = "arn:aws:elasticfilesystem:eu-central-1:*:access-point/fsap-12345678"
    assert found["Condition"] == {"StringLike": {"elasticfilesystem:AccessPointArn": point}}


@pytest.mark.parametrize(
    "profile",
    [
        {"shared": {"work": "efs:fs-12345678"}},
        {"shared": {"work": POINT}, "job_role": None, "files": "signed"},
    ],
    ids=["the root of EFS", "a job without a role"],
)
def test_what_is_mounted_without_iam_is_no_right(profile: dict[str, Any]) -> None:
    assert "Shared0" not in of_job(spec(mounts=[SHARED]), **profile)


def test_a_log_group_of_one_s_own_may_be_made() -> None:
    found = of_job(spec(), log_group="mine")["LogGroup"]

    group = "arn:aws:logs:eu-central-1:*:log-group:mine"
    assert found["Resource"] == [group, f"{group}:*"]
    assert "LogGroup" not in of_job(spec())
