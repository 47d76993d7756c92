"""Resource groups, and which operations there are.

https://learn.microsoft.com/rest/api/resources/resource-groups
"""

from __future__ import annotations

from runspec_emulators.batch_ai.api import descriptions
from runspec_emulators.batch_ai.api.requests import Request
from runspec_emulators.batch_ai.api.responses import Response
from runspec_emulators.batch_ai.api.routes import routes
from runspec_emulators.batch_ai.errors import conflict, refused
from runspec_emulators.batch_ai.model import PROVIDER, Group
from runspec_emulators.batch_ai.resources import workspaces
from runspec_emulators.batch_ai.resources.long_running import under_way
from runspec_emulators.batch_ai.world import World


def operations_listed(_world: World, _request: Request) -> Response:
    """Return the names of operations, {provider}/{resource}/{operation}."""
    names = sorted({r.operation.replace("_", "/") for r in routes() if r.service == "batchai"})
    return Response(200, {"value": [{"name": f"{PROVIDER}/{name}"} for name in names]})


def create_group(world: World, request: Request) -> Response:
    """201 for a new one, 200 for one that is there already, whose location cannot change."""
    body = request.body
    if not isinstance(body, dict) or not isinstance(body.get("location"), str):
        raise refused("location: required", "location")
    unknown = body.keys() - {"location", "tags", "managedBy", "properties"}
    if unknown:
        raise refused(f"there are no such members: {sorted(unknown)}")
    name = request.path["resourceGroupName"]
    existing = world.groups.get(name.lower())
    if existing is not None and existing.location != body["location"]:
        raise conflict(f"The resource group '{name}' is in '{existing.location}'.")
    path = f"/subscriptions/{world.settings.subscription}/resourceGroups/{name}"
    group = existing or Group(path, name, body["location"])
    group.tags = body.get("tags", {})
    world.groups[name.lower()] = group
    return Response(200 if existing else 201, descriptions.group(group))


def group_exists(world: World, request: Request) -> Response:
    there = request.path["resourceGroupName"].lower() in world.groups
    return Response(204 if there else 404)


def get_group(world: World, request: Request) -> Response:
    return Response(200, descriptions.group(world.group(request)))


def list_groups(world: World, _request: Request) -> Response:
    return Response(
        200, {"value": [descriptions.group(groups) for groups in world.groups.values()]}
    )


def list_resources(world: World, request: Request) -> Response:
    """Return what is in a group, of any service: `GenericResourceExpanded`, as far as everything has it."""
    group = world.group(request)
    resources = [
        (workspace.id, workspace.name, workspace.kind) for workspace in group.workspaces.values()
    ]
    for other in world.settings.others:
        kind, _, name = other.rpartition("/")
        resources.append((f"{group.id}/providers/{other}", name, kind))
    rows = [{"id": i, "name": n, "type": k, "location": group.location} for i, n, k in resources]
    return Response(200, {"value": rows})


def delete_group(world: World, request: Request) -> Response:
    """ "Deletes a resource group [and] all of its template deployments and [...] resources"."""
    group = world.group(request)
    for workspace in list(group.workspaces.values()):
        workspaces.empty(world, workspace)
    name = group.name.lower()

    def gone() -> bool:
        if any(not workspaces.is_empty(workspace) for workspace in group.workspaces.values()):
            return False
        world.groups.pop(name, None)
        return True

    return under_way(world, gone, lambda: Response(200))
