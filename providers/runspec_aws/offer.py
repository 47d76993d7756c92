"""The machines that a job may get on AWS Batch, with their prices."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

from runspec_aws.infrastructure import own_queue
from runspec_aws.infrastructure.compute_environments import kinds
from runspec_aws.options import AwsOptions
from runspec_aws.resources import fargate, named_types, room
from runspec_aws.resources.instance_types import known, runs_on, usable_gib, usable_mib
from runspec_aws.resources.job_kind import attempts
from runspec_aws.resources.request import ResourceRequest, candidates, needs, request
from runspec_jobs.provider import (
    NOT_READ,
    Capacity,
    ChosenMachine,
    Facts,
    ListedPrices,
    Machine,
    Offer,
    Spec,
    StandingCost,
    aws_price,
    chosen_machine,
    ec2_catalogue,
    other_machines,
    price_note,
    unknown_machine,
)


def offer(spec: Spec, facts: Facts, listed: ListedPrices = NOT_READ) -> Offer:
    """Return the machines for *spec*; those of an existing queue are not known, except the sizes of Fargate."""
    options: AwsOptions = facts.options
    standing = tuple(_standing(options, listed))
    if options.fargate:
        return fargate.offer(spec, options, standing, listed)
    if options.queue:
        return _of_queue(spec, facts, standing)
    if options.capacity_block:
        why = f"the Capacity Block {options.reservation} was paid in advance"
        return Offer((), standing=standing, why=why)
    if options.instance_types:
        names = room.types(spec, options)
        named = dict.fromkeys(one for name in names for one in _named(name, spec, options))
        return _offer(tuple(named), (), standing, spec, options)
    found, wanted = candidates(spec, options), request(spec, options)
    if room.one_type(spec, options):
        found = found[:1]
    runs = runs_on(wanted, bool(options.ami), options.offered)
    others = other_machines(wanted, ec2_catalogue(), found, usable_gib, runs)
    return _offer(found, others, standing, spec, options)


def _of_queue(spec: Spec, facts: Facts, standing: tuple[StandingCost, ...]) -> Offer:
    """Return the machines that the environments of a queue of the profile name; none if they are not known."""
    options: AwsOptions = facts.options
    why = f"the queue {options.queue} has it"
    region = options.region
    found = tuple(
        chosen_machine(machine, ec2_catalogue(), region, why)
        for machine in own_queue.machines(spec, facts)
    )
    if not found:
        return Offer((), standing=standing, why=f"the queue {options.queue} chooses the machines")
    return _offer(found, (), standing, spec, options)


def shares(
    found: tuple[ChosenMachine, ...], spec: Spec, options: AwsOptions
) -> Mapping[str, float]:
    """Return the fraction of each machine that a node requests, if several nodes may share a machine.

    It is that of the resource of which the node requests most, because that limits how many nodes fit.
    """
    if request(spec, options).together == 1:
        return {}
    wanted = needs(spec, options)
    return {one.machine.name: _share(one.machine, wanted) for one in found}


def _share(machine: Machine, wanted: ResourceRequest) -> float:
    parts = [
        float(wanted.cpus) / (machine.cpus or math.inf),
        wanted.memory_mib / max(1, usable_mib(machine)) if machine.memory_gib else 0.0,
        wanted.gpus / (machine.gpus or math.inf),
    ]
    return min(1.0, max(parts)) if machine.cpus else 1.0


def _standing(options: AwsOptions, listed: ListedPrices) -> Iterator[StandingCost]:
    """Yield what costs money while no job runs. Batch itself is free, and so are empty environments.

    https://aws.amazon.com/batch/pricing/
    """
    s3, logs, put = (
        aws_price(item, options.region, listed)
        for item in ("s3 storage", "log storage", "log ingestion")
    )
    yield StandingCost(f"what is kept in S3 ({s3.note})", usd_gb_month=s3.usd)
    what = f"what is kept in CloudWatch Logs, besides {put.usd_shown} to write it ({logs.note})"
    yield StandingCost(what, usd_gb_month=logs.usd)
    if not (options.queue or (options.fargate and options.public_ip)):
        nat, data = (
            aws_price(item, options.region, listed) for item in ("nat gateway", "nat data")
        )
        what = f"a NAT gateway, if the subnets have one, besides {data.usd_shown} ({nat.note})"
        yield StandingCost(what, nat.usd, hours=0)


def _offer(
    found: tuple[ChosenMachine, ...],
    others: tuple[ChosenMachine, ...],
    standing: tuple[StandingCost, ...],
    spec: Spec,
    options: AwsOptions,
) -> Offer:
    spot = spec.cluster.capacity is not Capacity.ON_DEMAND or spec.cluster.nodes.elastic
    most_attempts = attempts(spec) if spot else min(attempts(spec), spec.retry.attempts)
    return Offer(
        found,
        others,
        standing,
        price_note(ec2_catalogue(), options.region),
        "" if found else "no machine of the catalogue is large enough",
        shares(found, spec, options),
        {} if options.queue else limits(found, spec, options),
        most_attempts,
        "" if spot or most_attempts == attempts(spec) else "more if a machine fails",
    )


def limits(found: tuple[ChosenMachine, ...], spec: Spec, options: AwsOptions) -> Mapping[str, int]:
    """Return how many of each machine run at once in the environments of a job, each of which may have one too many.

    https://docs.aws.amazon.com/batch/latest/APIReference/API_ComputeResource.html (maxvCpus)
    """
    environments, most = len(kinds(spec, options)), room.max_vcpus(spec, options)
    return {
        one.machine.name: environments * math.ceil(most / one.machine.cpus)
        for one in found
        if one.machine.cpus
    }


def _named(name: str, spec: Spec, options: AwsOptions) -> tuple[ChosenMachine, ...]:
    """Return a type that the profile names, or the machines of a family that hold a node; others have no price."""
    why = "instance_types names it"
    machine = known(name)
    found = (machine,) if machine else named_types.holding(name, spec, options)
    region, catalogue = options.region, ec2_catalogue()
    if not found:
        return (ChosenMachine(unknown_machine(name), None, None, why),)
    return tuple(chosen_machine(m, catalogue, region, why) for m in found)
