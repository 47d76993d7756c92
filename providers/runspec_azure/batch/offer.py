"""The machines that a job may get on Azure Batch, with their prices."""

from __future__ import annotations

from runspec_azure.batch.options import BatchOptions
from runspec_azure.resources import request
from runspec_azure.resources.vm_sizes import catalogue
from runspec_jobs.provider import (
    ChosenMachine,
    Facts,
    Offer,
    Spec,
    StandingCost,
    machine_price,
    unknown_machine,
)

# Batch itself is free, and pools without tasks have no machines: https://azure.microsoft.com/pricing/details/batch/
STANDING = (StandingCost("what is kept in Blob storage"),)
ALTERNATIVES = 2


def offer(spec: Spec, facts: Facts) -> Offer:
    """Return the machine for *spec*: a pool has machines of one size, and the next ones are alternatives."""
    options: BatchOptions = facts.options
    if options.pool:
        return Offer((), standing=STANDING, why=f"the pool {options.pool} has machines of its own")
    if options.vm_size:
        return _offer((_named(options.vm_size, options),), ())
    first, *others = request.candidates(spec, options, facts.survey) or (None,)
    return _offer((first,) if first else (), tuple(others[:ALTERNATIVES]))


def _offer(found: tuple[ChosenMachine, ...], others: tuple[ChosenMachine, ...]) -> Offer:
    region = next((one.region for one in found if one.region), "an unknown region")
    prices = f"on demand in {region}, {catalogue().version}"
    why = "" if found else "no machine of the catalogue is large enough"
    return Offer(found, others, STANDING, prices, why)


def _named(name: str, options: BatchOptions) -> ChosenMachine:
    machine = catalogue().named(name)
    if machine is None:
        return ChosenMachine(unknown_machine(name), None, None, "vm_size names it")
    usd, region = machine_price(machine, catalogue(), request.region(options))
    return ChosenMachine(machine, usd, region, "vm_size names it")
