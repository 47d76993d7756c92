"""The machines that a job may get on Azure Batch, with their prices."""

from __future__ import annotations

from collections.abc import Iterator

from runspec_azure.batch.infrastructure import autoscale
from runspec_azure.batch.job.job import most_attempts
from runspec_azure.batch.options import BatchOptions
from runspec_azure.resources import request
from runspec_azure.resources.services import azure_price
from runspec_azure.resources.vm_sizes import catalogue
from runspec_jobs.provider import (
    NOT_READ,
    Capacity,
    ChosenMachine,
    Facts,
    ListedPrices,
    Offer,
    Spec,
    StandingCost,
    chosen_machine,
    price_note,
    unknown_machine,
)

ALTERNATIVES = 2


def offer(spec: Spec, facts: Facts, listed: ListedPrices = NOT_READ) -> Offer:
    """Return the machine for *spec*: a pool has machines of one size, and the next ones are alternatives."""
    options: BatchOptions = facts.options
    standing = tuple(_standing(options, listed))
    if options.pool:
        why = f"the pool {options.pool} has machines of its own"
        return _counted(Offer((), standing=standing, why=why), spec)
    if options.vm_size:
        return _offer((_named(options.vm_size, options),), (), standing, spec, facts)
    first, *others = request.candidates(spec, options, facts.survey) or (None,)
    return _offer((first,) if first else (), tuple(others[:ALTERNATIVES]), standing, spec, facts)


def _standing(options: BatchOptions, listed: ListedPrices) -> Iterator[StandingCost]:
    """Yield what costs money while no job runs. Batch itself is free, and pools without tasks have no machines.

    https://azure.microsoft.com/pricing/details/batch/
    """
    where = request.region(options)
    blob = azure_price("blob storage", where, listed)
    yield StandingCost(f"what is kept in Blob storage ({blob.note})", usd_gb_month=blob.usd)
    if not options.public_addresses:
        nat, data = (azure_price(item, where, listed) for item in ("nat gateway", "nat data"))
        what = f"a NAT gateway, if the subnet has one, besides {data.usd_shown} ({nat.note})"
        yield StandingCost(what, nat.usd, hours=0)


def _offer(
    found: tuple[ChosenMachine, ...],
    others: tuple[ChosenMachine, ...],
    standing: tuple[StandingCost, ...],
    spec: Spec,
    facts: Facts,
) -> Offer:
    most = autoscale.most(spec, facts) if found else 0
    of_pool = Offer(
        found,
        others,
        standing,
        price_note(catalogue(), request.region(facts.options)),
        "" if found else "no machine of the catalogue is large enough",
        limits={one.machine.name: most for one in found},
    )
    return _counted(of_pool, spec)


def _counted(found: Offer, spec: Spec) -> Offer:
    """Return *found* with the attempts of a task. Azure Batch runs a preempted task again without a limit."""
    if spec.cluster.capacity is Capacity.ON_DEMAND or spec.cluster.nodes.elastic:
        return found._replace(attempts=most_attempts(spec))
    return found._replace(caveat="Azure Batch may preempt a task more often")


def _named(name: str, options: BatchOptions) -> ChosenMachine:
    machine = catalogue().named(name)
    if machine is None:
        return ChosenMachine(unknown_machine(name), None, None, "vm_size names it")
    where = request.region(options)
    return chosen_machine(machine, catalogue(), where, "vm_size names it")
