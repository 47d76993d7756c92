"""Find the VM sizes that have the resources that one node of a job requests, as a `MachineRequest` says.

The VM sizes that discovery found (`Facts.survey`) take precedence over the table: see `subscription.survey`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol
from urllib.parse import urlsplit

from runspec_agent.base.light_typing import NamedTuple
from runspec_azure.resources.vm_sizes import Machine, catalogue, current, holding, known
from runspec_jobs.provider.machines import (
    ChosenMachine,
    MachineRequest,
    chosen_machine,
    other_regions,
    unknown_machine,
)

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


class BatchAccount(Protocol):
    """The options that name the region of the account."""

    @property
    def batch_url(self) -> str | None: ...


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
    had = next((driver for driver in (PROPRIETARY, ROCM) if sku.endswith(driver.sku or "")), CUDA)
    needed = driver(gpu_type)
    return needed is not had and (needed, had) != (CUDA, PROPRIETARY)


def image_with(gpu_type: str) -> str | None:
    """Return the newest HPC image that has the driver of such GPUs, or None."""
    sku = driver(gpu_type).sku
    there = [agent for agent in NODE_AGENTS if sku is not None and _suffix(agent) == sku]
    return f"{max(there)}:latest" if there else None


def _suffix(image: str) -> str:
    """Return what follows the release in the SKU of an HPC image: `-v100`, or nothing."""
    return "".join(image.rpartition(":")[2].partition("-")[1:])


def region(options: BatchAccount) -> str | None:
    """Return the region of the account, from https://ACCOUNT.REGION.batch.azure.com, or None."""
    labels = (urlsplit(options.batch_url or "").hostname or "").split(".")
    return labels[1] if len(labels) > 2 and labels[2] == "batch" else None


def candidates(
    request: MachineRequest, image: str, survey: Mapping[str, Any]
) -> tuple[ChosenMachine, ...]:
    """Return the machines for *request*, the best one first, with their prices and why.

    If the GPUs of none of them work with *image*, those are returned that would with another one.
    """
    there = offered(survey)
    if request.region and "machines" not in survey:
        whole = catalogue()
        sold = {
            row.name for row in whole.machines if whole.sold_in(row, request.region) is not False
        }
        there = tuple(machine for machine in there if machine.name in sold)
    fit = holding(request, there, lambda machine: not lacks_driver(machine.gpu_type, image))
    return fit or holding(request, there)


def named(name: str, region: str | None) -> ChosenMachine:
    """Return the machine that the profile names, with its price in *region*."""
    machine, why = catalogue().named(name), "vm_size names it"
    if machine is None:
        return ChosenMachine(unknown_machine(name), None, None, why)
    return chosen_machine(machine, catalogue(), region, why)


def sold_elsewhere(request: MachineRequest) -> str:
    """Return a hint that names other regions with a machine for *request*; an empty string if there is none."""
    anywhere = request._replace(spot=False, region=None)
    names = {choice.machine.name for choice in holding(anywhere, current())}
    there = [machine for machine in catalogue().machines if machine.name in names]
    return other_regions(there, catalogue(), request.region or "") if there else ""


def too_many_gpus(request: MachineRequest, image: str, survey: Mapping[str, Any]) -> Machine | None:
    """Return the smallest machine that is large enough for *request*, whatever its number of GPUs, or None."""
    choices = candidates(request._replace(together=64), image, survey)
    machines = filter(None, (known(choice.machine.name) for choice in choices))
    return min(machines, key=lambda machine: (machine.gpus, machine.cpus), default=None)


def alike(request: MachineRequest, survey: Mapping[str, Any]) -> tuple[Machine, ...]:
    """Return the machines of the kind that *request* names: with such GPUs, or with none."""
    kind = request.gpu_type and request.gpu_type.lower()
    return tuple(
        machine
        for machine in offered(survey)
        if machine.disk_gib
        and bool(machine.gpus) == bool(request.gpus)
        and kind in (None, machine.gpu_type.lower())
    )
