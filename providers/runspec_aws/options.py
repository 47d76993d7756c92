"""The settings of the AWS Batch provider."""

from collections.abc import Iterable, Mapping
from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, PrivateAttr

from runspec_jobs.provider import Options
from runspec_jobs.provider.settings import (
    Anyone,
    Key,
    Positive,
    Seconds,
    Truth,
    User,
    Word,
    text_like,
)

OWN_GROUP = "/aws/batch/job"  # the group of AWS Batch itself
ARN = r"^arn:aws[a-z-]*:iam::[0-9]{12}:(role|instance-profile)/.+$"
REGION = r"^[a-z]{2,4}(-[a-z]+)+-[0-9]+$"
BUCKET = r"^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$"
PREFIX = r"^(?!(.*/)?\.{1,2}(/|$))[A-Za-z0-9!_.*'()-]+(/[A-Za-z0-9!_.*'()-]+)*$"
SECRET = r"^aws-sm:arn:aws[a-z-]*:secretsmanager:[a-z0-9-]+:[0-9]{12}:secret:[A-Za-z0-9/_+=.@-]+$"
# A policy names no key by its alias: https://docs.aws.amazon.com/kms/latest/developerguide/cmks-in-iam-policies.html
KMS_KEY = r"^arn:aws[a-z-]*:kms:[a-z0-9-]+:[0-9]{12}:key/[A-Za-z0-9-]+$"
RESERVATION = r"^cr-[0-9a-f]{17}$"
DEVICE = r"^/dev/[a-z0-9/]*[a-z0-9]$"
EFS = r"efs:fs-[0-9a-f]{8,40}(:fsap-[0-9a-f]{8,40})?"
# https://docs.aws.amazon.com/fsx/latest/APIReference/API_LustreFileSystemConfiguration.html
FSX = r"fsx:fs-[0-9a-f]{8,18}:[A-Za-z0-9_-]{1,8}(/[A-Za-z0-9_-][A-Za-z0-9._-]*)*"
SHARED = rf"^({EFS}|{FSX}|host:/.*)$"


Region = Annotated[str, *text_like(REGION, "a region", "write one such as eu-central-1")]
Bucket = Annotated[
    str,
    *text_like(BUCKET, "the name of a bucket", "write the name alone, without s3://"),
]
Prefix = Annotated[str, *text_like(PREFIX, "a prefix of keys", "write words with / between them")]
Role = Annotated[
    str, *text_like(ARN, "the ARN of a role", "write arn:aws:iam::123456789012:role/NAME")
]
KmsKey = Annotated[
    str,
    *text_like(KMS_KEY, "the ARN of a KMS key", "write arn:aws:kms:REGION:123456789012:key/ID"),
]
RegistrySecret = Annotated[
    str,
    *text_like(
        SECRET,
        "a secret of Secrets Manager",
        "write aws-sm:arn:aws:secretsmanager:REGION:...:secret:NAME",
    ),
]
Reservation = Annotated[
    str,
    *text_like(RESERVATION, "a capacity reservation", "write cr-0123456789abcdef0"),
]
Device = Annotated[str, *text_like(DEVICE, "a device", "write one such as /dev/sda1")]
Limit = Annotated[int, Field(ge=-1)]  # -1: no limit
Shared = Annotated[
    str,
    *text_like(
        SHARED,
        "a shared file system",
        "write efs:fs-ID, efs:fs-ID:fsap-ID, fsx:fs-ID:MOUNTNAME, or host:/fsx if the machines "
        "mount it",
    ),
]


class AwsOptions(Options):
    """Settings of `aws-batch`, under `providers` in a profile. A spec may set the fields marked `anyone`."""

    places: ClassVar[str | None] = (
        "write providers: {aws-batch: {region: eu-central-1}}, one region; the zones are those of the subnets of the "
        "profile"
    )
    region: Anyone[Region | None] = Field(
        default=None, description="AWS region of all resources, such as `eu-central-1`."
    )
    account_profile: User[Word | None] = Field(
        default=None, description="Profile in ~/.aws whose credentials are used."
    )
    bucket: User[Bucket | None] = Field(
        default=None, description="Existing S3 bucket for what jobs read and write."
    )
    versioned: User[Truth | None] = Field(
        default=None,
        description="Whether the bucket keeps versions of objects, all of which `destroy` then deletes.",
    )
    kms_key: User[KmsKey | None] = Field(
        default=None,
        description="ARN of the KMS key of your own that encrypts the bucket, for `runspec policy`.",
    )
    prefix: User[Prefix] = Field(default="runspec", description="Prefix of all keys in the bucket.")
    queue: Anyone[Word | None] = Field(
        default=None,
        description="Existing job queue, which is used as it is. Without it, runspec makes a queue and "
        "compute environments, which jobs with equal needs share.",
    )
    image: Anyone[Word] = Field(
        default="public.ecr.aws/docker/library/python:3.11-slim",
        description="Image for jobs whose spec names none.",
    )
    images: User[Word | None] = Field(
        default=None,
        description="Repository to which images of `container.build` are pushed, such as "
        "`registry.example.org/team/jobs`. Without it, each job has a repository `runspec/NAME` at ECR, in the "
        "account of `job_role`.",
    )
    registry: User[Word | None] = Field(
        default=None,
        description="Registry that needs a login, such as `registry.example.org` or `docker.io`. ECR needs none.",
    )
    registry_secret: User[RegistrySecret | None] = Field(
        default=None,
        description="Secret with `username` and `password` for `registry`, as `aws-sm:ARN`. `execution_role` reads it.",
    )
    job_role: User[Role | None] = Field(
        default=None,
        description="ARN of the IAM role of the job itself, with which it reads inputs from the bucket "
        "and writes outputs to it.",
    )
    files: Anyone[Literal["role", "signed"]] = Field(
        default="role",
        description="How jobs reach the bucket. `role`: with `job_role`, and python3 in the image. "
        "`signed`: with URLs that are signed when the job is submitted, in any image that "
        "has a POSIX sh, tar, and curl, python3 or GNU wget.",
    )
    signed_for: Anyone[Seconds] = Field(
        default=12 * 3600,
        description="How long signed URLs are valid, at most 7d. This must cover the wait in the queue, "
        "the job, and the upload of its outputs. URLs signed with temporary credentials "
        "expire with these.",
    )
    execution_role: User[Role | None] = Field(
        default=None,
        description="ARN of the execution role, with which AWS Batch pulls images, reads secrets and "
        "writes logs.",
    )
    instance_role: User[Role | None] = Field(
        default=None,
        description="ARN of the instance profile of the EC2 machines (ECS container instances).",
    )
    service_role: User[Role | None] = Field(
        default=None,
        description="ARN of the service role of AWS Batch; the default is its service-linked role.",
    )
    subnets: User[tuple[Word, ...]] = Field(default=(), description="Subnets of the machines.")
    security_groups: User[tuple[Word, ...]] = Field(
        default=(),
        description="Security groups of the machines. The nodes of one job must be able to reach each "
        "other.",
    )
    key_pair: User[Word | None] = Field(
        default=None, description="EC2 key pair for ssh to the machines."
    )
    ami: User[Word | None] = Field(
        default=None, description="AMI for the machines, instead of the default of AWS Batch."
    )
    root_device: User[Device | None] = Field(
        default=None,
        description="Root device of `ami`, whose volume `cluster.disk` makes larger. Without this field it is "
        "`/dev/xvda`, as in the AMIs of AWS Batch.",
    )
    launch_template: User[Word | None] = Field(
        default=None, description="Id of a launch template for the machines (`lt-...`)."
    )
    instance_types: Anyone[tuple[Word, ...]] = Field(
        default=(),
        description="EC2 instance types to use, instead of those that runspec chooses: see "
        "runspec docs machines.",
    )
    reservation: Anyone[Reservation | None] = Field(
        default=None,
        description="EC2 capacity reservation, the only source of the machines. `instance_types` must "
        "name its type, and `subnets` a subnet in its zone.",
    )
    capacity_block: Anyone[Truth | None] = Field(
        default=None,
        description="Whether `reservation` is a Capacity Block for ML, which is bought for days and paid in advance.",
    )
    max_vcpus: Anyone[Positive | None] = Field(
        default=None,
        description="Largest number of vCPUs of the machines that each compute environment runs at the same time. "
        "A job that needs more is refused. Without this field it is 256, or what one task needs if that is more.",
    )
    max_queue_wait: Anyone[Seconds | None] = Field(
        default=None,
        description="How long a job may be first in its queue, 10m to 24h, while no machine is available "
        "for it; then it fails. Without this field it waits without limit.",
    )
    fargate: Anyone[Truth] = Field(
        default=False, description="Run single-node jobs without GPUs on Fargate instead of EC2."
    )
    public_ip: Anyone[Truth] = Field(
        default=False,
        description="Give Fargate jobs a public IP address, which they need in subnets without NAT.",
    )
    efa: Anyone[Truth] = Field(
        default=False, description="Give each node the Elastic Fabric Adapters of its machine."
    )
    ulimits: Anyone[Mapping[Key, Limit]] = Field(
        default={},
        description="Resource limits of the container, by the names of `ulimit`: `{nofile: 65536}`; "
        "-1 for none: `{memlock: -1}`.",
    )
    user: Anyone[Word | None] = Field(
        default=None, description="User and group in the container: `1000:1000`."
    )
    shared: User[Mapping[Key, Shared]] = Field(
        default={},
        description="File systems behind `shared://NAME`: `efs:fs-ID`, `efs:fs-ID:fsap-ID`, "
        "`fsx:fs-ID:MOUNTNAME` or `fsx:fs-ID:MOUNTNAME/FOLDER` (FSx for Lustre, which the "
        "machines mount when they start), or `host:/fsx`, a folder that every machine has.",
    )
    log_group: User[Word] = Field(
        default=OWN_GROUP, description="Log group in CloudWatch Logs for the output of jobs."
    )
    share: Anyone[Word | None] = Field(
        default=None, description="Share identifier, for a queue with a fair-share policy."
    )
    priority: Anyone[Annotated[int, Field(ge=0, le=9999)] | None] = Field(
        default=None, description="Scheduling priority among jobs with the same share identifier."
    )
    tags: Anyone[Mapping[Word, Word]] = Field(
        default={},
        description="Tags for the resources that runspec makes at AWS Batch, and for their machines.",
    )
    _offered: frozenset[str] | None = PrivateAttr(default=None)

    @property
    def offered(self) -> frozenset[str] | None:
        """The instance types of the region as discovery found them; None if the catalogue is to be believed."""
        return self._offered

    def offering(self, names: Iterable[str]) -> Self:
        """Return these options for a region that offers the instance types *names* and no others."""
        chosen = self.model_copy()
        chosen._offered = frozenset(names)  # noqa: SLF001 - an object of this class
        return chosen


# The profile that `runspec init --provider aws-batch` writes, with values to replace.


PROFILE_TEMPLATE = """\
# Settings of your account for each provider. Job files do not contain them.
providers:
  aws-batch:
    region: us-east-1
    bucket: my-bucket                 # an existing bucket; all keys begin with runspec/
    # The role of the job itself: runspec policy --job JOB.yaml prints the permissions that it needs.
    job_role: arn:aws:iam::123456789012:role/runspec-job
    # Without a job role, and for images without Python: files: signed, see runspec docs aws-batch.
    # The role that pulls images, reads secrets and writes logs: the policy AmazonECSTaskExecutionRolePolicy.
    execution_role: arn:aws:iam::123456789012:role/ecsTaskExecutionRole
    # An existing job queue, which runspec uses as it is:
    # queue: my-queue
    # Without a queue, runspec makes one, whose machines have these settings. runspec doctor aws-batch checks them.
    instance_role: arn:aws:iam::123456789012:instance-profile/ecsInstanceRole
    subnets: [subnet-00000000000000000]
    security_groups: [sg-00000000000000000]   # nodes of one job must reach each other
    max_vcpus: 64
    # secrets: {hf: "aws-sm:arn:aws:secretsmanager:us-east-1:123456789012:secret:hf-a1b2c3"}
    # shared: {workspace: "efs:fs-0123456789abcdef0"}
"""
