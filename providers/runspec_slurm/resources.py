"""The resources of the cluster that discovery found.

Unknown values are None or empty, and then no check depends on them: see `Facts.survey` in docs/slurm.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from runspec_agent.base.light_typing import NamedTuple
from runspec_jobs.provider import Facts


class Partition(NamedTuple):
    """A partition, from `scontrol show partition` and its nodes. None means no limit, or unknown.

    *gpus* is the largest number in one node by type, which is "" if the cluster names no types. *memory_mb* and
    *disk_mb* are None if Slurm does not manage them, and then they cannot be requested.
    """

    name: str
    default: bool = False
    state: str = "up"
    max_time_s: int | None = None
    default_time_s: int | None = None
    max_nodes: int | None = None
    min_nodes: int | None = None
    nodes: int | None = None
    cpus: int | None = None
    memory_mb: int | None = None
    disk_mb: int | None = None
    gpus: Mapping[str, int] = {}

    @property
    def most_nodes(self) -> int | None:
        """The largest number of nodes for one job, including those that are powered down."""
        known = [n for n in (self.max_nodes, self.nodes) if n is not None]
        return min(known) if known else None


def read_cluster(facts: Facts) -> Mapping[str, Any]:
    """Return what discovery found, or an empty mapping."""
    cluster: Mapping[str, Any] = facts.survey.get("slurm", {})
    return cluster


def read_partitions(facts: Facts) -> Mapping[str, Partition]:
    """Return the partitions by name; an empty mapping without discovery."""
    partitions: Mapping[str, Mapping[str, Any]] = read_cluster(facts).get("partitions", {})
    return {
        name: Partition(name, **{k: v for k, v in fields.items() if k in Partition._fields})
        for name, fields in partitions.items()
    }


def find_default(partitions: Mapping[str, Partition]) -> str | None:
    """Return the cluster's default partition, or None if it is unknown."""
    return next((p.name for p in partitions.values() if p.default), None)


def can_request(partitions: tuple[Partition, ...], field: str) -> bool:
    """Return whether *field* can be requested: not if Slurm is known not to manage it in a partition."""
    return all(getattr(partition, field) is not None for partition in partitions)
