"""Decide how Azure Batch runs a spec. `check`, `plan` and `offer` read the decision and do not ask the spec again."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from runspec_azure.batch.options import BatchOptions
from runspec_azure.resources import request
from runspec_azure.resources.vm_sizes import GIB, gpu_type, known
from runspec_images.image_plan import name_built
from runspec_jobs.provider import Capacity, Facts, Mount, Spec
from runspec_jobs.provider.elastic_tasks import nodes_each, tasks_in_all
from runspec_jobs.provider.job_manifest import CONTEXT, limit_s
from runspec_jobs.provider.machines import ChosenMachine, MachineRequest

SMALLEST = "Standard_D2ds_v5"  # for a spec that no machine holds, which `check` refuses
# Limits of pools with inter-node communication: https://learn.microsoft.com/azure/batch/batch-quota-limit#pool-size-limits
MOST_CONNECTED = {"batch-service": 100, "user-subscription": 80}
PLATFORM = "linux/amd64"  # of all machines of the table
# Stands for an image to be built whose name is unknown: without `images`, which `check` refuses, or by `validate`.
UNKNOWN = "registry.invalid/unknown"
# Lazy mounts: the store of the profile as a shared file system of the pool, read by blobfuse.
STORE = "runspec-store"  # the name of the store among the shared file systems of the pool
# https://learn.microsoft.com/azure/batch/virtual-file-mount#supported-configurations
WITHOUT_BLOBFUSE = ":ubuntu-hpc:2204:"


@dataclass(frozen=True)
class Decision:
    """How Azure Batch runs a job: as one task or a collection of them, each on one node or, as multi-instance, several.

    Each node of an elastic job is a task of its own, so that it can be lost and replaced.
    """

    options: BatchOptions
    allocation: str | None  # the pool allocation mode of the account, if it is known
    tasks: int
    nodes: int  # of each task
    elastic: bool
    connected: bool  # whether the nodes of the pool communicate
    most_connected: int  # the most nodes of a pool whose nodes communicate
    most_nodes: int  # of the pool
    slots: int  # the most tasks that share a node
    # The most nodes of one run that run at the same time. Those of tasks that share a machine count one by one.
    nodes_at_once: int
    max_parallel: int | None
    capacity: Capacity
    request: MachineRequest  # what a node needs
    machines: tuple[ChosenMachine, ...]  # the best one first; none for the pool of the profile
    image: str | None
    built: bool  # whether runspec builds the image, which the job then names by its digest
    shm_bytes: int | None
    ulimits: Mapping[str, int]  # by name, in bytes or open files
    shared: tuple[str, ...]  # the names of the shared file systems
    attempts: int  # the most of a task, besides those that end because the node was preempted
    limit_s: int | None  # of an attempt

    @property
    def shape(self) -> str:
        """The shape in the record of the run."""
        return "nodes" if self.nodes > 1 else "single"

    @property
    def vm_size(self) -> str:
        """The VM size of the machines: the profile's, or that of the best machine."""
        if self.options.vm_size:
            machine = known(self.options.vm_size)
            return machine.name if machine else self.options.vm_size
        return self.machines[0].machine.name if self.machines else SMALLEST

    @property
    def has_rocm(self) -> bool:
        """Whether the node has GPUs of AMD: of the machine, or of the profile's pool, for which the spec names them."""
        if self.options.pool:
            kind = (self.request.gpu_type or "").upper()
        else:
            kind = gpu_type(self.vm_size)
        return bool(self.request.gpus) and request.driver(kind) is request.ROCM


def decide(spec: Spec, facts: Facts) -> Decision:
    """Return the decision for *spec*. It has no machines if the facts are not complete."""
    options: BatchOptions = facts.options
    nodes, tasks, asked = nodes_each(spec), tasks_in_all(spec), spec.cluster.nodes
    allocation: str | None = facts.survey.get("pool_allocation") or options.pool_allocation
    most_connected = MOST_CONNECTED[allocation or "batch-service"]
    slots = 1 if options.pool else options.tasks_per_node
    most_nodes = _most_nodes(spec, options, most_connected, slots)
    machine_request = _machine_request(spec, options, slots)
    return Decision(
        options=options,
        allocation=allocation,
        tasks=tasks,
        nodes=nodes,
        elastic=asked.elastic,
        connected=asked.max > 1,
        most_connected=most_connected,
        most_nodes=most_nodes,
        slots=slots,
        nodes_at_once=min(most_nodes * slots, tasks * nodes),
        max_parallel=spec.max_parallel,
        capacity=spec.cluster.capacity,
        request=machine_request,
        machines=_machines(machine_request, facts),
        image=_image(spec, facts),
        built=spec.container.build is not None,
        shm_bytes=spec.container.shm,
        ulimits=spec.ulimits.given,
        shared=tuple(
            sorted({m.place.partition("/")[0] for m in spec.mounts if m.scheme == "shared"})
        ),
        attempts=_attempts(spec),
        limit_s=limit_s(spec),
    )


def _most_nodes(spec: Spec, options: BatchOptions, most_connected: int, slots: int) -> int:
    """Return the largest number of nodes of the pool, at most as many as tasks can use.

    Tasks that max_parallel holds back count as pending, too: "$ActiveTasks [...] includes all tasks that
    are in the active state and whose dependencies have been satisfied."
    https://learn.microsoft.com/azure/batch/batch-automatic-scaling#read-write-service-defined-variables
    """
    nodes, most = nodes_each(spec), options.max_nodes
    if spec.max_parallel:
        machines = math.ceil(spec.max_parallel / slots)
        most = min(most, machines * spec.cluster.nodes.max)
    if spec.cluster.nodes.max > 1:
        most = min(most, most_connected)
    return max(nodes, most - most % nodes)


def _machine_request(spec: Spec, options: BatchOptions, slots: int) -> MachineRequest:
    """Return what a machine for *slots* tasks needs; what the spec leaves out is as small as possible."""
    cluster = spec.cluster
    return MachineRequest(
        cpus=(cluster.cpus or 1) * slots,
        memory_gib=(cluster.memory or 0) * slots / GIB,
        gpus=cluster.gpus or 0,
        gpu_type=cluster.gpu_model,
        gpu_gib=cluster.gpu_gib,
        disk_gib=(cluster.disk_bytes or 0) * slots / GIB,
        spot=cluster.capacity is not Capacity.ON_DEMAND,
        region=request.region(options),
    )


def _machines(machine_request: MachineRequest, facts: Facts) -> tuple[ChosenMachine, ...]:
    options: BatchOptions = facts.options
    if options.pool or not facts.complete:
        return ()
    if options.vm_size:
        return (request.named(options.vm_size, machine_request.region),)
    return request.candidates(machine_request, options.image, facts.survey)


def _image(spec: Spec, facts: Facts) -> str | None:
    """Return the image of the job; None for one that exists on one machine only, where requirements replace it."""
    build, repository = spec.container.build, facts.options.images
    if build is not None:
        is_known = repository is not None and CONTEXT in facts.sources
        return name_built(repository, build.file, PLATFORM, facts) if is_known else UNKNOWN
    image = spec.container.image
    return None if image is None or image.startswith("localhost/") else image


def _attempts(spec: Spec) -> int:
    # The nodes of an elastic job count the failures of the program themselves.
    elastic = spec.cluster.nodes.elastic
    return spec.retry.attempts + (spec.retry.spot_attempts - 1 if elastic else 0)


def mount_store(spec: Spec, facts: Facts) -> tuple[Spec, Facts]:
    """Return *spec* with its lazy mounts as those of a shared file system, and *facts* with that file system.

    Both are unchanged if nothing is lazy, or if the machines cannot mount the store: see `explain_copies`.
    """
    options: BatchOptions = facts.options
    if not any(mount.mode == "lazy" for mount in spec.mounts) or explain_copies(options):
        return spec, facts
    shared = {**options.shared, STORE: f"blob:{options.storage_account}/{options.container}"}
    mounts = tuple(_share(mount, options.prefix) for mount in spec.mounts)
    return (
        spec.model_copy(update={"mounts": mounts}),
        facts._replace(options=options.model_copy(update={"shared": shared})),
    )


def explain_copies(options: BatchOptions) -> str:
    """Return why machines cannot mount the store; an empty text if they can."""
    if options.pool:
        return "the profile's pool is used as it is, and runspec does not know whether it mounts the store"
    if options.files == "signed":
        return "with signed URLs, a job has no other access to the store"
    if options.blob_url:
        return "Azure Batch mounts accounts by their names, and the profile sets blob_url"
    if not (options.storage_key or options.identity):
        return "a mount needs storage_key or identity in the profile"
    if WITHOUT_BLOBFUSE in options.image:
        return "Ubuntu 22.04 has no blobfuse: remove image and node_agent from the profile"
    return ""


def _share(mount: Mount, prefix: str) -> Mount:
    if mount.mode != "lazy":
        return mount
    place = f"shared://{STORE}/{prefix}/store/{mount.place.strip('/')}"
    return mount.model_copy(update={"source": place})
