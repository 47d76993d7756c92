"""`metric` and `scaling`: what is measured of a job, and at which sizes."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, WithJsonSchema

from runspec.model import Model
from runspec.scalars import Positive, Word
from runspec.sweeps import Number

TABLES = (".csv", ".json", ".jsonl")
SIZES = 50


class Stop(Model):
    """When the other tasks of a sweep are not needed any more: one of these."""

    below: Number | None = Field(default=None, description="Once a task's metric is below this.")
    above: Number | None = Field(default=None, description="Once a task's metric is above this.")

    def reached(self, value: float) -> bool:
        """Say whether *value* is enough."""
        if self.below is not None:
            return value < float(self.below)
        return self.above is not None and value > float(self.above)


class Metric(Model):
    """What tasks are ranked by, or sizes compared: a number that the job prints or writes."""

    name: Word = Field(description="What it is called in reports.")
    goal: Literal["min", "max"] = Field(description="Which one is best.")
    pattern: Word | None = Field(
        default=None,
        description="A regular expression for one line; its group, or the group `value`, is the number.",
    )
    reader: Literal["horovod", "mxnet", "chainer"] | None = Field(
        default=None, description="Whose table is read, instead of a pattern."
    )
    column: Word | None = Field(
        default=None,
        description="Of a table: which column. Of Horovod's and MXNet's, `speed`; of Chainer's, "
        "`validation/main/accuracy`.",
    )
    file: Word | None = Field(
        default=None,
        description="`OUTPUT/path` of a file in an output, instead of the log: `.json`, `.jsonl`, `.csv`, or text.",
    )
    key: Word | None = Field(
        default=None, description="Of a JSON file: where the number is, such as `val.accuracy`."
    )
    take: Literal["last", "best", "median"] = Field(
        default="last", description="Of many numbers, which one counts."
    )
    stop: Stop | None = Field(
        default=None, description="When the rest of the sweep is stopped while the run is followed."
    )

    @property
    def table(self) -> str | None:
        """The kind of file that needs neither pattern nor reader, or None."""
        return next((end for end in TABLES if (self.file or "").lower().endswith(end)), None)

    def better(self, one: float, other: float) -> bool:
        return one > other if self.goal == "max" else one < other


class Scaling(Model):
    """The numbers of nodes that the job is run on, one run each, and what the figures are of."""

    nodes: Annotated[tuple[Positive, ...], Field(min_length=1, max_length=SIZES)] = Field(
        description="The sizes: `[1, 2, 4, 8]`."
    )
    batch: Positive | None = Field(default=None, description="Samples in a step, on all nodes.")
    data: Literal["synthetic", "real"] | None = Field(
        default=None, description="Whether the samples are made up."
    )
    software: Word | None = Field(default=None, description="What was measured, with versions.")


def _sizes(value: Any) -> Any:
    return {"nodes": value} if isinstance(value, list | tuple) else value


SCALING_SCHEMA: dict[str, Any] = {
    "oneOf": [
        {
            "type": "array",
            "minItems": 1,
            "maxItems": SIZES,
            "items": {"type": "integer", "minimum": 1},
        },
        {
            "type": "object",
            "additionalProperties": False,
            "required": ["nodes"],
            "properties": {
                "nodes": {
                    "type": "array",
                    "minItems": 1,
                    "maxItems": SIZES,
                    "items": {"type": "integer", "minimum": 1},
                },
                "batch": {"type": "integer", "minimum": 1},
                "data": {"enum": ["synthetic", "real"]},
                "software": {"type": "string", "minLength": 1},
            },
        },
    ]
}
Sizes = Annotated[Scaling, BeforeValidator(_sizes), WithJsonSchema(SCALING_SCHEMA)]
