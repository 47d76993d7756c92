"""What a job may cost: the machines that it may get, their prices, and the most that all its attempts can come to.

Prices are in USD. What is unknown is None, and never 0. The most that spot machines can cost is their price
on demand: https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/using-spot-instances-history.html and
https://learn.microsoft.com/en-us/azure/virtual-machines/spot-vms
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

from runspec_agent.base.light_typing import NamedTuple
from runspec_jobs.machines.choice import (
    ChosenMachine,
    MachineRequest,
    compute_most_gpus,
    get_nominal_memory,
    list_holding,
    listed_machine,
    order_price,
    price,
)
from runspec_jobs.machines.machine import Catalogue, Machine, describe_gpus
from runspec_jobs.machines.price_list import NOT_READ, ListedPrices

HOUR_S = 3600
ALTERNATIVES = 2
# What stays until somebody deletes it counts for a day at least, because nobody deletes it in the same minute.
KEPT_H = 24.0


class StandingCost(NamedTuple):
    """What costs money while nothing runs. *usd_hour* is None if its price is unknown, or depends on what is kept.

    *usd_gb_month* is the price of what is kept, for 2^30 bytes and a month; None if it is unknown or not so counted.
    *shared* is whether `runspec destroy --shared` ends it. *hours* is how long it counts at least in what a job may
    cost: `KEPT_H` for what runspec makes and keeps, 0 for what counts while the job runs, None if it does not count.
    *near_usd_hour* is the price of *near_region* if that where it runs is unknown.
    """

    what: str
    usd_hour: float | None = None
    usd_gb_month: float | None = None
    shared: bool = False
    hours: float | None = None
    near_usd_hour: float | None = None
    near_region: str = ""


class Offer(NamedTuple):
    """The machines that a plan may get, the best one first, and the cheapest others.

    *catalogue* names the prices, by date and region. *why* says why no machine is known, if there is none. *shares*
    has, by name, the fraction of each machine that a node requests, if several nodes of the job may share one.

    *limits* has, by name, how many such machines can run at once; a machine that is not there has no limit. *attempts*
    is the most attempts of a task, if the provider does not count as `count_most_attempts` does. *caveat* says what may
    exceed the bound.
    """

    machines: Sequence[ChosenMachine]
    alternatives: Sequence[ChosenMachine] = ()
    standing: Sequence[StandingCost] = ()
    catalogue: str = ""
    why: str = ""
    shares: Mapping[str, float] = {}
    limits: Mapping[str, int] = {}
    attempts: int | None = None
    caveat: str = ""


class Work(NamedTuple):
    """How much a job runs at most: *nodes* of each task, *tasks*, and those of them at the same time.

    *timeout_s* is the longest time of one attempt, or None; *attempts* is the most that a task may make if it fails,
    and *spot_attempts* the most whose machines are lost. *least_nodes* is the smallest size of an *elastic* task.
    """

    nodes: int
    tasks: int
    parallel: int
    timeout_s: float | None
    attempts: int
    spot: bool = False
    least_nodes: int | None = None
    spot_attempts: int = 1
    elastic: bool = False


class PricedMachine(NamedTuple):
    """A machine with the price of an hour, or None if it is unknown, and the reason for the choice.

    If the price is unknown, *near_usd_hour* is that of *near_region*, if one is known. *spot_usd_hour* is the price of
    a spot machine when the price list was read, and None if it is unknown or the job wants none. *gpus* has the number,
    type and memory of its GPUs in words; it is empty if there are none, or they are not known.
    """

    name: str
    usd_hour: float | None
    why: str
    near_usd_hour: float | None = None
    near_region: str = ""
    spot_usd_hour: float | None = None
    gpus: str = ""


class Estimate(NamedTuple):
    """What a job may cost. *least_usd_hour* and *most_usd_hour* are for all machines that run at once.

    *machines* and *alternatives* are the machines that may be taken, with their prices, for the nodes and tasks of
    *work*; *standing* is what costs money while nothing runs, *catalogue* says where prices are from, and *caveat* what
    they leave out.
    *at_once* is how many machines run at once at most. *fewest* is how many these are if nodes share them where they
    can, and an elastic job is at its smallest.
    *bound_usd* is the most that the job can cost, or None for the reason in *unbounded*. *spot_usd_hour* and
    *at_spot_usd* are what *most_usd_hour* and *bound_usd* are by the spot prices of the day *listed_on*, on which the
    price list was read. These prices change, so they limit nothing. They are None if such a price is unknown, or the
    job is on demand.
    """

    machines: Sequence[PricedMachine]
    alternatives: Sequence[PricedMachine]
    work: Work
    at_once: int
    fewest: int
    least_usd_hour: float | None
    most_usd_hour: float | None
    bound_usd: float | None
    unbounded: str
    standing: Sequence[StandingCost]
    catalogue: str
    caveat: str = ""
    spot_usd_hour: float | None = None
    at_spot_usd: float | None = None
    listed_on: str = ""


def estimate(
    offer: Offer,
    work: Work,
    provider: str,
    profile_prices: Mapping[str, float],
    listed: ListedPrices = NOT_READ,
) -> Estimate:
    """Return what *work* may cost on the machines of *offer*.

    *profile_prices* are in USD for an hour of a node, by the name of a machine or of a provider.
    *listed* are prices that were read from the service's list, which are newer than those of the catalogue.

    >>> work = Work(nodes=2, tasks=1, parallel=1, timeout_s=7200, attempts=3)
    >>> estimate(Offer(()), work, "slurm", {"slurm": 1.5}).bound_usd
    18.0
    >>> estimate(Offer((), why="the queue chooses them"), work, "aws-batch", {}).unbounded
    'the queue chooses them'
    """
    machines = _price_machines(offer, work, provider, profile_prices, listed)
    prices = {machine.name: machine.usd_hour for machine in machines}
    known = {name: usd for name, usd in prices.items() if usd is not None}
    complete = _keep_if_all_known(prices)
    spot = _keep_if_all_known({machine.name: machine.spot_usd_hour for machine in machines})
    counts = {name: _count_machines(name, work, offer) for name in prices}
    caveat = offer.caveat or _explain_more_attempts(offer, work)
    work = work._replace(attempts=offer.attempts or count_most_attempts(work))
    most = max(complete.values(), default=None)
    bound, unbounded = _compute_bound(work, most, offer, machines)
    fewest, at_once = next(iter(counts.values()), _count_machines("", work, offer))
    at_spot, _ = _compute_bound(work, max(spot.values(), default=None), offer, machines)
    return Estimate(
        machines,
        [_add_price(machine, profile_prices, listed, work) for machine in offer.alternatives],
        work,
        at_once,
        fewest,
        min((usd * counts[name][0] for name, usd in known.items()), default=None),
        max((usd * counts[name][1] for name, usd in complete.items()), default=None),
        bound,
        unbounded,
        offer.standing,
        f"read from {listed.source} on {listed.date}" if listed.date else offer.catalogue,
        caveat,
        max((usd * counts[name][1] for name, usd in spot.items()), default=None),
        at_spot,
        listed.date,
    )


def _price_machines(
    offer: Offer,
    work: Work,
    provider: str,
    profile_prices: Mapping[str, float],
    listed: ListedPrices,
) -> list[PricedMachine]:
    """Return the machines of *offer* with their prices; without any, a node of *provider* if the profile prices it."""
    if not offer.machines and provider in profile_prices:
        usd = profile_prices[provider]
        return [PricedMachine(f"a node of {provider}", usd, "the profile's price")]
    return [_add_price(machine, profile_prices, listed, work) for machine in offer.machines]


def _keep_if_all_known(prices: Mapping[str, float | None]) -> dict[str, float]:
    """Return *prices* if all are known, and none otherwise.

    One unknown price makes the most that a job can cost unknown: the service may choose that machine.
    """
    known = {name: usd for name, usd in prices.items() if usd is not None}
    return known if len(known) == len(prices) else {}


def _count_machines(name: str, work: Work, offer: Offer) -> tuple[int, int]:
    """Return how many machines called *name* run at once, at least and at most."""
    # The addend absorbs the rounding of a share such as 1/3.
    each = max(1, math.floor(1 / offer.shares.get(name, 1.0) + 1e-9))  # nodes on one machine
    most = min(work.nodes * work.parallel, offer.limits.get(name, work.nodes * work.parallel))
    least = math.ceil((work.least_nodes or work.nodes) * work.parallel / each)
    return min(least, most), most


def alternatives(
    request: MachineRequest,
    catalogue: Catalogue,
    chosen: Sequence[ChosenMachine],
    usable_gib: Callable[[Machine], float] = get_nominal_memory,
    runs: Callable[[Machine], bool] = lambda _: True,
) -> tuple[ChosenMachine, ...]:
    """Return the cheapest machines for *request* of families of which none was *chosen*: one of each family."""
    families = {machine.machine.family for machine in chosen}
    by_family: dict[str, tuple[float, str, ChosenMachine]] = {}
    for machine in list_holding(request, catalogue, usable_gib):
        usd, region = order_price(machine, catalogue, request.region)
        if machine.family in families or usd is None or not runs(machine):
            continue
        if machine.gpus and machine.gpus > compute_most_gpus(request):
            continue
        if machine.family not in by_family or usd < by_family[machine.family][0]:
            there = price(machine, catalogue, request.region)
            other = ChosenMachine(machine, there, region, f"the cheapest of {machine.family}")
            by_family[machine.family] = usd, machine.name, other
    order = sorted(by_family.values(), key=lambda entry: entry[:2])
    return tuple(other for _, _, other in order[:ALTERNATIVES])


def price_note(catalogue: Catalogue, region: str | None) -> str:
    """Return what the prices of machines in *region* are, as text.

    >>> price_note(Catalogue("2026-07-20", ("us-east-1",), ()), "us-east-1")
    'on demand in us-east-1, 2026-07-20'
    >>> price_note(Catalogue("2026-07-20", ("us-east-1",), ()), "eu-west-1")
    'unknown in eu-west-1; machines are in the order of their prices in us-east-1, 2026-07-20'
    """
    if region in catalogue.regions:
        return f"on demand in {region}, {catalogue.version}"
    where = f"in {region}" if region else "where the region is unknown"
    order = f"{catalogue.regions[0]}, {catalogue.version}"
    return f"unknown {where}; machines are in the order of their prices in {order}"


def _add_price(
    machine: ChosenMachine, profile_prices: Mapping[str, float], listed: ListedPrices, work: Work
) -> PricedMachine:
    name, gpus = machine.machine.name, describe_gpus(machine.machine)
    if name in profile_prices:
        return PricedMachine(name, profile_prices[name], "the profile's price", gpus=gpus)
    machine = listed_machine(machine, listed)
    spot = listed.spot_usd_hour.get(name) if work.spot else None
    # A spot machine never costs more than one on demand: see the links above.
    if spot is not None and machine.usd is not None:
        spot = min(spot, machine.usd)
    return PricedMachine(
        name, machine.usd, machine.why, machine.near_usd, machine.near_region, spot, gpus
    )


def _compute_bound(
    work: Work, usd: float | None, offer: Offer, machines: Sequence[PricedMachine]
) -> tuple[float | None, str]:
    """Return timeout x attempts x nodes at the price *usd*, or the reason why there is no such number."""
    if usd is None:
        unknown = [machine.name for machine in machines if machine.usd_hour is None]
        why = f"the price of {unknown[0]} is unknown" if unknown else "the machines are not known"
        return None, (offer.why or why)
    if work.timeout_s is None:
        return None, "the spec has no timeout"
    hours = work.timeout_s / HOUR_S * work.attempts
    return usd * hours * work.nodes * work.tasks, ""


def count_most_attempts(work: Work) -> int:
    """Return the most attempts of a task: each failure begins another, and each machine that was reclaimed.

    Only spot machines and those of an elastic job count as reclaimed.

    >>> fixed = Work(nodes=1, tasks=1, parallel=1, timeout_s=60, attempts=2, spot_attempts=5)
    >>> count_most_attempts(fixed), count_most_attempts(fixed._replace(spot=True))
    (2, 6)
    """
    again = work.spot_attempts - 1 if work.spot or work.elastic else 0
    return work.attempts + again


def _explain_more_attempts(offer: Offer, work: Work) -> str:
    """Return what may exceed the bound of a job on machines that nobody reclaims."""
    if offer.attempts is not None or work.spot or work.elastic or work.spot_attempts == 1:
        return ""
    return "more if a machine fails"
