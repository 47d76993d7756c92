"""Decide how Batch AI runs a spec. `check`, `plan` and `offer` read the decision and do not ask the spec again."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from runspec_batchai import resources, store_volumes
from runspec_batchai.naming import path_variables
from runspec_batchai.options import BatchAiOptions, Volume
from runspec_jobs.provider import Capacity, Launch, Spec
from runspec_jobs.provider.commands import tasks
from runspec_jobs.provider.machines import Machine, MachineRequest

TOOLKITS = {
    Launch.MPI: "custom-mpi",
    Launch.HOROVOD: "horovod",
    Launch.TORCHRUN: "pytorch",
}


@dataclass(frozen=True)
class Decision:
    """How Batch AI runs a spec: each task is a job of its own, on nodes of one cluster."""

    options: BatchAiOptions
    tasks: int
    nodes: int  # of each task
    toolkit: str
    processes: int  # of each task, if the toolkit has such a setting
    attempts: int  # several are made by shell text of runspec, which needs a toolkit whose processes it starts
    limit_s: int | None  # of all attempts together, as the service applies it
    capacity: Capacity
    request: MachineRequest  # what a node needs
    machine: (
        Machine | None
    )  # that runspec chooses; None if the profile does, or none is large enough
    most_nodes: int  # of the cluster, which limits how many tasks of a sweep run at once
    image: str | None
    shm_bytes: int | None
    installs: bool  # whether the nodes install packages
    volumes: Mapping[str, Volume]  # mounted for each job, by name
    keeps_in_store: bool  # whether a job writes to the container of the profile
    paths: Mapping[str, str]  # the variables of the contract for mounts and outputs

    @property
    def vm_size(self) -> str:
        return self.options.vm_size or (self.machine.name if self.machine else "")

    @property
    def is_retried(self) -> bool:
        return self.attempts > 1

    @property
    def kept_nodes(self) -> int:
        """How many nodes the cluster keeps while no job runs."""
        is_manual = self.options.scale == "manual"
        return self.most_nodes if is_manual else min(self.options.min_nodes, self.most_nodes)

    @property
    def requested_toolkit(self) -> str:
        """The toolkit in the request: custom if shell text of runspec starts mpirun itself."""
        return "custom" if self.is_retried else self.toolkit

    @property
    def slots(self) -> int:
        """How many processes each node runs; the last nodes may run fewer."""
        return math.ceil(self.processes / self.nodes)


def decide(spec: Spec, options: BatchAiOptions) -> Decision:
    """Return the decision for *spec*, also for one that `check` refuses."""
    nodes, count = spec.cluster.nodes.max, len(tasks(spec))
    toolkit = _toolkit(spec, options)
    is_ours = toolkit in ("custom", "custom-mpi") and options.contract
    processes = options.toolkit_settings.get("processCount", "")
    request = _machine_request(spec)
    attempts = spec.retry.attempts if is_ours else 1
    return Decision(
        options=options,
        tasks=count,
        nodes=nodes,
        toolkit=toolkit,
        processes=int(processes) if processes.isdecimal() else nodes * spec.processes_per_node,
        attempts=attempts,
        limit_s=spec.timeout and spec.timeout * attempts,
        capacity=spec.cluster.capacity,
        request=request,
        machine=None if options.cluster or options.vm_size else resources.choose(request),
        most_nodes=(
            nodes * min(spec.max_parallel, count)
            if spec.max_parallel
            else max(options.max_nodes or 0, nodes)
        ),
        image=_image(spec, options),
        shm_bytes=spec.container.shm,
        # An image of the profile that is used in place of the spec's contains the packages.
        installs=spec.container.requirements is not None
        and spec.container.image not in options.images,
        volumes=store_volumes.used(spec, options),
        keeps_in_store=store_volumes.keeps_in_store(spec, options),
        paths=path_variables(spec, options),
    )


def _toolkit(spec: Spec, options: BatchAiOptions) -> str:
    """Return the toolkit of *spec*; custom starts a command only on the first node."""
    if options.toolkit is not None:
        return options.toolkit
    alone = "custom" if spec.cluster.nodes.max == 1 else "custom-mpi"
    return TOOLKITS.get(spec.launch, alone)


def _machine_request(spec: Spec) -> MachineRequest:
    """Return what a node of *spec* requests of its machine. No node shares a machine with another."""
    cluster = spec.cluster
    return MachineRequest(
        cpus=cluster.cpus or 1,
        memory_gib=(cluster.memory or 0) / resources.GiB,
        gpus=cluster.gpus or 0,
        gpu_type=cluster.gpu_model,
        gpu_gib=cluster.gpu_gib,
        disk_gib=(cluster.disk_bytes or 0) / resources.GiB,
    )


def _image(spec: Spec, options: BatchAiOptions) -> str | None:
    """Return the image of *spec*, or the profile's in place of it.

    It is None for an image that exists on one machine only, if requirements replace it.
    """
    image = spec.container.image
    if image is None or image in options.images:
        return options.images[image] if image else None
    is_local = image.startswith("localhost/") and spec.container.requirements is not None
    return None if is_local else image
