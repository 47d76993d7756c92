"""The steps of a plan that run a spec on ParallelCluster: those of the cluster, then those of Slurm."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from runspec_jobs.provider import Facts, Request, Scope, Spec, Step, in_turn
from runspec_slurm.parallelcluster.infrastructure import config, queues
from runspec_slurm.parallelcluster.naming import call
from runspec_slurm.parallelcluster.options import ParallelClusterOptions


def steps(spec: Spec, facts: Facts) -> Iterator[Step]:
    """Yield the steps before those of Slurm."""
    options: ParallelClusterOptions = facts.options
    if options.manage:
        yield _cluster(spec, options)
        if options.cluster:
            yield _update(spec, options)
    if options.host and not options.manage:
        return  # the head node is known
    name = config.name(spec, options)
    title = f"find the head node of the cluster {name}"
    yield Step("head", title, Scope.SITE, call("describe_cluster", clusterName=name))


def on(name: str, step: Step) -> Step:
    """Return a Slurm step with the name of its cluster, so that equal steps on two clusters differ."""
    undo = step.undo and _on(name, step.undo)
    return step._replace(do=_on(name, step.do), undo=undo)


def _on(name: str, request: Request) -> Request:
    return request._replace(params={**request.params, "clusterName": name})


def _cluster(spec: Spec, options: ParallelClusterOptions) -> Step:
    """Return the step that makes the cluster; an existing cluster of runspec with that name is used unchanged."""
    name = config.name(spec, options)
    found = config.configuration(spec, options)
    kinds = [
        f"up to {queue.max_count} of {_shown(queue.instance_types)} ({queue.capacity})"
        for queue in queues.queues(spec, options).values()
    ]
    return Step(
        "cluster",
        f"make the cluster {name}: {'; '.join(kinds)}",
        Scope.SITE,
        call("create_cluster", clusterName=name, clusterConfiguration=found),
        _delete(name, options),
    )


def _shown(types: Sequence[str]) -> str:
    """Return instance types in words: all of a few, or the first one.

    >>> _shown(["c6a.large"]), _shown(["c6a.large", "c5a.large", "c6i.large"])
    ('c6a.large', 'c6a.large or 2 others')
    """
    return "/".join(types) if len(types) < 3 else f"{types[0]} or {len(types) - 1} others"


def _update(spec: Spec, options: ParallelClusterOptions) -> Step:
    """Return the step that updates an existing cluster, unless it has the right settings."""
    name = config.name(spec, options)
    found = config.configuration(spec, options)
    stop = {"stopFleet": True} if options.update == "stop" else {}
    return Step(
        "update",
        f"update the cluster {name}, if it differs",
        Scope.SITE,
        call("update_cluster", clusterName=name, clusterConfiguration=found, **stop),
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
