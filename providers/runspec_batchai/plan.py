"""Make the steps that run a spec on Batch AI: group, workspace, cluster, experiment, uploads, jobs."""

from __future__ import annotations

from collections.abc import Iterator

from runspec_batchai import infrastructure, store_volumes
from runspec_batchai.decision import Decision
from runspec_batchai.job import request
from runspec_batchai.naming import batchai, cluster_id, group
from runspec_batchai.options import BatchAiOptions
from runspec_jobs.provider import Capacity, Facts, Request, Scope, Spec, Step, in_turn
from runspec_jobs.provider.commands import tasks

OURS = {"runspec": "made"}  # the tag of resources that runspec made, and may delete


def steps(decision: Decision, spec: Spec, run: str, facts: Facts) -> Iterator[Step]:
    options, cluster = decision.options, infrastructure.name(decision)
    yield _group(options)
    yield _workspace(options)
    if options.cluster is None:
        yield _cluster(decision, cluster)
    yield _experiment(options)
    # Uploads may be large, so they follow the steps that may be refused.
    yield from _uploads(spec, facts)
    for number, values in enumerate(tasks(spec)):
        yield _job(decision, spec, request.Task(run, number, values), cluster, facts)


def _uploads(spec: Spec, facts: Facts) -> Iterator[Step]:
    """Yield the steps that upload folders, with one blob for each file, because Batch AI mounts the container."""
    options: BatchAiOptions = facts.options
    for mount in spec.mounts:
        if mount.scheme != "file":
            continue
        source = facts.sources[mount.name]
        where = {
            "container": options.container or "",
            "prefix": f"{store_volumes.folder(source, options)}/",
        }
        title = f"upload {mount.source} ({source.counted}, {source.bytes:,} bytes)"
        do = Request("runspec", "upload_folder", {"path": where, "body": {"$file": mount.name}})
        undo = Request("runspec", "empty_prefix", {"path": where})
        yield Step(f"upload-{mount.name}", title, Scope.SITE, do, undo)


def _group(options: BatchAiOptions) -> Step:
    body = {"location": options.location or "", "tags": OURS}
    return Step(
        "group",
        f"make the resource group {options.resource_group}",
        Scope.SITE,
        group("ResourceGroups_CreateOrUpdate", options, body),
        group("ResourceGroups_Delete", options),
    )


def _workspace(options: BatchAiOptions) -> Step:
    body = {"location": options.location or "", "tags": OURS}
    return Step(
        "workspace",
        f"make the workspace {options.workspace}",
        Scope.SITE,
        batchai("Workspaces_Create", options, body=body),
        batchai("Workspaces_Delete", options),
    )


def _cluster(decision: Decision, cluster: str) -> Step:
    options, name = decision.options, {"clusterName": cluster}
    low = "" if decision.capacity is Capacity.ON_DEMAND else ", low priority"
    upto = "" if options.scale == "manual" else "up to "
    title = f"make a cluster: {upto}{decision.most_nodes} of {decision.vm_size}{low}"
    body = {"properties": infrastructure.properties(decision)}
    return Step(
        "cluster",
        title,
        Scope.SITE,
        batchai("Clusters_Create", options, name, body),
        batchai("Clusters_Delete", options, name),
    )


def _experiment(options: BatchAiOptions) -> Step:
    """Return the step that makes the experiment, whose request has no body.

    https://github.com/Azure/azure-rest-api-specs (Experiments_Create)
    """
    name = {"experimentName": options.experiment}
    return Step(
        "experiment",
        f"make the experiment {options.experiment}",
        Scope.SITE,
        batchai("Experiments_Create", options, name),
        batchai("Experiments_Delete", options, name),
    )


def _job(decision: Decision, spec: Spec, task: request.Task, cluster: str, facts: Facts) -> Step:
    options, nodes = decision.options, decision.nodes
    name = f"{task.run}-{task.number:05}" if spec.sweep else task.run
    names = {"experimentName": options.experiment, "jobName": name}
    where = cluster_id(options, cluster)
    body = {"properties": request.properties(decision, spec, task, where, facts)}
    title = f"start a job of {nodes} node{'s' * (nodes > 1)}, {decision.requested_toolkit}"
    which = f", task {task.number}: {', '.join(f'{k}={v}' for k, v in task.values.items())}"
    undo = batchai("Jobs_Delete", options, names)
    if task.number == 0 and decision.keeps_in_store:
        kept = {
            "container": options.container or "",
            "prefix": f"{store_volumes.kept(task.run, options)}/",
        }
        undo = in_turn(undo, Request("runspec", "empty_prefix", {"path": kept}))
    return Step(
        f"job-{task.number}" if spec.sweep else "job",
        title + (which if spec.sweep else ""),
        Scope.RUN,
        batchai("Jobs_Create", options, names, body),
        undo,
    )
