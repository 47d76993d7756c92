"""The least rights: of whoever applies a plan, and of what runs in the job."""

from __future__ import annotations

from typing import Any

import pytest

from runspec_aws import plan, policy
from runspec_jobs.provider import Spec
from tests.support.aws.iam_policy import Asked, allows
from tests.support.aws.iam_requests import of_batch
from tests.support.aws.specs import ROLE, SECRET, SHARED, spec
from tests.unit.runspec_aws.test_plan import RUN, facts, steps

LOGIN = "arn:aws:secretsmanager:eu-west-1:123456789012:secret:registry-a1b2c3"


def test_a_policy_names_what_the_plan_makes_and_no_more() -> None:
    wanted = spec()

    found = policy.policy(plan.steps(wanted, RUN, facts(wanted)), facts(wanted).options)

    by_name = {statement["Sid"]: statement for statement in found["Statement"]}
    queue = steps(wanted)["queue"].do.params["jobQueueName"]
    assert by_name["JobQueue"]["Resource"] == [f"arn:aws:batch:eu-central-1:*:job-queue/{queue}"]
    assert by_name["Objects"]["Resource"] == ["arn:aws:s3:::jobs/runspec/*"]
    assert [s["Sid"] for s in found["Statement"] if s["Resource"] == ["*"]] == [
        "Look",
        "Prices",
        "LookAtMachines",
    ]
    assert not any("*" in action for s in found["Statement"] for action in s["Action"])


def test_a_policy_for_a_queue_that_is_there_makes_none() -> None:
    wanted = spec()
    with_queue = facts(wanted, queue="mine")

    found = policy.policy(plan.steps(wanted, RUN, with_queue), with_queue.options)

    actions = {action for s in found["Statement"] for action in s["Action"]}
    assert not any(a.startswith(("batch:Create", "batch:Delete")) for a in actions)


@pytest.mark.parametrize("queue", ["mine", "arn:aws:batch:eu-central-1:*:job-queue/mine"])
def test_a_policy_names_a_queue_by_its_arn(queue: str) -> None:
    wanted = spec()
    with_queue = facts(wanted, queue=queue)

    found = policy.policy(plan.steps(wanted, RUN, with_queue), with_queue.options)

    (job,) = [statement for statement in found["Statement"] if statement["Sid"] == "Job"]
    assert "arn:aws:batch:eu-central-1:*:job-queue/mine" in job["Resource"]
    assert not [arn for arn in job["Resource"] if not arn.startswith("arn:")]


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


def test_a_policy_lets_several_jobs_be_ended_by_one_request() -> None:
    found = facts(spec())
    made = policy.policy(plan.steps(spec(), RUN, found), found.options)
    params = {"jobs": ["8a1bc", "8a1bc:1"], "reason": "no longer needed"}

    asked = list(of_batch({"service": "batch", "operation": "TerminateJobs", "params": params}))

    assert len(asked) == 2 and all(allows(made, one) for one in asked)


def by_name(made: Any) -> dict[str, dict[str, Any]]:
    return {statement["Sid"]: statement for statement in made["Statement"]}


def of(wanted: Spec, **profile: Any) -> dict[str, dict[str, Any]]:
    found = facts(wanted, **profile)
    return by_name(policy.policy(plan.steps(wanted, RUN, found), found.options))


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
def test_a_mount_without_iam_needs_no_right(profile: dict[str, Any]) -> None:
    assert "Shared0" not in of_job(spec(mounts=[SHARED]), **profile)


def test_a_log_group_of_one_s_own_may_be_made() -> None:
    found = of_job(spec(), log_group="mine")["LogGroup"]

    group = "arn:aws:logs:eu-central-1:*:log-group:mine"
    assert found["Resource"] == [group, f"{group}:*"]
    assert "LogGroup" not in of_job(spec())


EXECUTION = ROLE.replace("/r", "/execution")
ECR = "123456789012.dkr.ecr.eu-west-1.amazonaws.com/team/train"


def test_the_execution_role_writes_logs_and_has_no_other_right_where_none_is_needed() -> None:
    found = of_job(spec(), execution_role=EXECUTION)

    group = "arn:aws:logs:eu-central-1:*:log-group:/aws/batch/job"
    assert found["ExecutionLogs"] == {
        "Sid": "ExecutionLogs",
        "Effect": "Allow",
        "Action": ["logs:CreateLogStream", "logs:PutLogEvents"],
        "Resource": [f"{group}:log-stream:*"],
    }
    assert [sid for sid in found if sid.startswith("Execution")] == ["ExecutionLogs"]


def test_no_execution_role_needs_no_rights() -> None:
    found = of_job(spec(container={"image": f"{ECR}:1"}), execution_role=None)

    assert not [sid for sid in found if sid.startswith("Execution")]


@pytest.mark.parametrize("nodes", [1, 2])
@pytest.mark.parametrize("version", ["", ":1.2", "@sha256:" + "0" * 64])
def test_the_execution_role_pulls_the_image_of_a_private_repository_alone(
    version: str, nodes: int
) -> None:
    wanted = spec(container={"image": ECR + version}, cluster={"nodes": nodes})

    found = of_job(wanted, execution_role=EXECUTION)

    assert found["ExecutionImages"]["Resource"] == [
        "arn:aws:ecr:eu-west-1:123456789012:repository/team/train"
    ]
    assert found["ExecutionImages"]["Action"] == [
        "ecr:BatchCheckLayerAvailability",
        "ecr:BatchGetImage",
        "ecr:GetDownloadUrlForLayer",
    ]
    login = found["ExecutionRegistry"]  # has no resource
    assert (login["Action"], login["Resource"]) == (["ecr:GetAuthorizationToken"], ["*"])


@pytest.mark.parametrize(
    "image", ["public.ecr.aws/docker/library/python:3.11-slim", "python:3.11", "ghcr.io/a/b:1"]
)
def test_an_image_of_another_registry_needs_no_right(image: str) -> None:
    found = of_job(spec(container={"image": image}), execution_role=EXECUTION)

    assert "ExecutionImages" not in found
    assert "ExecutionRegistry" not in found


@pytest.mark.parametrize(
    ("source", "action", "resource"),
    [
        (SECRET, "secretsmanager:GetSecretValue", SECRET.removeprefix("aws-sm:")),
        (
            f"{SECRET}:key::",  # one key of it
            "secretsmanager:GetSecretValue",
            SECRET.removeprefix("aws-sm:"),
        ),
        (
            "aws-ssm:/team/hf",
            "ssm:GetParameters",
            "arn:aws:ssm:eu-central-1:*:parameter/team/hf",
        ),
        ("aws-ssm:hf", "ssm:GetParameters", "arn:aws:ssm:eu-central-1:*:parameter/hf"),
        (
            "aws-ssm:arn:aws:ssm:eu-west-1:123456789012:parameter/hf",
            "ssm:GetParameters",
            "arn:aws:ssm:eu-west-1:123456789012:parameter/hf",
        ),
    ],
)
def test_the_execution_role_reads_the_secrets_of_the_job_alone(
    source: str, action: str, resource: str
) -> None:
    secrets = {"hf": source, "other": f"{SECRET}x"}

    found = of_job(spec(secrets={"HF": "hf"}), execution_role=EXECUTION, secrets=secrets)

    given = [s for sid, s in found.items() if sid in ("ExecutionSecrets", "ExecutionParameters")]
    assert [(s["Action"], s["Resource"]) for s in given] == [([action], [resource])]


def test_secrets_of_the_shell_are_made_by_who_applies_and_read_by_the_execution_role() -> None:
    wanted = spec(name="train", secrets={"T": {"from": "caller"}, "U": "hf"})
    options = {"execution_role": EXECUTION, "secrets": {"hf": "env:HF"}}

    client = policy.policy(steps(wanted, **options).values(), facts(wanted, **options).options)
    found = {s["Sid"]: s for s in client["Statement"]}
    read = of_job(wanted, **options)["ExecutionSecrets"]

    secrets = ["arn:aws:secretsmanager:eu-central-1:*:secret:runspec/train-*"]
    verbs = ("CreateSecret", "DeleteSecret", "DescribeSecret", "PutSecretValue", "TagResource")
    assert found["Secrets"]["Resource"] == secrets
    assert found["Secrets"]["Action"] == [f"secretsmanager:{verb}" for verb in verbs]
    assert (read["Action"], read["Resource"]) == (["secretsmanager:GetSecretValue"], secrets)
    definition = "arn:aws:batch:eu-central-1:*:job-definition/runspec-train-*"
    assert definition in found["JobDefinition"]["Resource"]
    assert definition in found["Job"]["Resource"]


def test_a_job_without_secrets_of_the_shell_may_make_none() -> None:
    found = policy.policy(steps(spec()).values(), facts(spec()).options)

    assert not [s for s in found["Statement"] if "Secrets" in s["Sid"]]


def test_the_execution_role_reads_the_login_of_a_private_registry() -> None:
    image = "registry.example.org/team/train:1"
    login = {"registry": "registry.example.org", "registry_secret": f"aws-sm:{LOGIN}"}

    found = of_job(spec(container={"image": image}), execution_role=EXECUTION, **login)
    other = of_job(spec(container={"image": "python:3.11"}), execution_role=EXECUTION, **login)

    assert found["ExecutionSecrets"]["Resource"] == [LOGIN]
    assert "ExecutionSecrets" not in other


KEY = "arn:aws:kms:eu-west-1:123456789012:key/1234abcd-12ab-34cd-56ef-1234567890ab"


def test_the_key_of_a_bucket_is_a_right_of_who_applies_and_of_the_job() -> None:
    for found in (of(spec(), kms_key=KEY), of_job(spec(), kms_key=KEY)):
        assert found["Key"]["Action"] == ["kms:Decrypt", "kms:GenerateDataKey"]
        assert found["Key"]["Resource"] == [KEY]
    assert "Key" not in of(spec())


@pytest.mark.parametrize("kind", ["alias/my-key", "key/1234/5678", "key/*"])
def test_a_key_is_named_by_its_arn_alone(kind: str) -> None:
    """A policy that names an alias permits nothing."""
    with pytest.raises(ValueError, match="ARN of a KMS key"):
        of(spec(), kms_key=f"arn:aws:kms:eu-west-1:123456789012:{kind}")


def test_versions_are_deleted_by_who_destroys_alone() -> None:
    found = of(spec(), versioned=True)

    assert found["Versions"]["Action"] == ["s3:ListBucketVersions"]
    assert "s3:DeleteObjectVersion" in found["Objects"]["Action"]
    assert "s3:DeleteObjectVersion" not in of(spec())["Objects"]["Action"]
    assert "Version" not in str(of_job(spec(), versioned=True))


def test_a_bucket_of_another_owner_is_read_by_the_job_alone() -> None:
    """Unless it is public: nobody needs a right then."""
    mounts = [
        {"name": "a", "source": "s3://lab/set", "target": "/a"},
        {"name": "b", "source": "s3://public", "target": "/b", "anonymous": True},
    ]

    found = of_job(spec(mounts=mounts))

    assert found["OthersRead"]["Resource"] == ["arn:aws:s3:::lab/set*"]
    assert found["OthersList"]["Resource"] == ["arn:aws:s3:::lab"]
    assert "OthersRead" not in of(spec(mounts=mounts))


def test_a_bucket_that_an_output_goes_to_is_written_by_the_job_alone() -> None:
    outputs = [{"name": "a", "path": "/a", "target": "s3://lab/results/"}]

    found = of_job(spec(outputs=outputs))

    assert found["OthersWrite"]["Resource"] == ["arn:aws:s3:::lab/results/*"]
    assert "OthersRead" not in found
    assert "OthersWrite" not in of(spec(outputs=outputs))
