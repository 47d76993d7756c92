"""Nodes as the service shows them, and restarts them."""

from __future__ import annotations

from functools import partial

from runspec_emulators.azure_batch.api import listing
from runspec_emulators.azure_batch.api.requests import Request
from runspec_emulators.azure_batch.errors import ServiceError
from runspec_emulators.azure_batch.model import READY, Node
from runspec_emulators.azure_batch.nodes import lifecycle
from runspec_emulators.azure_batch.resource import Response
from runspec_emulators.azure_batch.world import World


def show(world: World, request: Request) -> Response:
    node = lifecycle.find(world, request.path)
    url = f"{world.pool_url(node.pool)}/nodes/{node.id}"
    return Response(200, listing.selected(node.shown(url), request))


def listed(world: World, request: Request) -> Response:
    pool = world.pool(request.path["pool_id"])
    url = f"{world.pool_url(pool)}/nodes"
    return listing.page(
        world, request, pool.nodes.values(), lambda n: n.shown(f"{url}/{n.id}"), "nodes", lag=False
    )


def reboot(world: World, request: Request) -> Response:
    """ "You can restart a Compute Node only if it is in an idle or running state"; tasks are requeued."""
    node = lifecycle.find(world, request.path)
    if node.state not in READY:
        raise ServiceError("OperationNotValidOnNode", f"The node is in state {node.state}.")
    option = (request.body or {}).get("nodeRebootOption", "requeue")
    node.move("rebooting")
    for attempt in list(node.attempts):
        attempt.cut("requeue" if option == "requeue" else "node-terminated")
    again(world, node)
    return Response(202)


def again(world: World, node: Node) -> None:
    if node.attempts:
        world.timers.after(0.01, partial(again, world, node))
    elif node.id in node.pool.nodes and node.state == "rebooting":
        lifecycle.boot(world, node)
