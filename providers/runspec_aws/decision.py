"""What follows from a spec and the settings for a job on AWS Batch, decided once and then only read.

`check`, `plan` and `offer` each make one `Decision`, and hand it on to everything that needs a part of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from runspec_aws import resources
from runspec_aws.options import AwsOptions
from runspec_aws.resources import (
    MIB,
    NodeRequest,
    chosen,
    find_machines,
    get_chip_access,
    known,
    usable_mib,
)
from runspec_ec2 import VOLUMES
from runspec_jobs.provider import Capacity, Launch, Mount, Spec
from runspec_jobs.provider.commands import tasks
from runspec_jobs.provider.machines import ChosenMachine, Machine, MachineRequest

MAX_ATTEMPTS = 10  # https://docs.aws.amazon.com/batch/latest/APIReference/API_RetryStrategy.html
MAX_VCPUS = 256  # of a profile without max_vcpus, unless a job needs more
MEMORY_PER_CPU_MIB = 2048 - 128  # fits the smallest machines, less the memory of the system
GIB = 1 << 30
LEAST_DISK_GIB = 30  # EC2 refuses a volume smaller than the snapshot of the AMI
# capacity: the kinds of compute environment, in the order in which the queue tries them: on-demand if there is no
# spot
# https://docs.aws.amazon.com/batch/latest/userguide/job_queues.html
KINDS: Mapping[Capacity, tuple[str, ...]] = {
    Capacity.ON_DEMAND: ("EC2",),
    Capacity.SPOT: ("SPOT",),
    Capacity.SPOT_THEN_ON_DEMAND: ("SPOT", "EC2"),
}
ON_FARGATE = {"EC2": "FARGATE", "SPOT": "FARGATE_SPOT"}


class JobKind(StrEnum):
    """The kinds: one job; an array, whose children are tasks or nodes; or a gang of nodes (multi-node parallel)."""

    SINGLE = "single"
    ARRAY = "array"
    NODES = "nodes"


@dataclass(frozen=True)
class JobShape:
    """How the nodes of all tasks are one job. *nodes* and *least_nodes* are those of one task.

    *alone* says that each node has a machine of its own.
    """

    kind: JobKind
    nodes: int
    least_nodes: int
    tasks: int
    alone: bool

    @property
    def children(self) -> int:
        """The number of children of an array."""
        return self.nodes * self.tasks

    @property
    def elastic(self) -> bool:
        return self.nodes != self.least_nodes

    @property
    def is_gang(self) -> bool:
        return self.kind is JobKind.NODES

    @property
    def fills_machines(self) -> bool:
        """Whether each node must request so much that no second one fits on its machine.

        Single-container jobs share their machine's network: two nodes on one machine would have the same address,
        and a launcher could not tell them apart. Nodes of a multi-node parallel job always have separate machines.

        https://docs.aws.amazon.com/batch/latest/userguide/multi-node-parallel-jobs.html
        """
        return self.alone and not self.is_gang


@dataclass(frozen=True)
class Decision:
    """Where and how a job runs."""

    shape: JobShape
    environments: tuple[
        str, ...
    ]  # the kinds of the environments, in the order in which the queue tries them
    node: NodeRequest
    machine: MachineRequest  # what a node requests of its machine
    candidates: tuple[ChosenMachine, ...]  # by the rule; none if the profile names types or a queue
    machines: tuple[str, ...]  # the instance types of the profile, or else of the candidates
    one_type: bool  # whether all nodes must have the same instance type, which is the first
    fits: bool  # false if no machine and no size of Fargate is known to hold a node
    adapters: int  # Elastic Fabric Adapters of a node
    chips: int  # chips of its machine that are no GPUs, all of which the node gets
    task_vcpus: int  # what a task needs at least
    max_vcpus: int  # what each environment may run at once
    disk_gib: int | None  # None for the default of the service
    disk_tier: str | None
    placement: bool  # whether the machines must be close to each other
    attempts: int  # the attempts after preemptions included
    program_attempts: int  # the attempts of a program that fails
    actions: Mapping[str, str | None]  # what follows an attempt for a reason that the service sees
    on_spot: bool  # whether machines may be reclaimed
    shared: Mapping[str, bool]  # name of a shared file system: whether the job only reads it

    @property
    def instance_types(self) -> tuple[str, ...]:
        """The instance types of the compute environments that runspec makes."""
        return self.machines[:1] if self.one_type else self.machines

    @property
    def has_notices(self) -> bool:
        """Whether the machines may be EC2 spot machines, which get notices.

        Fargate has no metadata service for notices: it sends SIGTERM.

        https://docs.aws.amazon.com/AmazonECS/latest/developerguide/fargate-capacity-providers.html
        """
        return self.on_spot and not self.on_fargate and not self.shape.is_gang

    @property
    def on_fargate(self) -> bool:
        return self.environments[0].startswith("FARGATE")


def decide(spec: Spec, options: AwsOptions) -> Decision:
    """Return the decision for *spec*, also for one that `check` refuses."""
    cluster, shape = spec.cluster, decide_shape(spec)
    asked = MachineRequest(
        gpus=cluster.gpus or 0,
        gpu_type=cluster.gpu_model,
        gpu_gib=cluster.gpu_gib,
        fabric=options.efa,
        spot=cluster.capacity is not Capacity.ON_DEMAND,
        together=_count_together(shape, spec.max_parallel),
        region=options.region,
    )
    size = _fargate_size(spec) if options.fargate else None
    node = _fargate_node(spec, size) if options.fargate else _ec2_node(spec, shape, asked, options)
    request = _sized(asked, node.whole_cpus, node.memory_mib)
    is_given = options.fargate or options.instance_types or options.queue
    candidates = () if is_given else chosen(request, bool(options.ami), options.offered)
    names = () if options.fargate else options.instance_types or _names(candidates)
    one_type = shape.alone or cluster.placement is not None or options.efa
    machines = [m for name in (names[:1] if one_type else names) for m in find_machines(name)]
    return Decision(
        shape=shape,
        environments=_environments(cluster.capacity, options),
        node=node,
        machine=request,
        candidates=candidates,
        machines=names,
        one_type=one_type,
        fits=bool(size) if options.fargate else bool(names or options.queue),
        adapters=_count_adapters(names, options),
        chips=_count_chips(node, names),
        task_vcpus=_count_vcpus(shape, node, shape.least_nodes, machines),
        max_vcpus=_limit_vcpus(shape, node, machines, spec.max_parallel, options),
        disk_gib=_disk_gib(cluster.disk_bytes, cluster.disk_tier, options),
        disk_tier=cluster.disk_tier,
        placement=cluster.placement is not None,
        attempts=min(MAX_ATTEMPTS, spec.retry.attempts + spec.retry.lost_attempts - 1),
        program_attempts=spec.retry.attempts,
        actions={reason: spec.retry.action_of(reason) for reason in ("lost", "image")},
        on_spot=asked.spot or options.queue is not None,  # a queue may have any machines
        shared=_shared(spec.mounts),
    )


def decide_shape(spec: Spec) -> JobShape:
    """Return the shape of the job for *spec*, which depends on no settings.

    A multi-node parallel job runs on-demand, cannot be an array and replaces no node. So nodes on spot, nodes of a
    sweep, and nodes of elastic jobs are an array of single-node jobs that find each other through the store.

    https://docs.aws.amazon.com/batch/latest/userguide/mnp-ce.html
    """
    nodes, count = spec.cluster.nodes, len(tasks(spec))
    if nodes.max * count == 1:
        kind = JobKind.SINGLE
    elif count > 1 or nodes.elastic or spec.cluster.capacity is not Capacity.ON_DEMAND:
        kind = JobKind.ARRAY
    else:
        kind = JobKind.NODES
    is_launched = spec.launch is not Launch.NONE and nodes.max > 1
    # AWS Batch does not count chips that are no GPUs, so that two nodes would use the same ones.
    has_chips = get_chip_access(spec.cluster.gpu_model) is not None
    alone = kind is JobKind.NODES or is_launched or has_chips
    return JobShape(kind, nodes.max, nodes.min, count, alone)


def _environments(capacity: Capacity, options: AwsOptions) -> tuple[str, ...]:
    kinds = KINDS[capacity]
    return tuple(ON_FARGATE[kind] for kind in kinds) if options.fargate else kinds


def _count_together(shape: JobShape, max_parallel: int | None) -> int:
    """Return how many nodes may run on one machine, because they run at the same time and may share it."""
    if shape.alone or shape.kind is not JobKind.ARRAY:
        return 1
    return min(max_parallel * shape.nodes, shape.children) if max_parallel else shape.children


def _fargate_size(spec: Spec) -> tuple[str, int] | None:
    cpus = spec.cluster.cpus or (1 if spec.max_parallel else 0.25)  # the limit counts whole vCPUs
    return resources.choose_fargate_size(cpus, _mib(spec.cluster.memory))


def _fargate_node(spec: Spec, size: tuple[str, int] | None) -> NodeRequest:
    cpus, memory_mib = size or (str(spec.cluster.cpus or 1), _mib(spec.cluster.memory) or 1)
    return NodeRequest(cpus, memory_mib, 0)


def _ec2_node(
    spec: Spec, shape: JobShape, asked: MachineRequest, options: AwsOptions
) -> NodeRequest:
    """Return the resources of a node; unspecified ones are its share of the smallest machine."""
    cpus, memory_mib, gpus = spec.cluster.cpus or 1, _mib(spec.cluster.memory), asked.gpus
    if gpus and (machines := _with_gpus(_sized(asked, cpus, memory_mib or 1), options)):
        cores = min(int((m.cpus or 1) * gpus / (m.gpus or gpus)) for m in machines)
        share = min(int(usable_mib(m) * gpus / (m.gpus or gpus)) for m in machines)
        cpus, memory_mib = spec.cluster.cpus or max(1, cores), memory_mib or max(1, share)
    has_chips = get_chip_access(asked.gpu_type) is not None
    node = NodeRequest(str(cpus), memory_mib or MEMORY_PER_CPU_MIB * cpus, gpus, has_chips)
    return _filling(node, asked, options) if shape.fills_machines else node


def _with_gpus(asked: MachineRequest, options: AwsOptions) -> Sequence[Machine]:
    """Return the machines that have the GPUs of a node: of the profile those that are known, or the best one."""
    if not options.instance_types:
        return _first_choice(asked, options)
    return [m for m in map(known, options.instance_types) if m and (m.gpus or 0) >= asked.gpus]


def _filling(node: NodeRequest, asked: MachineRequest, options: AwsOptions) -> NodeRequest:
    """Return a request for more than half of the machine's cores, so that no two nodes fit on it.

    The machines of a queue of the profile are not known here: `own_queue` tells what their nodes must request.
    """
    if options.instance_types:
        machine = known(options.instance_types[0])
    else:
        asked = _sized(asked, node.whole_cpus, node.memory_mib)
        machine = None if options.queue else next(iter(_first_choice(asked, options)), None)
    half = (machine.cpus or 0) // 2 + 1 if machine else 1
    return node._replace(cpus=str(max(node.whole_cpus, half)))


def _first_choice(asked: MachineRequest, options: AwsOptions) -> list[Machine]:
    """Return the first instance type that the rule chooses, in a list, which is empty if there is none."""
    return [c.machine for c in chosen(asked, bool(options.ami), options.offered)[:1]]


def _sized(asked: MachineRequest, cpus: int, memory_mib: int) -> MachineRequest:
    return asked._replace(cpus=cpus, memory_gib=memory_mib / 1024)


def _mib(count: int | None) -> int:
    return -(-count // MIB) if count else 0


def _names(candidates: tuple[ChosenMachine, ...]) -> tuple[str, ...]:
    return tuple(candidate.machine.name for candidate in candidates)


def _count_adapters(names: Sequence[str], options: AwsOptions) -> int:
    """Return the number of Elastic Fabric Adapters of a node; 1 for a type of which it is unknown."""
    if options.fargate or not options.efa:
        return 0
    machine = known(names[0]) if names else None
    return 1 if machine is None or machine.fabric is None else machine.fabric


def _count_chips(node: NodeRequest, names: Sequence[str]) -> int:
    """Return the chips of the first of the machines, or those that are asked for where it is unknown."""
    machine = known(names[0]) if names else None
    return int((machine and machine.gpus) or node.gpus) if node.chips else 0


def _count_vcpus(
    shape: JobShape, node: NodeRequest, nodes: int, machines: Sequence[Machine]
) -> int:
    """Return the vCPUs of the machines that *nodes* nodes of one task take, if those that suit worst start.

    `maxvCpus` counts machines and not nodes. A node on a machine of unknown size counts as the vCPUs that it
    requests. AWS Batch may start one machine more than maxvCpus allows, so that a task of one node needs no more than
    it requests.
    """
    least = nodes * node.whole_cpus
    if nodes == 1 and not shape.alone:
        return least
    return max([least, *(node.vcpus_of(m, nodes, alone=shape.alone) for m in machines)])


def _limit_vcpus(
    shape: JobShape,
    node: NodeRequest,
    machines: Sequence[Machine],
    max_parallel: int | None,
    options: AwsOptions,
) -> int:
    """Return maxvCpus, which also limits the tasks that run at once; Batch may exceed it by one machine."""
    task = _count_vcpus(shape, node, shape.nodes, machines)
    limit = options.max_vcpus or max(MAX_VCPUS, task)
    if not max_parallel:
        return limit
    each = task if shape.alone else shape.nodes * node.whole_cpus
    return min(limit, max(task, max_parallel * each))


def _disk_gib(disk: int | None, tier: str | None, options: AwsOptions) -> int | None:
    least = resources.FARGATE_LEAST_GB if options.fargate else LEAST_DISK_GIB
    if not (disk or tier):
        return None
    return max(least, 0 if options.fargate else VOLUMES[tier].least_gib, -(-(disk or 0) // GIB))


def _shared(mounts: Sequence[Mount]) -> Mapping[str, bool]:
    read_only: dict[str, bool] = {}
    for mount in mounts:
        if mount.scheme == "shared":
            name = mount.place.partition("/")[0]
            read_only[name] = mount.read_only and read_only.get(name, True)
    return dict(sorted(read_only.items()))
