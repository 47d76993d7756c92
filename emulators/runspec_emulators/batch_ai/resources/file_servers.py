"""File servers: each is a folder, whose mount point is /mnt/data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from runspec_emulators.batch_ai.api import descriptions
from runspec_emulators.batch_ai.api.requests import Request
from runspec_emulators.batch_ai.api.responses import Response, page
from runspec_emulators.batch_ai.errors import conflict, missing
from runspec_emulators.batch_ai.model import PROVIDER, FileServer
from runspec_emulators.batch_ai.resources.long_running import NOTHING, created, deleted
from runspec_emulators.batch_ai.world import World


def create_file_server(world: World, request: Request) -> Response:
    workspace, name = world.workspace(request), request.path["fileServerName"]
    properties: Mapping[str, Any] = request.body["properties"]
    existing = workspace.file_servers.get(name.lower())
    if existing is not None and existing.properties != properties:
        raise conflict(f"The file server '{name}' already exists with other properties.")
    if existing is None:
        kind = f"{PROVIDER}/workspaces/fileservers"
        existing = FileServer(f"{workspace.id}/fileservers/{name}", name, kind, dict(properties))
        existing.address = "127.0.0.1"
        workspace.file_servers[name.lower()] = existing
    server = existing
    return created(world, server, lambda: descriptions.file_server(server))


def get_file_server(world: World, request: Request) -> Response:
    name = request.path["fileServerName"]
    server = world.workspace(request).file_servers.get(name.lower())
    if server is None:
        raise missing("file server", name)
    return Response(200, descriptions.file_server(server))


def list_file_servers(world: World, request: Request) -> Response:
    servers = world.workspace(request).file_servers.values()
    return page(world.url, request, [descriptions.file_server(server) for server in servers])


def delete_file_server(world: World, request: Request) -> Response:
    workspace, name = world.workspace(request), request.path["fileServerName"].lower()
    server = workspace.file_servers.pop(name, None)
    return NOTHING if server is None else deleted(world, server, lambda: True)
