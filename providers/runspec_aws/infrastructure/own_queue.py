"""A job queue of the profile: whether its compute environments, which runspec did not make, can run a job."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from runspec_agent.base.light_typing import NamedTuple
from runspec_aws.decision import Decision
from runspec_aws.options import AwsOptions
from runspec_aws.resources import find_machines
from runspec_jobs.provider import Facts, Problem
from runspec_jobs.provider.machines import Machine

NODES = ("cluster", "nodes")


class Environment(NamedTuple):
    """A compute environment of the queue, as `discover` finds it. *max_vcpus* is None if it has no such limit."""

    name: str
    type: str
    max_vcpus: int | None
    instance_types: Sequence[str]


def problems(decision: Decision, facts: Facts) -> Iterator[Problem]:
    """Yield what AWS Batch would leave waiting for ever, or refuse, in the profile's queue."""
    options: AwsOptions = facts.options
    if not options.queue:
        return
    rows = facts.survey.get("environments")
    if rows is None:
        message = f"AWS was not asked whether this job can run in the queue {options.queue}"
        yield Problem(("provider",), message, severity="note")
    elif not rows:
        message = (
            f"there is no job queue {options.queue} with compute environments in {options.region}"
        )
        yield Problem(("provider",), message, "create it, or remove queue from the profile")
    else:
        yield from _problems(decision, options, [Environment(**row) for row in rows])


def _problems(
    decision: Decision, options: AwsOptions, environments: Sequence[Environment]
) -> Iterator[Problem]:
    # A job definition is for Fargate or for EC2, and a queue may not have both.
    able = [e for e in environments if e.type.startswith("FARGATE") == options.fargate]
    if decision.shape.is_gang and not options.fargate:
        usable = [e for e in able if e.type == "EC2"]
        yield from _gang(environments, usable, options)
        yield from _named_type(decision, options, usable)
    elif not able:
        has = "no Fargate environment" if options.fargate else "Fargate environments only"
        hint = f"set fargate: {str(not options.fargate).lower()}, or use another queue"
        yield Problem(("provider",), f"the queue {options.queue} has {has}", hint)
    else:
        yield from _fit(decision, options, able, ())


def _gang(
    environments: Sequence[Environment], usable: Sequence[Environment], options: AwsOptions
) -> Iterator[Problem]:
    """Yield problems of a multi-node parallel job.

    One for spot machines waits for ever: https://github.com/aws/aws-parallelcluster/issues/2098

    https://docs.aws.amazon.com/batch/latest/userguide/mnp-ce.html
    """
    others = ", ".join(f"{e.name} ({e.type})" for e in environments if e not in usable)
    if usable and others:
        message = f"multi-node jobs do not run in all environments of the queue {options.queue}: not in {others}"
        yield Problem(NODES, message, severity="note")
    elif others:
        message = f"AWS Batch never runs multi-node jobs in the environments of the queue {options.queue}: {others}"
        hint = "use a queue with an environment of the type EC2"
        if any(e.type == "SPOT" for e in environments):
            hint += ", or set capacity: spot for nodes that are single-node jobs"
        yield Problem(NODES, message, hint)


def _named_type(
    decision: Decision, options: AwsOptions, usable: Sequence[Environment]
) -> Iterator[Problem]:
    """Yield the problem of a type for multi-node jobs that the environments do not have, or else those of its size."""
    named, names = options.instance_types[:1], _names(usable)
    known = [find_machines(name) for name in names]
    if named and usable and all(known) and not any(m.name == named[0] for ms in known for m in ms):
        has = f"the queue {options.queue} has {', '.join(names)}"
        message = f"{has}, and not {named[0]}, the first of instance_types"
        yield Problem(("provider",), message, "name one of its types, or remove instance_types")
        return
    if not named and (len(names) > 1 or any(len(machines) > 1 for machines in known)):
        has = f"the queue {options.queue} has {', '.join(names)}"
        message = f"{has}, and nodes get one instance type: name it with instance_types"
        yield Problem(("provider",), message, severity="note")
    yield from _fit(decision, options, usable, named)


def machines(decision: Decision, facts: Facts) -> tuple[Machine, ...]:
    """Return the machines of the queue that hold a node, in the order in which the environments name them.

    None are returned if AWS was not asked, or if it is not known how large one of the types is.
    """
    options: AwsOptions = facts.options
    environments = [Environment(**row) for row in facts.survey.get("environments") or ()]
    is_gang = decision.shape.is_gang
    usable = [e for e in environments if e.type == "EC2" or (e.type == "SPOT" and not is_gang)]
    # All nodes of a multi-node job get the type that its definition names.
    names = list(options.instance_types[:1]) if is_gang else []
    each = [find_machines(name) for name in names or _names(usable)]
    if not all(each) or not all(e.instance_types for e in usable):
        return ()
    holding = (m for machines in each for m in machines if decision.node.count_on(m))
    return tuple(dict.fromkeys(holding))


def _names(usable: Sequence[Environment]) -> list[str]:
    return list(dict.fromkeys(name for e in usable for name in e.instance_types))


def _fit(
    decision: Decision, options: AwsOptions, usable: Sequence[Environment], named: Sequence[str]
) -> Iterator[Problem]:
    """Yield problems of the machines and the vCPUs of the environments in which a job can run."""
    names = _names(usable)
    machines = [m for name in named or names for m in find_machines(name)]
    holding = [m for m in machines if decision.node.count_on(m)]
    unknown = [name for name in named or names if not find_machines(name)]
    is_known = bool(names) and not unknown and all(e.instance_types for e in usable)
    if is_known and not holding:
        node = f"a node with {decision.node.shown}"
        message = f"no instance type of the queue {options.queue} holds {node}: {', '.join(names)}"
        yield Problem(("cluster",), message, "ask for less for each node, or use another queue")
        return
    yield from _wide(decision, options, usable, holding if is_known else [])
    if decision.shape.fills_machines and not options.fargate:
        yield from _shared(decision, options, unknown, holding)


def _wide(
    decision: Decision,
    options: AwsOptions,
    usable: Sequence[Environment],
    holding: Sequence[Machine],
) -> Iterator[Problem]:
    """Yield the problem of environments with fewer vCPUs than a task needs, even on the machines that suit best.

    The nodes of a multi-node job run in one environment; those that are children of an array run in any.
    """
    # Environments that runspec does not manage have no maxvCpus.
    limits = [math.inf if e.max_vcpus is None else e.max_vcpus for e in usable]
    node, nodes = decision.node, decision.shape.least_nodes
    least = nodes * node.whole_cpus
    if decision.shape.alone and holding:
        least = min(node.vcpus_of(machine, nodes, alone=True) for machine in holding)
    together = decision.shape.is_gang or nodes == 1
    most = max(limits, default=math.inf) if together else sum(limits)
    if most < least:
        message = (
            f"maxvCpus of the queue {options.queue} is {most:,}, but a task needs {least:,} vCPUs"
        )
        hint = "raise maxvCpus of its compute environment, or ask for less"
        yield Problem(NODES if nodes > 1 else ("cluster", "cpus"), message, hint)


def _shared(
    decision: Decision, options: AwsOptions, unknown: Sequence[str], holding: Sequence[Machine]
) -> Iterator[Problem]:
    """Yield the problem of machines that two nodes would share, although each must have its own."""
    queue = f"the queue {options.queue}"
    why = "each node needs a machine of its own"
    several = [m for m in holding if decision.node.count_on(m) > 1]
    if unknown:
        message = f"{why}, but it is unknown how large {', '.join(unknown)} is, which {queue} has"
        yield Problem(NODES, message, "use a queue that names types such as c6i.4xlarge")
    elif several:
        largest = max(several, key=lambda machine: machine.cpus or 0)
        message = f"{why}, but several fit on {largest.name}, which {queue} has"
        hint = f"set cpus: {(largest.cpus or 0) // 2 + 1}, or use a queue of smaller machines"
        yield Problem(("cluster", "cpus"), message, hint)
