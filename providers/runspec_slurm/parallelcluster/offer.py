"""The machines that a job may get on ParallelCluster with their prices, and what its cluster costs in any case."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from runspec_jobs.provider import (
    KEPT_H,
    MONTH_H,
    NOT_READ,
    ChosenMachine,
    Facts,
    ListedPrices,
    Machine,
    MachineRequest,
    Offer,
    Spec,
    StandingCost,
    aws_price,
    chosen_machine,
    ec2_catalogue,
    listed_machine,
    other_machines,
    price_note,
    unknown_machine,
)
from runspec_slurm.parallelcluster.infrastructure import config, queues
from runspec_slurm.parallelcluster.options import ParallelClusterOptions, Queue, Storage
from runspec_slurm.parallelcluster.resources import known, runs_on, usable_gib

GONE = "until `runspec destroy --shared`"


def offer(spec: Spec, facts: Facts, listed: ListedPrices = NOT_READ) -> Offer:
    """Return the machines of the queues that the job is submitted to; those of a cluster of others are not known."""
    options: ParallelClusterOptions = facts.options
    if not options.manage:
        name = config.name(spec, options)
        theirs = StandingCost(f"the cluster {name}, which runspec neither makes nor deletes")
        return Offer((), standing=(theirs,), why=f"the queues of {name} choose the machines")
    there = queues.queues(spec, options)
    sent = {name: there[name] for name in queues.of_job(spec, options)}
    found = _unique(one for name, queue in sent.items() for one in _of(name, queue, spec, options))
    return Offer(
        found,
        _others(spec, options, sent, found),
        tuple(_standing(spec, options, there, found, listed)),
        price_note(ec2_catalogue(), options.region),
        "" if found else "no machine of the catalogue is large enough",
        _shares(found, sent, spec, options),
        _limits(sent, spec, options),
    )


def _shares(
    found: Iterable[ChosenMachine],
    sent: Mapping[str, Queue],
    spec: Spec,
    options: ParallelClusterOptions,
) -> Mapping[str, float]:
    """Return the fraction of each machine that a node requests, if tasks of the job may share a machine.

    Memory counts if the spec requests some: Slurm places other tasks by their CPUs and GPUs.
    """
    wanted = queues.request(spec, options, next(iter(sent.values())))
    wanted = wanted if spec.cluster.memory else wanted._replace(memory_gib=0)
    if wanted.together == 1:
        return {}
    return {one.machine.name: _share(one.machine, wanted) for one in found if one.machine.cpus}


def _share(machine: Machine, wanted: MachineRequest) -> float:
    """Return the fraction of the resource of which *wanted* requests most of *machine*."""
    parts = [wanted.cpus / (machine.cpus or math.inf), wanted.gpus / (machine.gpus or math.inf)]
    parts.append(wanted.memory_gib / max(usable_gib(machine), wanted.memory_gib or 1))
    return min(1.0, max(parts))


def _limits(
    sent: Mapping[str, Queue], spec: Spec, options: ParallelClusterOptions
) -> Mapping[str, int]:
    """Return how many of each machine the queues of the job have at most."""
    found: Counter[str] = Counter()
    for name, queue in sent.items():
        for one in {one.machine.name for one in _of(name, queue, spec, options)}:
            found[one] += queue.max_count
    return found


def _of(
    name: str, queue: Queue, spec: Spec, options: ParallelClusterOptions
) -> tuple[ChosenMachine, ...]:
    """Return the machines of a queue."""
    if queues.chosen_by_rule(options, name):
        return queues.candidates(spec, options, queue)
    why = f"the queue '{name}' has it" if options.queues else "instance_types names it"
    return tuple(_named(one, why, options) for one in queue.instance_types)


def _named(name: str, why: str, options: ParallelClusterOptions) -> ChosenMachine:
    machine = known(name)
    if machine is None:
        return ChosenMachine(unknown_machine(name), None, None, why)
    return chosen_machine(machine, ec2_catalogue(), options.region, why)


def _unique(found: Iterable[ChosenMachine]) -> tuple[ChosenMachine, ...]:
    """Return the machines without those that an earlier queue has as well."""
    return tuple({one.machine.name: one for one in reversed(tuple(found))}.values())[::-1]


def _others(
    spec: Spec,
    options: ParallelClusterOptions,
    sent: dict[str, Queue],
    found: Sequence[ChosenMachine],
) -> tuple[ChosenMachine, ...]:
    """Return the cheapest machines of other families, unless the profile names the machines."""
    own = [queue for name, queue in sent.items() if queues.chosen_by_rule(options, name)]
    if not own:
        return ()
    wanted = queues.request(spec, options, own[0])
    runs = runs_on(wanted, bool(own[0].ami or options.custom_ami))
    return other_machines(wanted, ec2_catalogue(), found, usable_gib, runs)


def _standing(
    spec: Spec,
    options: ParallelClusterOptions,
    there: Mapping[str, Queue],
    found: Sequence[ChosenMachine],
    listed: ListedPrices,
) -> Iterator[StandingCost]:
    """Yield what costs money while no job runs. ParallelCluster makes no NAT gateway in subnets that exist.

    https://docs.aws.amazon.com/parallelcluster/latest/ug/what-is-aws-parallelcluster.html (pricing) and
    https://docs.aws.amazon.com/parallelcluster/latest/ug/aws-services-v3.html
    """
    head = _named(options.head_node, "", options)
    yield _kept(f"the head node, {options.head_node}, {GONE}", 1, (head,), listed)
    disk, address = (aws_price(item, options.region, listed) for item in ("ebs gp3", "public ipv4"))
    what = f"the disk of the head node, as large as its AMI, {GONE} ({disk.note})"
    yield StandingCost(what, usd_gb_month=disk.usd, shared=True)
    what = f"the public address of the head node, if its subnet gives one ({address.note})"
    yield StandingCost(what, address.usd, shared=True, hours=0)
    for name, queue in there.items():
        if queue.min_count:
            what = f"{queue.min_count} x the machines of the queue '{name}', {GONE}"
            yield _kept(what, queue.min_count, _of(name, queue, spec, options), listed)
    for name, storage in options.storage.items():
        if storage.file_system is None:
            yield _file_system(name, storage, options.region, listed)
    nat, data = (aws_price(item, options.region, listed) for item in ("nat gateway", "nat data"))
    what = f"a NAT gateway, if the subnets have one, besides {data.usd_shown} ({nat.note})"
    yield StandingCost(what, nat.usd, hours=0)
    what = f"the cluster's zone in Route 53, and its dashboard and logs in CloudWatch, {GONE}"
    yield StandingCost(what, shared=True)
    what = f"each machine for {options.idle_minutes} minutes after its last job"
    yield StandingCost(what, _dearest(listed_machine(one, listed) for one in found))


def _kept(
    what: str, count: int, chosen: Sequence[ChosenMachine], listed: ListedPrices
) -> StandingCost:
    """Return the cost of *count* of the dearest machine of *chosen*, which the cluster has as long as it exists."""
    found = [listed_machine(one, listed) for one in chosen]
    usd, near = _dearest(found), [one.near_usd if one.usd is None else one.usd for one in found]
    known = [price for price in near if price is not None]
    return StandingCost(
        what,
        None if usd is None else usd * count,
        shared=True,
        hours=KEPT_H,
        near_usd_hour=max(known) * count if known and len(known) == len(near) else None,
        near_region=next((one.near_region for one in found if one.near_region), ""),
    )


def _dearest(found: Iterable[ChosenMachine]) -> float | None:
    """Return the highest price of an hour; None if a price is unknown."""
    prices = [one.usd for one in found]
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
