"""Jobs: made, ended, deleted."""

from __future__ import annotations

import uuid
from typing import Any

from runspec_emulators.batch_ai.api import descriptions
from runspec_emulators.batch_ai.api.requests import Request
from runspec_emulators.batch_ai.api.responses import Response, page
from runspec_emulators.batch_ai.errors import conflict, missing, refused
from runspec_emulators.batch_ai.model import (
    OVER,
    PROVIDER,
    Cluster,
    Experiment,
    Job,
    Workspace,
)
from runspec_emulators.batch_ai.resources import clusters, scaling
from runspec_emulators.batch_ai.resources.long_running import NOTHING, created, deleted, under_way
from runspec_emulators.batch_ai.world import World

COUNTS = ("processCount", "workerCount", "parameterServerCount")


def create(world: World, request: Request) -> Response:
    workspace = world.workspace(request)
    experiment = world.experiment(request)
    name, properties = request.path["jobName"], request.body["properties"]
    existing = experiment.jobs.get(name.lower())
    if existing is None:
        check(properties)
        existing = new(world, workspace, experiment, name, properties)
    elif existing.properties != properties:
        raise conflict(f"The job '{name}' already exists with other properties.")
    job = existing
    return created(world, job, lambda: descriptions.job(job))


def check(properties: dict[str, Any]) -> None:
    """Refuse what the descriptions of the members rule out."""
    tools = [name for name in descriptions.TOOLS if name in properties]
    if len(tools) != 1:
        raise refused(f"exactly one toolkit is required, there are {tools}", "properties")
    if properties["nodeCount"] < 1:
        raise refused("nodeCount is less than 1", "nodeCount")
    settings = properties[tools[0]]
    for name in COUNTS:
        if settings.get(name, 1) < 1:
            raise refused(f"{name} is less than 1", name)
    # "must be less than or equal to nodeCount": TensorFlowSettings.parameterServerCount
    if settings.get("parameterServerCount", 0) > properties["nodeCount"]:
        raise refused("parameterServerCount is more than nodeCount", "parameterServerCount")
    for name in ("inputDirectories", "outputDirectories"):
        ids = [mount["id"].lower() for mount in properties.get(name, ())]
        if len(ids) != len(set(ids)):
            raise refused(f"{name}: ids are not unique", name)


def new(
    world: World,
    workspace: Workspace,
    experiment: Experiment,
    name: str,
    properties: dict[str, Any],
) -> Job:
    cluster = cluster_named(world, properties["cluster"]["id"])
    job = Job(
        f"{experiment.id}/jobs/{name}",
        name,
        f"{PROVIDER}/workspaces/experiments/jobs",
        properties,
        cluster=cluster,
    )
    job.number, job.guid = world.next_number(), str(uuid.uuid4())
    group = workspace.id.split("/")[4]
    # The layout of the official example GetJob.
    job.segment = "/".join(
        (
            *(world.settings.subscription, group, "workspaces", workspace.name),
            *("experiments", experiment.name, "jobs", name, job.guid),
        )
    )
    experiment.jobs[name.lower()] = job
    world.after(0.0, lambda: scaling.place(world, cluster))
    return job


def cluster_named(world: World, path: str) -> Cluster:
    """Return the cluster whose resource id that is, in whatever case."""
    for cluster in world.clusters():
        if cluster.id.lower() == path.lower():
            if cluster.deleted:
                raise conflict(f"The cluster '{cluster.name}' is being deleted.")
            return cluster
    raise missing("cluster", path)


def job_of(world: World, request: Request) -> Job:
    name = request.path["jobName"]
    job = world.experiment(request).jobs.get(name.lower())
    if job is None:
        raise missing("job", name)
    return job


def get(world: World, request: Request) -> Response:
    return Response(200, descriptions.job(job_of(world, request)))


def listed(world: World, request: Request) -> Response:
    jobs = world.experiment(request).jobs.values()
    return page(world.url, request, [descriptions.job(job) for job in jobs])


def logins(world: World, request: Request) -> Response:
    job = job_of(world, request)
    nodes = job.nodes if job.run is not None else []
    return Response(200, {"value": [clusters.login(node) for node in nodes]})


def terminate(world: World, request: Request) -> Response:
    """End a job: terminating, then failed. One that is over stays as it is."""
    job = job_of(world, request)
    end(world, job)
    return under_way(world, lambda: job.state in OVER, lambda: Response(200))


def end(world: World, job: Job) -> None:
    if job.state in OVER or job.state == "terminating":
        return
    job.errors = [{"code": "JobTerminated", "message": "The job was terminated by the user."}]
    if job.run is None:
        job.end("failed")
        return
    job.move("terminating")
    job.run.stop("JobTerminated", world.settings.terminate_grace_s)


def delete(world: World, request: Request) -> Response:
    workspace = world.workspace(request)
    experiment = world.experiment(request)
    name = request.path["jobName"].lower()
    job = experiment.jobs.get(name)
    if job is None:
        return NOTHING
    remove(world, workspace, job)
    return deleted(world, job, lambda: experiment.jobs.get(name) is not job)


def remove(world: World, workspace: Workspace, job: Job) -> None:
    """Begin to delete a job: it is terminated first. What it has written stays."""
    end(world, job)
    vanish(world, workspace, job)


def vanish(world: World, workspace: Workspace, job: Job) -> None:
    if job.run is not None:
        world.after(0.01, lambda: vanish(world, workspace, job))
        return
    for experiment in workspace.experiments.values():
        if experiment.jobs.get(job.name.lower()) is job:
            del experiment.jobs[job.name.lower()]
