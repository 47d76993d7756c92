"""Nodes as the service shows them, and restarts them."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from runspec_emulators.azure.batch import listing, nodes
from runspec_emulators.azure.batch.answers import Answer
from runspec_emulators.azure.batch.errors import ServiceError
from runspec_emulators.azure.batch.nodes import Node

if TYPE_CHECKING:
    from runspec_emulators.azure.batch.requests import Request
    from runspec_emulators.azure.batch.world import World


def show(world: World, request: Request) -> Answer:
    node = nodes.find(world, request.path)
    url = f"{world.pool_url(node.pool)}/nodes/{node.id}"
    return Answer(200, listing.selected(node.shown(url), request))


def listed(world: World, request: Request) -> Answer:
    pool = world.pool(request.path["pool_id"])
    url = f"{world.pool_url(pool)}/nodes"
    return listing.page(
        world, request, pool.nodes.values(), lambda n: n.shown(f"{url}/{n.id}"), "nodes", lag=False
    )


def reboot(world: World, request: Request) -> Answer:
    """ "You can restart a Compute Node only if it is in an idle or running state"; tasks are requeued."""
    node = nodes.find(world, request.path)
    if node.state not in nodes.READY:
        raise ServiceError("OperationNotValidOnNode", f"The node is in state {node.state}.")
    option = (request.body or {}).get("nodeRebootOption", "requeue")
    node.move("rebooting")
    for attempt in list(node.attempts):
        attempt.cut("requeue" if option == "requeue" else "node-terminated")
    again(world, node)
    return Answer(202)


def again(world: World, node: Node) -> None:
    if node.attempts:
        world.timers.after(0.01, partial(again, world, node))
    elif node.id in node.pool.nodes and node.state == "rebooting":
        nodes.boot(world, node)
