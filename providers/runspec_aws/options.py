"""The settings of the AWS Batch provider."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, WithJsonSchema

from runspec.provider import Anyone, Key, Options, Positive, Seconds, Truth, User, Word, matching

OWN_GROUP = "/aws/batch/job"  # the group of AWS Batch itself
ARN = r"^arn:aws[a-z-]*:iam::[0-9]{12}:(role|instance-profile)/.+$"
REGION = r"^[a-z]{2}(-[a-z]+)+-[0-9]+$"
BUCKET = r"^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$"
PREFIX = r"^(?!(.*/)?\.{1,2}(/|$))[A-Za-z0-9!_.*'()-]+(/[A-Za-z0-9!_.*'()-]+)*$"
RESERVATION = r"^cr-[0-9a-f]{17}$"
EFS = r"efs:fs-[0-9a-f]{8,40}(:fsap-[0-9a-f]{8,40})?"
# https://docs.aws.amazon.com/fsx/latest/APIReference/API_LustreFileSystemConfiguration.html
FSX = r"fsx:fs-[0-9a-f]{8,18}:[A-Za-z0-9_-]{1,8}(/[A-Za-z0-9_-][A-Za-z0-9._-]*)*"
SHARED = rf"^({EFS}|{FSX}|host:/.*)$"


def _text(pattern: str, what: str, hint: str) -> object:
    return BeforeValidator(matching(pattern, what, hint))


def _schema(pattern: str) -> WithJsonSchema:
    return WithJsonSchema({"type": "string", "pattern": pattern})


Region = Annotated[
    str, _text(REGION, "a region", "write one such as eu-central-1"), _schema(REGION)
]
Bucket = Annotated[
    str,
    _text(BUCKET, "the name of a bucket", "write the name alone, without s3://"),
    _schema(BUCKET),
]
Prefix = Annotated[
    str, _text(PREFIX, "a prefix of keys", "write words with / between them"), _schema(PREFIX)
]
Role = Annotated[
    str, _text(ARN, "the ARN of a role", "write arn:aws:iam::123456789012:role/NAME"), _schema(ARN)
]
Reservation = Annotated[
    str,
    _text(RESERVATION, "a capacity reservation", "write cr-0123456789abcdef0"),
    _schema(RESERVATION),
]
Shared = Annotated[
    str,
    _text(
        SHARED,
        "a shared file system",
        "write efs:fs-ID, efs:fs-ID:fsap-ID, fsx:fs-ID:MOUNTNAME, or host:/fsx where the machines "
        "mount it",
    ),
    _schema(SHARED),
]


class AwsOptions(Options):
    """`providers: {aws-batch: {...}}` in a profile, and in a spec what anyone may set."""

    region: Anyone[Region | None] = Field(
        default=None, description="The region of everything: `eu-central-1`."
    )
    account_profile: User[Word | None] = Field(
        default=None, description="The profile of ~/.aws whose credentials are used."
    )
    bucket: User[Bucket | None] = Field(
        default=None, description="The S3 bucket for what jobs read and write; it is there already."
    )
    prefix: User[Prefix] = Field(
        default="runspec", description="All keys in the bucket begin with it."
    )
    queue: Anyone[Word | None] = Field(
        default=None,
        description="A job queue that is there already, used as it is. Without it, environments "
        "and a queue are made and shared by jobs of equal needs.",
    )
    image: Anyone[Word] = Field(
        default="public.ecr.aws/docker/library/python:3.11-slim",
        description="What jobs without an image of their own run in.",
    )
    job_role: User[Role | None] = Field(
        default=None,
        description="The role of the job itself: it reads inputs and writes outputs in the bucket.",
    )
    files: Anyone[Literal["role", "signed"]] = Field(
        default="role",
        description="How jobs reach the bucket: `role`, by job_role and python3 in the image, or "
        "`signed`, by URLs that are signed when the job is submitted: any image with a POSIX sh, "
        "tar, and curl, python3 or GNU wget will do.",
    )
    signed_for: Anyone[Seconds] = Field(
        default=12 * 3600,
        description="How long signed URLs are good: the wait in the queue, the job and the sending "
        "of its outputs together; 7d at most. With temporary credentials they end earlier.",
    )
    execution_role: User[Role | None] = Field(
        default=None, description="The role that gets images, secrets and writes logs."
    )
    instance_role: User[Role | None] = Field(
        default=None, description="The instance profile of the machines (ECS)."
    )
    service_role: User[Role | None] = Field(
        default=None, description="The role of AWS Batch; without it the service-linked one."
    )
    subnets: User[tuple[Word, ...]] = Field(default=(), description="The subnets of the machines.")
    security_groups: User[tuple[Word, ...]] = Field(
        default=(), description="Their security groups; nodes of one job need to reach each other."
    )
    key_pair: User[Word | None] = Field(default=None, description="The EC2 key pair for ssh.")
    ami: User[Word | None] = Field(default=None, description="An AMI of your own for the machines.")
    launch_template: User[Word | None] = Field(
        default=None, description="A launch template for the machines, by its id (`lt-...`)."
    )
    instance_types: Anyone[tuple[Word, ...]] = Field(
        default=(), description="Machines to use instead of those that fit by the package's table."
    )
    reservation: Anyone[Reservation | None] = Field(
        default=None,
        description="The capacity reservation (EC2) that the machines come from, and nowhere else; "
        "instance_types names its type, and subnets has one in its zone.",
    )
    max_vcpus: Anyone[Positive] = Field(
        default=256, description="The most vCPUs that run at once in each environment."
    )
    max_queue_wait: Anyone[Seconds | None] = Field(
        default=None,
        description="How long a job may wait at the head of its queue for a machine that there is "
        "none of, or never will be, before it is given up: 10m to 24h. Without it, it waits for ever.",
    )
    fargate: Anyone[Truth] = Field(
        default=False, description="Run single-node jobs without GPUs on Fargate instead of EC2."
    )
    public_ip: Anyone[Truth] = Field(
        default=False, description="Give Fargate jobs a public address: they need one without NAT."
    )
    efa: Anyone[Truth] = Field(
        default=False, description="Give each node the Elastic Fabric Adapters of its machine."
    )
    ulimits: Anyone[Mapping[Key, Positive]] = Field(
        default={}, description="Limits of the container, as of `ulimit`: `{nofile: 65536}`."
    )
    user: Anyone[Word | None] = Field(
        default=None, description="The user in the container: `1000:1000`."
    )
    shared: User[Mapping[Key, Shared]] = Field(
        default={},
        description="What `shared://NAME` is: `efs:fs-ID`, `efs:fs-ID:fsap-ID`, "
        "`fsx:fs-ID:MOUNTNAME` or `fsx:fs-ID:MOUNTNAME/FOLDER` (FSx for Lustre, which the machines "
        "mount at their start), or `host:/fsx`, a folder that every machine has.",
    )
    log_group: User[Word] = Field(
        default=OWN_GROUP, description="The group of CloudWatch Logs that jobs print into."
    )
    share: Anyone[Word | None] = Field(
        default=None, description="The share identifier, for a queue with a fair-share policy."
    )
    priority: Anyone[Annotated[int, Field(ge=0, le=9999)] | None] = Field(
        default=None, description="The priority among jobs of one share."
    )
    tags: Anyone[Mapping[Word, Word]] = Field(
        default={}, description="Tags for what is made at AWS Batch, and for its machines."
    )
