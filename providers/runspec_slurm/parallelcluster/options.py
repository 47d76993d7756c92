"""The settings of the ParallelCluster provider: the cluster that is made, over those of Slurm."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, WithJsonSchema, model_validator

from runspec.provider import Anyone, Key, Model, Positive, Truth, User, Whole, Word, matching
from runspec_slurm.options import SlurmOptions

REGION = r"^[a-z]{2}(-[a-z]+)+-[0-9]+$"
# The rules of the library: pcluster/constants.py and pcluster/validators/cluster_validators.py of 3.16.1.
# https://docs.aws.amazon.com/parallelcluster/latest/ug/cluster-configuration-file-v3.html
CLUSTER = r"^[a-zA-Z][a-zA-Z0-9-]{0,59}$"
AMI = r"^ami-([0-9a-z]{8}|[0-9a-z]{17})$"
SUBNET = r"^subnet-([0-9a-z]{8}|[0-9a-z]{17})$"
GROUP = r"^sg-([0-9a-z]{8}|[0-9a-z]{17})$"
FILE_SYSTEM = r"^fs-[0-9a-z]{17}$"
RESERVATION = r"^cr-[0-9a-f]{17}$"
BUCKET = r"^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$"
S3 = r"^s3://[a-z0-9][a-z0-9.-]{1,61}[a-z0-9](/[A-Za-z0-9!_.*'()-]+)*$"
MOUNT = r"^(?!.*/\.{1,2}(/|$))(/[A-Za-z0-9._-]+)+$"
PRICE = r"^[0-9]{1,4}(\.[0-9]{1,4})?$"


def _like(pattern: str, what: str, hint: str) -> tuple[object, object]:
    schema = WithJsonSchema({"type": "string", "pattern": pattern})
    return BeforeValidator(matching(pattern, what, hint)), schema


_REGION = _like(REGION, "a region", "write one such as us-east-1")
_CLUSTER = _like(CLUSTER, "a cluster's name", "use letters, digits and '-', 60 at most")
_AMI = _like(AMI, "an AMI", "write ami-0123456789abcdef0")
_SUBNET = _like(SUBNET, "a subnet", "write subnet-0123456789abcdef0")
_GROUP = _like(GROUP, "a security group", "write sg-0123456789abcdef0")
_SYSTEM = _like(FILE_SYSTEM, "a file system of FSx", "write fs-0123456789abcdef0")
_RESERVATION = _like(RESERVATION, "a capacity reservation", "write cr-0123456789abcdef0")
_BUCKET = _like(BUCKET, "the name of a bucket", "write the name alone, without s3://")
_S3 = _like(S3, "a place in S3", "write s3://BUCKET or s3://BUCKET/PREFIX, without a / at its end")
_MOUNT = _like(MOUNT, "a folder", "write an absolute path of plain names: /workspace")

Region = Annotated[str, *_REGION]
ClusterName = Annotated[str, *_CLUSTER]
Ami = Annotated[str, *_AMI]
Subnet = Annotated[str, *_SUBNET]
Group = Annotated[str, *_GROUP]
FileSystem = Annotated[str, *_SYSTEM]
Reservation = Annotated[str, *_RESERVATION]
Bucket = Annotated[str, *_BUCKET]
S3Place = Annotated[str, *_S3]
Mount = Annotated[str, *_MOUNT]
Count = Annotated[Whole, Field(ge=0)]


def _price(value: Any) -> float:
    if not re.fullmatch(PRICE, str(value)):
        raise ValueError("write dollars for an hour, such as 4.5")
    return float(value)


Price = Annotated[float, BeforeValidator(_price), WithJsonSchema({"type": "number", "minimum": 0})]
Free = Annotated[str, BeforeValidator(str)]


class Queue(Model):
    """A queue of the cluster, which is a partition of Slurm."""

    capacity: Anyone[Literal["on-demand", "spot", "capacity-block"]] = Field(
        default="on-demand", description="How its machines are bought."
    )
    instance_types: Anyone[tuple[Word, ...]] = Field(
        default=(),
        description="Its machines, alike in vCPUs and GPUs; those that fit the spec if not given.",
    )
    min_count: Anyone[Count] = Field(default=0, description="Machines that are always there.")
    max_count: Anyone[Positive] = Field(default=10, description="The most machines at once.")
    spot_price: Anyone[Price | None] = Field(
        default=None, description="The most paid for a spot machine, in dollars an hour."
    )
    subnets: User[tuple[Subnet, ...]] = Field(
        default=(), description="Their subnets, where they are not those of all queues."
    )
    placement: Anyone[Truth] = Field(
        default=False, description="Put the machines close together, in a placement group."
    )
    placement_group: Anyone[Word | None] = Field(
        default=None, description="The placement group, where one is there already."
    )
    efa: Anyone[Truth] = Field(
        default=False, description="Give the machines Elastic Fabric Adapters."
    )
    gdr: Anyone[Truth] = Field(
        default=False, description="Let the adapters reach the memory of GPUs."
    )
    reservation: Anyone[Reservation | None] = Field(
        default=None, description="The capacity reservation that the machines come from."
    )
    reservation_group: Anyone[Word | None] = Field(
        default=None,
        description="A group of capacity reservations, by the ARN of its resource group.",
    )
    ami: User[Ami | None] = Field(default=None, description="An AMI of its own.")
    disk_gib: Anyone[Positive | None] = Field(
        default=None, description="The size of each machine's disk."
    )
    settings: User[Mapping[Word, Free]] = Field(
        default={}, description="Settings of Slurm for this partition: `{GraceTime: 60}`."
    )


class Storage(Model):
    """A file system that all machines mount: a new FSx for Lustre, or one that is there."""

    mount: User[Mount] = Field(description="Where it is mounted: `/workspace`.")
    kind: Anyone[Literal["scratch", "persistent"]] = Field(
        default="scratch",
        description="A new one: `scratch` (SCRATCH_2) keeps nothing safe, `persistent` (PERSISTENT_2) does.",
    )
    size_gib: Anyone[Positive] = Field(
        default=1200, description="Its size: 1200, or a multiple of 2400."
    )
    throughput: Anyone[Positive | None] = Field(
        default=None, description="MB/s for each TiB of a persistent one: 125, 250, 500 or 1000."
    )
    data: User[S3Place | None] = Field(
        default=None,
        description="The place in S3 that it begins with, and that what is archived goes to: "
        "`s3://BUCKET/PREFIX`.",
    )
    compression: Anyone[Truth] = Field(default=False, description="Keep the data compressed (LZ4).")
    keep: User[Truth] = Field(default=False, description="Leave it when the cluster is deleted.")
    file_system: User[FileSystem | None] = Field(
        default=None, description="One that is there already: several clusters can share it."
    )

    @model_validator(mode="after")
    def _one_kind(self) -> Self:
        given = self.model_fields_set - {"mount", "file_system", "data"}
        if self.file_system and given:
            raise ValueError(f"{min(given)} is of a new file system, and file_system is there")
        return self


class ParallelClusterOptions(SlurmOptions):
    """`providers: {parallelcluster: {...}}` in a profile, and in a spec what anyone may set."""

    # The account.
    region: Anyone[Region | None] = Field(default=None, description="The region: `us-east-1`.")
    account_profile: User[Word | None] = Field(
        default=None, description="The profile of ~/.aws whose credentials are used."
    )
    pcluster: User[Word | None] = Field(
        default=None,
        description="The program `pcluster`; the one on PATH if not given, else one is installed "
        "by uv, once, into runspec's own folder.",
    )
    # The cluster.
    cluster: User[ClusterName | None] = Field(
        default=None,
        description="Its name. What it is may then change, and the cluster is updated. Without a "
        "name it is named by what it is, and whatever is like it shares it.",
    )
    manage: User[Truth] = Field(
        default=True,
        description="Whether runspec makes, updates and deletes the cluster; `false` for one that is "
        "there and is used as it is.",
    )
    os: Anyone[Word] = Field(default="ubuntu2204", description="The system of its machines.")
    custom_ami: User[Ami | None] = Field(
        default=None, description="An AMI of your own for all machines."
    )
    head_node: Anyone[Word] = Field(
        default="m6i.xlarge", description="The machine of the head node."
    )
    head_subnet: User[Subnet | None] = Field(
        default=None,
        description="The subnet of the head node; the first of `subnets` if not given.",
    )
    subnets: User[tuple[Subnet, ...]] = Field(
        default=(), description="The subnets of the other machines."
    )
    security_groups: User[tuple[Group, ...]] = Field(
        default=(), description="Security groups beside those that are made."
    )
    key_pair: User[Word | None] = Field(default=None, description="The EC2 key pair for ssh.")
    ssh_key: User[Word | None] = Field(
        default=None,
        description="The file of its private key, where ssh does not find it by itself.",
    )
    host_keys: User[Literal["known", "first-seen"]] = Field(
        default="known",
        description="Which head node is believed to be it: `known`, by ~/.ssh/known_hosts, or "
        "`first-seen`, the one that answers first, remembered with the cluster.",
    )
    ssh_from: User[Word | None] = Field(
        default=None, description="Who may reach the head node by ssh: `203.0.113.0/24`."
    )
    bucket: User[Bucket | None] = Field(
        default=None,
        description="A bucket for ParallelCluster's own files; it makes one if not given.",
    )
    s3_access: User[tuple[Bucket, ...]] = Field(
        default=(), description="Buckets that all machines may read and write."
    )
    tags: Anyone[Mapping[Word, Word]] = Field(default={}, description="Tags for all that is made.")
    # The queues.
    queues: Anyone[Mapping[Word, Queue]] = Field(
        default={},
        description="The queues, by name. Without them there is one, or two for `spot-then-on-demand`, "
        "of machines that fit the spec.",
    )
    queue: Anyone[Word | None] = Field(
        default=None, description="The queue of the job; the first whose machines fit if not given."
    )
    instance_types: Anyone[tuple[Word, ...]] = Field(
        default=(), description="Machines to use instead of those that fit by the package's table."
    )
    min_count: Anyone[Count] = Field(default=0, description="Machines that are always there.")
    max_count: Anyone[Positive] = Field(
        default=10, description="The most machines at once, of each queue."
    )
    spot_price: Anyone[Price | None] = Field(
        default=None, description="The most paid for a spot machine, in dollars an hour."
    )
    placement_group: Anyone[Word | None] = Field(
        default=None, description="The placement group, where one is there already."
    )
    efa: Anyone[Truth] = Field(default=False, description="Give each node Elastic Fabric Adapters.")
    reservation: Anyone[Reservation | None] = Field(
        default=None, description="The capacity reservation of machines that are bought on demand."
    )
    reservation_group: Anyone[Word | None] = Field(
        default=None,
        description="A group of capacity reservations, by the ARN of its resource group.",
    )
    # Slurm.
    idle_minutes: Anyone[Positive] = Field(
        default=10, description="How long a machine without jobs is kept."
    )
    memory_scheduling: Anyone[Truth] = Field(
        default=False, description="Have Slurm share out memory, too, and not processors alone."
    )
    slurm_settings: User[Mapping[Word, Free]] = Field(
        default={}, description="Settings of slurm.conf: `{MinJobAge: 3600}`."
    )
    update: User[Literal["drain", "terminate", "stop"]] = Field(
        default="drain",
        description="What an update does to machines that run: `drain` lets their jobs end, "
        "`terminate` ends machines that are no more part of it, and `stop` ends all of them where the "
        "service asks for that.",
    )
    # The files.
    storage: User[Mapping[Key, Storage]] = Field(
        default={},
        description="File systems of FSx for Lustre; each is `shared://NAME` as well.",
    )
    archive: User[Truth] = Field(
        default=True,
        description="Copy to S3 what has changed on file systems that have `data`, before the cluster is deleted.",
    )
