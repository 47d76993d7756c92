"""Options and facts for the Slurm provider, about a cluster that may not exist yet."""

from __future__ import annotations

from typing import Any

from runspec_jobs.provider import Facts
from runspec_parallelcluster.check.rules import USERS
from runspec_parallelcluster.decision import GIB, Decision, QueueChoice
from runspec_parallelcluster.options import ParallelClusterOptions
from runspec_parallelcluster.resources import find_architecture, known, usable_mib

WORKSPACE = "runspec"  # the folder of the workspace on a file system of the cluster


def facts(decision: Decision, given: Facts) -> Facts:
    """Return *given* for the Slurm provider, with the queues as partitions and their resources.

    The resources of the cluster follow from the options, so no discovery is necessary.
    """
    survey = dict(given.survey)
    if decision.options.manage and "slurm" not in survey:
        survey["slurm"] = {
            "partitions": _partitions(decision),
            "containers": [],
            "machine": find_architecture(decision.options.head_node),
            "mpi": ["pmix", "pmi2"],
            **_limits(decision.options),
        }
    return given._replace(options=options(decision), survey=survey)


def _limits(options: ParallelClusterOptions) -> dict[str, int]:
    """Return the limits that the profile sets; slurm.conf ignores the case of names."""
    given = {name.lower(): value for name, value in options.slurm_settings.items()}
    names = {"max_array": "maxarraysize", "max_jobs": "maxjobcount"}
    return {fact: int(given[n]) for fact, n in names.items() if given.get(n, "").isdecimal()}


def options(decision: Decision) -> ParallelClusterOptions:
    """Return the options, with the options for Slurm that follow from those of the cluster."""
    own = decision.options
    if not own.manage:  # the queues of the cluster are unknown
        return access(own.model_copy(update={"partition": own.queue or own.partition}))
    bought = {name: choice.queue.capacity for name, choice in decision.job_queues.items()}
    spot = [name for name, capacity in bought.items() if capacity == "spot" or own.queue]
    firm = [name for name, capacity in bought.items() if capacity != "spot" or own.queue]
    follows: dict[str, Any] = {
        "partition": next(iter(firm), own.partition),
        "spot_partition": next(iter(spot), own.spot_partition),
    }
    if known_sizes := _read_gpu_memory(decision):
        follows["gpu_memory"] = {**known_sizes, **own.gpu_memory}
    return access(own.model_copy(update=follows))


def _read_gpu_memory(decision: Decision) -> dict[str, int]:
    """Return the memory in bytes of one GPU of each type, the least if machines differ; nothing if no job asks."""
    choices = [choice for choice in decision.queues.values() if choice.request.gpu_gib]
    names = {name for choice in choices for name in choice.queue.instance_types}
    gpus = [(m.gpu.lower(), m.gpu_gib) for m in map(known, names) if m and m.gpu and m.gpu_gib]
    return {kind: int(gib * GIB) for kind, gib in sorted(gpus, reverse=True)}


def access(options: ParallelClusterOptions) -> ParallelClusterOptions:
    """Return the options with the workspace, which is on the first file system if the profile names no other.

    Options from the record of a run have every field set, so the default is recognised by its value.
    """
    mounts = {name: storage.mount for name, storage in options.storage.items()}
    first = next(iter(mounts.values()), None)
    follows: dict[str, Any] = {"shared": {**mounts, **options.shared}}
    if first and options.workspace == type(options).model_fields["workspace"].default:
        follows["workspace"] = f"{first}/{WORKSPACE}"
    return options.model_copy(update=follows)


def login(options: ParallelClusterOptions, address: str) -> str:
    """Return the head node for ssh, with the user of its operating system.

    >>> login(ParallelClusterOptions(os="rocky9"), "192.0.2.1")
    'rocky@192.0.2.1'
    """
    return address if "@" in address else f"{USERS.get(options.os, 'ec2-user')}@{address}"


def _partitions(decision: Decision) -> dict[str, Any]:
    memory = decision.options.memory_scheduling
    return {
        name: {**_partition(choice, memory=memory), "default": number == 0}
        for number, (name, choice) in enumerate(decision.queues.items())
    }


def _partition(choice: QueueChoice, *, memory: bool) -> dict[str, Any]:
    """Return the facts of a partition; Slurm knows its memory only with memory-based scheduling.

    Machines that the catalogue does not have are taken to have the GPUs that a node requests.

    https://docs.aws.amazon.com/parallelcluster/latest/ug/slurm-mem-based-scheduling-v3.html
    """
    queue, request = choice.queue, choice.request
    machines = [machine for name in queue.instance_types if (machine := known(name))]
    partition: dict[str, Any] = {"nodes": queue.max_count}
    if machines and len(machines) == len(queue.instance_types):
        partition["cpus"] = min(machine.cpus or 0 for machine in machines)
        partition["gpus"] = {m.gpu.lower(): int(m.gpus) for m in machines if m.gpu and m.gpus}
        if memory:
            partition["memory_mb"] = min(map(usable_mib, machines))
    elif request.gpus:
        partition["gpus"] = {(request.gpu_type or "").lower(): request.gpus}
    return partition
