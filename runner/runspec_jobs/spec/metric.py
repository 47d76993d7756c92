"""The fields `metric` and `scaling`: the value that a job reports, and the sizes to compare."""

from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, WithJsonSchema, model_validator

from runspec_jobs.spec.sweep import Number
from runspec_jobs.spec.types import Model, Positive, Word, make_error

TABLES = (".csv", ".json", ".jsonl")
SIZES = 50


class Stop(Model):
    """A condition that stops the other tasks of a sweep. Write one of the fields."""

    below: Number | None = Field(
        default=None,
        description="Stop the others once a task has succeeded whose metric is below this number.",
    )
    above: Number | None = Field(
        default=None,
        description="Stop the others once a task has succeeded whose metric is above this number.",
    )

    def is_reached(self, value: float) -> bool:
        """Return whether *value* meets the condition."""
        if self.below is not None:
            return value < float(self.below)
        return self.above is not None and value > float(self.above)


class Metric(Model):
    """A number that the job prints or writes, by which tasks are ranked or numbers of nodes are compared."""

    name: Word = Field(description="Name of the metric in reports.")
    goal: Literal["min", "max"] = Field(
        description="Whether the smallest (`min`) or the largest (`max`) value is the best."
    )
    pattern: Word | None = Field(
        default=None,
        description="Regular expression that finds the number in a line of the log: its only group, or "
        "its group called `value`, is the number.",
    )
    reader: Literal["horovod", "mxnet", "chainer"] | None = Field(
        default=None, description="Framework whose table in the log is read, instead of `pattern`."
    )
    column: Word | None = Field(
        default=None,
        description="Column of the table, or of a `.csv` file. The default for tables is `speed` for "
        "Horovod and MXNet, and `validation/main/accuracy` for Chainer.",
    )
    file: Word | None = Field(
        default=None,
        description="File to read instead of the log, as `OUTPUT/path` in an output: `.json`, `.jsonl`, "
        "`.csv`, or text.",
    )
    key: Word | None = Field(
        default=None, description="Where the number is in a JSON file, such as `val.accuracy`."
    )
    take: Literal["last", "best", "median"] = Field(
        default="last", description="Which number counts if there are several."
    )
    stop: Stop | None = Field(
        default=None,
        description="Stops the rest of a sweep when a task is good enough, while `apply` or `report "
        "--follow` watches the run.",
    )

    @property
    def table(self) -> str | None:
        """The suffix of the file if it is one that needs neither pattern nor reader, or None."""
        return next((end for end in TABLES if (self.file or "").lower().endswith(end)), None)


class Scaling(Model):
    """The sizes that the job is run at, one run each, and what the figures describe."""

    nodes: Annotated[tuple[Positive, ...], Field(min_length=1, max_length=SIZES)] | None = Field(
        default=None, description="The numbers of nodes: `[1, 2, 4, 8]`."
    )
    processes: Annotated[tuple[Positive, ...], Field(min_length=1, max_length=SIZES)] | None = (
        Field(
            default=None,
            description="Instead of `nodes`, the numbers of processes on one node: `[1, 2, 4, 8]`.",
        )
    )
    batch: Positive | None = Field(
        default=None, description="Number of samples in one step, on all nodes together."
    )
    data: Literal["synthetic", "real"] | None = Field(
        default=None, description="Whether the samples are `synthetic` or `real`."
    )
    software: Word | None = Field(
        default=None, description="The software that was measured, with versions."
    )

    @model_validator(mode="after")
    def _require_one_unit(self) -> Self:
        if (self.nodes is None) == (self.processes is None):
            raise make_error("scaling needs either nodes or processes", "write scaling: [1, 2, 4]")
        return self

    @property
    def unit(self) -> Literal["nodes", "processes"]:
        """What a size counts."""
        return "nodes" if self.nodes is not None else "processes"

    @property
    def sizes(self) -> tuple[int, ...]:
        return self.nodes or self.processes or ()


def _parse_sizes(value: Any) -> Any:
    return {"nodes": value} if isinstance(value, list | tuple) else value


SIZES_SCHEMA: dict[str, Any] = {
    "type": "array",
    "minItems": 1,
    "maxItems": SIZES,
    "items": {"type": "integer", "minimum": 1},
}
SCALING_SCHEMA: dict[str, Any] = {
    "oneOf": [
        SIZES_SCHEMA,
        {
            "type": "object",
            "additionalProperties": False,
            "if": {"required": ["nodes"]},
            "then": {"not": {"required": ["processes"]}},
            "else": {"required": ["processes"]},
            "properties": {
                "nodes": SIZES_SCHEMA,
                "processes": SIZES_SCHEMA,
                "batch": {"type": "integer", "minimum": 1},
                "data": {"enum": ["synthetic", "real"]},
                "software": {"type": "string", "minLength": 1},
            },
        },
    ]
}
Sizes = Annotated[Scaling, BeforeValidator(_parse_sizes), WithJsonSchema(SCALING_SCHEMA)]
