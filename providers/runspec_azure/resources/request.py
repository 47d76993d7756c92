"""Find the VM sizes that have the resources that one node of a job requests.

The VM sizes that discovery found (`Facts.survey`) take precedence over the table: see `subscription.survey`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol

from runspec_azure.resources.vm_sizes import CURRENT, GIB, Machine, fitting, known
from runspec_jobs.provider import Spec

# The images of Azure's HPC team, which have the drivers of GPUs and InfiniBand and a container runtime, and
# their node agents: https://github.com/Azure/azhpc-images and
# https://learn.microsoft.com/azure/batch/batch-docker-container-workloads#linux-support. The images of
# an account are listed by `az batch pool supported-images list`, and checked by doctor.
# Support for 22.04 ends on 2027-06-30: https://github.com/Azure/Batch/issues/200
NODE_AGENTS = {
    "microsoft-dsvm:ubuntu-hpc:2404": "batch.node.ubuntu 24.04",
    "microsoft-dsvm:ubuntu-hpc:2204": "batch.node.ubuntu 22.04",
}


# The HPC images have the driver of CUDA, and A10 machines need that of GRID:
# https://github.com/Azure/azhpc-images/issues/398 and NVadsA10_v5 in
# https://github.com/Azure/azhpc-extensions/blob/master/NvidiaGPU/Nvidia-GPU-Linux-Resources.json
HPC_IMAGES = "microsoft-dsvm:ubuntu-hpc:"
GRID_GPUS = frozenset({"A10"})


class Wishes(Protocol):
    """The options about machines."""

    @property
    def vm_size(self) -> str | None: ...
    @property
    def image(self) -> str: ...


class ResourceRequest(NamedTuple):
    """The resources that one node requests; those that a spec leaves out are as small as possible."""

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
    """Return the machines to choose from: those of the table that the account offers, as it describes them.

    If there are no facts about the account, these are all machines of the table.
    """
    there: Mapping[str, Mapping[str, Any]] | None = survey.get("machines")
    if there is None:
        return CURRENT
    return tuple(m._replace(**there[m.name]) for m in CURRENT if m.name in there)


def lacks_driver(machine: Machine, image: str) -> bool:
    """Return whether the GPUs of *machine* do not work with *image*, because it has another driver."""
    return machine.gpu_type in GRID_GPUS and image.lower().startswith(HPC_IMAGES)


def candidates(spec: Spec, survey: Mapping[str, Any], image: str = "") -> tuple[Machine, ...]:
    """Return the machines that are large enough for a node of *spec*, the cheapest first.

    Those whose GPUs do not work with *image* come last.
    """
    spot = spec.cluster.capacity != "on-demand"
    wanted = needs(spec)
    machines = [m for m in offered(survey) if m.spot or not spot]
    found = fitting(*wanted, machines=machines)
    return tuple(sorted(found, key=lambda m: lacks_driver(m, image)))


def size(spec: Spec, options: Wishes, survey: Mapping[str, Any] | None = None) -> str:
    """Return the VM size for a node of *spec*: the profile's, or the cheapest one that is large enough."""
    if options.vm_size:
        machine = known(options.vm_size)
        return machine.name if machine else options.vm_size
    found = candidates(spec, survey or {}, options.image)
    return found[0].name if found else CURRENT[0].name


def alike(spec: Spec, survey: Mapping[str, Any]) -> tuple[Machine, ...]:
    """Return the machines of the kind that *spec* requests: with such GPUs, or with none."""
    wanted = needs(spec)
    kind = wanted.gpu_type and wanted.gpu_type.lower()
    found = [m for m in offered(survey) if bool(m.gpus) == bool(wanted.gpus)]
    return tuple(m for m in found if kind is None or m.gpu_type.lower() == kind)
