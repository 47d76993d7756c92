"""The rule by which every provider chooses machines for the nodes of a job.

The first machine is the cheapest one that holds what a node requests. Others of the same kind are added, because a
service that may choose among several types is less likely to have none: those that cost at most `CAPACITY` times as
much. A machine never has more than `GPU_MULTIPLE` times as many GPUs as are requested.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

from runspec_agent.base.light_typing import NamedTuple
from runspec_jobs.machines.machine import Catalogue, Machine
from runspec_jobs.machines.price_list import ListedPrices

CAPACITY = 2.0
GPU_MULTIPLE = 2
SOLD_GIB = 0.93  # of a GiB, in a GB of vendors: 10^9 / 2^30, rounded down as the catalogues do
MOST, PER_FAMILY = 12, 2  # the most machines that are chosen, and of one family
# Machines that nobody gets who does not name them: see `Machine`.
NEVER = frozenset({"burstable", "metal", "accelerator", "confidential", "no-on-demand"})

# By words in the names of regions; those of Asia come first, because "australia" contains "us".
CONTINENTS = {
    "asia": (
        "ap-", "cn-", "asia", "austral", "japan", "korea", "india", "zealand", "indonesia", "malaysia",
    ),
    "europe": (
        "eu-", "eusc-", "il-", "me-", "af-", "europe", "uk", "france", "germany", "switzerland", "norway",
        "sweden", "poland", "italy", "spain", "austria", "israel", "uae", "qatar", "africa",
    ),
}  # fmt: skip


class MachineRequest(NamedTuple):
    """What one node requests. *gpu_type* is the model of the GPUs, in upper or lower case.

    *gpu_gib* is the least memory of each GPU: see `has_gpu_memory`.

    *fabric* requests an adapter for Elastic Fabric Adapter or InfiniBand, and *spot* a machine that is sold as spot.
    *together* is how many such nodes may share a machine, on a service that runs several jobs on one. *region* is
    where the machine must be sold; None if that is not known.
    """

    cpus: float = 1
    memory_gib: float = 0
    gpus: int = 0
    gpu_type: str | None = None
    disk_gib: float = 0
    fabric: bool = False
    architecture: str = "x86_64"
    spot: bool = False
    together: int = 1
    region: str | None = None
    gpu_gib: float = 0


class ChosenMachine(NamedTuple):
    """A machine, with the price of an hour on demand where it is requested, and the reason for the choice.

    *usd* is None if the price there is unknown. *region* is the one by whose prices the machine was chosen. If *usd* is
    None, *near_usd* is the price in *near_region*, the nearest region whose price is known.
    """

    machine: Machine
    usd: float | None
    region: str | None
    why: str
    near_usd: float | None = None
    near_region: str = ""


def get_nominal_memory(machine: Machine) -> float:
    """Return the memory of *machine* in GiB, or 0 if it is unknown."""
    return machine.memory_gib or 0


def choose(
    request: MachineRequest,
    catalogue: Catalogue,
    usable_gib: Callable[[Machine], float] = get_nominal_memory,
    runs: Callable[[Machine], bool] = lambda _: True,
) -> tuple[ChosenMachine, ...]:
    """Return the machines for *request*, the best one first; an empty tuple if there is none.

    *usable_gib* is the memory that a service leaves to jobs, and *runs* whether the image of the machines has the
    drivers for it. Spot machines are ordered by their prices on demand, because those of spot change by the hour.
    Machines without a known price come last. Where no prices are known, those of another region give the order, and
    the prices of the result are unknown.
    """
    machines = [m for m in list_holding(request, catalogue, usable_gib) if runs(m)]
    fit = sorted(
        (
            (usd, region, machine)
            for machine in machines
            if not machine.gpus or machine.gpus <= compute_most_gpus(request)
            for usd, region in [order_price(machine, catalogue, request.region)]
        ),
        key=lambda priced: _order(priced, catalogue),
    )
    there = _list_chosen(fit) if fit else ()
    return tuple(
        chosen_machine(machine.machine, catalogue, request.region, machine.why)._replace(
            region=machine.region
        )
        for machine in there
    )


def list_holding(
    request: MachineRequest,
    catalogue: Catalogue,
    usable_gib: Callable[[Machine], float] = get_nominal_memory,
) -> Iterator[Machine]:
    """Yield the machines that are large enough for *request*, whatever they cost and however many GPUs they have.

    A machine of which it is unknown whether it is large enough is left out.
    """
    kind = request.gpu_type.lower() if request.gpu_type else None
    gpus = request.gpus or (1 if kind else 0)
    # Old GPUs are cheap by the hour and slow, and other chips need drivers of their own: only a user who names the
    # type gets them.
    never = NEVER | ({"no-spot"} if request.spot else set())
    never = never - {"accelerator"} if kind else never | {"old"}
    for machine in catalogue.machines:
        if (
            machine.cpus is not None
            and machine.gpus is not None
            and machine.cpus >= request.cpus
            and usable_gib(machine) >= request.memory_gib
            # A job without GPUs gets no machine with one, even if it were the cheapest.
            and (machine.gpus >= gpus if gpus else not machine.gpus)
            and (kind is None or (machine.gpu or "").lower() == kind)
            and is_enough_gpu_memory(machine.gpu_gib or 0, request.gpu_gib)
            and machine.architecture == request.architecture
            and not machine.traits & never
            and (not request.disk_gib or (machine.disk_gib or 0) >= request.disk_gib)
            and (not request.fabric or machine.fabric)
            and (request.region is None or catalogue.sold_in(machine, request.region) is not False)
        ):
            yield machine


def is_enough_gpu_memory(gib: float, wanted_gib: float) -> bool:
    """Return whether a GPU with *gib* of memory counts as one with *wanted_gib*.

    Vendors count 10^9 bytes, so that a GPU of "24 GB" has 22.4 GiB. It counts as one of 24 GiB.

    >>> is_enough_gpu_memory(22.4, 24), is_enough_gpu_memory(16, 24)
    (True, False)
    """
    return gib >= wanted_gib * SOLD_GIB


def compute_most_gpus(request: MachineRequest) -> int:
    """Return the largest number of GPUs that a machine for *request* may have."""
    return GPU_MULTIPLE * max(1, request.gpus) * max(1, request.together)


def price(machine: Machine, catalogue: Catalogue, region: str | None) -> float | None:
    """Return the price of an hour of *machine* on demand in *region*, or None if it is unknown."""
    return None if region is None else catalogue.usd(machine, region)


def chosen_machine(
    machine: Machine, catalogue: Catalogue, region: str | None, why: str
) -> ChosenMachine:
    """Return *machine* with its price in *region* or, if that is unknown, with the price of the nearest region."""
    usd = price(machine, catalogue, region)
    near, there = (None, "") if usd is not None else _find_near_price(machine, catalogue, region)
    return ChosenMachine(machine, usd, region, why, near, there)


def listed_machine(machine: ChosenMachine, listed: ListedPrices) -> ChosenMachine:
    """Return *machine* with the price that *listed* has for it, if any."""
    usd = listed.usd_hour.get(machine.machine.name)
    return machine if usd is None else machine._replace(usd=usd, near_usd=None, near_region="")


def _find_near_price(
    machine: Machine, catalogue: Catalogue, region: str | None
) -> tuple[float | None, str]:
    for other in sorted(
        catalogue.regions, key=lambda name: _get_continent(name) != _get_continent(region)
    ):
        if (usd := catalogue.usd(machine, other)) is not None:
            return usd, other
    return None, ""


def _get_continent(region: str | None) -> str:
    """Return the continent that the name of a region means, as far as prices differ by it.

    >>> [_get_continent(one) for one in ("eu-west-2", "germanywestcentral", "australiaeast", "us-gov-west-1")]
    ['europe', 'europe', 'asia', 'america']
    """
    name = (region or "").lower()
    continents = (to for to, words in CONTINENTS.items() if any(word in name for word in words))
    return next(continents, "america")


def order_price(
    machine: Machine, catalogue: Catalogue, region: str | None
) -> tuple[float | None, str | None]:
    """Return the price by which *machine* is put in order, and its region: *region*, or one that stands in for it.

    The catalogue does not have the prices of all machines for some regions. There, the first of its regions that
    sells the machine stands in. This is not the price of the machine in *region*.
    """
    if region is not None and region in catalogue.regions:
        return catalogue.usd(machine, region), region
    for other in catalogue.regions:
        if (usd := catalogue.usd(machine, other)) is not None:
            return usd, other
    return None, None


Priced = tuple[float | None, str | None, Machine]


def _order(priced: Priced, catalogue: Catalogue) -> tuple[Any, ...]:
    """Sort by price; for one price, the newer and larger machine is first. Sort by size if prices are unknown."""
    usd, _, machine = priced
    size = (machine.gpus or 0, machine.cpus or 0, machine.memory_gib or 0)
    if usd is None:
        return (True, *size, machine.name)
    better = (-catalogue.generation(machine), len(machine.traits), *(-n for n in size))
    return (False, usd, *better, machine.name)


def _list_chosen(fit: list[Priced]) -> Iterator[ChosenMachine]:
    """Yield the first machine, and the others of its kind that may stand in for it."""
    least, region, first = fit[0]
    yield ChosenMachine(first, least, region, _explain_first(least, region))
    families = Counter([first.family])
    for usd, region, machine in fit[1:]:
        if families.total() == MOST:
            return
        # A program that fits into the memory of one model of GPU may fail on a smaller one.
        if machine.gpu != first.gpu or (machine.gpu_gib or 0) < (first.gpu_gib or 0):
            continue
        alike = (machine.cpus, machine.gpus) == (first.cpus, first.gpus)
        if least is None or usd is None:
            near, why = alike and least is None, "price unknown, as large as the first"
        else:
            near, why = (
                usd <= CAPACITY * least,
                f"{usd / least:.3g} times the price of {first.name}",
            )
        if near and families[machine.family] < PER_FAMILY:
            families[machine.family] += 1
            yield ChosenMachine(machine, usd, region, why)


def _explain_first(usd: float | None, region: str | None) -> str:
    if usd is None:
        return "price unknown, the smallest that is large enough"
    return f"the cheapest that is large enough, by prices of {region}"
