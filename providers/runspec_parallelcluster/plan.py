"""The steps of a plan that run a spec on ParallelCluster: those of the cluster, then those of Slurm."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from runspec_jobs.provider import Request, Scope, Step, in_turn
from runspec_parallelcluster import infrastructure
from runspec_parallelcluster.decision import Decision
from runspec_parallelcluster.naming import call
from runspec_parallelcluster.options import ParallelClusterOptions


def steps(decision: Decision, job_steps: Iterable[Step]) -> Iterator[Step]:
    """Yield the steps of the cluster, then *job_steps*, those of Slurm."""
    name = infrastructure.name(decision)
    yield from _cluster_steps(decision, name)
    for step in job_steps:
        # A Slurm step with the name of its cluster, so that equal steps on two clusters differ
        undo = step.undo and _request_on(name, step.undo)
        yield step._replace(do=_request_on(name, step.do), undo=undo)


def _cluster_steps(decision: Decision, name: str) -> Iterator[Step]:
    options = decision.options
    if options.manage:
        configuration = infrastructure.configuration(decision)
        yield _create(decision, name, configuration)
        if options.cluster:
            yield _update(name, configuration, options)
    if options.host and not options.manage:
        return  # the head node is known
    title = f"find the head node of the cluster {name}"
    yield Step("head", title, Scope.SITE, call("describe_cluster", clusterName=name))


def _request_on(name: str, request: Request) -> Request:
    return request._replace(params={**request.params, "clusterName": name})


def _create(decision: Decision, name: str, configuration: dict[str, Any]) -> Step:
    """Return the step that makes the cluster; an existing cluster of runspec with that name is used unchanged."""
    queues = [choice.queue for choice in decision.queues.values()]
    kinds = [
        f"up to {queue.max_count} of {_shown(queue.instance_types)} ({queue.capacity})"
        for queue in queues
    ]
    return Step(
        "cluster",
        f"make the cluster {name}: {'; '.join(kinds)}",
        Scope.SITE,
        call("create_cluster", clusterName=name, clusterConfiguration=configuration),
        _delete(name, decision.options),
    )


def _shown(types: Sequence[str]) -> str:
    """Return instance types in words: all of a few, or the first one.

    >>> _shown(["c6a.large"]), _shown(["c6a.large", "c5a.large", "c6i.large"])
    ('c6a.large', 'c6a.large or 2 others')
    """
    return "/".join(types) if len(types) < 3 else f"{types[0]} or {len(types) - 1} others"


def _update(name: str, configuration: dict[str, Any], options: ParallelClusterOptions) -> Step:
    """Return the step that updates an existing cluster, unless it has the right settings."""
    stop = {"stopFleet": True} if options.update == "stop" else {}
    return Step(
        "update",
        f"update the cluster {name}, if it differs",
        Scope.SITE,
        call("update_cluster", clusterName=name, clusterConfiguration=configuration, **stop),
    )


def _delete(name: str, options: ParallelClusterOptions) -> Request:
    """Return the request that deletes the cluster, after the changes on its file systems were copied to S3.

    A persistent file system copies them by itself, and the request waits for that, too.
    """
    delete = call("delete_cluster", clusterName=name)
    kept = [s.mount for s in options.storage.values() if s.data]
    if not (options.archive and kept):
        return delete
    return in_turn(
        call("archive", clusterName=name, folders=kept), delete, service="parallelcluster"
    )
