"""The resources of the cluster that discovery found, and the partitions of a job.

Unknown values are None or empty, and then no check depends on them: see `Facts.survey` in docs/slurm.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from runspec_jobs.provider import Capacity, Facts, Spec
from runspec_slurm.options import SlurmOptions


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


def found(facts: Facts) -> Mapping[str, Any]:
    """Return what discovery found, or an empty mapping."""
    there: Mapping[str, Any] = facts.survey.get("slurm", {})
    return there


def known(facts: Facts) -> Mapping[str, Partition]:
    """Return the partitions by name; an empty mapping without discovery."""
    there: Mapping[str, Mapping[str, Any]] = found(facts).get("partitions", {})
    return {
        name: Partition(name, **{k: v for k, v in said.items() if k in Partition._fields})
        for name, said in there.items()
    }


def default(facts: Facts) -> str | None:
    """Return the cluster's default partition, or None if it is unknown."""
    return next((p.name for p in known(facts).values() if p.default), None)


def names(spec: Spec, facts: Facts) -> tuple[str, ...]:
    """Return the partitions to request; an empty tuple for the cluster's default.

    With several, Slurm uses the one that can start the job first:
    https://slurm.schedmd.com/sbatch.html#OPT_partition
    """
    options: SlurmOptions = facts.options
    own = (options.partition,) if options.partition else ()
    if spec.cluster.capacity is Capacity.ON_DEMAND or options.spot_partition is None:
        return own
    if spec.cluster.capacity is Capacity.SPOT:
        return (options.spot_partition,)
    second = options.partition or default(facts)
    both = (options.spot_partition, *((second,) if second else ()))
    return tuple(dict.fromkeys(both))


def partitions(spec: Spec, facts: Facts) -> tuple[Partition, ...]:
    """Return the known partitions among those of the job."""
    asked = names(spec, facts) or tuple(filter(None, [default(facts)]))
    there = known(facts)
    return tuple(there[name] for name in asked if name in there)


def shares(where: tuple[Partition, ...], field: str) -> bool:
    """Return whether *field* can be requested: not if Slurm is known not to manage it in a partition."""
    return all(getattr(one, field) is not None for one in where)


def gpu_type(spec: Spec, facts: Facts) -> str | None:
    """Return the cluster's name of the GPU type of *spec*, which is usually in lower case."""
    wanted, options = spec.cluster.gpu_type, facts.options
    if wanted is None:
        return None
    if wanted in options.gpu_types:
        mine: str = options.gpu_types[wanted]
        return mine
    there = [name for one in partitions(spec, facts) for name in one.gpus]
    return next((name for name in there if name.lower() == wanted.lower()), wanted.lower())
