"""What one node of a job needs, and the machines of Azure that have it.

What an account says of its machines (`Facts.survey`) beats the table: see `account.survey`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol

from runspec_azure.resources.vm_sizes import CURRENT, GIB, Machine, fitting, known
from runspec_jobs.provider import Spec

# The images of Azure's HPC team, with the drivers of GPUs and InfiniBand and with containers, and the
# node agents that go with them: https://github.com/Azure/azhpc-images and
# https://learn.microsoft.com/azure/batch/batch-docker-container-workloads#linux-support; which
# an account has, `az batch pool supported-images list` says, and so does doctor.
# Support for 22.04 ends on 2027-06-30: https://github.com/Azure/Batch/issues/200
NODE_AGENTS = {
    "microsoft-dsvm:ubuntu-hpc:2404": "batch.node.ubuntu 24.04",
    "microsoft-dsvm:ubuntu-hpc:2204": "batch.node.ubuntu 22.04",
}


class Wishes(Protocol):
    """What options say of machines."""

    @property
    def vm_size(self) -> str | None: ...


class ResourceRequest(NamedTuple):
    """What one node asks for; what a spec leaves open is as little as there is."""

    cpus: int
    memory_gib: float
    gpus: int
    gpu_type: str | None
    disk_gib: float


def needs(spec: Spec) -> ResourceRequest:
    cluster = spec.cluster
    return ResourceRequest(
        cluster.cpus or 1,
        (cluster.memory or 0) / GIB,
        cluster.gpus or 0,
        cluster.gpu_type,
        (cluster.disk or 0) / GIB,
    )


def offered(survey: Mapping[str, Any]) -> tuple[Machine, ...]:
    """Return the machines to choose from: the table's, as the account has them.

    Where the account was not asked, all of the table are.
    """
    there: Mapping[str, Mapping[str, Any]] | None = survey.get("machines")
    if there is None:
        return CURRENT
    return tuple(m._replace(**there[m.name]) for m in CURRENT if m.name in there)


def candidates(spec: Spec, survey: Mapping[str, Any]) -> tuple[Machine, ...]:
    """Return the machines that hold a node of *spec*, the cheapest first."""
    spot = spec.cluster.capacity != "on-demand"
    wanted = needs(spec)
    machines = [m for m in offered(survey) if m.spot or not spot]
    return fitting(*wanted, machines=machines)


def size(spec: Spec, options: Wishes, survey: Mapping[str, Any] | None = None) -> str:
    """Return the VM size for a node of *spec*: the profile's, or the cheapest that holds it."""
    if options.vm_size:
        machine = known(options.vm_size)
        return machine.name if machine else options.vm_size
    found = candidates(spec, survey or {})
    return found[0].name if found else CURRENT[0].name


def alike(spec: Spec, survey: Mapping[str, Any]) -> tuple[Machine, ...]:
    """Return the machines of the kind that *spec* asks for: with such GPUs, or with none."""
    wanted = needs(spec)
    kind = wanted.gpu_type and wanted.gpu_type.lower()
    found = [m for m in offered(survey) if bool(m.gpus) == bool(wanted.gpus)]
    return tuple(m for m in found if kind is None or m.gpu_type.lower() == kind)
