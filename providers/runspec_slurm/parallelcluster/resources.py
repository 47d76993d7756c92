"""The EC2 instance types that fit a job, from a table, which the options `instance_types` and `queues` override."""

from __future__ import annotations

from runspec_jobs.provider import EC2_TYPES, Ec2Type

MIB = 1 << 20


class Instance(Ec2Type):
    """An EC2 instance type."""

    __slots__ = ()

    @property
    def usable_mib(self) -> int:
        """The memory that jobs can use, in MiB: ParallelCluster gives Slurm 95 % of it.

        https://docs.aws.amazon.com/parallelcluster/latest/ug/slurm-mem-based-scheduling-v3.html
        """
        return self.memory_gib * 1024 * 95 // 100


INSTANCES = tuple(Instance(*one) for one in EC2_TYPES)
KNOWN = {instance.name: instance for instance in INSTANCES}
GPU_TYPES = tuple(sorted({instance.gpu_type for instance in INSTANCES if instance.gpus}))


def holds(instance: Instance, cpus: int, memory_mib: int, gpus: int, gpu_type: str | None) -> bool:
    """Return whether a machine is large enough for a node; unused GPUs are allowed."""
    kind = gpu_type.lower() if gpu_type else None
    return (
        instance.cpus >= cpus
        and instance.usable_mib >= memory_mib
        and instance.gpus >= gpus
        and (kind is None or instance.gpu_type.lower() == kind)
    )


def fitting(cpus: int, memory_mib: int, gpus: int, gpu_type: str | None) -> tuple[Instance, ...]:
    """Return the machines that are large enough for a node, smallest first, without unused GPUs.

    >>> [instance.name for instance in fitting(2, 3000, 0, None)][:3]
    ['c6i.large', 'c7i.large', 'm6i.large']
    >>> fitting(4, 16000, 1, "v100")[0].name
    'p3.2xlarge'
    """
    found = [
        instance
        for instance in INSTANCES
        if holds(instance, cpus, memory_mib, gpus, gpu_type)
        and bool(instance.gpus) == bool(gpus or gpu_type)
    ]
    return tuple(sorted(found, key=lambda i: (i.gpus, i.cpus, i.memory_gib, i.name)))
