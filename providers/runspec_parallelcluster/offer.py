"""The machines that a job may get on ParallelCluster with their prices, and what its cluster costs in any case."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from runspec_ec2 import aws_price, ec2_catalogue
from runspec_jobs.provider.machines import (
    KEPT_H,
    MONTH_H,
    NOT_READ,
    ChosenMachine,
    ListedPrices,
    Machine,
    MachineRequest,
    Offer,
    StandingCost,
    chosen_machine,
    listed_machine,
    other_machines,
    price_note,
    unknown_machine,
)
from runspec_parallelcluster import infrastructure
from runspec_parallelcluster.decision import Decision, QueueChoice, has_own_ami
from runspec_parallelcluster.options import ParallelClusterOptions, Storage
from runspec_parallelcluster.resources import known, runs_on, usable_gib

GONE = "until `runspec destroy --shared`"
NO_QUEUE = "no queue of the cluster takes the job"  # `check` refuses such a job
NO_MACHINE = "no machine of the catalogue is large enough"


def offer(decision: Decision, listed: ListedPrices = NOT_READ) -> Offer:
    """Return the machines of the queues that the job is submitted to; those of a cluster of others are not known."""
    options = decision.options
    if not options.manage:
        name = infrastructure.name(decision)
        theirs = StandingCost(f"the cluster {name}, which runspec neither makes nor deletes")
        return Offer((), standing=(theirs,), why=f"the queues of {name} choose the machines")
    queues = decision.job_queues
    machines = _unique(m for name, queue in queues.items() for m in _of(name, queue, options))
    return Offer(
        machines,
        _others(queues.values(), options, machines),
        tuple(_standing(decision, machines, listed)),
        price_note(ec2_catalogue(), options.region),
        "" if machines else NO_MACHINE if queues else NO_QUEUE,
        _shares(decision, machines),
        _limits(decision),
    )


def _shares(decision: Decision, machines: Sequence[ChosenMachine]) -> Mapping[str, float]:
    """Return the fraction of each machine that a node requests, if tasks of the job may share a machine.

    Memory counts if the spec requests some: Slurm places other tasks by their CPUs and GPUs.
    """
    if not machines:
        return {}
    # All queues of a job are asked for the same.
    request = next(iter(decision.job_queues.values())).request
    request = request if decision.asks_memory else request._replace(memory_gib=0)
    if request.together == 1:
        return {}
    return {m.machine.name: _share(m.machine, request) for m in machines if m.machine.cpus}


def _share(machine: Machine, request: MachineRequest) -> float:
    """Return the fraction of the resource of which *request* takes most of *machine*."""
    parts = [request.cpus / (machine.cpus or math.inf), request.gpus / (machine.gpus or math.inf)]
    parts.append(request.memory_gib / max(usable_gib(machine), request.memory_gib or 1))
    return min(1.0, max(parts))


def _limits(decision: Decision) -> Mapping[str, int]:
    """Return how many of each machine the queues of the job have at most."""
    limits: Counter[str] = Counter()
    for name, choice in decision.job_queues.items():
        for machine in {m.machine.name for m in _of(name, choice, decision.options)}:
            limits[machine] += choice.queue.max_count
    return limits


def _of(
    name: str, choice: QueueChoice, options: ParallelClusterOptions
) -> tuple[ChosenMachine, ...]:
    """Return the machines of a queue."""
    if choice.is_by_rule:
        return choice.candidates
    why = f"the queue '{name}' has it" if options.queues else "instance_types names it"
    return tuple(_named(machine, why, options) for machine in choice.queue.instance_types)


def _named(name: str, why: str, options: ParallelClusterOptions) -> ChosenMachine:
    machine = known(name)
    if machine is None:
        return ChosenMachine(unknown_machine(name), None, None, why)
    return chosen_machine(machine, ec2_catalogue(), options.region, why)


def _unique(machines: Iterable[ChosenMachine]) -> tuple[ChosenMachine, ...]:
    """Return the machines without those that an earlier queue has as well."""
    return tuple({m.machine.name: m for m in reversed(tuple(machines))}.values())[::-1]


def _others(
    choices: Iterable[QueueChoice],
    options: ParallelClusterOptions,
    machines: Sequence[ChosenMachine],
) -> tuple[ChosenMachine, ...]:
    """Return the cheapest machines of other families, unless the profile names the machines."""
    choice = next((choice for choice in choices if choice.is_by_rule), None)
    if choice is None:
        return ()
    runs = runs_on(choice.request, has_own_ami(choice.queue, options))
    return other_machines(choice.request, ec2_catalogue(), machines, usable_gib, runs)


def _standing(
    decision: Decision, machines: Sequence[ChosenMachine], listed: ListedPrices
) -> Iterator[StandingCost]:
    """Yield what costs money while no job runs. ParallelCluster makes no NAT gateway in subnets that exist.

    https://docs.aws.amazon.com/parallelcluster/latest/ug/what-is-aws-parallelcluster.html (pricing) and
    https://docs.aws.amazon.com/parallelcluster/latest/ug/aws-services-v3.html
    """
    options = decision.options
    head = _named(options.head_node, "", options)
    yield _kept(f"the head node, {options.head_node}, {GONE}", 1, (head,), listed)
    disk, address = (aws_price(item, options.region, listed) for item in ("ebs gp3", "public ipv4"))
    what = f"the disk of the head node, as large as its AMI, {GONE} ({disk.note})"
    yield StandingCost(what, usd_gb_month=disk.usd, shared=True)
    what = f"the public address of the head node, if its subnet gives one ({address.note})"
    yield StandingCost(what, address.usd, shared=True, hours=0)
    for name, choice in decision.queues.items():
        # Such machines run from the making of the cluster on, also without a job.
        if count := choice.queue.min_count:
            what = f"{count} x the machines of the queue '{name}', {GONE}"
            yield _kept(what, count, _of(name, choice, options), listed)
    for name, storage in options.storage.items():
        # One that exists already costs its owner the same without this job.
        if storage.file_system is None:
            yield _file_system(name, storage, options.region, listed)
    nat, data = (aws_price(item, options.region, listed) for item in ("nat gateway", "nat data"))
    what = f"a NAT gateway, if the subnets have one, besides {data.usd_shown} ({nat.note})"
    yield StandingCost(what, nat.usd, hours=0)
    what = f"the cluster's zone in Route 53, and its dashboard and logs in CloudWatch, {GONE}"
    yield StandingCost(what, shared=True)
    what = f"each machine for {options.idle_minutes} minutes after its last job"
    yield StandingCost(what, _dearest(listed_machine(machine, listed) for machine in machines))


def _kept(
    what: str, count: int, chosen: Sequence[ChosenMachine], listed: ListedPrices
) -> StandingCost:
    """Return the cost of *count* of the dearest machine of *chosen*, which the cluster has as long as it exists."""
    offered = [listed_machine(machine, listed) for machine in chosen]
    usd, near = (
        _dearest(offered),
        [machine.near_usd if machine.usd is None else machine.usd for machine in offered],
    )
    known = [price for price in near if price is not None]
    return StandingCost(
        what,
        None if usd is None else usd * count,
        shared=True,
        hours=KEPT_H,
        near_usd_hour=max(known) * count if known and len(known) == len(near) else None,
        near_region=next((machine.near_region for machine in offered if machine.near_region), ""),
    )


def _dearest(offered: Iterable[ChosenMachine]) -> float | None:
    """Return the highest price of an hour; None if a price is unknown."""
    prices = [machine.usd for machine in offered]
    known = [usd for usd in prices if usd is not None]
    return max(known) if known and len(known) == len(prices) else None


def _file_system(
    name: str, storage: Storage, region: str | None, listed: ListedPrices
) -> StandingCost:
    """Return the cost of a new file system, whose price depends on its size, and on its throughput if it has one."""
    persistent = storage.kind == "persistent"
    price = aws_price(
        f"lustre persistent {storage.throughput}" if persistent else "lustre scratch",
        region,
        listed,
    )
    until = "also after the cluster is deleted" if storage.keep else GONE
    size = f"FSx for Lustre with {storage.size_gib:,} GiB"
    what = f"the file system '{name}', {size}, {until} ({price.note})"
    usd = None if price.usd is None else price.usd * storage.size_gib / MONTH_H
    return StandingCost(what, usd, shared=not storage.keep, hours=KEPT_H)
