"""A machine that a provider rents out, and the tables in which machines and their prices stand.

The tables are data files of the package, which `tools/catalogue` makes. A cell that is empty is unknown, and becomes
None: no number is made up for it. A region's cell is empty where the machine is not sold, and ? if it is sold at a
price that is unknown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from runspec_agent.base.light_typing import NamedTuple

COLUMNS = (
    "name",
    "family",
    "architecture",
    "cpus",
    "memory_gib",
    "gpus",
    "gpu",
    "gpu_gib",
    "disk_gib",
    "network_gbps",
    "fabric",
    "traits",
)


UNKNOWN = "?"  # the price of a machine that is sold
PLAIN: frozenset[str] = frozenset()


class Machine(NamedTuple):
    """A type of machine, as its provider describes it. None means that no source says it.

    *gpus* is a fraction for a part of a GPU, such as 0.25. *gpu_gib* is the memory of one GPU. *disk_gib* is the
    local disk. *fabric* is the number of its adapters for Elastic Fabric Adapter or InfiniBand. *prices* are cells
    of the table, in the order of the regions of the catalogue; `Catalogue.usd` reads them.

    *traits* are: `burstable` (full speed for a part of the time only), `metal` (without a hypervisor), `old` (of an
    earlier generation, or to be retired), `accelerator` (chips that are neither CPUs nor GPUs), `no-spot`,
    `no-on-demand` (sold as reserved blocks of capacity only), `confidential` (needs an image of its own), and
    `no-premium` (takes no premium disks).
    """

    name: str
    family: str
    architecture: str | None
    cpus: int | None
    memory_gib: float | None
    gpus: float | None
    gpu: str | None
    gpu_gib: float | None
    disk_gib: int | None
    network_gbps: float | None
    fabric: int | None
    traits: frozenset[str] = PLAIN
    prices: tuple[str, ...] = ()


def make_unknown(name: str) -> Machine:
    """Return a machine of which nothing is known but its name."""
    return Machine(name, name, None, None, None, None, None, None, None, None, None)


def describe_gpus(machine: Machine) -> str:
    """Return the number, type and memory of the GPUs of *machine*, such as `8 A100 of 80 GiB`; empty if it has none."""
    if not machine.gpus:
        return ""
    memory = f" of {machine.gpu_gib:g} GiB" if machine.gpu_gib else ""
    return f"{machine.gpus:g} {machine.gpu or 'GPUs'}{memory}"


def ignore_generation(_: Machine) -> int:
    """Return 0, for a catalogue whose names of machines say no generation."""
    return 0


class Catalogue(NamedTuple):
    """The machines of a provider. *version* is the day of its prices, as YYYY-MM-DD.

    *regions* are those with prices; the first one stands in for a region without prices. *offered* has, by region,
    the names and families of the machines that are offered there; a region that is not there is unknown. *generation*
    returns the number of the generation of a machine, or 0 if its name has none: a newer one is chosen first.
    """

    version: str
    regions: tuple[str, ...]
    machines: tuple[Machine, ...]
    offered: Mapping[str, frozenset[str]] = {}
    generation: Callable[[Machine], int] = ignore_generation

    def named(self, name: str) -> Machine | None:
        """Return the machine called *name*, in upper or lower case, or None."""
        wanted = name.lower()
        return next((m for m in self.machines if m.name.lower() == wanted), None)

    def sold_in(self, machine: Machine, region: str) -> bool | None:
        """Return whether *machine* is offered in *region*; None if no source says it."""
        names = {machine.name, machine.family}
        if region in self.offered and any(names & there for there in self.offered.values()):
            return bool(names & self.offered[region])
        if region in self.regions and any(machine.prices):
            return machine.prices[self.regions.index(region)] != ""
        return None

    def usd(self, machine: Machine, region: str) -> float | None:
        """Return the price of an hour of *machine* on demand in *region*, or None if it is unknown."""
        if region not in self.regions or not machine.prices:
            return None
        cell = machine.prices[self.regions.index(region)]
        return float(cell) if cell not in ("", UNKNOWN) else None


def read(
    version: str,
    table: Iterable[str],
    offered: Mapping[str, str] | None = None,
    generation: Callable[[Machine], int] = ignore_generation,
) -> Catalogue:
    """Return the catalogue of the lines of a table, whose columns are `COLUMNS` and one for each region.

    The first line names the columns.

    Raises ValueError for a line that has another number of cells.
    """
    head, *lines = table
    columns = head.split(",")
    regions = tuple(columns[len(COLUMNS) :])
    machines = tuple(_parse_machine(line.split(","), len(columns)) for line in lines)
    there = {region: frozenset(names.split()) for region, names in (offered or {}).items()}
    return Catalogue(version, regions, machines, there, generation)


def _parse_machine(cells: list[str], width: int) -> Machine:
    if len(cells) != width:
        raise ValueError(f"{cells[0]}: {len(cells)} cells, not {width}")
    name, family, arch, cpus, memory, gpus, gpu, gpu_gib, disk, network, fabric, traits = cells[:12]
    return Machine(
        name,
        family,
        arch or None,
        int(cpus) if cpus else None,
        float(memory) if memory else None,
        float(gpus) if gpus else None,
        gpu or None,
        float(gpu_gib) if gpu_gib else None,
        int(disk) if disk else None,
        float(network) if network else None,
        int(fabric) if fabric else None,
        frozenset(traits.split()) if traits else PLAIN,
        tuple(cells[12:]),
    )
