"""From a spec to the steps that run it on ParallelCluster: the cluster, then those of Slurm."""

from __future__ import annotations

from collections.abc import Iterator

from runspec_jobs.provider import Facts, Request, Scope, Spec, Step, in_turn
from runspec_slurm.parallelcluster.infrastructure import config, queues
from runspec_slurm.parallelcluster.naming import call
from runspec_slurm.parallelcluster.options import ParallelClusterOptions


def steps(spec: Spec, facts: Facts) -> Iterator[Step]:
    """Yield the steps that come before those of Slurm."""
    options: ParallelClusterOptions = facts.options
    if options.manage:
        yield _cluster(spec, options)
        if options.cluster:
            yield _update(spec, options)
    if options.host and not options.manage:
        return  # it is known, and nobody has to be asked
    name = config.name(spec, options)
    title = f"find the head node of the cluster {name}"
    yield Step("head", title, Scope.SITE, call("describe_cluster", clusterName=name))


def on(name: str, step: Step) -> Step:
    """Return a step of Slurm with the cluster that it is of: equal ones of two clusters make two things."""
    undo = step.undo and _on(name, step.undo)
    return step._replace(do=_on(name, step.do), undo=undo)


def _on(name: str, request: Request) -> Request:
    return request._replace(params={**request.params, "clusterName": name})


def _cluster(spec: Spec, options: ParallelClusterOptions) -> Step:
    """Return the step that makes the cluster; one of that name that is ours is taken as it is."""
    name = config.name(spec, options)
    found = config.configuration(spec, options)
    kinds = [
        f"up to {queue.max_count} of {'/'.join(queue.instance_types)} ({queue.capacity})"
        for queue in queues.queues(spec, options).values()
    ]
    return Step(
        "cluster",
        f"make the cluster {name}: {'; '.join(kinds)}",
        Scope.SITE,
        call("create_cluster", clusterName=name, clusterConfiguration=found),
        _delete(name, options),
    )


def _update(spec: Spec, options: ParallelClusterOptions) -> Step:
    """Return the step that makes a cluster that was there what it is to be; nothing where it is that."""
    name = config.name(spec, options)
    found = config.configuration(spec, options)
    stop = {"stopFleet": True} if options.update == "stop" else {}
    return Step(
        "update",
        f"update the cluster {name}, where it differs",
        Scope.SITE,
        call("update_cluster", clusterName=name, clusterConfiguration=found, **stop),
    )


def _delete(name: str, options: ParallelClusterOptions) -> Request:
    """Return what deletes the cluster, after what is new on its file systems is in S3.

    A persistent file system does that by itself, and is waited for all the same.
    """
    delete = call("delete_cluster", clusterName=name)
    kept = [s.mount for s in options.storage.values() if s.data]
    if not (options.archive and kept):
        return delete
    return in_turn(
        call("archive", clusterName=name, folders=kept), delete, service="parallelcluster"
    )
