"""A job queue that runspec makes: whether the machines of its compute environments can run a job."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from runspec_aws.decision import Decision
from runspec_aws.options import AwsOptions
from runspec_aws.resources import (
    NO_DRIVER,
    NodeRequest,
    find_machines,
    known,
    of_family,
)
from runspec_jobs.provider import Path, Problem
from runspec_jobs.provider.machines import Machine, is_enough_gpu_memory

NODES: Path = ("cluster", "nodes")
# Names that AWS Batch accepts for instance types that it selects by itself:
# https://docs.aws.amazon.com/batch/latest/APIReference/API_ComputeResource.html
BUNDLES: Mapping[str, str] = {
    "optimal": "x86_64",
    "default_x86_64": "x86_64",
    "default_arm64": "arm64",
}
ARM = "arm64"


def problems(decision: Decision, options: AwsOptions) -> Iterator[Problem]:
    """Yield problems of the machines that no job would ever get, or that cannot run it."""
    if options.queue:
        return
    yield from _check_vcpus(decision, options)
    if not options.instance_types or options.fargate:
        return
    if decision.shape.alone:
        yield from _check_first_type(decision, options)
    yield from _check_architecture(options)
    if not options.ami:
        yield from _check_drivers(options)
    yield from _check_sizes(decision)


def find_holding(name: str, node: NodeRequest) -> tuple[Machine, ...]:
    """Return the machines of the type or family *name* that hold *node*, the smallest one first."""
    machines = [machine for machine in find_machines(name) if node.count_on(machine)]
    return tuple(sorted(machines, key=lambda m: (m.gpus or 0, m.cpus or 0, m.name)))


def _check_vcpus(decision: Decision, options: AwsOptions) -> Iterator[Problem]:
    vcpus = decision.task_vcpus
    if options.max_vcpus and vcpus > options.max_vcpus:
        path: Path = NODES if decision.shape.least_nodes > 1 else ("cluster", "cpus")
        message = (
            f"{_request_shown(decision)} {vcpus:,} vCPUs, but max_vcpus is {options.max_vcpus:,}"
        )
        yield Problem(path, message, f"set providers.aws-batch.max_vcpus: {vcpus}, or ask for less")


def _request_shown(decision: Decision) -> str:
    nodes, names = decision.shape.least_nodes, decision.instance_types
    if nodes == 1:
        return "the node requests"
    if decision.shape.alone and names and known(names[0]):
        return f"{nodes} machines of the type {names[0]} have"
    return f"{nodes} nodes request machines with up to"


def _check_first_type(decision: Decision, options: AwsOptions) -> Iterator[Problem]:
    """Yield the problem of a named type of which a node cannot get a whole machine."""
    name = options.instance_types[0]
    machine, node = known(name), decision.node
    hint = "begin instance_types with one type of EC2, such as c6i.4xlarge"
    if machine and not node.count_on(machine):
        message = f"{name}, the first of instance_types, does not hold a node: {node.shown}"
        yield Problem(("cluster",), message, "begin instance_types with a larger type")
    elif of_family(name) or "." not in name:
        message = f"all nodes have one instance type, and {name} is not one"
        yield Problem(NODES, message, hint)
    elif machine is None and decision.shape.fills_machines:
        message = f"each node needs a machine of its own, but it is unknown how large {name} is"
        yield Problem(NODES, message, hint)


def _check_architecture(options: AwsOptions) -> Iterator[Problem]:
    """Yield problems of the architecture of the instance types in the profile; runspec itself chooses x86-64.

    AWS Batch selects the AMI of each machine by its architecture, but a job has one image.
    """
    architectures = {a for name in options.instance_types for a in _architectures(name)}
    if len(architectures) > 1:
        message = (
            "the profile's instance_types are of several architectures, and a job has one image"
        )
        hint = "name types of one architecture: x86-64, or arm64 (Graviton)"
        yield Problem(("provider",), message, hint)
    elif architectures == {ARM}:
        message = "the machines are arm64 (Graviton): make sure that the image is for arm64"
        yield Problem(("container", "image"), message, severity="note")
    for name in options.instance_types:
        if not options.ami and _without_ami(name):
            message = f"AWS Batch has no AMI for {name}"
            hint = (
                "set providers: {aws-batch: {ami: ami-...}} with your own AMI, or name other types"
            )
            yield Problem(("provider",), message, hint)


def _architectures(name: str) -> frozenset[str]:
    """Return the architectures of an instance type, family or bundle; none if they are unknown."""
    if name in BUNDLES:
        return frozenset({BUNDLES[name]})
    return frozenset(m.architecture for m in find_machines(name) if m.architecture)


def _without_ami(name: str) -> bool:
    """Return whether the AMIs of AWS Batch lack an instance type or family: A1, and Graviton with GPUs.

    https://docs.aws.amazon.com/batch/latest/APIReference/API_Ec2Configuration.html
    """
    return any(m.architecture == ARM and (m.family == "a1" or m.gpus) for m in find_machines(name))


def _check_drivers(options: AwsOptions) -> Iterator[Problem]:
    """https://docs.aws.amazon.com/batch/latest/APIReference/API_Ec2Configuration.html"""
    for name in options.instance_types:
        machine = known(name)
        if machine and machine.gpu in NO_DRIVER:
            message = f"AWS Batch has no AMI for machines like {name}, with the GPU {machine.gpu}, any more"
            yield Problem(("provider",), message, "set ami to your own AMI, or name another type")


def _check_sizes(decision: Decision) -> Iterator[Problem]:
    """Yield the problem of a job that stays RUNNABLE, as no machine holds a node or those that do have another GPU."""
    names, gpu = decision.instance_types, decision.machine.gpu_type
    if not all(find_machines(name) for name in names):
        return  # the sizes of some instance types are unknown
    machines = [m for name in names for m in find_holding(name, decision.node)]
    if not machines and not decision.shape.alone:  # otherwise, the first type was checked
        message = f"no type of instance_types holds a node: {decision.node.shown}"
        yield Problem(("cluster",), message, "name a larger type, or ask for less")
    elif machines and gpu and not any((m.gpu or "").upper() == gpu.upper() for m in machines):
        message = f"'{gpu}', but no type of instance_types that is large enough has it"
        yield Problem(("cluster", "gpu_type"), message, "name another type, or remove gpu_type")
    elif small := [
        m for m in machines if not is_enough_gpu_memory(m.gpu_gib or 0, decision.machine.gpu_gib)
    ]:
        message = f"{small[0].name} of instance_types has GPUs of {small[0].gpu_gib or 0:g} GiB"
        yield Problem(("cluster", "gpu_memory"), message, "name another type, or ask for less")
