"""The machines that a job may get on Azure Batch, with their prices."""

from __future__ import annotations

from collections.abc import Iterator

from runspec_azure.batch.decision import Decision
from runspec_azure.batch.options import BatchOptions
from runspec_azure.resources import request
from runspec_azure.resources.vm_sizes import azure_price, catalogue
from runspec_jobs.provider import Capacity
from runspec_jobs.provider.machines import NOT_READ, ListedPrices, Offer, StandingCost, price_note

ALTERNATIVES = 2


def offer(decision: Decision, listed: ListedPrices = NOT_READ) -> Offer:
    """Return the machine of the job: a pool has machines of one size, and the next ones are alternatives."""
    options, machines = decision.options, decision.machines
    standing = tuple(_standing(options, listed))
    if options.pool:
        why = f"the pool {options.pool} has machines of its own"
        return _with_attempts(Offer((), standing=standing, why=why), decision)
    pool_offer = Offer(
        machines[:1],
        machines[1 : 1 + ALTERNATIVES],
        standing,
        price_note(catalogue(), decision.request.region),
        "" if machines else "no machine of the catalogue is large enough",
        shares={
            choice.machine.name: 1 / decision.slots for choice in machines if decision.slots > 1
        },
        limits={choice.machine.name: decision.most_nodes for choice in machines[:1]},
    )
    return _with_attempts(pool_offer, decision)


def _with_attempts(offer: Offer, decision: Decision) -> Offer:
    """Return *offer* with the attempts of a task. Azure Batch runs a preempted task again without a limit."""
    if decision.capacity is Capacity.ON_DEMAND or decision.elastic:
        return offer._replace(attempts=decision.attempts)
    return offer._replace(caveat="Azure Batch may preempt a task more often")


def _standing(options: BatchOptions, listed: ListedPrices) -> Iterator[StandingCost]:
    """Yield what costs money while no job runs. Batch itself is free, and pools without tasks have no machines.

    https://azure.microsoft.com/pricing/details/batch/
    """
    where = request.region(options)
    blob = azure_price("blob storage", where, listed)
    yield StandingCost(f"what is kept in Blob storage ({blob.note})", usd_gb_month=blob.usd)
    if not options.public_addresses:
        nat, data = (azure_price(item, where, listed) for item in ("nat gateway", "nat data"))
        message = f"a NAT gateway, if the subnet has one, besides {data.usd_shown} ({nat.note})"
        yield StandingCost(message, nat.usd, hours=0)
