"""What a run used, as a part of other formats."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from runspec_jobs.cli.json_formats.base import Part


class Processors(Part):
    """Processors of a node."""

    has: int
    most: float = Field(description="The most of any sample, in processors.")
    mean: float


class Bytes(Part):
    """Memory, or the file system with the job's folder."""

    has: int = Field(description="0 if it is not known.")
    most: int


class Gpu(Part):
    """One GPU of a node, in the order of nvidia-smi."""

    mean_percent: float = Field(description="The share of the time in which it worked, in percent.")
    has_bytes: int
    most_bytes: int


class NodeUsage(Part):
    """What one node used in its newest attempt."""

    task: int
    rank: int
    attempt: int = Field(description="0 if it is not known.")
    of: Literal["container", "processes"] = Field(
        description="What was measured; memory that processes share counts for each of them."
    )
    sampled_s: float = Field(description="How long it was sampled.")
    cpus: Processors
    memory_bytes: Bytes
    disk_bytes: Bytes
    gpus: list[Gpu]
    no_gpus: str = Field(description="Why no GPU was sampled, for people.")


class Advice(Part):
    """What to write in the spec instead."""

    field: Literal["cpus", "memory", "disk", "gpus"] = Field(description="The field of `cluster`.")
    asked: int = Field(description="In bytes for memory and disk.")
    used: float
    write: str | None = Field(description="The value for the field; null to remove the field.")
    text: str = Field(description="The same, for people.")


class Usage(Part):
    """What the nodes of a run used. `status` has the first eight nodes."""

    sampled: int = Field(description="How many nodes have samples.")
    why: str = Field(description="Why no node has samples, for people.")
    nodes: list[NodeUsage]
    advice: list[Advice]
