"""Workspaces and the experiments in them."""

from __future__ import annotations

from runspec_emulators.batch_ai.api import descriptions
from runspec_emulators.batch_ai.api.requests import Request
from runspec_emulators.batch_ai.api.responses import Response, page
from runspec_emulators.batch_ai.errors import conflict
from runspec_emulators.batch_ai.model import PROVIDER, Experiment, Workspace
from runspec_emulators.batch_ai.resources import clusters, jobs
from runspec_emulators.batch_ai.resources.long_running import NOTHING, created, deleted
from runspec_emulators.batch_ai.world import World


def create_workspace(world: World, request: Request) -> Response:
    group, name = world.group(request), request.path["workspaceName"]
    existing = group.workspaces.get(name.lower())
    if existing is None:
        path = f"{group.id}/providers/{PROVIDER}/workspaces/{name}"
        existing = Workspace(path, name, f"{PROVIDER}/workspaces", {})
        existing.location, existing.tags = request.body["location"], request.body.get("tags", {})
        group.workspaces[name.lower()] = existing
    elif existing.location != request.body["location"]:
        raise conflict(f"The workspace '{name}' is in '{existing.location}'.")
    workspace = existing
    return created(world, workspace, lambda: descriptions.workspace(workspace))


def update_workspace(world: World, request: Request) -> Response:
    workspace = world.workspace(request)
    workspace.tags = request.body.get("tags", workspace.tags)
    return Response(200, descriptions.workspace(workspace))


def get_workspace(world: World, request: Request) -> Response:
    return Response(200, descriptions.workspace(world.workspace(request)))


def list_workspaces(world: World, request: Request) -> Response:
    return page(
        world.url,
        request,
        [descriptions.workspace(workspaces) for workspaces in world.workspaces()],
    )


def list_workspaces_of_group(world: World, request: Request) -> Response:
    workspaces = world.group(request).workspaces.values()
    return page(world.url, request, [descriptions.workspace(workspace) for workspace in workspaces])


def delete_workspace(world: World, request: Request) -> Response:
    group, name = world.group(request), request.path["workspaceName"].lower()
    workspace = group.workspaces.get(name)
    if workspace is None:
        return NOTHING
    empty(world, workspace)

    def gone() -> bool:
        if is_empty(workspace):
            group.workspaces.pop(name, None)
        return name not in group.workspaces

    return deleted(world, workspace, gone)


def empty(world: World, workspace: Workspace) -> None:
    """Begin to delete all that is in a workspace."""
    for job in workspace.jobs:
        jobs.remove(world, workspace, job)
    for cluster in list(workspace.clusters.values()):
        clusters.remove(world, workspace, cluster)


def is_empty(workspace: Workspace) -> bool:
    return not workspace.jobs and not workspace.clusters


# Experiments: jobs of a workspace that belong together.


def create_experiment(world: World, request: Request) -> Response:
    workspace, name = world.workspace(request), request.path["experimentName"]
    existing = workspace.experiments.get(name.lower())
    if existing is None:
        kind = f"{PROVIDER}/workspaces/experiments"
        existing = Experiment(f"{workspace.id}/experiments/{name}", name, kind, {})
        workspace.experiments[name.lower()] = existing
    experiment = existing
    return created(world, experiment, lambda: descriptions.experiment(experiment))


def get_experiment(world: World, request: Request) -> Response:
    return Response(200, descriptions.experiment(world.experiment(request)))


def list_experiments(world: World, request: Request) -> Response:
    experiments = world.workspace(request).experiments.values()
    return page(
        world.url, request, [descriptions.experiment(experiment) for experiment in experiments]
    )


def delete_experiment(world: World, request: Request) -> Response:
    workspace, name = world.workspace(request), request.path["experimentName"].lower()
    experiment = workspace.experiments.get(name)
    if experiment is None:
        return NOTHING
    for job in list(experiment.jobs.values()):
        jobs.remove(world, workspace, job)

    def gone() -> bool:
        if not experiment.jobs:
            workspace.experiments.pop(name, None)
        return name not in workspace.experiments

    return deleted(world, experiment, gone)
