"""The queues of a cluster with their machines, and the queues of a job."""

from __future__ import annotations

from typing import NamedTuple

from runspec_jobs.provider import Capacity, Spec
from runspec_slurm.parallelcluster.options import ParallelClusterOptions, Queue
from runspec_slurm.parallelcluster.resources import KNOWN, MIB, Instance, fitting, holds

ON_DEMAND, SPOT = "ondemand", "spot"  # names of queues that runspec makes
ALIKE = 4  # instance types in a spot queue: with more types, one is more likely to be available


class Needs(NamedTuple):
    """The least resources that a node needs."""

    cpus: int
    memory_mib: int
    gpus: int
    gpu_type: str | None


def needs(spec: Spec) -> Needs:
    cluster = spec.cluster
    memory = -(-cluster.memory // MIB) if cluster.memory else 0
    gpus = cluster.gpus or (1 if cluster.gpu_type else 0)
    return Needs(cluster.cpus or 1, memory, gpus, cluster.gpu_type)


def queues(spec: Spec, options: ParallelClusterOptions) -> dict[str, Queue]:
    """Return the queues of the cluster: those of the profile, or else those that the spec needs."""
    if options.queues:
        return {
            name: queue
            if queue.instance_types
            else queue.model_copy(update={"instance_types": types(spec, queue)})
            for name, queue in options.queues.items()
        }
    found = {}
    if spec.cluster.capacity is not Capacity.ON_DEMAND:
        found[SPOT] = _own(spec, options, Queue(capacity="spot", spot_price=options.spot_price))
    if spec.cluster.capacity is not Capacity.SPOT:
        bought = Queue(reservation=options.reservation, reservation_group=options.reservation_group)
        found[ON_DEMAND] = _own(spec, options, bought)
    return found


def _own(spec: Spec, options: ParallelClusterOptions, queue: Queue) -> Queue:
    size = -(-spec.cluster.disk // (1 << 30)) if spec.cluster.disk else None
    ours = {
        "min_count": options.min_count,
        "max_count": max(options.max_count, spec.cluster.nodes.max),
        "placement": spec.cluster.placement == "close",
        "placement_group": options.placement_group,
        "efa": options.efa,
        "disk_gib": size,
    }
    queue = queue.model_copy(update=ours)
    found = options.instance_types or types(spec, queue)
    return queue.model_copy(update={"instance_types": found})


def types(spec: Spec, queue: Queue) -> tuple[str, ...]:
    """Return the instance types of *queue* that fit *spec*: the smallest and, for spot, some similar ones.

    All types in a queue must have the same number of vCPUs and GPUs.
    https://docs.aws.amazon.com/parallelcluster/latest/ug/slurm-multiple-instance-allocation-v3.html
    """
    found = [i for i in fitting(*needs(spec)) if i.efa or not queue.efa]
    if not found or queue.capacity != "spot":
        return tuple(instance.name for instance in found[:1])
    alike = [i for i in found if _kind(i) == _kind(found[0]) and i.name.count("metal") == 0]
    return tuple(instance.name for instance in alike[:ALIKE])


def _kind(instance: Instance) -> tuple[int, int, str, bool]:
    return instance.cpus, instance.gpus, instance.gpu_type, bool(instance.efa)


def fits(spec: Spec, queue: Queue) -> bool:
    """Return whether every instance type of *queue* is large enough for a node; unknown types count as such."""
    known = [KNOWN[name] for name in queue.instance_types if name in KNOWN]
    return all(holds(instance, *needs(spec)) for instance in known)


def of_job(spec: Spec, options: ParallelClusterOptions) -> tuple[str, ...]:
    """Return the queues to which the job is submitted, by preference; an empty tuple if none fits."""
    there = queues(spec, options)
    if options.queue:
        return (options.queue,) if options.queue in there else ()
    fit = {name: queue for name, queue in there.items() if fits(spec, queue)}
    spot = [name for name, queue in fit.items() if queue.capacity == "spot"]
    firm = [name for name, queue in fit.items() if queue.capacity != "spot"]
    match spec.cluster.capacity:
        case Capacity.ON_DEMAND:
            return tuple(firm[:1])
        case Capacity.SPOT:
            return tuple(spot[:1])
        case Capacity.SPOT_THEN_ON_DEMAND:
            return tuple(spot[:1] + firm[:1])
