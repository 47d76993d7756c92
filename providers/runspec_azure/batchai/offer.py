"""The machines that a job may get on Azure Batch AI with their prices, and what its cluster costs in any case."""

from __future__ import annotations

from collections.abc import Iterator

from runspec_azure.batchai import infrastructure, resources
from runspec_azure.batchai.job import job
from runspec_azure.batchai.options import BatchAiOptions
from runspec_azure.resources.services import azure_price
from runspec_jobs.provider import (
    KEPT_H,
    NOT_READ,
    ChosenMachine,
    Facts,
    ListedPrices,
    Offer,
    Spec,
    StandingCost,
    listed_machine,
    other_machines,
    price_note,
    unknown_machine,
)


def offer(spec: Spec, facts: Facts, listed: ListedPrices = NOT_READ) -> Offer:
    """Return the machine for *spec*: a cluster has machines of one size. Batch AI itself was free."""
    options: BatchAiOptions = facts.options
    if options.cluster:
        why = f"the cluster {options.cluster} has machines of its own"
        return Offer((), standing=tuple(_standing(spec, options, None, listed)), why=why)
    name = infrastructure.size(spec, options)
    why = resources.SMALLEST if resources.has_gpus(spec) else resources.CHEAPEST
    why = "vm_size names it" if options.vm_size else why
    found = resources.priced(name, options.location, why)
    if found is None and options.vm_size:
        found = ChosenMachine(unknown_machine(name), None, None, why)
    others = () if options.vm_size or found is None else _others(spec, options, found)
    return Offer(
        (found,) if found else (),
        others,
        tuple(_standing(spec, options, found, listed)),
        f"virtual machines: {price_note(resources.priced_sizes(), options.location)}",
        "" if found else "no machine of Batch AI was large enough",
        limits={found.machine.name: infrastructure.most_nodes(spec, options)} if found else {},
        attempts=job.most_attempts(spec, options),
    )


def _others(spec: Spec, options: BatchAiOptions, found: ChosenMachine) -> tuple[ChosenMachine, ...]:
    wanted = resources.request(spec)._replace(region=options.location)
    return other_machines(wanted, resources.priced_sizes(), (found,))


def _standing(
    spec: Spec, options: BatchAiOptions, machine: ChosenMachine | None, listed: ListedPrices
) -> Iterator[StandingCost]:
    """Yield what costs money while no job runs; *machine* is None for a cluster of the profile."""
    if options.cluster:
        yield StandingCost(f"nodes that the cluster {options.cluster} keeps")
    elif nodes := infrastructure.kept_nodes(spec, options):
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
