"""The settings of the ParallelCluster provider: those of the cluster, in addition to those of Slurm."""

import re
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import BeforeValidator, Field, WithJsonSchema, model_validator

from runspec_jobs.provider.settings import (
    Anyone,
    Key,
    Model,
    Positive,
    Truth,
    User,
    Whole,
    Word,
    text_like,
)
from runspec_slurm.options import Host, SlurmOptions, Workspace

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


Region = Annotated[str, *text_like(REGION, "a region", "write one such as us-east-1")]
ClusterName = Annotated[
    str, *text_like(CLUSTER, "a cluster's name", "use letters, digits and '-', 60 at most")
]
Ami = Annotated[str, *text_like(AMI, "an AMI", "write ami-0123456789abcdef0")]
Subnet = Annotated[str, *text_like(SUBNET, "a subnet", "write subnet-0123456789abcdef0")]
Group = Annotated[str, *text_like(GROUP, "a security group", "write sg-0123456789abcdef0")]
FileSystem = Annotated[
    str, *text_like(FILE_SYSTEM, "a file system of FSx", "write fs-0123456789abcdef0")
]
Reservation = Annotated[
    str, *text_like(RESERVATION, "a capacity reservation", "write cr-0123456789abcdef0")
]
Bucket = Annotated[
    str, *text_like(BUCKET, "the name of a bucket", "write the name alone, without s3://")
]
S3Place = Annotated[
    str,
    *text_like(
        S3, "a place in S3", "write s3://BUCKET or s3://BUCKET/PREFIX, without a / at its end"
    ),
]
Mount = Annotated[
    str, *text_like(MOUNT, "a folder", "write an absolute path of plain names: /workspace")
]
Count = Annotated[Whole, Field(ge=0)]


def _price(value: Any) -> float:
    if not re.fullmatch(PRICE, str(value)):
        raise ValueError("write dollars for an hour, such as 4.5")
    return float(value)


Price = Annotated[float, BeforeValidator(_price), WithJsonSchema({"type": "number", "minimum": 0})]
Free = Annotated[str, BeforeValidator(str)]


class Queue(Model):
    """A queue of the cluster, which is a Slurm partition."""

    capacity: Anyone[Literal["on-demand", "spot", "capacity-block"]] = Field(
        default="on-demand", description="How the machines are bought."
    )
    instance_types: Anyone[tuple[Word, ...]] = Field(
        default=(),
        description="EC2 instance types of the queue, all with the same number of vCPUs and GPUs; the "
        "default are those that fit the spec.",
    )
    min_count: Anyone[Count] = Field(
        default=0, description="Number of machines that the queue always has."
    )
    max_count: Anyone[Positive] = Field(
        default=10, description="Largest number of machines that the queue has at the same time."
    )
    spot_price: Anyone[Price | None] = Field(
        default=None, description="Highest price for a spot machine, in dollars an hour."
    )
    subnets: User[tuple[Subnet, ...]] = Field(
        default=(), description="Subnets of the queue, if they are not those of all queues."
    )
    placement: Anyone[Truth] = Field(
        default=False, description="Place the machines close together, in a placement group."
    )
    placement_group: Anyone[Word | None] = Field(
        default=None, description="Existing placement group for the machines."
    )
    efa: Anyone[Truth] = Field(
        default=False, description="Give the machines Elastic Fabric Adapters."
    )
    gdr: Anyone[Truth] = Field(
        default=False, description="Let the adapters access GPU memory directly (GPUDirect RDMA)."
    )
    reservation: Anyone[Reservation | None] = Field(
        default=None, description="EC2 capacity reservation of the machines."
    )
    reservation_group: Anyone[Word | None] = Field(
        default=None,
        description="ARN of the resource group of a group of capacity reservations.",
    )
    ami: User[Ami | None] = Field(default=None, description="AMI for the machines of this queue.")
    disk_gib: Anyone[Positive | None] = Field(
        default=None, description="Size of the root disk of each machine, in GiB."
    )
    disk_tier: Anyone[Literal["low", "medium", "high", "best"] | None] = Field(
        default=None, description="How fast the root disk is, by the tiers of `cluster.disk`."
    )
    settings: User[Mapping[Word, Free]] = Field(
        default={}, description="Slurm settings of this partition: `{GraceTime: 60}`."
    )


class Storage(Model):
    """A file system that all machines mount: a new one of FSx for Lustre, or an existing one."""

    mount: User[Mount] = Field(description="Folder that it is mounted at: `/workspace`.")
    kind: Anyone[Literal["scratch", "persistent"]] = Field(
        default="scratch",
        description="Deployment type of a new file system: `scratch` (SCRATCH_2), which does not "
        "replicate data, or `persistent` (PERSISTENT_2), which does.",
    )
    size_gib: Anyone[Positive] = Field(
        default=1200, description="Size in GiB: 1200, or a multiple of 2400."
    )
    throughput: Anyone[Positive | None] = Field(
        default=None,
        description="Throughput of a persistent file system in MB/s for each TiB: 125, 250, 500 or 1000.",
    )
    data: User[S3Place | None] = Field(
        default=None,
        description="Place in S3, `s3://BUCKET/PREFIX`, whose data the file system starts with, and to "
        "which its changes are archived.",
    )
    compression: Anyone[Truth] = Field(default=False, description="Compress the data (LZ4).")
    keep: User[Truth] = Field(
        default=False, description="Keep the file system when the cluster is deleted."
    )
    file_system: User[FileSystem | None] = Field(
        default=None, description="Id of an existing file system, which several clusters can share."
    )

    @model_validator(mode="after")
    def _one_kind(self) -> Self:
        given = self.model_fields_set - {"mount", "file_system", "data"}
        if self.file_system and given:
            raise ValueError(
                f"{min(given)} is only for a new file system, but file_system names an existing one"
            )
        return self


class ParallelClusterOptions(SlurmOptions):
    """Settings of `parallelcluster`, under `providers` in a profile. A spec may set the fields marked `anyone`."""

    # `reservation` is one of EC2 here. One of Slurm is `sbatch: [--reservation=NAME]`.
    reserved: ClassVar[tuple[str, ...]] = ()
    places: ClassVar[str | None] = (
        "write providers: {parallelcluster: {region: us-east-1}}, one region; the zones are those of the subnets of "
        "the profile"
    )

    host: User[Host | None] = Field(
        default=None,
        description="Head node, as ssh names it. Without it, runspec asks for the address of the cluster.",
    )
    workspace: User[Workspace] = Field(
        default="~/.runspec",
        description="Folder for the files of jobs, which all nodes share. The default is the folder "
        "`runspec` on the first file system of `storage`, and `~/.runspec` if there is none.",
    )
    # The account.
    region: Anyone[Region | None] = Field(
        default=None, description="AWS region, such as `us-east-1`."
    )
    account_profile: User[Word | None] = Field(
        default=None, description="Profile in ~/.aws whose credentials are used."
    )
    pcluster: User[Word | None] = Field(
        default=None,
        description="Path of the program `pcluster`. The default is the one on PATH; if there is none, "
        "uv installs one, once, into a folder of runspec.",
    )
    # The cluster.
    cluster: User[ClusterName | None] = Field(
        default=None,
        description="Name of the cluster. A cluster with a name is updated when its settings change. "
        "Without a name, runspec derives one from the settings, and all jobs with the same "
        "settings share the cluster.",
    )
    manage: User[Truth] = Field(
        default=True,
        description="Whether runspec makes, updates and deletes the cluster; `false` uses an existing "
        "cluster as it is.",
    )
    os: Anyone[Word] = Field(default="ubuntu2204", description="Operating system of the machines.")
    custom_ami: User[Ami | None] = Field(
        default=None, description="AMI for all machines, instead of the one of ParallelCluster."
    )
    head_node: Anyone[Word] = Field(
        default="m6i.xlarge", description="EC2 instance type of the head node."
    )
    head_subnet: User[Subnet | None] = Field(
        default=None,
        description="Subnet of the head node; the default is the first of `subnets`.",
    )
    subnets: User[tuple[Subnet, ...]] = Field(
        default=(), description="Subnets of the compute machines."
    )
    security_groups: User[tuple[Group, ...]] = Field(
        default=(), description="Security groups in addition to those that ParallelCluster makes."
    )
    key_pair: User[Word | None] = Field(
        default=None, description="EC2 key pair for ssh to the machines."
    )
    ssh_key: User[Word | None] = Field(
        default=None,
        description="File of the private key of `key_pair`, if ssh does not find it by itself.",
    )
    host_keys: User[Literal["known", "first-seen"]] = Field(
        default="known",
        description="How the host key of the head node is verified: `known` by ~/.ssh/known_hosts; "
        "`first-seen` accepts the first key that it shows, which is then remembered with the "
        "cluster.",
    )
    ssh_from: User[Word | None] = Field(
        default=None, description="Addresses that may reach the head node by ssh: `203.0.113.0/24`."
    )
    bucket: User[Bucket | None] = Field(
        default=None,
        description="Bucket for ParallelCluster's own files. Without it, ParallelCluster makes one.",
    )
    s3_access: User[tuple[Bucket, ...]] = Field(
        default=(), description="Buckets that all machines may read and write."
    )
    tags: Anyone[Mapping[Word, Word]] = Field(
        default={}, description="Tags for all resources that are made."
    )
    # The queues.
    queues: Anyone[Mapping[Word, Queue]] = Field(
        default={},
        description="Queues of the cluster, by name. Without them the cluster has one queue of machines "
        "that fit the spec, or two for `spot-then-on-demand`.",
    )
    queue: Anyone[Word | None] = Field(
        default=None,
        description="Queue of the job; the default is the first one whose machines fit.",
    )
    instance_types: Anyone[tuple[Word, ...]] = Field(
        default=(),
        description="EC2 instance types to use, instead of those that runspec chooses: see "
        "runspec docs machines.",
    )
    min_count: Anyone[Count] = Field(
        default=0, description="Number of machines that each queue always has."
    )
    max_count: Anyone[Positive] = Field(
        default=10, description="Largest number of machines that each queue has at the same time."
    )
    spot_price: Anyone[Price | None] = Field(
        default=None, description="Highest price for a spot machine, in dollars an hour."
    )
    placement_group: Anyone[Word | None] = Field(
        default=None, description="Existing placement group for the machines."
    )
    efa: Anyone[Truth] = Field(default=False, description="Give each node Elastic Fabric Adapters.")
    reservation: Anyone[Reservation | None] = Field(
        default=None, description="EC2 capacity reservation of the on-demand machines."
    )
    reservation_group: Anyone[Word | None] = Field(
        default=None,
        description="ARN of the resource group of a group of capacity reservations.",
    )
    # Slurm.
    idle_minutes: Anyone[Positive] = Field(
        default=10, description="How many minutes a machine without jobs is kept."
    )
    memory_scheduling: Anyone[Truth] = Field(
        default=False, description="Have Slurm allocate memory as well as processors."
    )
    slurm_settings: User[Mapping[Word, Free]] = Field(
        default={}, description="Settings of slurm.conf: `{MinJobAge: 3600}`."
    )
    update: User[Literal["drain", "terminate", "stop"]] = Field(
        default="drain",
        description="What an update of the cluster does to running machines: `drain` lets their jobs "
        "end, `terminate` ends machines that are no longer part of the cluster, `stop` ends "
        "all machines if the service requires it.",
    )
    # The files.
    storage: User[Mapping[Key, Storage]] = Field(
        default={},
        description="File systems of FSx for Lustre, by name. Each is also `shared://NAME`.",
    )
    archive: User[Truth] = Field(
        default=True,
        description="Copy changed files to S3 before the cluster is deleted, from file systems that have "
        "`data`.",
    )


# The profile that `runspec init --provider parallelcluster` writes, to be filled in.


PROFILE_TEMPLATE = """\
# Settings of your account for runspec. This file contains no secrets, only where they are stored.
providers:
  parallelcluster:
    region: us-east-1
    key_pair: my-key-pair               # EC2 key pair; add ssh_key: ~/.ssh/my-key.pem if ssh does not find the key
    subnets: [subnet-00000000000000000] # of the queues; the head node uses the first one, or head_subnet
    os: ubuntu2204
    # cluster: training                 # with a name, the cluster can be updated, and all jobs share it
    # queues:
    #   cpu: {instance_types: [c6i.4xlarge], max_count: 4}
    #   gpu: {capacity: spot, instance_types: [g5.12xlarge], max_count: 8, placement: true}
    # storage:
    #   workspace: {mount: /workspace, size_gib: 1200, data: s3://my-bucket/workspace}
"""
