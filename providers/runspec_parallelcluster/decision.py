"""Decide on which machines ParallelCluster runs a spec. `check`, `plan` and `offer` read the decision.

How the cluster's Slurm runs it there is the decision of `runspec_slurm.decision`, which follows from this one: `job`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from runspec_agent.base.light_typing import NamedTuple
from runspec_ec2 import VOLUMES
from runspec_jobs.provider import Capacity, Spec
from runspec_jobs.provider.commands import tasks
from runspec_jobs.provider.machines import ChosenMachine, MachineRequest, is_enough_gpu_memory
from runspec_parallelcluster.options import ParallelClusterOptions, Queue
from runspec_parallelcluster.resources import (
    MIB,
    chosen,
    find_architecture,
    known,
    usable_mib,
)

ON_DEMAND, SPOT = "ondemand", "spot"  # names of queues that runspec makes
GIB = 1 << 30
MEMORY_PER_CPU_MIB = 2048 - 128  # of a node that requests none: that of the smallest machines


class Needs(NamedTuple):
    """The least resources that a node needs."""

    cpus: int
    memory_mib: int
    gpus: int
    gpu_type: str | None
    gpu_gib: float  # of each GPU


@dataclass(frozen=True)
class QueueChoice:
    """A queue of the cluster, and the machines for it."""

    queue: Queue  # with its instance types, the best one first
    request: MachineRequest  # what a node requests of the machines
    candidates: tuple[ChosenMachine, ...]  # the types that the rule of docs/machines.md chooses
    is_by_rule: bool  # whether the rule chooses the instance types, and not the profile
    fits: bool  # whether every instance type that is known is large enough for a node


@dataclass(frozen=True)
class Decision:
    """The cluster of a job with its queues, and those to which the job is submitted."""

    options: ParallelClusterOptions
    nodes: int  # the most of a task
    gpu_type: str | None
    asks_memory: bool  # whether the spec says how much memory a node needs
    capacity: Capacity
    queues: Mapping[str, QueueChoice]
    job_queues: Mapping[str, QueueChoice]  # by preference; none if no queue fits


def decide(spec: Spec, options: ParallelClusterOptions) -> Decision:
    """Return the decision for *spec*, also for one that `check` refuses.

    It has no queues for a cluster that runspec does not make, whose queues are not known.
    """
    is_foreign = not options.manage and (options.cluster or options.host)
    queues = {} if is_foreign else dict(_choose_all(spec, options))
    return Decision(
        options=options,
        nodes=spec.cluster.nodes.max,
        gpu_type=spec.cluster.gpu_model,
        asks_memory=bool(spec.cluster.memory),
        capacity=spec.cluster.capacity,
        queues=queues,
        job_queues=_submit(queues, spec.cluster.capacity, options.queue),
    )


def _choose_all(spec: Spec, options: ParallelClusterOptions) -> Iterator[tuple[str, QueueChoice]]:
    """Yield the queues of the cluster: those of the profile, or else those that the spec needs."""
    needs = _needs(spec)
    request = _machine_request(spec, needs, options)
    for name, queue in (options.queues or dict(_make_queues(spec, options))).items():
        yield name, _choose(queue, request, needs, options)


def _needs(spec: Spec) -> Needs:
    cluster = spec.cluster
    memory = -(-cluster.memory // MIB) if cluster.memory else 0
    gpus = cluster.gpus or (1 if cluster.gpu_type else 0)
    return Needs(cluster.cpus or 1, memory, gpus, cluster.gpu_model, cluster.gpu_gib)


def _make_queues(spec: Spec, options: ParallelClusterOptions) -> Iterator[tuple[str, Queue]]:
    """Yield the queues that the spec needs."""
    cluster = spec.cluster
    common = {
        "instance_types": options.instance_types,
        "min_count": options.min_count,
        "max_count": max(options.max_count, cluster.nodes.max),
        "placement": cluster.placement == "close",
        "placement_group": options.placement_group,
        "efa": options.efa,
        "disk_gib": _disk_gib(cluster.disk_bytes, cluster.disk_tier),
        "disk_tier": cluster.disk_tier,
    }
    if cluster.capacity is not Capacity.ON_DEMAND:
        spot = Queue(capacity="spot", spot_price=options.spot_price)
        yield SPOT, spot.model_copy(update=common)
    if cluster.capacity is not Capacity.SPOT:
        firm = Queue(reservation=options.reservation, reservation_group=options.reservation_group)
        yield ON_DEMAND, firm.model_copy(update=common)


def _disk_gib(disk: int | None, tier: str | None) -> int | None:
    least = VOLUMES[tier].least_gib
    return max(least, -(-(disk or 0) // GIB)) if disk or least > 1 else None


def _machine_request(spec: Spec, needs: Needs, options: ParallelClusterOptions) -> MachineRequest:
    """Return what a node of *spec* requests of a machine.

    Head node and machines must have one architecture: `InstanceArchitectureCompatibilityValidator` of the library.
    """
    memory_mib = needs.memory_mib or (0 if needs.gpus else MEMORY_PER_CPU_MIB * needs.cpus)
    return MachineRequest(
        cpus=needs.cpus,
        memory_gib=memory_mib / 1024,
        gpus=spec.cluster.gpus or 0,
        gpu_type=needs.gpu_type,
        gpu_gib=needs.gpu_gib,
        architecture=find_architecture(options.head_node),
        together=_count_together(spec),
        region=options.region,
    )


def _count_together(spec: Spec) -> int:
    """Return how many tasks of *spec* may share a machine; nodes of one task have separate machines."""
    count = len(tasks(spec))
    return min(spec.max_parallel or count, count) if spec.cluster.nodes.max == 1 else 1


def _choose(
    queue: Queue, request: MachineRequest, needs: Needs, options: ParallelClusterOptions
) -> QueueChoice:
    request = request._replace(fabric=queue.efa, spot=queue.capacity == "spot")
    candidates: tuple[ChosenMachine, ...] = ()
    if is_by_rule := not queue.instance_types:
        candidates = chosen(request, has_own_ami(queue, options), not _has_one_type(queue))
        names = tuple(candidate.machine.name for candidate in candidates)
        queue = queue.model_copy(update={"instance_types": names})
    return QueueChoice(queue, request, candidates, is_by_rule, _fits(needs, queue))


def has_own_ami(queue: Queue, options: ParallelClusterOptions) -> bool:
    return bool(queue.ami or options.custom_ami)


def _has_one_type(queue: Queue) -> bool:
    """Return whether all machines of *queue* must have one type: those of a reservation, with placement or adapters.

    Other nodes of one job may have different types, which all have as many vCPUs and GPUs.
    """
    near = queue.placement or queue.placement_group or queue.efa
    return bool(near or queue.reservation or queue.capacity == "capacity-block")


def _fits(needs: Needs, queue: Queue) -> bool:
    """Return whether every known instance type of *queue* is large enough for a node.

    Unused GPUs are allowed, because the profile names the types.
    """
    kind = (needs.gpu_type or "").lower()
    return all(
        (machine.cpus or 0) >= needs.cpus
        and usable_mib(machine) >= needs.memory_mib
        and (machine.gpus or 0) >= needs.gpus
        and (not kind or (machine.gpu or "").lower() == kind)
        and is_enough_gpu_memory(machine.gpu_gib or 0, needs.gpu_gib)
        for machine in map(known, queue.instance_types)
        if machine is not None
    )


def _submit(
    queues: Mapping[str, QueueChoice], capacity: Capacity, name: str | None
) -> Mapping[str, QueueChoice]:
    """Return the queues to which the job is submitted; *name* is that of the profile."""
    if name:
        return {name: queues[name]} if name in queues else {}
    able = {name: choice.queue.capacity for name, choice in queues.items() if choice.fits}
    spot = [name for name, bought in able.items() if bought == "spot"][:1]
    firm = [name for name, bought in able.items() if bought != "spot"][:1]
    submitted = {
        Capacity.ON_DEMAND: firm,
        Capacity.SPOT: spot,
        Capacity.SPOT_THEN_ON_DEMAND: spot + firm,
    }
    return {name: queues[name] for name in submitted[capacity]}
