"""Checks of queues and machines, for errors that the library's schema accepts, but the creation of a cluster does not.

Each rule is one of the service or of the validators of aws-parallelcluster 3.16.1, which call EC2 and run minutes
later: https://github.com/aws/aws-parallelcluster/blob/v3.16.1/cli/src/pcluster/validators/cluster_validators.py
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from runspec_agent.base.light_typing import NamedTuple
from runspec_jobs.provider import Problem, Spec, did_you_mean
from runspec_parallelcluster.decision import Decision
from runspec_parallelcluster.naming import at
from runspec_parallelcluster.options import ParallelClusterOptions, Queue
from runspec_parallelcluster.resources import NO_DRIVER, find_architecture, known

# https://docs.aws.amazon.com/parallelcluster/latest/ug/Scheduling-v3.html
QUEUE = re.compile(r"[a-z][a-z0-9-]{0,24}")
MOST_QUEUES = 50
# Families that the catalogue does not have any more, with GPUs of `NO_DRIVER`.
OLD_GPUS = ("g2", "g3", "g3s", "p2")
# https://docs.aws.amazon.com/parallelcluster/latest/ug/slurm-configuration-settings-v3.html
OF_SLURM_CONF = frozenset(
    "epilog grestypes launchparameters prolog reconfigflags resumefailprogram resumeprogram resumetimeout "
    "slurmctldhost slurmctldlogfile slurmctldparameters slurmdlogfile slurmuser suspendexcnodes suspendprogram "
    "suspendtime taskplugin treewidth".split()
)
OF_QUEUES = frozenset("nodes oversubscribe partitionname resumetimeout state suspendtime".split())


class QueueProblem(NamedTuple):
    """A problem of a queue: the setting, the message and the hint."""

    key: str
    what: str
    hint: str


def problems(decision: Decision, spec: Spec) -> Iterator[Problem]:
    options = decision.options
    if len(options.queues) > MOST_QUEUES:
        what = f"{len(options.queues)} queues, but ParallelCluster allows {MOST_QUEUES}"
        yield Problem(at(spec, "queues"), what, "put similar machines into one queue")
    for name, choice in decision.queues.items():
        path = ("queues", name) if options.queues else ()
        for problem in _queue(name, choice.queue, options):
            where = at(spec, *path, problem.key) if problem.key else at(spec, *path)
            yield Problem(where, f"queue '{name}': {problem.what}", problem.hint)
    for key in options.slurm_settings:
        if key.lower() in OF_SLURM_CONF:
            what = f"'{key}' of slurm.conf is set by ParallelCluster"
            yield Problem(at(spec, "slurm_settings"), what, "remove it")


def _queue(name: str, queue: Queue, options: ParallelClusterOptions) -> Iterator[QueueProblem]:
    if not QUEUE.fullmatch(name) or name == "default":
        hint = "use at most 25 of a-z, 0-9 and '-', begin with a letter, and do not use 'default'"
        yield QueueProblem("", "ParallelCluster does not allow this name", hint)
    if queue.min_count > queue.max_count:
        what = f"min_count is {queue.min_count}, which is more than max_count, {queue.max_count}"
        yield QueueProblem("min_count", what, "lower min_count, or raise max_count")
    yield from _bought(queue)
    yield from _types(queue, options)
    yield from _network(queue, options)
    for key in queue.settings:
        if key.lower() in OF_QUEUES:
            yield QueueProblem(
                "settings", f"'{key}' of a partition is set by ParallelCluster", "remove it"
            )


def _bought(queue: Queue) -> Iterator[QueueProblem]:
    """Yield problems of how machines are bought.

    https://docs.aws.amazon.com/parallelcluster/latest/ug/launch-capacity-blocks.html
    """
    reserved = queue.reservation or queue.reservation_group
    if queue.reservation and queue.reservation_group:
        what = "reservation and reservation_group are both set"
        yield QueueProblem("reservation_group", what, "remove one of them")
    if queue.reservation and len(queue.instance_types) > 1:
        # https://docs.aws.amazon.com/parallelcluster/latest/ug/Scheduling-v3.html (CapacityReservationId)
        what = "a capacity reservation has one instance type"
        yield QueueProblem(
            "instance_types", what, "name one type, or set reservation_group instead"
        )
    if queue.spot_price is not None and queue.capacity != "spot":
        what = f"spot_price is set, but the capacity of the queue is {queue.capacity}"
        yield QueueProblem("spot_price", what, "set capacity: spot, or remove spot_price")
    if queue.capacity == "spot" and reserved:
        # https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/ec2-capacity-reservations.html
        what = "spot machines cannot use a capacity reservation"
        yield QueueProblem(
            "reservation", what, "set capacity: on-demand, or remove the reservation"
        )
    if queue.capacity == "capacity-block":
        if not queue.reservation:
            hint = "set reservation: cr-..."
            yield QueueProblem(
                "capacity", "a capacity block needs a reservation, and none is set", hint
            )
        if not 0 < queue.min_count == queue.max_count:
            what = "all machines of a capacity block always run"
            yield QueueProblem(
                "min_count", what, "set min_count and max_count to the size of the block"
            )


def _types(queue: Queue, options: ParallelClusterOptions) -> Iterator[QueueProblem]:
    names = queue.instance_types
    machines = [machine for name in names if (machine := known(name))]
    for name in sorted({name for name in names if names.count(name) > 1}):
        yield QueueProblem("instance_types", f"{name} is named twice", "name it once")
    kinds: Mapping[str, set[float]] = {
        "vCPUs": {m.cpus or 0 for m in machines},
        "GPUs": {m.gpus or 0 for m in machines},
    }
    for what, values in kinds.items():
        if len(values) > 1:
            # https://docs.aws.amazon.com/parallelcluster/latest/ug/slurm-multiple-instance-allocation-v3.html
            shown = ", ".join(f"{value:g}" for value in sorted(values))
            hint = "make a queue for each kind"
            yield QueueProblem("instance_types", f"machines with {shown} {what} in one queue", hint)
    head = find_architecture(options.head_node)
    if others := [m for m in machines if m.architecture not in (None, head)]:
        # `InstanceArchitectureCompatibilityValidator`
        what = f"{others[0].name} is {others[0].architecture}, but the head node {options.head_node} is {head}"
        hint = "use machines of one architecture, or set head_node to one of theirs"
        yield QueueProblem("instance_types", what, hint)
    lacking = [m.name for m in machines if queue.efa and m.fabric == 0]
    if lacking:
        # https://docs.aws.amazon.com/parallelcluster/latest/ug/efa-v3.html
        what = f"{lacking[0]} has no Elastic Fabric Adapter"
        yield QueueProblem("efa", what, "remove efa, or use machines that have one")
    if queue.gdr and not queue.efa:
        what = "gdr needs Elastic Fabric Adapters, but efa is not set"
        yield QueueProblem("gdr", what, "set efa: true, or remove gdr")
    old = [m.name for m in machines if m.gpu in NO_DRIVER]
    old += [name for name in names if name.partition(".")[0] in OLD_GPUS]
    if old and not (queue.ami or options.custom_ami):
        what = (
            f"{old[0]} has GPUs that the drivers in ParallelCluster's AMIs do not support any more"
        )
        yield QueueProblem("instance_types", what, "set custom_ami: ami-... to an AMI of your own")


def _network(queue: Queue, options: ParallelClusterOptions) -> Iterator[QueueProblem]:
    """Yield problems of subnets and placement.

    https://docs.aws.amazon.com/parallelcluster/latest/ug/network-configuration-v3-multi-az.html
    """
    subnets = queue.subnets or options.subnets
    if queue.placement_group and queue.capacity == "capacity-block":
        what = "a capacity block determines the placement of its machines"
        yield QueueProblem("placement_group", what, "remove placement_group")
    if len(subnets) < 2:
        return
    near = [word for word in ("efa", "placement", "placement_group") if getattr(queue, word)]
    if near:
        what = f"{len(subnets)} subnets, but {near[0]} works in one availability zone only"
        yield QueueProblem(near[0], what, f"name one subnet, or remove {near[0]}")
    new = [name for name, storage in options.storage.items() if not storage.file_system]
    if new:
        what = f"{len(subnets)} subnets, but the new file system '{new[0]}' is in one"
        yield QueueProblem("subnets", what, "name one subnet, or an existing file system")


def job(decision: Decision, spec: Spec) -> Iterator[Problem]:
    """Yield problems of the job in its queues."""
    queues, named = decision.queues, decision.options.queue
    if named and named not in queues:
        hint = did_you_mean(named, queues) or f"use one of {', '.join(queues)}"
        yield Problem(at(spec, "queue"), f"the cluster has no queue '{named}'", hint)
        return
    if not decision.job_queues:
        what = f"no queue of the profile has large enough machines with capacity {decision.capacity.value}"
        hint = f"add a queue, or set queue to one of {', '.join(queues)}"
        yield Problem(("cluster",), what, hint)
    for name, choice in decision.job_queues.items():
        most = choice.queue.max_count
        if decision.nodes > most:
            what = f"{decision.nodes} nodes, but the queue '{name}' has {most} at most"
            yield Problem(
                ("cluster", "nodes"), what, "raise max_count of the queue, or ask for fewer nodes"
            )
        if not choice.fits:
            what = f"the machines of the queue '{name}' are too small for a node"
            yield Problem(("cluster",), what, "ask for less, or use another queue")
