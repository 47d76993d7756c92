"""The machines that a job may get on AWS Batch, with their prices."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

from runspec_aws import resources
from runspec_aws.decision import Decision, decide
from runspec_aws.infrastructure import made_queue, own_queue
from runspec_aws.options import AwsOptions
from runspec_aws.resources import known, runs_on, usable_gib
from runspec_aws.store import run_secrets
from runspec_ec2 import aws_price, ec2_catalogue
from runspec_jobs.provider import Facts, Spec
from runspec_jobs.provider.machines import (
    KEPT_H,
    MONTH_H,
    NOT_READ,
    ChosenMachine,
    ListedPrices,
    Offer,
    StandingCost,
    chosen_machine,
    other_machines,
    price_note,
    unknown_machine,
)


def offer(spec: Spec, facts: Facts, listed: ListedPrices = NOT_READ) -> Offer:
    """Return the machines for *spec*; those of an existing queue are not known, except the sizes of Fargate."""
    options: AwsOptions = facts.options
    decision = decide(spec, options)
    secrets = len(run_secrets.carried(spec, options))
    standing = (*_standing(options, listed), *_secrets(secrets, options, listed))
    if options.fargate:
        return _offer_fargate(decision, options, standing, listed)
    if options.queue:
        return _offer_queue(decision, facts, standing)
    if options.capacity_block:
        why = f"the Capacity Block {options.reservation} was paid in advance"
        return Offer((), standing=standing, why=why)
    if options.instance_types:
        names = decision.instance_types
        named = dict.fromkeys(m for name in names for m in _named(name, decision, options))
        return _offer(tuple(named), (), standing, decision, options)
    machines = decision.candidates[:1] if decision.one_type else decision.candidates
    runs = runs_on(decision.machine, bool(options.ami), options.offered)
    others = other_machines(decision.machine, ec2_catalogue(), machines, usable_gib, runs)
    return _offer(machines, others, standing, decision, options)


def _offer_fargate(
    decision: Decision,
    options: AwsOptions,
    standing: tuple[StandingCost, ...],
    listed: ListedPrices,
) -> Offer:
    """Return the size of Fargate with its price on demand, which is the most that Fargate Spot costs."""
    node = decision.node
    if not decision.fits:
        return Offer((), standing=standing, why="no size of Fargate is large enough")
    disk_gb = decision.disk_gib or resources.FARGATE_FREE_GB
    usd, first = resources.price_fargate(
        float(node.cpus), node.memory_mib, disk_gb, options, listed
    )
    name = (
        f"Fargate with {node.cpus} vCPU{'s' * (node.cpus != '1')} and {node.memory_mib / 1024:g} GB"
    )
    why = "the smallest size that is large enough"
    why += ", with a public address" if options.public_ip else ""
    machine = ChosenMachine(unknown_machine(name), usd, first.region, why)
    prices = (
        f"on demand in {first.region}, {first.date}"
        if first.usd
        else f"unknown in {first.region}; a vCPU {first.note}"
    )
    # Each environment may use its maxvCpus at the same time.
    count = len(decision.environments) * max(1, int(decision.max_vcpus / float(node.cpus)))
    limits = {} if options.queue else {name: count}
    return Offer((machine,), (), standing, prices, limits=limits, attempts=decision.attempts)


def _offer_queue(decision: Decision, facts: Facts, standing: tuple[StandingCost, ...]) -> Offer:
    """Return the machines that the environments of a queue of the profile name; none if they are not known."""
    options: AwsOptions = facts.options
    why = f"the queue {options.queue} has it"
    machines = tuple(
        chosen_machine(machine, ec2_catalogue(), options.region, why)
        for machine in own_queue.machines(decision, facts)
    )
    if not machines:
        return Offer((), standing=standing, why=f"the queue {options.queue} chooses the machines")
    return _offer(machines, (), standing, decision, options)


def _standing(options: AwsOptions, listed: ListedPrices) -> Iterator[StandingCost]:
    """Yield what costs money while no job runs. Batch itself is free, and so are empty environments.

    https://aws.amazon.com/batch/pricing/
    """
    s3, logs, put = (
        aws_price(item, options.region, listed)
        for item in ("s3 storage", "log storage", "log ingestion")
    )
    yield StandingCost(f"what is kept in S3 ({s3.note})", usd_gb_month=s3.usd)
    message = f"what is kept in CloudWatch Logs, besides {put.usd_shown} to write it ({logs.note})"
    yield StandingCost(message, usd_gb_month=logs.usd)
    if not (options.queue or (options.fargate and options.public_ip)):
        nat, data = (
            aws_price(item, options.region, listed) for item in ("nat gateway", "nat data")
        )
        message = f"a NAT gateway, if the subnets have one, besides {data.usd_shown} ({nat.note})"
        yield StandingCost(message, nat.usd, hours=0)


def _secrets(count: int, options: AwsOptions, listed: ListedPrices) -> Iterator[StandingCost]:
    if count:
        price = aws_price("secret", options.region, listed)
        what = "a secret" if count == 1 else f"{count} secrets"
        hourly = None if price.usd is None else count * price.usd / MONTH_H
        message = f"{what} in Secrets Manager until the run is destroyed ({price.note})"
        yield StandingCost(message, hourly, hours=KEPT_H)


def _offer(
    machines: tuple[ChosenMachine, ...],
    others: tuple[ChosenMachine, ...],
    standing: tuple[StandingCost, ...],
    decision: Decision,
    options: AwsOptions,
) -> Offer:
    attempts = decision.attempts
    if not (decision.machine.spot or decision.shape.elastic):
        attempts = min(attempts, decision.program_attempts)
    return Offer(
        machines,
        others,
        standing,
        price_note(ec2_catalogue(), options.region),
        "" if machines else "no machine of the catalogue is large enough",
        _shares(machines, decision),
        {} if options.queue else _limits(machines, decision),
        attempts,
        "" if attempts == decision.attempts else "more if a machine fails",
    )


def _shares(machines: tuple[ChosenMachine, ...], decision: Decision) -> Mapping[str, float]:
    """Return the fraction of each machine that a node requests, if several nodes may share a machine."""
    if decision.machine.together == 1:
        return {}
    return {m.machine.name: decision.node.share_of(m.machine) for m in machines}


def _limits(machines: tuple[ChosenMachine, ...], decision: Decision) -> Mapping[str, int]:
    """Return how many of each machine run at once in the environments of a job, each of which may have one too many.

    https://docs.aws.amazon.com/batch/latest/APIReference/API_ComputeResource.html (maxvCpus)
    """
    return {
        m.machine.name: len(decision.environments) * math.ceil(decision.max_vcpus / m.machine.cpus)
        for m in machines
        if m.machine.cpus
    }


def _named(name: str, decision: Decision, options: AwsOptions) -> tuple[ChosenMachine, ...]:
    """Return a type that the profile names, or the machines of a family that hold a node; others have no price."""
    why = "instance_types names it"
    machine = known(name)
    # A name may be that of a family, such as c6i.
    machines = (machine,) if machine else made_queue.find_holding(name, decision.node)
    if not machines:
        return (ChosenMachine(unknown_machine(name), None, None, why),)
    return tuple(chosen_machine(m, ec2_catalogue(), options.region, why) for m in machines)
