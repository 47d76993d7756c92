"""What one node of a job requests, as AWS Batch counts it, and how many such nodes a machine holds."""

from __future__ import annotations

import math
from typing import NamedTuple

from runspec_aws.resources.instance_types import usable_mib
from runspec_jobs.provider import Machine


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
