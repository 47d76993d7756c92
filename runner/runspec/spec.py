"""The spec, version 1: what a user may write in a job file, as frozen models.

Shapes and limits of single values live here; what holds between fields is in `rules`.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any, Literal, Self

from pydantic import (
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    Tag,
    WithJsonSchema,
    model_validator,
)

from runspec.metrics import Metric, Sizes
from runspec.model import Model
from runspec.problems import did_you_mean
from runspec.scalars import (
    Bytes,
    Folder,
    Free,
    Image,
    Key,
    Name,
    Positive,
    Saves,
    Seconds,
    SecretName,
    Tries,
    Variable,
    Word,
    compiled,
    problem,
    whole,
)
from runspec.sweeps import Sweep
from runspec.tree import Text, kind

SOURCE = r"^(\.{1,2}(/|$)|/|~/|store://.|shared://.)"


class Capacity(StrEnum):
    """How the machines are bought."""

    ON_DEMAND = "on-demand"
    SPOT = "spot"
    SPOT_THEN_ON_DEMAND = "spot-then-on-demand"


class Launch(StrEnum):
    """Who starts the processes of a job of many nodes."""

    NONE = "none"
    MPI = "mpi"
    TORCHRUN = "torchrun"


class Nodes(Model):
    """How many nodes: `2`, or `{min: 1, max: 12}` for a job that goes on while nodes come and go."""

    min: Positive = Field(description="The fewest nodes the job runs on.")
    max: Positive = Field(description="The most nodes the job takes.")

    @model_validator(mode="before")
    @classmethod
    def _number(cls, value: Any) -> Any:
        if isinstance(value, Text):
            if kind(value) != "int":
                raise problem(f"'{value}' is not a number of nodes", "write 2 or {min: 1, max: 4}")
            value = whole(value)
            if value < 1:
                raise problem(f"{value} nodes are none", "write at least 1")
        return {"min": value, "max": value} if isinstance(value, int) else value

    @model_validator(mode="after")
    def _order(self) -> Self:
        if self.min > self.max:
            raise problem(f"min is {self.min}, above max, which is {self.max}")
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


# Words of Azure Batch AI (VmPriority), which files of its tool have:
# https://github.com/Azure/azure-rest-api-specs/tree/main/specification/batchai
OF_OTHERS = {"lowpriority": "spot", "dedicated": "on-demand"}


POOL = r"^pool:[a-z][a-z0-9_-]{0,39}$"
BOUGHT = (*(str(c) for c in Capacity), "low-priority")  # the last is read as spot


def _bought(value: Any) -> Any:
    if value == "low-priority":
        return "spot"
    if not isinstance(value, str) or value in BOUGHT or compiled(POOL).fullmatch(value):
        return value
    kinds = "on-demand, spot, spot-then-on-demand or pool:NAME"
    mine = OF_OTHERS.get(value.lower())
    hint = f"did you mean '{mine}'?" if mine else did_you_mean(value, BOUGHT)
    raise problem(f"'{value}' is not {kinds}", hint)


class Cluster(Model):
    """The machines of the job. Everything but `nodes`, `capacity` and `placement` is per node."""

    model_config = ConfigDict(serialize_by_alias=True)

    nodes: Annotated[Nodes, WithJsonSchema(NODES_SCHEMA)] = Field(
        default=Nodes(min=1, max=1),
        description="How many: a number, or `{min, max}` for an elastic job.",
    )
    bought: Annotated[
        str,
        BeforeValidator(_bought),
        WithJsonSchema({"oneOf": [{"enum": [*BOUGHT]}, {"type": "string", "pattern": POOL}]}),
    ] = Field(
        default="on-demand",
        alias="capacity",
        description="How they are bought: `on-demand`, `spot` or `spot-then-on-demand`; `low-priority` is "
        "read as `spot`. `pool:NAME` is machines that are there already: the profile says under `pools` which.",
    )
    cpus: Positive | None = Field(default=None, description="Processor cores.")
    memory: Bytes | None = Field(default=None, description="Main memory, such as `16GiB`.")
    gpus: Positive | None = Field(default=None, description="Accelerators.")
    gpu_type: Word | None = Field(default=None, description="Their kind, such as `V100`.")
    disk: Bytes | None = Field(default=None, description="Scratch disk, such as `100GiB`.")
    placement: Literal["close"] | None = Field(
        default=None, description="`close`: the same zone and the lowest latency between nodes."
    )

    @property
    def pool(self) -> str | None:
        """The pool that the machines are drawn from, and given back to."""
        return self.bought.partition(":")[2] or None

    @property
    def capacity(self) -> Capacity:
        """How the machines are bought; those of a pool are there, and nobody takes them away."""
        return Capacity.ON_DEMAND if self.pool else Capacity(self.bought)


class Container(Model):
    """What the job runs in: an image, or the packages it needs where there is no engine."""

    image: Image | None = Field(default=None, description="The image, best with a tag or a digest.")
    python: Word | None = Field(
        default=None,
        description="The Python versions that `requirements` work with, such as `>=3.9,<3.12`; "
        "asked for where an environment is built without an image.",
    )
    requirements: (
        Annotated[
            Annotated[Word, Tag("file")] | Annotated[tuple[Word, ...], Tag("list")],
            Discriminator(lambda value: "list" if isinstance(value, list | tuple) else "file"),
        ]
        | None
    ) = Field(
        default=None,
        description="Python packages: a requirements file beside the spec, or a list. Added to "
        "the image; all there is where no container engine is.",
    )
    build_constraints: tuple[Word, ...] = Field(
        default=(), description="Versions to build old source packages with: `[setuptools<74]`."
    )
    shm: Bytes | None = Field(default=None, description="Size of /dev/shm, such as `8GiB`.")


class Mount(Model):
    """Something the job reads, put at `target` on every node."""

    name: Key = Field(description="Its name: `${mounts.NAME}` in the command.")
    source: Annotated[
        Word, WithJsonSchema({"type": "string", "pattern": SOURCE, "minLength": 1})
    ] = Field(
        description="A folder beside the spec (`./mnist`), a place in the profile's object store "
        "(`store://datasets/mnist`) or in a shared file system (`shared://workspace`)."
    )
    target: Folder = Field(description="Where it lies in the job.")
    mode: Literal["ro", "rw"] | None = Field(
        default=None,
        description="`ro` or `rw`; `rw` for shared file systems and `ro` for the rest.",
    )

    @model_validator(mode="after")
    def _known_source(self) -> Self:
        if not compiled(SOURCE).match(self.source):
            raise problem(
                f"'{self.source}' is no place that can be mounted",
                "write ./folder, store://place or shared://place",
            )
        if self.scheme != "file" and ".." in self.source.split("/"):
            raise problem(f"'{self.source}' leaves its root")
        return self

    @property
    def scheme(self) -> Literal["file", "store", "shared"]:
        """Where the source lies: a folder here, the object store, or a shared file system."""
        if self.source.startswith("store://"):
            return "store"
        return "shared" if self.source.startswith("shared://") else "file"

    @property
    def place(self) -> str:
        """The source without its scheme."""
        return self.source.split("://", 1)[-1]

    @property
    def read_only(self) -> bool:
        return (self.mode or ("rw" if self.scheme == "shared" else "ro")) == "ro"


class Output(Model):
    """A folder that the job writes and that is kept, also when the job fails."""

    model_config = ConfigDict(serialize_by_alias=True)

    name: Key = Field(description="Its name: `${outputs.NAME}` in the command.")
    path: Folder = Field(description="Where the job writes it.")
    sync: Seconds | None = Field(
        default=None, description="Saved this often while the job runs, too: `60s`."
    )
    origin: Literal["first", "all"] | None = Field(
        default=None,
        alias="from",
        description="Of which nodes it is kept: of the `first` (rank 0) alone, or of `all`, each in a place of its "
        "own. `all`, but `first` of a job whose nodes come and go.",
    )
    keep: Saves = Field(
        default=1,
        description="How many saves stay: `last 3` for the last three, or `last` for the last one.",
    )


class Retry(Model):
    """How often the job is tried."""

    attempts: Tries = Field(default=1, description="Tries in all, counting the first.")
    spot_attempts: Tries = Field(
        default=5, description="Tries in all when a node was reclaimed, which is not a failure."
    )


class Spec(Model):
    """One job."""

    apiVersion: Literal["runspec/v1"] = Field(description="The version of this format.")
    name: Name = Field(description="What the job is called; runs carry it in their names.")
    provider: Name = Field(description="Where it runs. The one field to change to move it.")
    cluster: Cluster = Field(default=Cluster(), description="The machines it needs.")
    container: Container = Field(default=Container(), description="What it runs in.")
    mounts: tuple[Mount, ...] = Field(default=(), description="What it reads.")
    outputs: tuple[Output, ...] = Field(default=(), description="What it writes and keeps.")
    env: Mapping[Variable, Free] = Field(
        default={}, description="Environment variables, each exactly as written."
    )
    secrets: Mapping[Variable, SecretName] = Field(
        default={},
        description="Environment variables that are secret; the profile says where each lives.",
    )
    launch: Launch = Field(
        default=Launch.NONE, description="Who starts the processes on the nodes."
    )
    processes_per_node: Positive = Field(
        default=1, description="Processes started on each node by `mpi` or `torchrun`."
    )
    global_batch: Positive | None = Field(
        default=None,
        description="Samples in a step of the whole job, however many processes share them: "
        "`RUNSPEC_GLOBAL_BATCH`.",
    )
    command: tuple[Free, ...] | None = Field(
        default=None,
        min_length=1,
        description="The program and its arguments, never seen by a shell.",
    )
    run: Word | None = Field(
        default=None, description="A shell script for /bin/sh, instead of `command`."
    )
    smoke: (
        Annotated[
            Annotated[Word, Tag("script")]
            | Annotated[tuple[Free, ...], Field(min_length=1), Tag("list")],
            Discriminator(lambda value: "list" if isinstance(value, list | tuple) else "script"),
        ]
        | None
    ) = Field(
        default=None,
        description="What `apply --smoke` runs first, on every node, on synthetic data: a program and its "
        "arguments, or a shell script for /bin/sh. The job begins when it has ended with 0.",
    )
    sweep: Sweep = Field(
        default={},
        description="Values to try, all with all: one task each. `${sweep.NAME}` in the command. Those "
        "under `list` go together, the n-th with the n-th; those under `random` are drawn.",
    )
    max_parallel: Positive | None = Field(
        default=None, description="How many tasks of a sweep run at once, at most."
    )
    metric: Metric | None = Field(
        default=None, description="What `runspec report` ranks or compares by."
    )
    scaling: Sizes | None = Field(
        default=None,
        description="Numbers of nodes, one run each, `NAME-n1`, `NAME-n2`: `[1, 2, 4]`, or `{nodes, batch, "
        "data, software}`. `runspec report NAME` compares them.",
    )
    retry: Retry = Field(default=Retry(), description="How often it is tried.")
    timeout: Seconds | None = Field(
        default=None, description="The longest that one try may take; then it is stopped."
    )
    providers: Mapping[Name, Mapping[str, Any]] = Field(
        default={}, description="Settings of single providers, by name, over those of the profile."
    )
