"""What a node of a job requests, and the EC2 instance types that hold it.

`instance_types` of the profile replaces the choice.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

from runspec_ec2 import ec2_catalogue
from runspec_jobs.provider import (
    ChosenMachine,
    Machine,
    MachineRequest,
    choose_machines,
)

MIB = 1 << 20
# GPUs for which the default AMIs of AWS Batch have no driver:
# https://docs.aws.amazon.com/batch/latest/APIReference/API_Ec2Configuration.html
NO_DRIVER = frozenset({"K520", "K80", "M60", "V100", "V520"})


class NodeRequest(NamedTuple):
    """The resources of one node; *cpus* is text, because Fargate has quarters of vCPUs."""

    cpus: str
    memory_mib: int
    gpus: int

    @property
    def whole_cpus(self) -> int:
        return math.ceil(float(self.cpus))

    @property
    def requirements(self) -> list[dict[str, str]]:
        """The same as Batch's resourceRequirements: values are text, and 0 GPUs are left out."""
        amounts = [("VCPU", self.cpus), ("MEMORY", str(self.memory_mib))]
        amounts += [("GPU", str(self.gpus))] if self.gpus else []
        return [{"type": kind, "value": value} for kind, value in amounts]

    @property
    def shown(self) -> str:
        """The same for a message.

        >>> NodeRequest("4", 7680, 1).shown
        '4 vCPUs, 7,680 MiB and 1 GPU'
        """
        gpus = f" and {self.gpus} GPU{'s' * (self.gpus > 1)}" if self.gpus else ""
        vcpus = f"{self.cpus} vCPU{'s' * (self.cpus != '1')}"
        return f"{vcpus}{',' if gpus else ' and'} {self.memory_mib:,} MiB{gpus}"

    def count_on(self, machine: Machine) -> int:
        """Return how many such nodes *machine* holds."""
        counts = [(machine.cpus or 0) / float(self.cpus), usable_mib(machine) / self.memory_mib]
        counts += [(machine.gpus or 0) / self.gpus] if self.gpus else []
        return int(min(counts))

    def share_of(self, machine: Machine) -> float:
        """Return the fraction of *machine* that a node takes: of the resource of which it requests most.

        That resource limits how many nodes the machine holds.
        """
        if not machine.cpus:
            return 1.0
        parts = [
            float(self.cpus) / machine.cpus,
            self.memory_mib / max(1, usable_mib(machine)) if machine.memory_gib else 0.0,
            self.gpus / (machine.gpus or math.inf),
        ]
        return min(1.0, max(parts))

    def vcpus_of(self, machine: Machine, nodes: int, *, alone: bool) -> int:
        """Return the vCPUs of all machines like *machine* that *nodes* nodes take; 0 if it does not hold a node.

        With *alone*, each node has a machine of its own.
        """
        count = self.count_on(machine)
        if not count:
            return 0
        return math.ceil(nodes / (1 if alone else count)) * math.ceil(machine.cpus or 0)


def usable_mib(machine: Machine) -> int:
    """Return the memory that jobs can use, in MiB.

    The system and the ECS agent use some: a job that asks for all of it waits forever. 4 % and at least 512 MiB
    are reserved, more than https://docs.aws.amazon.com/batch/latest/userguide/memory-management.html asks for.
    """
    nominal = int((machine.memory_gib or 0) * 1024)
    return min(nominal - 512, int(nominal * 0.96))


def usable_gib(machine: Machine) -> float:
    return usable_mib(machine) / 1024


def known(name: str) -> Machine | None:
    """Return the instance type called *name*, or None if the catalogue does not have it."""
    return ec2_catalogue().named(name)


def find_machines(name: str) -> tuple[Machine, ...]:
    """Return the machines of a type, or of a family; none if they are unknown."""
    machine = known(name)
    return (machine,) if machine else of_family(name)


def of_family(family: str) -> tuple[Machine, ...]:
    """Return the instance types of a family, such as `c6i`, which environments accept in place of a type."""
    return tuple(m for m in ec2_catalogue().machines if m.family == family)


@lru_cache(maxsize=256)
def chosen(
    request: MachineRequest, own_ami: bool = False, offered: frozenset[str] | None = None
) -> tuple[ChosenMachine, ...]:
    """Return the instance types for *request*, the cheapest first; if *offered* is given, of these alone.

    Without *own_ami*, those for which the AMIs of AWS Batch have no driver are chosen only if the GPU is named.

    >>> [one.machine.name for one in chosen(MachineRequest(2, 2.9))][:3]
    ['c6a.large', 'c5a.large', 'c6i.large']
    >>> [one.machine.name for one in chosen(MachineRequest(gpus=1))]
    ['g4dn.xlarge', 'g4dn.2xlarge']
    """
    return choose_machines(request, ec2_catalogue(), usable_gib, runs_on(request, own_ami, offered))


def runs_on(
    request: MachineRequest, own_ami: bool, offered: frozenset[str] | None = None
) -> Callable[[Machine], bool]:
    """Return the function that says whether a machine is *offered*, and the AMI has a driver for it."""
    driven = own_ami or bool(request.gpu_type)
    return lambda machine: (
        (driven or machine.gpu not in NO_DRIVER) and (offered is None or machine.name in offered)
    )


def gpu_types() -> tuple[str, ...]:
    """Return the models of whole GPUs on x86-64 machines."""
    machines = ec2_catalogue().machines
    models = {
        m.gpu for m in machines if m.gpu and (m.gpus or 0) >= 1 and m.architecture == "x86_64"
    }
    return tuple(sorted(models))
