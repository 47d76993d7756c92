"""The resources of one node of a job, as AWS Batch counts them, and the instance types that have them."""

from __future__ import annotations

import math
from typing import NamedTuple

from runspec_aws.options import AwsOptions
from runspec_aws.resources.instance_types import INSTANCES, KNOWN, MIB, Instance, fitting
from runspec_aws.resources.job_kind import JobKind, shape
from runspec_jobs.provider import Launch, Spec

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
    if gpus and (found := fitting(cpus, memory_mib or 1, gpus, spec.cluster.gpu_type)):
        share = found[0].usable_mib * gpus // found[0].gpus
        cores = found[0].cpus * gpus // found[0].gpus
        return ResourceRequest(str(spec.cluster.cpus or max(1, cores)), memory_mib or share, gpus)
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
    """Return a request for more than half of the machine's cores, so that no two nodes fit on it."""
    kind = spec.cluster.gpu_type
    known = [KNOWN[name] for name in options.instance_types if name in KNOWN]
    found = known or fitting(int(wanted.cpus), wanted.memory_mib, wanted.gpus, kind)
    half = found[0].cpus // 2 + 1 if found else 1
    return wanted._replace(cpus=str(max(int(wanted.cpus), half)))


def _mib(count: int | None) -> int:
    return -(-count // MIB) if count else 0


def machines(spec: Spec, options: AwsOptions) -> tuple[str, ...]:
    """Return the instance types for *spec*, smallest first: those of the profile, or all that fit.

    The two smallest of each family are enough: larger ones would run several nodes each.
    """
    if options.fargate or options.instance_types:
        return () if options.fargate else options.instance_types
    found = candidates(spec, options)
    kept: list[Instance] = []
    for instance in found:
        family = instance.name.partition(".")[0]
        if sum(other.name.partition(".")[0] == family for other in kept) < 2:
            kept.append(instance)
    return tuple(instance.name for instance in kept)


def candidates(spec: Spec, options: AwsOptions) -> tuple[Instance, ...]:
    wanted = needs(spec, options)
    found = fitting(
        math.ceil(float(wanted.cpus)), wanted.memory_mib, wanted.gpus, spec.cluster.gpu_type
    )
    return tuple(i for i in found if i.efa or not options.efa)


def adapters(spec: Spec, options: AwsOptions) -> int:
    """Return the number of Elastic Fabric Adapters of a node; 1 for a type that is not in the table."""
    found = machines(spec, options) if options.efa else ()
    if not found:
        return 0
    return KNOWN[found[0]].efa if found[0] in KNOWN else 1


def on_fargate(spec: Spec) -> tuple[str, int] | None:
    """Return the smallest Fargate size that fits a node, as vCPUs and MiB, or None."""
    # A limit on parallel tasks counts whole vCPUs.
    least = 1 if spec.max_parallel else 0.25
    cpus, memory_mib = spec.cluster.cpus or least, _mib(spec.cluster.memory) or 1
    for have, low, high, step in FARGATE:
        if have >= cpus and high >= memory_mib:
            return f"{have:g}", max(low, low + -(-(memory_mib - low) // step) * step)
    return None


def largest(gpus: int) -> Instance:
    """Return the largest instance type of the table, with GPUs or without."""
    found = [i for i in INSTANCES if bool(i.gpus) == bool(gpus)]
    return max(found, key=lambda i: (i.gpus, i.cpus, i.memory_gib))
