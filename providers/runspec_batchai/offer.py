"""The machines that a job may get on Azure Batch AI with their prices, and what its cluster costs in any case."""

from __future__ import annotations

from collections.abc import Iterator

from runspec_azure.resources.vm_sizes import azure_price
from runspec_batchai import resources
from runspec_batchai.decision import Decision
from runspec_jobs.provider.machines import (
    KEPT_H,
    NOT_READ,
    ChosenMachine,
    ListedPrices,
    Offer,
    StandingCost,
    listed_machine,
    other_machines,
    price_note,
    unknown_machine,
)


def offer(decision: Decision, listed: ListedPrices = NOT_READ) -> Offer:
    """Return the machine of the job: a cluster has machines of one size. Batch AI itself was free."""
    options = decision.options
    if options.cluster:
        why = f"the cluster {options.cluster} has machines of its own"
        return Offer((), standing=tuple(_standing(decision, None, listed)), why=why)
    why = resources.SMALLEST if resources.has_gpus(decision.request) else resources.CHEAPEST
    why = "vm_size names it" if options.vm_size else why
    machine = resources.priced(decision.vm_size, options.location, why)
    if machine is None and options.vm_size:
        machine = ChosenMachine(unknown_machine(options.vm_size), None, None, why)
    return Offer(
        (machine,) if machine else (),
        () if options.vm_size or machine is None else _others(decision, machine),
        tuple(_standing(decision, machine, listed)),
        f"virtual machines: {price_note(resources.priced_sizes(), options.location)}",
        "" if machine else "no machine of Batch AI was large enough",
        limits={machine.machine.name: decision.most_nodes} if machine else {},
        attempts=decision.attempts,
    )


def _others(decision: Decision, machine: ChosenMachine) -> tuple[ChosenMachine, ...]:
    wanted = decision.request._replace(region=decision.options.location)
    return other_machines(wanted, resources.priced_sizes(), (machine,))


def _standing(
    decision: Decision, machine: ChosenMachine | None, listed: ListedPrices
) -> Iterator[StandingCost]:
    """Yield what costs money while no job runs; *machine* is None for a cluster of the profile."""
    options = decision.options
    if options.cluster:
        yield StandingCost(f"nodes that the cluster {options.cluster} keeps")
    elif nodes := decision.kept_nodes:
        machine = machine and listed_machine(machine, listed)
        usd, near = (machine.usd, machine.near_usd) if machine else (None, None)
        size = machine.machine.name if machine else "an unknown size"
        what = f"{nodes} x {size}, which the cluster keeps until `runspec destroy --shared`"
        yield StandingCost(
            what,
            None if usd is None else nodes * usd,
            shared=True,
            hours=KEPT_H,
            near_usd_hour=None if near is None else nodes * near,
            near_region=machine.near_region if machine else "",
        )
    blob = azure_price("blob storage", options.location, listed)
    yield StandingCost(f"what is kept in Blob storage ({blob.note})", usd_gb_month=blob.usd)
    yield StandingCost("what is kept in Azure Files")
