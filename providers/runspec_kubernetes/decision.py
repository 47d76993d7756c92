"""Decide how Kubernetes runs a spec. `check`, `plan` and `offer` read the decision and do not ask the spec again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from runspec_agent.base.retry_rules import OOM, STOP, find_action
from runspec_jobs.provider import Capacity, Facts, Spec
from runspec_jobs.provider.commands import tasks
from runspec_jobs.provider.job_manifest import limit_s
from runspec_kubernetes.options import SPOT, KubernetesOptions

Selector = Mapping[str, str]
JOB = "/job"
# Folders with what every image has, in whose place there can be no volume.
OF_IMAGES = frozenset(
    "/ /bin /boot /dev /etc /home /lib /lib64 /opt /proc /root /run /sbin /sys /usr /var".split()
)
KILLED = 137  # the exit code of a container that was killed as a whole
PULL_S = 900  # for the image, since the deadline of a pod counts from before it is pulled
LONGEST_S = 2**31 - 1  # of the API's numbers of seconds, 68 years


@dataclass(frozen=True)
class Decision:
    """How Kubernetes runs a job: as an indexed Job, with an index for each node of each task."""

    options: KubernetesOptions
    tasks: int
    nodes: int  # of each task, the most
    elastic: bool
    parallelism: int
    attempts: int  # of an index, those that were lost included
    program_attempts: int  # of an index whose program fails
    repeats_killed: bool  # whether an attempt follows one whose container was killed as a whole
    lost: str | None  # what follows an attempt whose node was lost, if an entry says so
    max_failed: int | None
    image: str
    requests: Mapping[str, str]
    limits: Mapping[str, str]
    shm_bytes: int | None
    capacity: Capacity
    selector: Selector
    tolerations: Sequence[Mapping[str, str]]
    preferred: Selector  # labels that nodes had better have
    avoided: Selector  # labels that no node may have
    gpus: int
    limit_s: int | None  # of a pod
    keep_s: int | None  # how long a Job that has ended is kept
    shared: Mapping[str, bool]  # name of a shared file system: whether the job only reads it
    folders: Sequence[str]  # paths of volumes for mounts and outputs

    @property
    def indexes(self) -> int:
        """The number of indexes of the Job."""
        return self.tasks * self.nodes

    @property
    def shape(self) -> str:
        """The shape in the record of the run."""
        return "array" if self.indexes > 1 else "single"


def decide(spec: Spec, facts: Facts) -> Decision:
    """Return the decision for *spec*, also for one that `check` refuses."""
    options: KubernetesOptions = facts.options
    cluster, count = spec.cluster, len(tasks(spec))
    nodes = cluster.nodes.max
    parallel = min(spec.max_parallel or count, count) * nodes
    selector, tolerations, preferred, avoided = _choose_nodes(spec, options)
    # With as many as there are tasks, the last failure is the end of the sweep anyway.
    most_failed = spec.max_failed if nodes == 1 and (spec.max_failed or 0) < count else None
    return Decision(
        options=options,
        tasks=count,
        nodes=nodes,
        elastic=cluster.nodes.elastic,
        parallelism=parallel,
        attempts=spec.retry.attempts + spec.retry.lost_attempts - 1,
        program_attempts=spec.retry.attempts,
        repeats_killed=spec.retry.attempts > 1
        and find_action(spec.retry.rules, KILLED, OOM) != STOP,
        lost=spec.retry.action_of("lost"),
        max_failed=most_failed,
        image=_image(spec, options),
        requests=_requests(spec),
        limits=_limits(spec, options),
        shm_bytes=spec.container.shm,
        capacity=cluster.capacity,
        selector=selector,
        tolerations=tolerations,
        preferred=preferred,
        avoided=avoided,
        gpus=cluster.gpus or 0,
        limit_s=_pod_limit_s(spec),
        keep_s=_at_most(spec.ttl if spec.ttl is not None else options.keep),
        shared=_share(spec),
        folders=_folders(spec, facts),
    )


def _choose_nodes(
    spec: Spec, options: KubernetesOptions
) -> tuple[Selector, Sequence[Mapping[str, str]], Selector, Selector]:
    """Return the labels of nodes, the taints that pods tolerate, and labels that nodes had better have, and may not."""
    cluster = spec.cluster
    selector = {**options.node_selector, **gpu_labels(spec, options)}
    tolerations = [toleration.body for toleration in options.tolerations]
    preferred: dict[str, str] = {}
    avoided: dict[str, str] = {}
    if (spot := SPOT.get(options.cloud or "")) is not None:
        if cluster.capacity is Capacity.SPOT:
            selector[spot.label] = spot.value
        elif cluster.capacity is Capacity.SPOT_THEN_ON_DEMAND:
            preferred[spot.label] = spot.value
        elif cluster.pool is None and spot.label not in selector:
            avoided[spot.label] = spot.value
        if cluster.capacity is not Capacity.ON_DEMAND:
            taint = {"key": spot.taint, "operator": "Equal", "value": spot.value}
            tolerations.append({**taint, "effect": "NoSchedule"})
    if cluster.gpus:
        tolerations.append({"key": options.gpu_resource, "operator": "Exists"})
    return selector, tolerations, preferred, avoided


def _share(spec: Spec) -> Mapping[str, bool]:
    """Return the shared file systems of a job, and whether it only reads each."""
    shared: dict[str, bool] = {}
    for mount in spec.mounts:
        if mount.scheme == "shared":
            name = mount.place.partition("/")[0]
            shared[name] = mount.read_only and shared.get(name, True)
    return dict(sorted(shared.items()))


def _image(spec: Spec, options: KubernetesOptions) -> str:
    """Return the image; one of this machine alone gives way to the packages that the spec installs without it."""
    image = spec.container.image
    return options.image if image is None or replaces(spec) else image


def replaces(spec: Spec) -> bool:
    """Return whether another image takes the place of the job's, which no registry has."""
    local = (spec.container.image or "").startswith("localhost/")
    return local and spec.container.requirements is not None


def _folders(spec: Spec, facts: Facts) -> tuple[str, ...]:
    """Return the folders that become volumes, because the user of a restricted pod can make none in the image.

    A file is put into the volume of the folder that contains it. Whether an object of another owner's store is a file,
    only the job finds out. What is below /job, which images do not have, is in one volume: programs move files there
    from one folder to another.
    """
    if facts.options.security != "restricted":
        return ()
    paths = []
    for mount in spec.mounts:
        folder = folder_of(mount.target)
        source = facts.sources.get(mount.name)
        perhaps = mount.is_foreign and "/" in mount.place.strip("/") and folder not in OF_IMAGES
        if mount.scheme != "shared":
            paths.append(folder if perhaps or (source and source.is_file) else mount.target)
    paths += [output.path for output in spec.outputs]
    return tuple(dict.fromkeys(JOB if path.startswith(f"{JOB}/") else path for path in paths))


def folder_of(path: str) -> str:
    """Return the folder that contains *path*.

    >>> folder_of("/job/words.txt"), folder_of("/words.txt")
    ('/job', '/')
    """
    return path.rpartition("/")[0] or "/"


def _at_most(limit: int | None) -> int | None:
    return None if limit is None else min(limit, LONGEST_S)


def _pod_limit_s(spec: Spec) -> int | None:
    """Return after how many seconds the node ends a pod, since its agent has not.

    https://kubernetes.io/docs/concepts/workloads/pods/pod-lifecycle/ (activeDeadlineSeconds)
    """
    limit = limit_s(spec)
    return None if limit is None else min(limit + PULL_S, LONGEST_S)


def gpu_labels(spec: Spec, options: KubernetesOptions) -> Selector:
    """Return the labels of nodes with the GPUs of the job: `A100-80GB` may have labels of its own."""
    cluster = spec.cluster
    kinds = (cluster.gpu_type or "", cluster.gpu_model or "")
    return next((options.gpu_types[kind] for kind in kinds if kind in options.gpu_types), {})


def _requests(spec: Spec) -> dict[str, str]:
    """Return what a pod asks for: https://kubernetes.io/docs/concepts/configuration/manage-resources-containers/"""
    cluster = spec.cluster
    asked = {
        "cpu": cluster.cpus and str(cluster.cpus),
        "memory": cluster.memory and str(cluster.memory),
        "ephemeral-storage": cluster.disk_bytes and str(cluster.disk_bytes),
    }
    return {name: value for name, value in asked.items() if value}


def _limits(spec: Spec, options: KubernetesOptions) -> dict[str, str]:
    cluster = spec.cluster
    bounds = {
        "memory": cluster.memory and str(cluster.memory),
        "ephemeral-storage": cluster.disk_bytes and str(cluster.disk_bytes),
        options.gpu_resource: cluster.gpus and str(cluster.gpus),
    }
    return {name: value for name, value in bounds.items() if value}
