"""The machines that the nodes of a task take, and the vCPUs of these: `maxvCpus` counts machines and not nodes."""

from __future__ import annotations

import math
from collections.abc import Iterator

from runspec_aws.options import AwsOptions
from runspec_aws.resources.instance_types import known, of_family, usable_mib
from runspec_aws.resources.job_kind import JobKind, shape
from runspec_aws.resources.request import ResourceRequest, alone, machines, needs
from runspec_jobs.provider import Machine, Path, Problem, Spec

NODES: Path = ("cluster", "nodes")
MAX_VCPUS = 256  # of a profile without max_vcpus, unless a job needs more


def one_type(spec: Spec, options: AwsOptions) -> bool:
    """Return whether all nodes must have one instance type: those of a gang, with placement, or with adapters."""
    return own_machines(spec) or spec.cluster.placement is not None or options.efa


def own_machines(spec: Spec) -> bool:
    """Return whether each node has a machine of its own."""
    return shape(spec) is JobKind.NODES or alone(spec)


def types(spec: Spec, options: AwsOptions) -> tuple[str, ...]:
    """Return the instance types of the compute environment that runspec makes for *spec*."""
    found = machines(spec, options)
    return found[:1] if one_type(spec, options) else found


def per_machine(machine: Machine, wanted: ResourceRequest) -> int:
    """Return how many nodes that request *wanted* fit on *machine*."""
    shares = [(machine.cpus or 0) / float(wanted.cpus), usable_mib(machine) / wanted.memory_mib]
    shares += [(machine.gpus or 0) / wanted.gpus] if wanted.gpus else []
    return int(min(shares))


def room(spec: Spec, options: AwsOptions, nodes: int) -> int:
    """Return the vCPUs of the machines that *nodes* nodes of one task take, if the machines that suit worst start.

    A node on a machine of unknown size counts as the vCPUs that it requests. AWS Batch may start one machine more
    than maxvCpus allows, so that a task of one node needs no more than it requests.
    """
    wanted = needs(spec, options)
    least = nodes * max(1, math.ceil(float(wanted.cpus)))
    if options.fargate or (nodes == 1 and not own_machines(spec)):
        return least
    found = [m for name in types(spec, options) for m in named(name)]
    return max([least, *(vcpus(m, wanted, nodes, own_machines(spec)) for m in found)])


def named(name: str) -> tuple[Machine, ...]:
    """Return the machines of a type, or of a family; none if they are unknown."""
    machine = known(name)
    return (machine,) if machine else of_family(name)


def vcpus(machine: Machine, wanted: ResourceRequest, nodes: int, own: bool) -> int:
    """Return the vCPUs of as many machines like *machine* as *nodes* nodes take; 0 if it does not hold a node."""
    held = per_machine(machine, wanted)
    if not held:
        return 0
    return math.ceil(nodes / (1 if own else held)) * math.ceil(machine.cpus or 0)


def max_vcpus(spec: Spec, options: AwsOptions) -> int:
    """Return maxvCpus, which also limits the tasks that run at once; Batch may exceed it by one machine."""
    nodes = spec.cluster.nodes.max
    task = room(spec, options, nodes)
    most = options.max_vcpus or max(MAX_VCPUS, task)
    if not spec.max_parallel:
        return most
    each = task if own_machines(spec) else nodes * max(1, int(float(needs(spec, options).cpus)))
    return min(most, max(task, spec.max_parallel * each))


def problems(spec: Spec, options: AwsOptions) -> Iterator[Problem]:
    """Yield problems of machines in an environment of runspec's that no job would ever get."""
    if options.queue:
        return
    nodes = spec.cluster.nodes.min
    task = room(spec, options, nodes)
    if options.max_vcpus and task > options.max_vcpus:
        path: Path = NODES if nodes > 1 else ("cluster", "cpus")
        what = f"{_wanted(spec, options, nodes)} {task:,} vCPUs, but max_vcpus is {options.max_vcpus:,}"
        yield Problem(path, what, f"set providers.aws-batch.max_vcpus: {task}, or ask for less")
    if options.instance_types and not options.fargate and own_machines(spec):
        yield from _own_machine(spec, options)


def _wanted(spec: Spec, options: AwsOptions, nodes: int) -> str:
    if nodes == 1:
        return "the node requests"
    there = types(spec, options)
    if own_machines(spec) and there and known(there[0]):
        return f"{nodes} machines of the type {there[0]} have"
    return f"{nodes} nodes request machines with up to"


def _own_machine(spec: Spec, options: AwsOptions) -> Iterator[Problem]:
    """Yield the problem of a named type of which a node cannot get a whole machine."""
    name = options.instance_types[0]
    machine, wanted = known(name), needs(spec, options)
    hint = "begin instance_types with one type of EC2, such as c6i.4xlarge"
    if machine and not per_machine(machine, wanted):
        what = f"{name}, the first of instance_types, does not hold a node: {shown(wanted)}"
        yield Problem(("cluster",), what, "begin instance_types with a larger type")
    elif of_family(name) or "." not in name:
        what = f"all nodes have one instance type, and {name} is not one"
        yield Problem(NODES, what, hint)
    elif machine is None and alone(spec):
        what = f"each node needs a machine of its own, but it is unknown how large {name} is"
        yield Problem(NODES, what, hint)


def shown(wanted: ResourceRequest) -> str:
    """Return a request in words.

    >>> shown(ResourceRequest("4", 7680, 1))
    '4 vCPUs, 7,680 MiB and 1 GPU'
    """
    gpus = f" and {wanted.gpus} GPU{'s' * (wanted.gpus > 1)}" if wanted.gpus else ""
    vcpus = f"{wanted.cpus} vCPU{'s' * (wanted.cpus != '1')}"
    return f"{vcpus}{',' if gpus else ' and'} {wanted.memory_mib:,} MiB{gpus}"
