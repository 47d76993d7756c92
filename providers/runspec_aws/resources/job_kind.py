"""The kind of AWS Batch job for a spec."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from runspec_aws.options import AwsOptions
from runspec_jobs.provider import Capacity, Spec, tasks

MAX_ATTEMPTS = 10  # https://docs.aws.amazon.com/batch/latest/APIReference/API_RetryStrategy.html
LARGEST_ARRAY = 10_000  # https://docs.aws.amazon.com/batch/latest/userguide/service_limits.html


class JobKind(StrEnum):
    """The kinds: one job; an array, whose children are tasks or nodes; or a gang of nodes (multi-node parallel)."""

    SINGLE = "single"
    ARRAY = "array"
    NODES = "nodes"


def shape(spec: Spec) -> JobKind:
    """Return the kind of job for *spec*.

    A multi-node parallel job runs on-demand, cannot be an array and replaces no node. So nodes on spot, nodes of a
    sweep, and nodes of elastic jobs are an array of single-node jobs that find each other through the store.

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
    """Return whether machines of *spec* may be EC2 spot machines, which get notices.

    A queue of the profile may have any machines. Fargate has no metadata service for notices: it sends SIGTERM.

    https://docs.aws.amazon.com/AmazonECS/latest/developerguide/fargate-capacity-providers.html
    """
    asked = spec.cluster.capacity is not Capacity.ON_DEMAND or options.queue is not None
    return asked and not options.fargate and shape(spec) is not JobKind.NODES


def attempts(spec: Spec) -> int:
    """Return the maximal number of attempts: those for failures, and those for preemptions."""
    return min(MAX_ATTEMPTS, spec.retry.attempts + spec.retry.spot_attempts - 1)


def children(spec: Spec) -> int:
    """Return how many children the array of *spec* has."""
    return spec.cluster.nodes.max * len(tasks(spec))


def child(shape: str, nodes: int, task: int, rank: int) -> Mapping[str, int]:
    """Return the child or node of a job of kind *shape* that is node *rank* of *task*."""
    if shape == JobKind.ARRAY:
        return {"index": task * nodes + rank}
    return {"node": rank} if shape == JobKind.NODES else {}
