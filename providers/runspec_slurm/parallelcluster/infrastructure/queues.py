"""The queues of a cluster with their machines, and the queues of a job."""

from __future__ import annotations

from typing import NamedTuple

from runspec_jobs.provider import Capacity, ChosenMachine, MachineRequest, Spec, tasks
from runspec_slurm.parallelcluster.options import ParallelClusterOptions, Queue
from runspec_slurm.parallelcluster.resources import (
    MIB,
    X86_64,
    chosen,
    known,
    size,
    usable_mib,
)

ON_DEMAND, SPOT = "ondemand", "spot"  # names of queues that runspec makes
MEMORY_PER_CPU_MIB = 2048 - 128  # of a node that requests none: that of the smallest machines


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
            else queue.model_copy(update={"instance_types": types(spec, options, queue)})
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
    found = options.instance_types or types(spec, options, queue)
    return queue.model_copy(update={"instance_types": found})


def chosen_by_rule(options: ParallelClusterOptions, name: str) -> bool:
    """Return whether the rule of docs/machines.md chooses the instance types of the queue *name*, not the profile."""
    if options.queues:
        return not options.queues[name].instance_types
    return not options.instance_types


def candidates(
    spec: Spec, options: ParallelClusterOptions, queue: Queue
) -> tuple[ChosenMachine, ...]:
    """Return the instance types that the rule chooses for *queue*, with their prices and why."""
    own_ami = bool(queue.ami or options.custom_ami)
    return chosen(request(spec, options, queue), own_ami, not one_type(queue))


def request(spec: Spec, options: ParallelClusterOptions, queue: Queue) -> MachineRequest:
    """Return what a node of *spec* requests of the machines of *queue*.

    Head node and machines must have one architecture: `InstanceArchitectureCompatibilityValidator` of the library.
    """
    least = needs(spec)
    memory_mib = least.memory_mib or (0 if least.gpus else MEMORY_PER_CPU_MIB * least.cpus)
    return MachineRequest(
        cpus=least.cpus,
        memory_gib=memory_mib / 1024,
        gpus=spec.cluster.gpus or 0,
        gpu_type=least.gpu_type,
        fabric=queue.efa,
        architecture=architecture(options),
        spot=queue.capacity == "spot",
        together=_together(spec),
        region=options.region,
    )


def architecture(options: ParallelClusterOptions) -> str:
    """Return the architecture of the head node; x86_64 if it is unknown."""
    head = known(options.head_node)
    return (head and head.architecture) or X86_64


def _together(spec: Spec) -> int:
    """Return how many tasks of *spec* may share a machine; nodes of one task have separate machines."""
    count = len(tasks(spec))
    return min(spec.max_parallel or count, count) if spec.cluster.nodes.max == 1 else 1


def one_type(queue: Queue) -> bool:
    """Return whether all machines of *queue* must have one type: those of a reservation, with placement or adapters.

    Other nodes of one job may have different types, which all have as many vCPUs and GPUs.
    """
    near = queue.placement or queue.placement_group or queue.efa
    return bool(near or queue.reservation or queue.capacity == "capacity-block")


def types(spec: Spec, options: ParallelClusterOptions, queue: Queue) -> tuple[str, ...]:
    """Return the instance types that the rule chooses for *queue*, the best one first."""
    return tuple(one.machine.name for one in candidates(spec, options, queue))


def fits(spec: Spec, queue: Queue) -> bool:
    """Return whether every instance type of *queue* is large enough for a node; unknown types count as such.

    Unused GPUs are allowed, because the profile names the types.
    """
    least = needs(spec)
    kind = (least.gpu_type or "").lower()
    return all(
        (machine.cpus or 0) >= least.cpus
        and usable_mib(machine) >= least.memory_mib
        and (machine.gpus or 0) >= least.gpus
        and (not kind or (machine.gpu or "").lower() == kind)
        for machine in map(known, queue.instance_types)
        if machine is not None
    )


def by_size(spec: Spec, options: ParallelClusterOptions) -> dict[str, Queue]:
    """Return the queues with sizes in place of the instance types that the rule chooses.

    They are equal for two catalogues that choose different types of one size.
    """
    found = queues(spec, options)
    for name, queue in found.items():
        first = known(queue.instance_types[0]) if queue.instance_types else None
        if first is not None and chosen_by_rule(options, name):
            found[name] = queue.model_copy(update={"instance_types": (size(first),)})
    return found


def by_request(spec: Spec, options: ParallelClusterOptions) -> dict[str, Queue]:
    """Return the queues with the requests in place of the instance types that the rule chooses for them."""
    found = queues(spec, options)
    for name, queue in found.items():
        if chosen_by_rule(options, name):
            asked = str(tuple(request(spec, options, queue)))
            found[name] = queue.model_copy(update={"instance_types": (asked,)})
    return found


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
