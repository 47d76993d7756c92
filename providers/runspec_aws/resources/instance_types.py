"""EC2 instance types that satisfy a job, from runspec's table; `instance_types` of the profile replaces it."""

from __future__ import annotations

from runspec_jobs.provider import EC2_TYPES, Ec2Type

MIB = 1 << 20


class Instance(Ec2Type):
    """An instance type for a compute environment."""

    __slots__ = ()

    @property
    def usable_mib(self) -> int:
        """Memory that jobs can use, in MiB.

        The system and the ECS agent use some: a job that asks for all of it waits forever. 4 % and at least 512 MiB
        are reserved, more than https://docs.aws.amazon.com/batch/latest/userguide/memory-management.html asks for.
        """
        nominal = self.memory_gib * 1024
        return min(nominal - 512, int(nominal * 0.96))


INSTANCES = tuple(Instance(*one) for one in EC2_TYPES)
KNOWN = {instance.name: instance for instance in INSTANCES}
GPU_TYPES = tuple(sorted({instance.gpu_type for instance in INSTANCES if instance.gpus}))


def fitting(cpus: int, memory_mib: int, gpus: int, gpu_type: str | None) -> tuple[Instance, ...]:
    """Return the instance types that fit one node, smallest first; without *gpus*, none with GPUs.

    >>> [instance.name for instance in fitting(2, 3000, 0, None)][:3]
    ['c6i.large', 'c7i.large', 'm6i.large']
    >>> fitting(4, 16000, 1, "v100")[0].name
    'p3.2xlarge'
    """
    kind = gpu_type.lower() if gpu_type else None
    found = [
        instance
        for instance in INSTANCES
        if instance.cpus >= cpus
        and instance.usable_mib >= memory_mib
        and (instance.gpus >= gpus if gpus else not instance.gpus)
        and (kind is None or instance.gpu_type.lower() == kind)
    ]
    return tuple(sorted(found, key=lambda i: (i.gpus, i.cpus, i.memory_gib, i.name)))
