"""The spec, version 1: what a user may write in a job file, as frozen models.

The types and limits of single fields are here; rules between fields are in `rules`.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any, Literal, NamedTuple, Self, get_args

from pydantic import (
    AfterValidator,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    PlainSerializer,
    SerializationInfo,
    Tag,
    WithJsonSchema,
    model_validator,
)

from runspec_agent.base.program_hooks import SIGNALS
from runspec_agent.base.retry_rules import LOST, OOM, RULES, STOP, find_action
from runspec_jobs.diagnostics.problem import did_you_mean
from runspec_jobs.document.nodes import Text, resolve, resolve_kind
from runspec_jobs.spec.metric import Metric, Sizes
from runspec_jobs.spec.needs import WRITE_SOURCE, Needs, RunOutput, run_output
from runspec_jobs.spec.sweep import Sweep
from runspec_jobs.spec.types import (
    BYTES,
    KIB,
    Bytes,
    EnvValue,
    ExitCodes,
    Folder,
    Free,
    Image,
    Key,
    Model,
    Name,
    Param,
    Ports,
    Positive,
    Saves,
    Seconds,
    Secrets,
    Sha256,
    Tries,
    Truth,
    Variable,
    Word,
    compiled,
    make_error,
    make_serializer,
    parse_size,
    parse_whole,
)

SOURCE = r"^(\.{1,2}(/|$)|/|~/|store://.|shared://.|run://.|s3://.|az://.|https://.)"


class Foreign(NamedTuple):
    """A kind of stores of other owners: what follows its scheme, an example, and the *variable* that has a key."""

    pattern: str
    example: str
    variable: str


# https://docs.aws.amazon.com/AmazonS3/latest/userguide/bucketnamingrules.html
# https://learn.microsoft.com/azure/azure-resource-manager/management/resource-name-rules#microsoftstorage
FOREIGN = {
    "s3": Foreign(
        r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9](/.*)?", "s3://BUCKET/PREFIX", "AWS_ACCESS_KEY_ID"
    ),
    "az": Foreign(
        r"[a-z0-9]{3,24}/[a-z0-9$][a-z0-9-]{2,62}(/.*)?",
        "az://ACCOUNT/CONTAINER/PREFIX",
        "AZURE_STORAGE_SAS_TOKEN",
    ),
}


TARGET = r"^(s3|az)://."


def check_target(url: str) -> str:
    """Return *url*, to which an output is written, if it names a place in a store; raise an error if not."""
    if not compiled(TARGET).match(url):
        examples = " or ".join(kind.example for kind in FOREIGN.values())
        raise make_error(
            f"'{url}' is no store that an output could be written to", f"write {examples}"
        )
    check_foreign(url)
    return url


# What makes a URL a key for everybody who reads it, in a record or a log.
SIGNED_URL = r"(?i)https://[^/]*@|.*[?&]([a-z-]*signature|sig|token|access_token|key|api_key)="


def check_url(url: str, sha256: str | None) -> None:
    """Raise an error if *url* is no public address, or has no digest."""
    if compiled(SIGNED_URL).match(url):
        message = "the address has a password, a token or a signature"
        hint = "download the file, and mount it from this machine"
        raise make_error(message, hint, private=True)
    if not compiled(r"https://[A-Za-z0-9.:\[\]-]+/[!-~]+").fullmatch(url):
        raise make_error(
            f"'{url}' is no address of a file", "write https://HOST/PATH, with %20 for a space"
        )
    if sha256 is None:
        hint = f"add sha256: DIGEST, which this prints: curl -sSL '{url}' | sha256sum"
        raise make_error(f"'{url}' needs a digest, because it may change", hint)


def check_foreign(url: str) -> None:
    """Raise an error if *url*, whose scheme is one of FOREIGN, names no bucket or container."""
    scheme, _, place = url.partition("://")
    kind = FOREIGN[scheme]
    if not compiled(kind.pattern).fullmatch(place):
        raise make_error(f"'{url}' names no place in a store", f"write {kind.example}")
    if {"", ".", ".."} & set(place.rstrip("/").split("/")):
        raise make_error(f"'{url}' must have no empty part, '.' or '..'")


class Capacity(StrEnum):
    """How the service sells the machines."""

    ON_DEMAND = "on-demand"
    SPOT = "spot"
    SPOT_THEN_ON_DEMAND = "spot-then-on-demand"


class Launch(StrEnum):
    """The launcher, which starts the processes of a job on its nodes."""

    NONE = "none"
    MPI = "mpi"
    HOROVOD = "horovod"
    TORCHRUN = "torchrun"
    SRUN = "srun"


class Nodes(Model):
    """How many nodes: `2`, or `{min: 1, max: 12}` for an elastic job, whose nodes may join and leave."""

    min: Positive = Field(description="The smallest number of nodes that the job runs on.")
    max: Positive = Field(description="The largest number of nodes that the job uses.")

    @model_validator(mode="before")
    @classmethod
    def _read_number(cls, value: Any) -> Any:
        if isinstance(value, Text):
            if resolve_kind(value) != "int":
                raise make_error(
                    f"'{value}' is not a number of nodes", "write 2 or {min: 1, max: 4}"
                )
            value = parse_whole(value)
            if value < 1:
                raise make_error(f"nodes must be at least 1 (got {value})")
        return {"min": value, "max": value} if isinstance(value, int) else value

    @model_validator(mode="after")
    def _order(self) -> Self:
        if self.min > self.max:
            raise make_error(f"min ({self.min}) is greater than max ({self.max})")
        return self

    @property
    def elastic(self) -> bool:
        return self.min != self.max


NODES_SCHEMA = {
    "oneOf": [
        {"type": "integer", "minimum": 1},
        {
            "type": "object",
            "additionalProperties": False,
            "required": ["min", "max"],
            "properties": {
                "min": {"type": "integer", "minimum": 1},
                "max": {"type": "integer", "minimum": 1},
            },
        },
    ]
}


DiskTier = Literal["low", "medium", "high", "best"]
SIZE_SCHEMA = {"type": "string", "pattern": BYTES, "examples": ["16GiB"]}


class Disk(Model):
    """The scratch disk of a node: `100GiB`, or `{size: 100GiB, tier: high}` for a faster one."""

    size: Bytes | None = Field(default=None, description="The least size, such as `100GiB`.")
    tier: DiskTier | None = Field(
        default=None,
        description="How fast it is: `low` is any disk, `medium` the usual SSD of the service, `high` a faster one, "
        "and `best` the fastest that the service has for a job.",
    )

    @model_validator(mode="before")
    @classmethod
    def _read_size(cls, value: Any) -> Any:
        if value == {}:
            raise make_error(
                "no size and no tier", "write disk: 100GiB, or {size: 100GiB, tier: high}"
            )
        if isinstance(value, list):
            raise make_error(
                "a size is expected here", "write disk: 100GiB, or {size: 100GiB, tier: high}"
            )
        return value if isinstance(value, Mapping | Disk) else {"size": parse_size(value)}


def _write_disk(value: Disk | None, info: SerializationInfo) -> Any:
    """Return what a record has of a disk: its size alone if it is of any tier, as earlier records do."""
    dump = (
        value.model_dump(mode=info.mode, context=info.context, exclude_none=True) if value else {}
    )
    return dump if "tier" in dump else dump.get("size")


DISK_SCHEMA = {
    "oneOf": [
        SIZE_SCHEMA,
        {
            "type": "object",
            "additionalProperties": False,
            "minProperties": 1,
            "properties": {"size": SIZE_SCHEMA, "tier": {"enum": [*get_args(DiskTier)]}},
        },
    ]
}


# The words for VmPriority in files of Azure Batch AI:
# https://github.com/Azure/azure-rest-api-specs/tree/main/specification/batchai
OF_OTHERS = {"lowpriority": "spot", "dedicated": "on-demand"}


CPUS_SCHEMA = {
    "oneOf": [
        {"type": "integer", "minimum": 1},
        {"type": "string", "pattern": r"^[1-9][0-9]{0,8}\+$"},
    ]
}


def _read_least(value: Any) -> Any:
    """Return the number in `8+`, which others write for what `cpus` means: at least so many."""
    if isinstance(value, str) and compiled(r"[1-9][0-9]{0,8}\+").fullmatch(value):
        return int(value[:-1])
    return value


def _list_gpu_types(value: Any) -> Any:
    if isinstance(value, list) and not value:
        raise make_error("no type", "write gpu_type: A100, or remove it")
    # A record has the value of `_write_gpu_types`.
    return () if value is None else (value,) if isinstance(value, str) else value


def _check_gpu_types(value: tuple[str, ...]) -> tuple[str, ...]:
    if twice := next((kind for kind in value if value.count(kind) > 1), None):
        raise make_error(f"'{twice}' is there twice")
    return value


def _write_gpu_types(value: tuple[str, ...]) -> str | tuple[str, ...] | None:
    return value if len(value) > 1 else next(iter(value), None)


# The model of a GPU and its memory, as vendors write both in one word: A100-80GB.
GPU_OF_SIZE = r"^(?P<model>.+?)-(?P<gb>[1-9][0-9]{0,3})GB$"
GPU_TYPES_SCHEMA = {
    "oneOf": [
        {"type": "string", "minLength": 1},
        {
            "type": "array",
            "items": {"type": "string", "minLength": 1},
            "minItems": 1,
            "uniqueItems": True,
        },
    ]
}


POOL = r"^pool:[a-z][a-z0-9_-]{0,39}$"
BOUGHT = (*(str(c) for c in Capacity), "low-priority")  # the last is read as spot


def _check_capacity(value: Any) -> Any:
    # An older word for spot machines; the plan of a spec with it must not differ from one with the newer word.
    if value == "low-priority":
        return "spot"
    if not isinstance(value, str) or value in BOUGHT or compiled(POOL).fullmatch(value):
        return value
    kinds = "on-demand, spot, spot-then-on-demand or pool:NAME"
    mine = OF_OTHERS.get(value.lower())
    hint = f"did you mean '{mine}'?" if mine else did_you_mean(value, BOUGHT)
    raise make_error(f"'{value}' is not {kinds}", hint)


class Cluster(Model):
    """The machines of the job. `cpus`, `memory`, `gpus` and `disk` are for each node."""

    model_config = ConfigDict(serialize_by_alias=True)

    nodes: Annotated[Nodes, WithJsonSchema(NODES_SCHEMA)] = Field(
        default=Nodes(min=1, max=1),
        description="How many nodes the job has: a number, or `{min, max}` for an elastic job, whose "
        "nodes may join and leave.",
    )
    bought: Annotated[
        str,
        BeforeValidator(_check_capacity),
        WithJsonSchema({"oneOf": [{"enum": [*BOUGHT]}, {"type": "string", "pattern": POOL}]}),
    ] = Field(
        default="on-demand",
        alias="capacity",
        description="How the machines are bought: `on-demand`, `spot`, or `spot-then-on-demand`, which "
        "uses on-demand machines where there are no spot machines. `low-priority` means "
        "`spot`. `pool:NAME` uses existing machines, which the profile describes under "
        "`pools`.",
    )
    cpus: Annotated[Positive, BeforeValidator(_read_least), WithJsonSchema(CPUS_SCHEMA)] | None = (
        Field(
            default=None,
            description="Least number of processor cores, such as `8`. `8+` means the same.",
        )
    )
    memory: Bytes | None = Field(default=None, description="Main memory, such as `16GiB`.")
    gpus: Positive | None = Field(default=None, description="Number of GPUs.")
    gpu_types: Annotated[
        tuple[Word, ...],
        BeforeValidator(_list_gpu_types),
        AfterValidator(_check_gpu_types),
        PlainSerializer(_write_gpu_types),
        WithJsonSchema(GPU_TYPES_SCHEMA),
    ] = Field(
        default=(),
        alias="gpu_type",
        description="Type of the GPUs, such as `V100` or, with the memory of one, `A100-80GB`. A list has the types "
        "in the order of preference: the job gets the first that the provider can give it.",
    )
    gpu_memory: Bytes | None = Field(
        default=None,
        description="Least memory of each GPU, such as `40GiB`. A GPU that is sold with 24 GB counts as one of "
        "`24GiB`.",
    )
    disk: Annotated[Disk, PlainSerializer(_write_disk), WithJsonSchema(DISK_SCHEMA)] | None = Field(
        default=None,
        description="Scratch disk space, such as `100GiB`, or `{size: 100GiB, tier: high}` with the kind of disk: "
        "`low`, `medium`, `high` or `best`.",
    )
    placement: Literal["close"] | None = Field(
        default=None,
        description="`close` places the nodes in the same zone, with the lowest network latency that the "
        "service offers.",
    )

    @property
    def disk_bytes(self) -> int | None:
        """The least size of the disk in bytes, or None."""
        return self.disk.size if self.disk else None

    @property
    def disk_tier(self) -> DiskTier | None:
        """How fast the disk is, or None if any will do."""
        return self.disk.tier if self.disk else None

    @property
    def gpu_type(self) -> str | None:
        """The type of the GPUs; of several, the first. runspec plans with the first that the provider can give."""
        return self.gpu_types[0] if self.gpu_types else None

    @property
    def gpu_model(self) -> str | None:
        """The type of the GPUs without the memory that `A100-80GB` names."""
        match = compiled(GPU_OF_SIZE).match(self.gpu_type or "")
        return match["model"] if match else self.gpu_type

    @property
    def gpu_gib(self) -> float:
        """The least memory of each GPU in GiB, by `gpu_memory` and `gpu_type`; 0 if any will do."""
        match = compiled(GPU_OF_SIZE).match(self.gpu_type or "")
        return max((self.gpu_memory or 0) / 2**30, float(match["gb"]) if match else 0)

    @property
    def pool(self) -> str | None:
        """The name of the pool that lends the machines, or None."""
        return self.bought.partition(":")[2] or None

    @property
    def capacity(self) -> Capacity:
        """How the machines are bought; those of a pool count as on-demand, because they are not reclaimed."""
        return Capacity.ON_DEMAND if self.pool else Capacity(self.bought)


CONTEXT = r"^(\.{1,2}(/|$)|/|~/)"
# A path within the context: neither absolute nor with `..`.
RECIPE = r"^(?!(.*/)?\.\.(/|$))[^/\0][^\0]*$"


class Build(Model):
    """A container image that is built for the job from a folder beside the spec."""

    context: Annotated[Word, WithJsonSchema({"type": "string", "pattern": CONTEXT})] = Field(
        description="The folder with what the image is built from, relative to the spec, such as `./`. Files that its "
        "`.containerignore`, or else its `.dockerignore`, leaves out are no part of it."
    )
    file: Annotated[Word, WithJsonSchema({"type": "string", "pattern": RECIPE})] | None = Field(
        default=None,
        description="The Containerfile, relative to the context. The default is `Containerfile`, or else "
        "`Dockerfile`.",
    )

    @model_validator(mode="after")
    def _check_paths(self) -> Self:
        if not compiled(CONTEXT).match(self.context):
            raise make_error(f"'{self.context}' is no folder", "write context: ./FOLDER")
        if self.file is not None and not compiled(RECIPE).match(self.file):
            hint = "write the path of a file in the context, such as file: docker/Containerfile"
            raise make_error(f"file: '{self.file}' is not in the context", hint)
        return self


class Container(Model):
    """What the job runs in: a container image, or Python packages where there is no container engine."""

    image: Image | None = Field(
        default=None,
        description="The container image. Name it with a tag or, so that it is always the same image, "
        "with a digest.",
    )
    build: Build | None = Field(
        default=None,
        description="Builds the image in place of naming one: `{context: ./, file: Containerfile}`. Only on "
        "`local`, with podman or docker, and on `aws-batch`, which pushes it: see runspec docs aws-batch.",
    )
    python: Word | None = Field(
        default=None,
        description="The Python versions that `requirements` work with, such as `>=3.9,<3.12`. Used "
        "where runspec builds an environment without an image.",
    )
    requirements: (
        Annotated[
            Annotated[Word, Tag("file")] | Annotated[tuple[Word, ...], Tag("list")],
            Discriminator(lambda value: "list" if isinstance(value, list | tuple) else "file"),
        ]
        | None
    ) = Field(
        default=None,
        description="Python packages: the path of a requirements file beside the spec, or a list. They "
        "are installed in addition to the image, or into a new environment where the job "
        "runs without a container.",
    )
    conda: Word | None = Field(
        default=None,
        description="A conda environment instead of `requirements`: the path of an `environment.yml` beside the spec. "
        "Micromamba builds it where the job runs without an image. Only on Slurm and ParallelCluster.",
    )
    build_constraints: tuple[Word, ...] = Field(
        default=(),
        description="Version constraints for building source packages, as pip's build constraints: "
        "`[setuptools<74]`.",
    )
    entrypoint: Literal["image"] | None = Field(
        default=None,
        description="`image` runs the ENTRYPOINT of the image with `args`, in place of `command` and `run`.",
    )
    args: tuple[Free, ...] = Field(
        default=(),
        description="The arguments of `entrypoint: image`. Without any, they are the CMD of the image.",
    )
    shm: Bytes | None = Field(
        default=None, description="Size of the shared memory `/dev/shm`, such as `8GiB`."
    )


UNLIMITED = -1
LIMIT_SCHEMA = {
    "oneOf": [
        {"type": "integer", "enum": [UNLIMITED]},
        {"type": "string", "pattern": rf"^unlimited$|{BYTES}"},
    ]
}


def _read_limit(value: Any) -> Any:
    if isinstance(value, Text):
        is_none = resolve_kind(value) == "int" and resolve(value) == UNLIMITED
        return UNLIMITED if is_none or value == "unlimited" else parse_size(value)
    return value


Limit = Annotated[
    int,
    BeforeValidator(_read_limit),
    make_serializer(lambda size: "unlimited" if size == UNLIMITED else f"{size // KIB}KiB"),
    WithJsonSchema(LIMIT_SCHEMA),
]


class Ulimits(Model):
    """Limits of each process of the job, by the names that container engines have for them."""

    memlock: Limit | None = Field(
        default=None,
        description="Memory that a process may lock, such as `64MiB`, or `unlimited` (`-1`), as RDMA needs it.",
    )
    nofile: Positive | None = Field(
        default=None, description="Number of open files, such as `65536`."
    )
    stack: Limit | None = Field(
        default=None, description="Size of the stack, such as `64MiB`, or `unlimited` (`-1`)."
    )

    @property
    def given(self) -> dict[str, int]:
        """The limits that the spec has, in bytes or open files, by name; -1 for none."""
        return {name: value for name, value in self if value is not None}


class Mount(Model):
    """Data that the job reads, placed at `target` on every node."""

    name: Key = Field(description="Name of the mount: `${mounts.NAME}` in the command is its path.")
    source: Annotated[
        Word, WithJsonSchema({"type": "string", "pattern": SOURCE, "minLength": 1})
    ] = Field(
        description="Where the data is: a folder or a file, relative to the spec (`./mnist`), a place in the "
        "profile's object store (`store://datasets/mnist`) or in a shared file system "
        "(`shared://workspace`), or an output of another job (`run://prepare/data`; of one task of a "
        "sweep, `run://search/model?task=3`, `?best` or, for each task that of its own number, `?task=same`), or a "
        "bucket or container of another owner (`s3://bucket/prefix`, `az://account/container/prefix`), which the job "
        "reads by its own identity, or a public file (`https://host/path`), with its `sha256`."
    )
    sha256: Sha256 | None = Field(
        default=None,
        description="The SHA-256 of a file from `https://`, in hexadecimal digits.",
    )
    target: Folder = Field(
        description="Absolute path of the mount in the job; of a file, the path of the file itself. Without a "
        "container it may be below a folder of the job instead: `${mounts.NAME}` is right everywhere."
    )
    mode: Literal["ro", "rw", "lazy"] | None = Field(
        default=None,
        description="`ro` (read-only) or `rw` (read-write). The default is `rw` for shared file systems "
        "and `ro` for all other sources. `lazy`, for `store://`, is read-only: files are read when the program opens "
        "them, where the provider can mount its store, and copied before it starts elsewhere.",
    )
    anonymous: Truth = Field(
        default=False,
        description="Read a public bucket or container without any identity; for `s3://` and `az://`.",
    )

    @model_validator(mode="after")
    def _check_source(self) -> Self:
        if not compiled(SOURCE).match(self.source):
            raise make_error(
                f"'{self.source}' cannot be mounted",
                "write ./folder, store://place, shared://place, run://JOB/OUTPUT, s3://BUCKET/PREFIX, "
                "az://ACCOUNT/CONTAINER/PREFIX or https://HOST/PATH",
            )
        if self.scheme == "run" and self.of_run is None:
            raise make_error(f"'{self.source}' names no output of a job", WRITE_SOURCE)
        if self.scheme != "file" and ".." in self.source.split("/"):
            raise make_error(f"'{self.source}' must not contain '..'")
        if self.is_foreign:
            check_foreign(self.source)
            if self.mode == "rw":
                raise make_error("files that the job writes there would be lost", "remove mode: rw")
        elif self.url:
            check_url(self.url, self.sha256)
        if self.mode == "lazy" and self.scheme != "store":
            way = (
                "remove it: such files are read where they are"
                if self.scheme == "shared"
                else "use store://"
            )
            raise make_error("'mode: lazy' is for store:// alone", way)
        if self.sha256 and not self.url:
            raise make_error("'sha256' is for https:// alone", "remove it")
        if self.anonymous and not self.is_foreign:
            raise make_error("'anonymous' is for s3:// and az:// alone", "remove it")
        return self

    @property
    def url(self) -> str | None:
        """The address of a public file, which this machine downloads and uploads as others; None for other sources."""
        return self.source if self.source.startswith("https://") else None

    @property
    def is_foreign(self) -> bool:
        """Whether the source is a bucket or container of another owner."""
        return self.scheme in FOREIGN

    @property
    def scheme(self) -> Literal["file", "store", "shared", "run", "s3", "az"]:
        """The kind of the source: what this machine uploads, the object store, a shared file system, or an output.

        The last two are buckets and containers of other owners.
        """
        if self.source.startswith("s3://"):
            return "s3"
        if self.source.startswith("az://"):
            return "az"
        if self.source.startswith("store://"):
            return "store"
        if self.source.startswith("run://"):
            return "run"
        return "shared" if self.source.startswith("shared://") else "file"

    @property
    def of_run(self) -> RunOutput | None:
        """The output of another job that the source names, or None."""
        return run_output(self.source)

    @property
    def place(self) -> str:
        """The source without its scheme."""
        return self.source.split("://", 1)[-1]

    @property
    def read_only(self) -> bool:
        return (self.mode or ("rw" if self.scheme == "shared" else "ro")) != "rw"


def _check_pattern(value: str) -> str:
    if value.startswith("/") or value.endswith("/") or ".." in value.split("/"):
        raise make_error(
            f"'{value}' is no pattern of files in the output", "write '*.pt' or 'logs/*'"
        )
    return value


FilePattern = Annotated[Word, AfterValidator(_check_pattern)]


class Output(Model):
    """A folder that the job writes. runspec saves it to the store, even if the job fails."""

    model_config = ConfigDict(serialize_by_alias=True)

    name: Key = Field(
        description="Name of the output: `${outputs.NAME}` in the command is its path."
    )
    path: Folder = Field(
        description="Absolute path of the folder in the job. Without a container it may be below a folder "
        "of the job instead: `${outputs.NAME}` is right everywhere."
    )
    sync: Seconds | None = Field(
        default=None,
        description="How often the folder is saved while the job runs, such as `60s`. It is always saved "
        "when the job ends.",
    )
    origin: Literal["first", "all"] | None = Field(
        default=None,
        alias="from",
        description="Which nodes' copies of the folder are saved: `first` for the first node (rank 0) "
        "only, `all` for every node, each in a place of its own. The default is `first` for "
        "elastic jobs and `all` for all others.",
    )
    target: (
        Annotated[
            Word,
            AfterValidator(check_target),
            WithJsonSchema({"type": "string", "pattern": TARGET, "minLength": 1}),
        ]
        | None
    ) = Field(
        default=None,
        description="A bucket or container of another owner (`s3://bucket/prefix`, `az://account/container/prefix`) to "
        "which each save writes the files as well, under their plain names and by the job's own identity.",
    )
    include: tuple[FilePattern, ...] = Field(
        default=(),
        description="Patterns of the files that are saved, such as `*.pt` or `logs/*`; without them, all are. One "
        "without `/` is that of a name in any folder, and one with `/` that of a path in the output.",
    )
    exclude: tuple[FilePattern, ...] = Field(
        default=(), description="Patterns of files that are not saved, such as `*.tmp`."
    )
    keep: Saves = Field(
        default=1,
        description="How many saves are kept: `last` for the last one, `last 3` for the last three.",
    )


def _check_codes(codes: tuple[tuple[int, int], ...]) -> tuple[tuple[int, int], ...]:
    if not codes:
        raise make_error("no exit code is listed", "write exit_codes: [42], or remove exit_codes")
    return codes


class Growth(Model):
    """More memory for the next attempt."""

    grow: Annotated[int, Field(ge=2, le=16), BeforeValidator(parse_whole)] = Field(
        description="How many times the memory of the attempt that failed the next one has."
    )
    most: Bytes = Field(description="The most memory that an attempt may have, such as `64GiB`.")


class RetryRule(Model):
    """What follows an attempt that has ended in some way."""

    exit_codes: Annotated[tuple[ExitCodes, ...], AfterValidator(_check_codes)] | None = Field(
        default=None,
        json_schema_extra={"minItems": 1},
        description="Exit codes of the attempt, as `status` shows them: `[42, 43]`, or `[130..145]` for a range. "
        "An entry without `exit_codes` and `reason` is the last one, and matches every other failure.",
    )
    reason: Literal["oom", "timeout", "image", "lost"] | None = Field(
        default=None,
        description="Instead of exit codes. `oom`: the kernel killed a process of the job for its memory. `timeout`: "
        "it took longer than `timeout`. `image`: its image could not be pulled. `lost`: its machine was reclaimed or "
        "failed. A job ends where its image cannot be pulled, and is retried after all others, unless an entry says "
        "otherwise.",
    )
    action: Literal["retry", "stop"] = Field(
        description="`retry`: another attempt follows if `attempts` (after `lost`, `spot_attempts`) has one left. "
        "`stop`: none follows."
    )
    memory: Growth | None = Field(
        default=None,
        description="After `oom` or `exit_codes`, the memory of the next attempt: `{grow: 2, most: 64GiB}` doubles "
        "`cluster.memory` up to that bound. Only Slurm and ParallelCluster change the request of a job.",
    )

    @property
    def recorded(self) -> dict[str, Any]:
        """The rule as `runspec_agent.base.retry_rules` reads it."""
        codes = {} if self.exit_codes is None else {"codes": [list(c) for c in self.exit_codes]}
        reason = {"reason": self.reason} if self.reason else {}
        growth = (
            {"memory": {"grow": self.memory.grow, "most": self.memory.most}} if self.memory else {}
        )
        return {**codes, **reason, **growth, "action": self.action}

    @model_validator(mode="after")
    def _check_one(self) -> Self:
        if self.exit_codes is not None and self.reason is not None:
            raise make_error("an entry has exit_codes or reason", "write two entries, one for each")
        named = self.exit_codes is not None or self.reason == OOM
        if self.memory is not None and not (named and self.action == "retry"):
            hint = "write {reason: oom, action: retry, memory: {grow: 2, most: 64GiB}}"
            raise make_error("more memory is for another attempt after oom or exit_codes", hint)
        return self


class Retry(Model):
    """How many attempts the job may make."""

    attempts: Tries = Field(
        default=1, description="Largest number of attempts, the first included, if the job fails."
    )
    spot_attempts: Positive = Field(
        default=5,
        description="Largest number of attempts, the first included, that may be lost because a machine "
        "was reclaimed or failed. A lost attempt is not a failure and does not count against "
        "`attempts`. AWS Batch makes ten attempts in all.",
    )
    on: tuple[RetryRule, ...] = Field(
        default=(),
        description="What follows a failure: `[{exit_codes: [42, 43], action: stop}, {reason: oom, action: retry}]`. "
        "The first entry that matches an attempt decides, and a failure that matches none is retried.",
    )

    @property
    def rules(self) -> dict[str, Any]:
        """The field `retry_on` of records, for runs whose spec has rules."""
        return {RULES: [rule.recorded for rule in self.on]} if self.on else {}

    def action_of(self, reason: str) -> str | None:
        """Return what follows an attempt that ended for *reason*, if an entry says so."""
        return find_action(self.rules, reason=reason)

    @property
    def lost_attempts(self) -> int:
        """`spot_attempts`, or 1 if no attempt follows one whose machine was lost."""
        return 1 if self.action_of(LOST) == STOP else self.spot_attempts


def _check_signal(value: Any) -> Any:
    name = str(value).upper().removeprefix("SIG")
    if name in SIGNALS:
        return name
    if name in ("KILL", "STOP"):
        raise make_error(f"no program can handle {name}", "write USR1, which a program may handle")
    raise make_error(f"'{value}' is no signal", did_you_mean(name, SIGNALS) or "write USR1")


class Signal(Model):
    """The signal that the program gets some time before `timeout`, so that it can save."""

    name: Annotated[str, BeforeValidator(_check_signal)] = Field(
        description="Name of the signal, such as `USR1`."
    )
    before: Seconds = Field(description="How long before `timeout` it is sent, such as `2m`.")

    @property
    def number(self) -> int:
        """The number of the signal on Linux."""
        return SIGNALS[self.name]


Program = Annotated[
    Annotated[Word, Tag("script")] | Annotated[tuple[Free, ...], Field(min_length=1), Tag("list")],
    Discriminator(lambda value: "list" if isinstance(value, list | tuple) else "script"),
]
UNBUFFERED = "PYTHONUNBUFFERED"
PARAM = "RUNSPEC_PARAM_"


def _count_processes(fields: Mapping[str, Any]) -> int:
    """Return the default of `processes_per_node`: torchrun's workers have a GPU each."""
    cluster, launch = fields.get("cluster"), fields.get("launch")
    return (cluster.gpus or 1) if cluster and launch is Launch.TORCHRUN else 1


class Spec(Model):
    """One job."""

    apiVersion: Literal["runspec/v1"] = Field(description="Version of the spec format.")
    name: Name = Field(description="Name of the job. The name of every run begins with it.")
    provider: Name = Field(
        description="Where the job runs. Change this one field to run the job elsewhere."
    )
    needs: Needs = Field(
        default={},
        description="Jobs of the same file that must have ended before this one starts: a list of names, which must "
        "have succeeded, or a mapping such as `{prepare: succeeded, train: ended}`, with `succeeded`, `failed` or "
        "`ended`. A mount of `run://JOB/OUTPUT` needs its job, too.",
    )
    cluster: Cluster = Field(default=Cluster(), description="The machines that the job needs.")
    container: Container = Field(
        default=Container(), description="The image or the packages that the job runs in."
    )
    mounts: tuple[Mount, ...] = Field(default=(), description="Data that the job reads.")
    outputs: tuple[Output, ...] = Field(
        default=(), description="Folders that the job writes and that are saved."
    )
    env: Mapping[Variable, EnvValue] = Field(
        default={},
        description="Environment variables. A value reaches the job exactly as it is written: `3.10` "
        "stays `3.10`. runspec adds `PYTHONUNBUFFERED=1`, so that Python prints a line when the program does; "
        '`PYTHONUNBUFFERED: ""` has Python collect its output instead. '
        "`{from: caller}` is the value in the shell that calls `plan` or `apply`.",
    )
    env_file: Word | None = Field(
        default=None,
        description="A file beside the spec with more variables, a line `NAME=VALUE` for each. Plans and records have "
        "them as they have `env`, whose values come first: it is no place for secrets.",
    )
    secrets: Secrets = Field(
        default={},
        description="Environment variables whose values are secret: the name of a variable, and the name "
        "under which the profile says where its value is stored, or `{from: caller}` for the value in the shell "
        "that calls `apply`.",
    )
    params: Mapping[Key, Param] = Field(
        default={},
        description="Parameters and their defaults: `{size: 7b, epochs: 3, mixed: true}`. `--param size=13b` "
        "gives one another value, of the kind of its default: a number, `true` or `false`, or text. "
        "`${params.NAME}` is its value in all fields but `apiVersion`, `name`, `provider` and `secrets`; a field "
        "that is only that keeps its type. A shell's script reads it from the job's variable `RUNSPEC_PARAM_NAME`.",
    )
    launch: Launch = Field(
        default=Launch.NONE,
        description="How processes are started: `none` starts the command once on every node, `mpi` "
        "starts it with mpirun, `horovod` with Horovod's Gloo launcher, `torchrun` with torchrun. `srun` starts "
        "processes without MPI: with srun on Slurm, elsewhere and in images by runspec, with the variables of srun.",
    )
    processes_per_node: Positive = Field(
        default_factory=_count_processes,
        description="Number of processes on each node, for every `launch` but `none`. The default is 1, "
        "and with torchrun one for each GPU of the node.",
    )
    global_batch: Positive | None = Field(
        default=None,
        description="Number of samples in one step of the whole job, however many processes share them. "
        "The job finds it as `RUNSPEC_GLOBAL_BATCH`.",
    )
    command: tuple[Free, ...] | None = Field(
        default=None,
        min_length=1,
        description="The program and its arguments. No shell reads them. Write either `command` or `run`.",
    )
    run: Word | None = Field(
        default=None,
        description="A script, instead of `command`: for /bin/sh, or for the interpreter that its first "
        "line names, as in `#!/bin/bash`.",
    )
    setup: Program | None = Field(
        default=None,
        description="What runs once on every node in each attempt, before `command` or its launcher: a script as in "
        "`run`, or a program and its arguments. It has the environment, the folder, the mounts and the outputs of the "
        "job, and its time counts in `timeout`. The job starts if it ends with exit code 0.",
    )
    smoke: Program | None = Field(
        default=None,
        description="A test that `apply --smoke` runs on every node before the job: a program and its "
        "arguments, or a script as in `run`. The job starts if the test ends with exit "
        "code 0.",
    )
    ports: Ports = Field(
        default={},
        description="Ports of the first node at which the job listens: `[8888]`, or with names, "
        "`{notebook: 8888}`. `apply` opens a tunnel to each of them at 127.0.0.1 while it follows the run.",
    )
    sweep: Sweep = Field(
        default={},
        description="Parameters and their values. The job has one task for each combination; "
        "`${sweep.NAME}` in the command is the task's value. The n-th values of the "
        "parameters under `list` go together. The values of those under `random` are drawn "
        "at random.",
    )
    max_parallel: Positive | None = Field(
        default=None, description="Largest number of tasks of a sweep that run at the same time."
    )
    max_failed: Positive | None = Field(
        default=None,
        description="Number of tasks of a sweep after whose failure the sweep ends: no other task starts, and those "
        "that run are told to end. A task has failed when no attempt of it follows. Without it, all tasks run.",
    )
    metric: Metric | None = Field(
        default=None,
        description="The number by which `runspec report` ranks the tasks of a sweep, or compares "
        "the sizes of `scaling`.",
    )
    scaling: Sizes | None = Field(
        default=None,
        description="Numbers of nodes to compare: `[1, 2, 4]`, or `{nodes, batch, data, software}`, with `processes` "
        "instead of `nodes` for numbers of processes on one node. `apply` starts one run for each, `NAME-n1`, "
        "`NAME-n2` and so on (`NAME-p1` for processes); `runspec report NAME` compares them.",
    )
    retry: Retry = Field(
        default=Retry(),
        description="How many attempts the job may make, counted by failures and by lost machines.",
    )
    ulimits: Ulimits = Field(
        default=Ulimits(),
        description="Limits of each process, such as `{memlock: unlimited, nofile: 65536}`. A job does not start its "
        "program where the node allows less.",
    )
    timeout: Seconds | None = Field(
        default=None, description="Longest time that one attempt may run; runspec then stops it."
    )
    signal: Signal | None = Field(
        default=None,
        description="A signal that processes of the program get some time before `timeout` if they have a handler for "
        "it: `{name: USR1, before: 2m}`.",
    )
    ttl: Seconds | None = Field(
        default=None,
        description="How long a run and its outputs stay after its end, such as `7d`. The next command of runspec on "
        "the machine that applied it then destroys the run, as `runspec destroy` does.",
    )
    providers: Mapping[Name, Mapping[str, Any]] = Field(
        default={},
        description="Settings of single providers, by name. They override those of the profile.",
    )

    @property
    def processes_chosen(self) -> bool:
        """Whether `processes_per_node` is another number than its default."""
        fields = {"cluster": self.cluster, "launch": self.launch}
        return self.processes_per_node != _count_processes(fields)

    @property
    def program_env(self) -> dict[str, str]:
        """The environment of the command: parameters, and `env`, with Python's output unbuffered unless that sets it.

        https://docs.python.org/3/using/cmdline.html#envvar-PYTHONUNBUFFERED
        """
        unbuffered = {} if UNBUFFERED in self.secrets else {UNBUFFERED: "1"}
        return {**unbuffered, **self.param_env, **self.env}

    @property
    def param_env(self) -> dict[str, str]:
        """The variables of the parameters: `RUNSPEC_PARAM_NAME`."""
        return {
            f"{PARAM}{name.upper().replace('-', '_')}": value for name, value in self.params.items()
        }
