"""What was found out about the cluster, and which of its partitions a job goes to.

What is not known is None or empty, and then nothing depends on it: see `Facts.survey` in docs/slurm.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from runspec_jobs.provider import Capacity, Facts, Spec
from runspec_slurm.options import SlurmOptions


class Partition(NamedTuple):
    """A partition as `scontrol show partition` and its nodes say; None is without a limit, or not known.

    *gpus* are the most that one node has, by their type: "" where the cluster names none. *memory_mb* and
    *disk_mb* are None where the cluster knows nothing of them, and then nothing of them can be asked for.
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
        """The most nodes that one job has, those included that are powered down."""
        known = [n for n in (self.max_nodes, self.nodes) if n is not None]
        return min(known) if known else None


def found(facts: Facts) -> Mapping[str, Any]:
    """Return what the survey found, or an empty mapping."""
    there: Mapping[str, Any] = facts.survey.get("slurm", {})
    return there


def known(facts: Facts) -> Mapping[str, Partition]:
    """Return the partitions there are; none where the cluster was not asked."""
    there: Mapping[str, Mapping[str, Any]] = found(facts).get("partitions", {})
    return {
        name: Partition(name, **{k: v for k, v in said.items() if k in Partition._fields})
        for name, said in there.items()
    }


def default(facts: Facts) -> str | None:
    """Return the partition that the cluster takes where none is named, where that is known."""
    return next((p.name for p in known(facts).values() if p.default), None)


def names(spec: Spec, facts: Facts) -> tuple[str, ...]:
    """Return the partitions to ask for; none for the cluster's own default.

    A job with several goes to whichever can start it first:
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
    """Return what is known of the partitions that the job goes to."""
    asked = names(spec, facts) or tuple(filter(None, [default(facts)]))
    there = known(facts)
    return tuple(there[name] for name in asked if name in there)


def shares(where: tuple[Partition, ...], field: str) -> bool:
    """Return whether *field* can be asked for: not where a partition is known not to know of it."""
    return all(getattr(one, field) is not None for one in where)


def gpu_type(spec: Spec, facts: Facts) -> str | None:
    """Return what the cluster calls the GPUs of *spec*; Slurm's words are of lower case as a rule."""
    wanted, options = spec.cluster.gpu_type, facts.options
    if wanted is None:
        return None
    if wanted in options.gpu_types:
        mine: str = options.gpu_types[wanted]
        return mine
    there = [name for one in partitions(spec, facts) for name in one.gpus]
    return next((name for name in there if name.lower() == wanted.lower()), wanted.lower())
