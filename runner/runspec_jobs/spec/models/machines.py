"""The machines of a job in a spec: `cluster`."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any, Literal, Self, get_args

from pydantic import (
    AfterValidator,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    SerializationInfo,
    WithJsonSchema,
    model_validator,
)

from runspec_jobs.diagnostics.problem import did_you_mean
from runspec_jobs.document.nodes import Text, resolve_kind
from runspec_jobs.spec.types import (
    BYTES,
    Bytes,
    Gpus,
    Model,
    Positive,
    Word,
    compiled,
    make_error,
    parse_size,
    parse_whole,
)


class Capacity(StrEnum):
    """How the service sells the machines."""

    ON_DEMAND = "on-demand"
    SPOT = "spot"
    SPOT_THEN_ON_DEMAND = "spot-then-on-demand"


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
    gpus: Gpus | None = Field(default=None, description="Number of GPUs.")
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
