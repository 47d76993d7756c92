"""Which kind of AWS Batch job a spec becomes."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from runspec_aws.options import AwsOptions
from runspec_jobs.provider import Capacity, Spec, tasks

MAX_ATTEMPTS = 10  # https://docs.aws.amazon.com/batch/latest/APIReference/API_RetryStrategy.html
LARGEST_ARRAY = 10_000  # https://docs.aws.amazon.com/batch/latest/userguide/service_limits.html


class JobKind(StrEnum):
    """One job; an array, whose children are tasks or nodes; or a gang of nodes."""

    SINGLE = "single"
    ARRAY = "array"
    NODES = "nodes"


def shape(spec: Spec) -> JobKind:
    """Give the shape of *spec*.

    A gang (multi-node parallel) runs on-demand, cannot be an array and replaces no node, so nodes on spot,
    nodes of a sweep, and nodes that come and go, are an array of single nodes that meet through the store.
    https://docs.aws.amazon.com/batch/latest/userguide/mnp-ce.html
    """
    nodes, count = spec.cluster.nodes.max, len(tasks(spec))
    if nodes * count == 1:
        return JobKind.SINGLE
    together = not spec.cluster.nodes.elastic and count == 1
    if nodes > 1 and together and spec.cluster.capacity is Capacity.ON_DEMAND:
        return JobKind.NODES
    return JobKind.ARRAY


def spot(spec: Spec, options: AwsOptions) -> bool:
    """Say whether the machines of *spec* may be spot machines of EC2, which tell of their end.

    A queue of the profile may have any. Fargate has no machine to ask: it sends SIGTERM.
    https://docs.aws.amazon.com/AmazonECS/latest/developerguide/fargate-capacity-providers.html
    """
    asked = spec.cluster.capacity is not Capacity.ON_DEMAND or options.queue is not None
    return asked and not options.fargate and shape(spec) is not JobKind.NODES


def attempts(spec: Spec) -> int:
    """Give the tries in all: those of the job, and those that machines may be taken away in."""
    return min(MAX_ATTEMPTS, spec.retry.attempts + spec.retry.spot_attempts - 1)


def children(spec: Spec) -> int:
    """Give how many children the array of *spec* has."""
    return spec.cluster.nodes.max * len(tasks(spec))


def child(shape: str, nodes: int, task: int, rank: int) -> Mapping[str, int]:
    """Give where the node *rank* of *task* is in a job of this *shape*."""
    if shape == JobKind.ARRAY:
        return {"index": task * nodes + rank}
    return {"node": rank} if shape == JobKind.NODES else {}
