"""What is wrong with queues and machines: the library's schema lets it through, and creating a cluster does not.

Each rule is one of the service, or of the validators of aws-parallelcluster 3.16.1, which ask EC2 and come after
minutes: https://github.com/aws/aws-parallelcluster/blob/v3.16.1/cli/src/pcluster/validators/cluster_validators.py
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from runspec_jobs.provider import Problem, Spec, did_you_mean
from runspec_slurm.parallelcluster.infrastructure import queues
from runspec_slurm.parallelcluster.naming import at
from runspec_slurm.parallelcluster.options import ParallelClusterOptions, Queue
from runspec_slurm.parallelcluster.resources import KNOWN

# https://docs.aws.amazon.com/parallelcluster/latest/ug/Scheduling-v3.html
QUEUE = re.compile(r"[a-z][a-z0-9-]{0,24}")
MOST_QUEUES = 50
# Drivers of the AMIs since 3.16 know GPUs from Turing on: `InstanceTypeBaseAMICompatibleValidator`.
OLD_GPUS = ("g2", "g3", "g3s", "p2", "p3", "p3dn")
# https://docs.aws.amazon.com/parallelcluster/latest/ug/slurm-configuration-settings-v3.html
OF_SLURM_CONF = frozenset(
    "epilog grestypes launchparameters prolog reconfigflags resumefailprogram resumeprogram resumetimeout "
    "slurmctldhost slurmctldlogfile slurmctldparameters slurmdlogfile slurmuser suspendexcnodes suspendprogram "
    "suspendtime taskplugin treewidth".split()
)
OF_QUEUES = frozenset("nodes oversubscribe partitionname resumetimeout state suspendtime".split())


class Wrong(NamedTuple):
    """What is wrong, which setting says it, and the way out."""

    key: str
    what: str
    hint: str


def problems(spec: Spec, options: ParallelClusterOptions) -> Iterator[Problem]:
    if len(options.queues) > MOST_QUEUES:
        what = f"{len(options.queues)} queues, and ParallelCluster takes {MOST_QUEUES}"
        yield Problem(at(spec, "queues"), what, "put machines alike into one queue")
    for name, queue in queues.queues(spec, options).items():
        own = ("queues", name) if options.queues else ()
        for wrong in _queue(name, queue, options):
            where = at(spec, *own, wrong.key) if wrong.key else at(spec, *own)
            yield Problem(where, f"queue '{name}': {wrong.what}", wrong.hint)
    for key in options.slurm_settings:
        if key.lower() in OF_SLURM_CONF:
            what = f"'{key}' of slurm.conf is ParallelCluster's own"
            yield Problem(at(spec, "slurm_settings"), what, "take it away")


def _queue(name: str, queue: Queue, options: ParallelClusterOptions) -> Iterator[Wrong]:
    if not QUEUE.fullmatch(name) or name == "default":
        hint = "use a-z, 0-9 and '-', begin with a letter, 25 at most, and not 'default'"
        yield Wrong("", "ParallelCluster takes no such name", hint)
    if queue.min_count > queue.max_count:
        what = f"min_count is {queue.min_count}, above max_count, which is {queue.max_count}"
        yield Wrong("min_count", what, "lower min_count, or raise max_count")
    yield from _bought(queue)
    yield from _types(queue, options)
    yield from _network(queue, options)
    for key in queue.settings:
        if key.lower() in OF_QUEUES:
            yield Wrong(
                "settings", f"'{key}' of a partition is ParallelCluster's own", "take it away"
            )


def _bought(queue: Queue) -> Iterator[Wrong]:
    """https://docs.aws.amazon.com/parallelcluster/latest/ug/launch-capacity-blocks.html"""
    reserved = queue.reservation or queue.reservation_group
    if queue.reservation and queue.reservation_group:
        what = "reservation and reservation_group are both given"
        yield Wrong("reservation_group", what, "take one of them away")
    if queue.reservation and len(queue.instance_types) > 1:
        # https://docs.aws.amazon.com/parallelcluster/latest/ug/Scheduling-v3.html (CapacityReservationId)
        what = "a capacity reservation is of one type of machine"
        yield Wrong("instance_types", what, "name one, or a reservation_group")
    if queue.spot_price is not None and queue.capacity != "spot":
        what = f"a spot price, and its machines are bought as {queue.capacity}"
        yield Wrong("spot_price", what, "set capacity: spot, or take spot_price away")
    if queue.capacity == "spot" and reserved:
        # https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/ec2-capacity-reservations.html
        what = "spot machines do not come from a capacity reservation"
        yield Wrong("reservation", what, "set capacity: on-demand, or take the reservation away")
    if queue.capacity == "capacity-block":
        if not queue.reservation:
            hint = "name it: reservation: cr-..."
            yield Wrong("capacity", "a capacity block is a reservation, and none is named", hint)
        if not 0 < queue.min_count == queue.max_count:
            what = "of a capacity block all machines are there always"
            yield Wrong("min_count", what, "set min_count and max_count to the size of the block")


def _types(queue: Queue, options: ParallelClusterOptions) -> Iterator[Wrong]:
    known = [KNOWN[name] for name in queue.instance_types if name in KNOWN]
    names = queue.instance_types
    for name in sorted({name for name in names if names.count(name) > 1}):
        yield Wrong("instance_types", f"{name} is named twice", "name it once")
    for what, values in (("vCPUs", {i.cpus for i in known}), ("GPUs", {i.gpus for i in known})):
        if len(values) > 1:
            # https://docs.aws.amazon.com/parallelcluster/latest/ug/slurm-multiple-instance-allocation-v3.html
            shown = ", ".join(str(value) for value in sorted(values))
            hint = "make a queue of each kind"
            yield Wrong("instance_types", f"machines of {shown} {what} in one queue", hint)
    lacking = [i.name for i in known if queue.efa and not i.efa]
    if lacking:
        # https://docs.aws.amazon.com/parallelcluster/latest/ug/efa-v3.html
        what = f"{lacking[0]} has no Elastic Fabric Adapter"
        yield Wrong("efa", what, "take efa away, or take machines that have one")
    if queue.gdr and not queue.efa:
        what = "gdr is of Elastic Fabric Adapters, and there are none"
        yield Wrong("gdr", what, "set efa: true, or take gdr away")
    old = [name for name in names if name.partition(".")[0] in OLD_GPUS]
    if old and not (queue.ami or options.custom_ami):
        what = f"{old[0]} has GPUs that drivers in ParallelCluster's own AMIs do not know any more"
        yield Wrong("instance_types", what, "set custom_ami: ami-... to one of your own")


def _network(queue: Queue, options: ParallelClusterOptions) -> Iterator[Wrong]:
    """https://docs.aws.amazon.com/parallelcluster/latest/ug/network-configuration-v3-multi-az.html"""
    subnets = queue.subnets or options.subnets
    if queue.placement_group and queue.capacity == "capacity-block":
        what = "machines of a capacity block are placed by it"
        yield Wrong("placement_group", what, "take placement_group away")
    if len(subnets) < 2:
        return
    near = [word for word in ("efa", "placement", "placement_group") if getattr(queue, word)]
    if near:
        what = f"{len(subnets)} subnets, and {near[0]} is of one zone"
        yield Wrong(near[0], what, "name one subnet, or take it away")
    new = [name for name, storage in options.storage.items() if not storage.file_system]
    if new:
        what = f"{len(subnets)} subnets, and the new file system '{new[0]}' is in one"
        yield Wrong("subnets", what, "name one subnet, or a file system that is there already")


def job(spec: Spec, options: ParallelClusterOptions) -> Iterator[Problem]:
    """What the job asks of its queue, where the queues are in order."""
    there: Mapping[str, Queue] = queues.queues(spec, options)
    if options.queue and options.queue not in there:
        hint = did_you_mean(options.queue, there) or f"there are: {', '.join(there)}"
        yield Problem(at(spec, "queue"), f"the cluster has no queue '{options.queue}'", hint)
        return
    sent = queues.of_job(spec, options)
    if not sent:
        bought = spec.cluster.capacity.value
        what = f"no queue of the profile has machines for it, bought as {bought}"
        hint = f"there are: {', '.join(there)}; add one, or say which with queue: NAME"
        yield Problem(("cluster",), what, hint)
    for name in sent:
        most = there[name].max_count
        if spec.cluster.nodes.max > most:
            what = f"{spec.cluster.nodes.max} nodes, and the queue '{name}' has {most} at most"
            yield Problem(
                ("cluster", "nodes"), what, "raise max_count of the queue, or ask for less"
            )
        if not queues.fits(spec, there[name]):
            what = f"machines of the queue '{name}' are smaller than a node"
            yield Problem(("cluster",), what, "ask for less, or take another queue")
