"""The machines that a job may get on AWS Batch, with their prices."""

from __future__ import annotations

from runspec_aws.options import AwsOptions
from runspec_aws.resources import room
from runspec_aws.resources.instance_types import known, runs_on, usable_gib
from runspec_aws.resources.request import candidates, request
from runspec_jobs.provider import (
    ChosenMachine,
    Facts,
    Offer,
    Spec,
    StandingCost,
    ec2_catalogue,
    machine_price,
    other_machines,
    unknown_machine,
)

# Batch itself is free, and so are empty environments: https://aws.amazon.com/batch/pricing/
STANDING = (
    StandingCost("what is kept in S3, about 0.023 USD for a GiB and month, and in CloudWatch Logs"),
)


def offer(spec: Spec, facts: Facts) -> Offer:
    """Return the machines for *spec*. Those of an existing queue are not known, and Fargate has other prices."""
    options: AwsOptions = facts.options
    if options.queue:
        return Offer((), standing=STANDING, why=f"the queue {options.queue} chooses the machines")
    if options.capacity_block:
        why = f"the Capacity Block {options.reservation} was paid in advance"
        return Offer((), standing=STANDING, why=why)
    if options.fargate:
        return Offer((), standing=STANDING, why="prices of Fargate are not in the catalogue")
    if options.instance_types:
        return _offer(tuple(_named(name, options) for name in room.types(spec, options)), ())
    found, wanted = candidates(spec, options), request(spec, options)
    if room.one_type(spec, options):
        found = found[:1]
    runs = runs_on(wanted, bool(options.ami))
    return _offer(found, other_machines(wanted, ec2_catalogue(), found, usable_gib, runs))


def _offer(found: tuple[ChosenMachine, ...], others: tuple[ChosenMachine, ...]) -> Offer:
    region = next((one.region for one in found if one.region), "an unknown region")
    prices = f"on demand in {region}, {ec2_catalogue().version}"
    why = "" if found else "no machine of the catalogue is large enough"
    return Offer(found, others, STANDING, prices, why)


def _named(name: str, options: AwsOptions) -> ChosenMachine:
    """Return an instance type that the profile names; a family such as `c6i` has no price."""
    machine = known(name)
    if machine is None:
        return ChosenMachine(unknown_machine(name), None, None, "instance_types names it")
    usd, region = machine_price(machine, ec2_catalogue(), options.region)
    return ChosenMachine(machine, usd, region, "instance_types names it")
