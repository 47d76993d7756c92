"""The resources of one node of a job, as AWS Batch counts them, and the instance types that have them."""

from __future__ import annotations

import math
from typing import NamedTuple

from runspec_aws.options import AwsOptions
from runspec_aws.resources.instance_types import MIB, chosen, known, usable_mib
from runspec_aws.resources.job_kind import JobKind, children, shape
from runspec_jobs.provider import Capacity, ChosenMachine, Launch, Machine, MachineRequest, Spec

MEMORY_PER_CPU_MIB = 2048 - 128  # fits the smallest machines, less the memory of the system

# vCPUs and the allowed memory in MiB: lowest, highest, step.
# https://docs.aws.amazon.com/batch/latest/APIReference/API_ResourceRequirement.html
FARGATE: tuple[tuple[float, int, int, int], ...] = (
    (0.25, 512, 2048, 512),
    (0.5, 1024, 4096, 1024),
    (1, 2048, 8192, 1024),
    (2, 4096, 16384, 1024),
    (4, 8192, 30720, 1024),
    (8, 16384, 61440, 4096),
    (16, 32768, 122880, 8192),
)


class ResourceRequest(NamedTuple):
    """The resources of one node; *cpus* is text, because Fargate has quarters of vCPUs."""

    cpus: str
    memory_mib: int
    gpus: int

    @property
    def requirements(self) -> list[dict[str, str]]:
        """The same as Batch's resourceRequirements: values are text, and 0 GPUs are left out."""
        found = [("VCPU", self.cpus), ("MEMORY", str(self.memory_mib))]
        found += [("GPU", str(self.gpus))] if self.gpus else []
        return [{"type": kind, "value": value} for kind, value in found]


def needs(spec: Spec, options: AwsOptions) -> ResourceRequest:
    """Return the resources of a node of *spec*; unspecified ones are its share of the smallest machine."""
    gpus, memory_mib = spec.cluster.gpus or 0, _mib(spec.cluster.memory)
    cpus = spec.cluster.cpus or 1
    if options.fargate:
        size = on_fargate(spec)
        return ResourceRequest(*size, 0) if size else ResourceRequest(str(cpus), memory_mib or 1, 0)
    if gpus and (found := _named(options, gpus) or _best(spec, options, cpus, memory_mib or 1)):
        cores = min(int((m.cpus or 1) * gpus / (m.gpus or gpus)) for m in found)
        share = min(int(usable_mib(m) * gpus / (m.gpus or gpus)) for m in found)
        cpus, memory_mib = spec.cluster.cpus or max(1, cores), memory_mib or max(1, share)
    wanted = ResourceRequest(str(cpus), memory_mib or MEMORY_PER_CPU_MIB * cpus, gpus)
    return _alone(wanted, spec, options) if alone(spec) else wanted


def alone(spec: Spec) -> bool:
    """Return whether each node must have a machine of its own.

    Single-container jobs share their machine's network: two nodes on one machine would have the same address, and a
    launcher could not tell them apart. Nodes of a multi-node parallel job always have separate machines.

    https://docs.aws.amazon.com/batch/latest/userguide/multi-node-parallel-jobs.html
    """
    return (
        spec.launch is not Launch.NONE
        and shape(spec) is JobKind.ARRAY
        and spec.cluster.nodes.max > 1
    )


def _alone(wanted: ResourceRequest, spec: Spec, options: AwsOptions) -> ResourceRequest:
    """Return a request for more than half of the machine's cores, so that no two nodes fit on it.

    The machines of a queue of the profile are not known here: `own_queue` tells what their nodes must request.
    """
    if options.instance_types:
        first = known(options.instance_types[0])
        found = [first] if first else []
    else:
        found = [] if options.queue else _best(spec, options, int(wanted.cpus), wanted.memory_mib)
    half = (found[0].cpus or 0) // 2 + 1 if found else 1
    return wanted._replace(cpus=str(max(int(wanted.cpus), half)))


def _named(options: AwsOptions, gpus: int = 0) -> list[Machine]:
    """Return the instance types of the profile that the catalogue has, with at least *gpus*."""
    return [m for m in map(known, options.instance_types) if m and (m.gpus or 0) >= gpus]


def _best(spec: Spec, options: AwsOptions, cpus: int, memory_mib: int) -> list[Machine]:
    """Return the first instance type that the rule chooses, in a list, which is empty if there is none."""
    if options.instance_types:
        return []
    found = chosen(asked(spec, options, cpus, memory_mib), bool(options.ami), options.offered)
    return [one.machine for one in found[:1]]


def asked(spec: Spec, options: AwsOptions, cpus: int, memory_mib: int) -> MachineRequest:
    """Return the request for machines for nodes of *spec* that need *cpus* and *memory_mib*."""
    return MachineRequest(
        cpus=cpus,
        memory_gib=memory_mib / 1024,
        gpus=spec.cluster.gpus or 0,
        gpu_type=spec.cluster.gpu_type,
        fabric=options.efa,
        spot=spec.cluster.capacity is not Capacity.ON_DEMAND,
        together=_together(spec),
        region=options.region,
    )


def _together(spec: Spec) -> int:
    """Return how many nodes of *spec* may run on one machine, because they run at the same time and may share it."""
    if alone(spec) or shape(spec) is not JobKind.ARRAY:
        return 1
    most = spec.max_parallel * spec.cluster.nodes.max if spec.max_parallel else children(spec)
    return min(most, children(spec))


def _mib(count: int | None) -> int:
    return -(-count // MIB) if count else 0


def machines(spec: Spec, options: AwsOptions) -> tuple[str, ...]:
    """Return the instance types for *spec*, the best first: those of the profile, or those that the rule chooses.

    None are chosen for a queue of the profile, whose environments have instance types of their own.
    """
    if options.fargate or options.instance_types:
        return () if options.fargate else options.instance_types
    if options.queue:
        return ()
    return tuple(one.machine.name for one in candidates(spec, options))


def candidates(spec: Spec, options: AwsOptions) -> tuple[ChosenMachine, ...]:
    """Return the instance types that the rule chooses for *spec*, with their prices and why."""
    return chosen(request(spec, options), bool(options.ami), options.offered)


def request(spec: Spec, options: AwsOptions) -> MachineRequest:
    """Return what a node of *spec* requests of its machine."""
    wanted = needs(spec, options)
    return asked(spec, options, math.ceil(float(wanted.cpus)), wanted.memory_mib)


def adapters(spec: Spec, options: AwsOptions) -> int:
    """Return the number of Elastic Fabric Adapters of a node; 1 for a type of which it is unknown."""
    if options.fargate or not options.efa:
        return 0
    found = machines(spec, options)
    machine = known(found[0]) if found else None
    return 1 if machine is None or machine.fabric is None else machine.fabric


def on_fargate(spec: Spec) -> tuple[str, int] | None:
    """Return the smallest Fargate size that fits a node, as vCPUs and MiB, or None."""
    # A limit on parallel tasks counts whole vCPUs.
    least = 1 if spec.max_parallel else 0.25
    cpus, memory_mib = spec.cluster.cpus or least, _mib(spec.cluster.memory) or 1
    for have, low, high, step in FARGATE:
        if have >= cpus and high >= memory_mib:
            return f"{have:g}", max(low, low + -(-(memory_mib - low) // step) * step)
    return None
