"""The VM sizes of Azure among which runspec chooses, and the choice of one for a node.

They are those of the catalogue (`vm_sizes.json`) whose temporary disk is known, because it has the working folders of
tasks. Retirement dates are from
https://learn.microsoft.com/azure/virtual-machines/sizes/retirement/retired-sizes-list and the page
on the retirement of each series, read on 2026-11-21; the names of families, which have quotas, are as in subscriptions.
The setting `vm_size` replaces the choice, and facts about the account take precedence over the catalogue.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from difflib import SequenceMatcher
from functools import cache
from pathlib import Path

from runspec_agent.base.light_typing import NamedTuple
from runspec_jobs.provider.machines import (
    NOT_READ,
    Catalogue,
    ChosenMachine,
    ListedPrices,
    Machine as CatalogueMachine,
    MachineRequest,
    ServicePrice,
    choose_machines,
    read_catalogue,
    read_services,
    service_price,
)

READ = "2026-11-21"  # sizes whose last day is this one or earlier count as retired
GIB = 1 << 30
# Tasks have their working folders on the temporary disk of the machine, which has one kind:
# https://learn.microsoft.com/azure/virtual-machines/managed-disks-overview#temporary-disk
LOCAL_TIERS = ("low", "medium", "best")
LOCAL_DISK = (
    "the disk of a task is the machine's own, a local SSD, whose speed depends on the VM size"
)
# The day on which a family is retired, by `family_key`.
LEAVES = {
    "standardfsv2family": "2028-11-15",
    "standardhbrsv2family": "2027-05-31",
    "standardhcsfamily": "2027-05-31",
    "standardncsv3family": "2025-09-30",
    "standardncsv2family": "2023-09-06",
    "standardndsfamily": "2023-09-06",
    "standardncfamily": "2023-09-06",
    "standardnvfamily": "2023-09-06",
    "standarddv2family": "2028-05-01",
    "standardhfamily": "2022-08-31",
}


class Machine(NamedTuple):
    """A VM size. *disk_gib* is the size of its temporary disk, which has the working folders of tasks.

    If it has several NVMe disks, only one counts: https://learn.microsoft.com/azure/batch/batch-nvme-temporary
    *leaves* is the day on which its series is retired, as YYYY-MM-DD, if one is announced.
    """

    name: str
    cpus: int
    memory_gib: float
    disk_gib: int
    gpus: int
    gpu_type: str
    family: str
    leaves: str | None = None
    spot: bool = True
    gpu_gib: float = 0  # of each GPU

    @property
    def retired(self) -> bool:
        return self.leaves is not None and self.leaves <= READ

    @property
    def usable_gib(self) -> float:
        """Memory for a job; the system and the node agent of Azure Batch need the rest.

        Azure Batch documents no number; runspec reserves 5 % and at least 1 GiB for them.
        """
        return min(self.memory_gib - 1, self.memory_gib * 0.95)


@cache
def catalogue() -> Catalogue:
    """Return the VM sizes of Azure. The table is read when a plan needs it, which takes some milliseconds."""
    data = json.loads(Path(__file__).with_name("vm_sizes.json").read_bytes())
    return read_catalogue(data["version"], data["table"], data["offered"], read_generation)


def read_generation(machine: CatalogueMachine) -> int:
    """Return the number of the version that ends the name of a VM size; 0 if it has none.

    https://learn.microsoft.com/azure/virtual-machines/vm-naming-conventions

    >>> [read_generation(catalogue().named(f"Standard_{name}")) for name in ("D2ds_v6", "NC6")]
    [6, 0]
    """
    digits = machine.name.rpartition("_v")[2]
    return int(digits) if digits.isdigit() else 0


@cache
def machines() -> tuple[Machine, ...]:
    """Return the VM sizes whose temporary disk is known, or that had one; those of x86-64 alone."""
    return tuple(machine for row in catalogue().machines if (machine := _machine(row)) is not None)


def _machine(row: CatalogueMachine) -> Machine | None:
    leaves = LEAVES.get(family_key(row.family))
    if None in (row.cpus, row.memory_gib, row.gpus, row.disk_gib) or row.architecture != "x86_64":
        return None
    if leaves is None and row.traits & {"old", "burstable", "confidential", "no-premium"}:
        return None
    return Machine(
        row.name,
        row.cpus or 0,
        row.memory_gib or 0,
        row.disk_gib or 0,
        int(row.gpus or 0),
        row.gpu or "",
        row.family,
        leaves,
        "no-spot" not in row.traits,
        row.gpu_gib or 0,
    )


@cache
def current() -> tuple[Machine, ...]:
    """Return the VM sizes that are not to be retired."""
    return tuple(machine for machine in machines() if machine.leaves is None)


@cache
def _by_name() -> dict[str, Machine]:
    return {machine.name.lower(): machine for machine in machines()}


def family_key(name: str) -> str:
    """Return the name of a family in a form that is equal for all services.

    >>> family_key("Standard NCASv3_T4 Family")
    'standardncasv3_t4family'
    """
    return name.lower().replace(" ", "")


def known(name: str) -> Machine | None:
    """Return the machine called *name*, ignoring case: `STANDARD_NC6` is `Standard_NC6`; None if it is unknown."""
    return _by_name().get(name.lower())


def gpu_type(name: str) -> str:
    """Return the model of the GPUs of the size *name*, also if it is not one to choose from; empty if it has none."""
    models = (row.gpu for row in catalogue().machines if row.name.lower() == name.lower())
    return next(models, None) or ""


def near(name: str) -> tuple[str, ...]:
    """Return the machines of the series that *name* begins with, the most similar names first.

    >>> near("STANDARD_ND96")[0], near("Standard_Z1")
    ('Standard_ND96asr_v4', ())
    """
    series = re.match(r"(?i)standard_([a-z]+)", name)
    if series is None:
        return ()
    kin = re.compile(rf"(?i)standard_{series[1]}\d")
    names = [machine.name for machine in current() if kin.match(machine.name)]
    return tuple(
        sorted(names, key=lambda other: -SequenceMatcher(None, name.lower(), other.lower()).ratio())
    )


def gpu_types(among: Iterable[Machine] | None = None) -> tuple[str, ...]:
    """Return the models of the GPUs of machines, by default of those that are not to be retired."""
    there = current() if among is None else among
    return tuple(sorted({machine.gpu_type for machine in there if machine.gpus}))


def holding(
    request: MachineRequest,
    among: Iterable[Machine],
    runs: Callable[[Machine], bool] = lambda _: True,
) -> tuple[ChosenMachine, ...]:
    """Return the machines for *request*, the best one first, by the rule of the catalogue.

    *among* are the machines that there are. A machine without a temporary disk has no place for the images, mounts and
    outputs of a task, and is left out. *runs* tells whether the image has the drivers for a machine.

    >>> [one.machine.name for one in holding(MachineRequest(2, 3, region="eastus"), current())][:2]
    ['Standard_D2alds_v6', 'Standard_D2lds_v5']
    """
    whole = catalogue()
    there = {machine.name: machine for machine in among if machine.disk_gib}
    rows = tuple(
        row._replace(cpus=m.cpus, memory_gib=m.memory_gib, gpus=float(m.gpus), disk_gib=m.disk_gib)
        for row in whole.machines
        if (m := there.get(row.name)) and (m.spot or not request.spot) and runs(m)
    )
    # What is among them is offered, whatever the list of prices says.
    offered = {request.region: frozenset(there)} if request.region else {}
    limited = whole._replace(machines=rows, offered=offered)
    return choose_machines(request, limited, lambda row: there[row.name].usable_gib)


# The prices of Azure for storage, requests, addresses and gateways.


def azure_price(item: str, region: str | None, listed: ListedPrices = NOT_READ) -> ServicePrice:
    """Return the price of *item* in *region*, which may be unknown; a price of *listed* comes first.

    Raises KeyError for an item that is not in the table.
    """
    return service_price(_prices(), item, region, listed)


@cache
def _prices() -> tuple[ServicePrice, ...]:
    text = Path(__file__).with_name("azure_services.json").read_bytes()
    return read_services(json.loads(text)["table"])
