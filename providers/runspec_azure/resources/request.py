"""Find the VM sizes that have the resources that one node of a job requests.

The VM sizes that discovery found (`Facts.survey`) take precedence over the table: see `subscription.survey`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol
from urllib.parse import urlsplit

from runspec_azure.resources.vm_sizes import GIB, Machine, catalogue, current, holding, known
from runspec_jobs.provider import ChosenMachine, MachineRequest, Spec, other_regions

# The images of Azure's HPC team, which have the drivers of GPUs and InfiniBand and a container runtime, and
# their node agents: https://github.com/Azure/azhpc-images and
# https://learn.microsoft.com/azure/batch/batch-docker-container-workloads#linux-support. The images of
# an account are listed by `az batch pool supported-images list`, and checked by doctor.
# Support for 22.04 ends on 2027-06-30: https://github.com/Azure/Batch/issues/200
NODE_AGENTS = {
    "microsoft-dsvm:ubuntu-hpc:2404": "batch.node.ubuntu 24.04",
    "microsoft-dsvm:ubuntu-hpc:2204": "batch.node.ubuntu 22.04",
    "microsoft-dsvm:ubuntu-hpc:2204-v100": "batch.node.ubuntu 22.04",
    "microsoft-dsvm:ubuntu-hpc:2404-rocm": "batch.node.ubuntu 24.04",
    "microsoft-dsvm:ubuntu-hpc:2204-rocm": "batch.node.ubuntu 22.04",
}


HPC_IMAGES = "microsoft-dsvm:ubuntu-hpc:"


class Driver(NamedTuple):
    """A driver that some GPUs need: its name, and the end of the SKU of the HPC images that have it, if any has."""

    name: str
    sku: str | None


# CUDA's open kernel modules, which the usual HPC images have, drive Turing and newer GPUs alone:
# https://github.com/Azure/azhpc-images/issues/406 and /523, https://github.com/NVIDIA/open-gpu-kernel-modules
CUDA = Driver("CUDA with open kernel modules", "")
PROPRIETARY = Driver("CUDA with proprietary kernel modules", "-v100")
# https://github.com/Azure/azhpc-images/issues/398 and NVadsA10_v5 in
# https://github.com/Azure/azhpc-extensions/blob/master/NvidiaGPU/Nvidia-GPU-Linux-Resources.json
GRID = Driver("GRID", None)
ROCM = Driver("ROCm", "-rocm")
DRIVERS = {
    "A10": GRID,
    "K80": PROPRIETARY,
    "M60": PROPRIETARY,
    "P100": PROPRIETARY,
    "P40": PROPRIETARY,
    "V100": PROPRIETARY,
    "MI25": ROCM,
    "MI300X": ROCM,
    "V620": ROCM,
    "V710": ROCM,
}


SMALLEST = "Standard_D2ds_v5"  # for a spec that no machine holds, which `check` refuses


class Wishes(Protocol):
    """The options about machines."""

    @property
    def vm_size(self) -> str | None: ...
    @property
    def image(self) -> str: ...
    @property
    def batch_url(self) -> str | None: ...


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
        return current()
    return tuple(m._replace(**there[m.name]) for m in current() if m.name in there)


def driver(gpu_type: str) -> Driver:
    """Return the driver that GPUs of this type need."""
    return DRIVERS.get(gpu_type, CUDA)


def lacks_driver(gpu_type: str, image: str) -> bool:
    """Return whether GPUs of this type do not work with *image*, because it has another driver.

    The images whose drivers are known are those of Azure's HPC team. The proprietary modules of `-v100` drive all
    GPUs of the table that need CUDA.
    """
    if not gpu_type or not image.lower().startswith(HPC_IMAGES):
        return False
    sku = image.lower().split(":")[2]
    had = next((one for one in (PROPRIETARY, ROCM) if sku.endswith(one.sku or "")), CUDA)
    needed = driver(gpu_type)
    return needed is not had and (needed, had) != (CUDA, PROPRIETARY)


def image_with(gpu_type: str) -> str | None:
    """Return the newest HPC image that has the driver of such GPUs, or None."""
    sku = driver(gpu_type).sku
    there = [one for one in NODE_AGENTS if sku is not None and _suffix(one) == sku]
    return f"{max(there)}:latest" if there else None


def _suffix(image: str) -> str:
    """Return what follows the release in the SKU of an HPC image: `-v100`, or nothing."""
    return "".join(image.rpartition(":")[2].partition("-")[1:])


def region(options: Wishes) -> str | None:
    """Return the region of the account, from https://ACCOUNT.REGION.batch.azure.com, or None."""
    labels = (urlsplit(options.batch_url or "").hostname or "").split(".")
    return labels[1] if len(labels) > 2 and labels[2] == "batch" else None


def candidates(
    spec: Spec, options: Wishes, survey: Mapping[str, Any], together: int = 1
) -> tuple[ChosenMachine, ...]:
    """Return the machines for a node of *spec*, the best one first, with their prices and why.

    If the GPUs of none of them work with the image, those are returned that would with another one. *together* is how
    many nodes may share a machine: a machine of Azure Batch has one slot, so that none do.
    """
    wanted, there = needs(spec), offered(survey)
    where = region(options)
    if where and "machines" not in survey:
        whole = catalogue()
        sold = {row.name for row in whole.machines if whole.sold_in(row, where) is not False}
        there = tuple(machine for machine in there if machine.name in sold)
    asked = MachineRequest(
        cpus=wanted.cpus,
        memory_gib=wanted.memory_gib,
        gpus=wanted.gpus,
        gpu_type=wanted.gpu_type,
        disk_gib=wanted.disk_gib,
        spot=spec.cluster.capacity != "on-demand",
        together=together,
        region=where,
    )
    fit = holding(asked, there, lambda machine: not lacks_driver(machine.gpu_type, options.image))
    return fit or holding(asked, there)


def sold_elsewhere(spec: Spec, region: str) -> str:
    """Return a hint that names regions with a machine for a node of *spec*; an empty string if there is none."""
    wanted = needs(spec)
    asked = MachineRequest(*wanted[:3], wanted.gpu_type, wanted.disk_gib)
    names = {one.machine.name for one in holding(asked, current())}
    there = [machine for machine in catalogue().machines if machine.name in names]
    return other_regions(there, catalogue(), region) if there else ""


def too_many_gpus(spec: Spec, options: Wishes, survey: Mapping[str, Any]) -> Machine | None:
    """Return the smallest machine that is large enough for a node of *spec*, whatever its number of GPUs, or None."""
    found = [known(one.machine.name) for one in candidates(spec, options, survey, together=64)]
    return min(filter(None, found), key=lambda m: (m.gpus, m.cpus), default=None)


def size(spec: Spec, options: Wishes, survey: Mapping[str, Any] | None = None) -> str:
    """Return the VM size for a node of *spec*: the profile's, or the cheapest one that is large enough."""
    if options.vm_size:
        machine = known(options.vm_size)
        return machine.name if machine else options.vm_size
    found = candidates(spec, options, survey or {})
    return found[0].machine.name if found else SMALLEST


def alike(spec: Spec, survey: Mapping[str, Any]) -> tuple[Machine, ...]:
    """Return the machines of the kind that *spec* requests: with such GPUs, or with none."""
    wanted = needs(spec)
    kind = wanted.gpu_type and wanted.gpu_type.lower()
    found = [m for m in offered(survey) if m.disk_gib and bool(m.gpus) == bool(wanted.gpus)]
    return tuple(m for m in found if kind is None or m.gpu_type.lower() == kind)
