"""Resource groups, workspaces, experiments and file servers."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from runspec_emulators.azure.batchai import clusters, describe, jobs
from runspec_emulators.azure.batchai.answers import Answer, Pending, page
from runspec_emulators.azure.batchai.errors import conflict, missing, refused
from runspec_emulators.azure.batchai.model import (
    PROVIDER,
    Experiment,
    FileServer,
    Group,
    Thing,
    Workspace,
)
from runspec_emulators.azure.batchai.routes import routes
from runspec_emulators.azure.batchai.rules import Request

if TYPE_CHECKING:
    from runspec_emulators.azure.batchai.world import World


def under_way(world: World, done: Callable[[], bool], result: Callable[[], Answer]) -> Answer:
    """Answer an operation that takes `operation_s` at least, and until it is *done*."""
    due = time.monotonic() + world.settings.operation_s
    pending = Pending(lambda: time.monotonic() >= due and done(), result)
    return world.operations.answer(pending, world.settings.retry_after_s)


def created(world: World, thing: Thing, value: Callable[[], Any]) -> Answer:
    """Answer that *thing* is made: its provisioningState is creating until it is."""
    if world.settings.operation_s:
        thing.provision("creating")
        world.after(world.settings.operation_s, lambda: settled(thing))
    return under_way(
        world, lambda: thing.provisioning_state != "creating", lambda: Answer(200, value())
    )


def settled(thing: Thing) -> None:
    if thing.provisioning_state == "creating":
        thing.provision("succeeded")


def deleted(world: World, thing: Thing, gone: Callable[[], bool]) -> Answer:
    thing.provision("deleting")
    return under_way(world, gone, lambda: Answer(200))


NOTHING = Answer(204)  # deleting what is not there: response 204 of every Delete


def operations_listed(_world: World, _request: Request) -> Answer:
    """Give the names of operations, {provider}/{resource}/{operation}."""
    names = sorted({r.operation.replace("_", "/") for r in routes() if r.service == "batchai"})
    return Answer(200, {"value": [{"name": f"{PROVIDER}/{name}"} for name in names]})


# Resource groups. https://learn.microsoft.com/rest/api/resources/resource-groups


def create_group(world: World, request: Request) -> Answer:
    """201 for a new one, 200 for one that is there already, whose location cannot change."""
    body = request.body
    if not isinstance(body, dict) or not isinstance(body.get("location"), str):
        raise refused("location: required", "location")
    unknown = body.keys() - {"location", "tags", "managedBy", "properties"}
    if unknown:
        raise refused(f"there are no such members: {sorted(unknown)}")
    name = request.path["resourceGroupName"]
    found = world.groups.get(name.lower())
    if found is not None and found.location != body["location"]:
        raise conflict(f"The resource group '{name}' is in '{found.location}'.")
    path = f"/subscriptions/{world.settings.subscription}/resourceGroups/{name}"
    group = found or Group(path, name, body["location"])
    group.tags = body.get("tags", {})
    world.groups[name.lower()] = group
    return Answer(200 if found else 201, describe.group(group))


def group_exists(world: World, request: Request) -> Answer:
    there = request.path["resourceGroupName"].lower() in world.groups
    return Answer(204 if there else 404)


def get_group(world: World, request: Request) -> Answer:
    return Answer(200, describe.group(world.group(request)))


def list_groups(world: World, _request: Request) -> Answer:
    return Answer(200, {"value": [describe.group(found) for found in world.groups.values()]})


def list_resources(world: World, request: Request) -> Answer:
    """Give what is in a group, of any service: `GenericResourceExpanded`, as far as everything has it."""
    group = world.group(request)
    found = [(one.id, one.name, one.kind) for one in group.workspaces.values()]
    for other in world.settings.others:
        kind, _, name = other.rpartition("/")
        found.append((f"{group.id}/providers/{other}", name, kind))
    rows = [{"id": i, "name": n, "type": k, "location": group.location} for i, n, k in found]
    return Answer(200, {"value": rows})


def delete_group(world: World, request: Request) -> Answer:
    """ "Deletes a resource group [and] all of its template deployments and [...] resources"."""
    group = world.group(request)
    for workspace in list(group.workspaces.values()):
        empty(world, workspace)
    name = group.name.lower()

    def gone() -> bool:
        if any(not emptied(workspace) for workspace in group.workspaces.values()):
            return False
        world.groups.pop(name, None)
        return True

    return under_way(world, gone, lambda: Answer(200))


# Workspaces


def create_workspace(world: World, request: Request) -> Answer:
    group, name = world.group(request), request.path["workspaceName"]
    found = group.workspaces.get(name.lower())
    if found is None:
        path = f"{group.id}/providers/{PROVIDER}/workspaces/{name}"
        found = Workspace(path, name, f"{PROVIDER}/workspaces", {})
        found.location, found.tags = request.body["location"], request.body.get("tags", {})
        group.workspaces[name.lower()] = found
    elif found.location != request.body["location"]:
        raise conflict(f"The workspace '{name}' is in '{found.location}'.")
    workspace = found
    return created(world, workspace, lambda: describe.workspace(workspace))


def update_workspace(world: World, request: Request) -> Answer:
    found = world.workspace(request)
    found.tags = request.body.get("tags", found.tags)
    return Answer(200, describe.workspace(found))


def get_workspace(world: World, request: Request) -> Answer:
    return Answer(200, describe.workspace(world.workspace(request)))


def list_workspaces(world: World, request: Request) -> Answer:
    return page(world.url, request, [describe.workspace(found) for found in world.workspaces()])


def list_workspaces_of_group(world: World, request: Request) -> Answer:
    found = world.group(request).workspaces.values()
    return page(world.url, request, [describe.workspace(one) for one in found])


def delete_workspace(world: World, request: Request) -> Answer:
    group, name = world.group(request), request.path["workspaceName"].lower()
    workspace = group.workspaces.get(name)
    if workspace is None:
        return NOTHING
    empty(world, workspace)

    def gone() -> bool:
        if emptied(workspace):
            group.workspaces.pop(name, None)
        return name not in group.workspaces

    return deleted(world, workspace, gone)


def empty(world: World, workspace: Workspace) -> None:
    """Begin to delete all that is in a workspace."""
    for job in workspace.jobs:
        jobs.remove(world, workspace, job)
    for cluster in list(workspace.clusters.values()):
        clusters.remove(world, workspace, cluster)


def emptied(workspace: Workspace) -> bool:
    return not workspace.jobs and not workspace.clusters


# Experiments


def create_experiment(world: World, request: Request) -> Answer:
    workspace, name = world.workspace(request), request.path["experimentName"]
    found = workspace.experiments.get(name.lower())
    if found is None:
        kind = f"{PROVIDER}/workspaces/experiments"
        found = Experiment(f"{workspace.id}/experiments/{name}", name, kind, {})
        workspace.experiments[name.lower()] = found
    experiment = found
    return created(world, experiment, lambda: describe.experiment(experiment))


def get_experiment(world: World, request: Request) -> Answer:
    return Answer(200, describe.experiment(experiment_of(world, request)))


def experiment_of(world: World, request: Request) -> Experiment:
    name = request.path["experimentName"]
    found = world.workspace(request).experiments.get(name.lower())
    if found is None:
        raise missing("experiment", name)
    return found


def list_experiments(world: World, request: Request) -> Answer:
    found = world.workspace(request).experiments.values()
    return page(world.url, request, [describe.experiment(one) for one in found])


def delete_experiment(world: World, request: Request) -> Answer:
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


# File servers: each is a folder, whose mount point is /mnt/data.


def create_file_server(world: World, request: Request) -> Answer:
    workspace, name = world.workspace(request), request.path["fileServerName"]
    properties: Mapping[str, Any] = request.body["properties"]
    found = workspace.file_servers.get(name.lower())
    if found is not None and found.properties != properties:
        raise conflict(f"The file server '{name}' is there already, and is another.")
    if found is None:
        kind = f"{PROVIDER}/workspaces/fileservers"
        found = FileServer(f"{workspace.id}/fileservers/{name}", name, kind, dict(properties))
        found.address = "127.0.0.1"
        workspace.file_servers[name.lower()] = found
    server = found
    return created(world, server, lambda: describe.file_server(server))


def get_file_server(world: World, request: Request) -> Answer:
    name = request.path["fileServerName"]
    found = world.workspace(request).file_servers.get(name.lower())
    if found is None:
        raise missing("file server", name)
    return Answer(200, describe.file_server(found))


def list_file_servers(world: World, request: Request) -> Answer:
    found = world.workspace(request).file_servers.values()
    return page(world.url, request, [describe.file_server(one) for one in found])


def delete_file_server(world: World, request: Request) -> Answer:
    workspace, name = world.workspace(request), request.path["fileServerName"].lower()
    server = workspace.file_servers.pop(name, None)
    return NOTHING if server is None else deleted(world, server, lambda: True)
