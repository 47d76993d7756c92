"""Decide how Kubernetes runs a spec. `check`, `plan` and `offer` read the decision and do not ask the spec again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from runspec_jobs.provider import Capacity, Facts, Spec
from runspec_jobs.provider.commands import tasks
from runspec_jobs.provider.job_manifest import limit_s
from runspec_kubernetes.options import SPOT, KubernetesOptions

Selector = Mapping[str, str]


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
    gpus: int
    limit_s: int | None  # of an attempt
    keep_s: int | None  # how long a Job that has ended is kept
    shared: Mapping[str, bool]  # name of a shared file system: whether the job only reads it

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
    spot = SPOT.get(options.cloud or "")
    on_spot = cluster.capacity is not Capacity.ON_DEMAND
    only = cluster.capacity is Capacity.SPOT
    selector = dict(options.node_selector)
    for labels in (options.gpu_types.get(cluster.gpu_model or "", {}),):
        selector |= labels
    preferred: dict[str, str] = {}
    tolerations = [toleration.body for toleration in options.tolerations]
    if on_spot and spot is not None:
        (selector if only else preferred)[spot.label] = spot.value
        tolerations.append(
            {"key": spot.taint, "operator": "Equal", "value": spot.value, "effect": "NoSchedule"}
        )
    gpus = cluster.gpus or 0
    if gpus:
        tolerations.append({"key": options.gpu_resource, "operator": "Exists"})
    shared: dict[str, bool] = {}
    for mount in spec.mounts:
        if mount.scheme == "shared":
            name = mount.place.partition("/")[0]
            shared[name] = mount.read_only and shared.get(name, True)
    return Decision(
        options=options,
        tasks=count,
        nodes=nodes,
        elastic=cluster.nodes.elastic,
        parallelism=parallel,
        attempts=spec.retry.attempts + spec.retry.lost_attempts - 1,
        program_attempts=spec.retry.attempts,
        lost=spec.retry.action_of("lost"),
        max_failed=spec.max_failed if nodes == 1 else None,
        image=spec.container.image or options.image,
        requests=_requests(spec),
        limits=_limits(spec, options),
        shm_bytes=spec.container.shm,
        capacity=cluster.capacity,
        selector=selector,
        tolerations=tolerations,
        preferred=preferred,
        gpus=gpus,
        limit_s=limit_s(spec),
        keep_s=spec.ttl if spec.ttl is not None else options.keep,
        shared=dict(sorted(shared.items())),
    )


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
