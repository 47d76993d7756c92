"""Pools: what they are made of, how they are shown, changed and deleted."""

from __future__ import annotations

import time
from collections.abc import Mapping
from functools import partial
from typing import Any

from runspec_emulators.azure_batch.api import listing, validation
from runspec_emulators.azure_batch.api.requests import Request
from runspec_emulators.azure_batch.autoscale import autoscaler
from runspec_emulators.azure_batch.errors import ServiceError, wrong
from runspec_emulators.azure_batch.model import TARGETS, Pool
from runspec_emulators.azure_batch.nodes import resizing
from runspec_emulators.azure_batch.resource import Response
from runspec_emulators.azure_batch.world import World

AUTOSCALE = ("autoScaleFormula", "autoScaleEvaluationInterval")


def add(world: World, request: Request) -> Response:
    return made(world, request.body)


def made(world: World, body: dict[str, Any]) -> Response:
    """Make a pool of a body that the models allow."""
    validation.id_of(body)
    validation.pool(body)
    autoscaler.check_settings(body)
    existing = world.pools.get(body["id"].lower())
    if existing is not None:
        code = "PoolBeingDeleted" if existing.state == "deleting" else "PoolExists"
        raise ServiceError(code, "The specified pool already exists.")
    pool = Pool(body)
    world.pools[pool.id.lower()] = pool
    pool.remember(pool.shown(world.pool_url(pool)))
    if body.get("enableAutoScale"):
        autoscaler.begin(world, pool)
    else:
        resizing.resize(world, pool)
    return Response(201, headers=world.made(pool, world.pool_url(pool)))


def show(world: World, request: Request) -> Response:
    pool = world.pool(request.path["pool_id"])
    shown = pool.shown(world.pool_url(pool))
    return Response(200, listing.selected(shown, request), world.tags(pool))


def exists(world: World, request: Request) -> Response:
    return Response(200, headers=world.tags(world.pool(request.path["pool_id"])))


def listed(world: World, request: Request) -> Response:
    return listing.page(
        world, request, world.pools.values(), lambda p: p.shown(world.pool_url(p)), "pools"
    )


def delete(world: World, request: Request) -> Response:
    """Delete a pool: running tasks are put back on the queue, and then it is gone.

    "When you request that a Pool be deleted, the following actions occur: the Pool state is set to
    deleting; any ongoing resize operation on the Pool are stopped; the Batch service starts
    resizing the Pool to zero Compute Nodes; any Tasks running on existing Compute Nodes are
    terminated and requeued (as if a resize Pool operation had been requested with the default
    requeue option)".
    """
    pool = alive(world, request)
    pool.move("deleting")
    pool.targets = dict.fromkeys(TARGETS, 0)
    pool.option = "requeue"
    resizing.resize(world, pool)
    world.timers.after(world.settings.delete_s, partial(remove, world, pool))
    return Response(202)


def remove(world: World, pool: Pool) -> None:
    # Nodes first end their tasks, so the pool stays until the last of them has left.
    if pool.nodes:
        world.timers.after(0.01, partial(remove, world, pool))
    else:
        world.pools.pop(pool.id.lower(), None)


def alive(world: World, request: Request) -> Pool:
    """Return the pool that is to be changed; raise ServiceError if it is being deleted."""
    pool = world.pool(request.path["pool_id"])
    if pool.state == "deleting":
        message = "The specified pool has been marked for deletion and is being reclaimed."
        raise ServiceError("PoolBeingDeleted", message)
    return pool


def patch(world: World, request: Request) -> Response:
    """Replace what is given. Mounts are "updated only when the pool is empty"."""
    pool = alive(world, request)
    if "mountConfiguration" in request.body and pool.nodes:
        raise ServiceError(
            "OperationNotValidOnPool", "Mounts can only be changed when the pool is empty."
        )
    # A patch need not name the size, by which other fields are judged.
    validation.pool({"vmSize": pool.body["vmSize"], **request.body})
    pool.body |= request.body
    pool.touch()
    return Response(200, headers=world.tags(pool))


def resize(world: World, request: Request) -> Response:
    """Change the targets of a pool that does not scale by itself, and is steady.

    "You can only resize a Pool when its allocation state is steady. If the Pool is already
    resizing, the request fails with status code 409. [...] You cannot resize Pools which are
    configured for automatic scaling; if you try to do this, the Batch service returns an error 409."
    """
    pool = alive(world, request)
    if pool.body.get("enableAutoScale"):
        raise ServiceError(
            "OperationNotValidOnPool", "The pool is configured for automatic scaling."
        )
    if pool.allocation != "steady":
        raise ServiceError("PoolBeingResized", "The specified pool is being resized")
    # Both targets are optional in the model, but at least one is required.
    if not request.body.keys() & set(TARGETS):
        raise ServiceError("MissingRequiredProperty", "A target must be given.")
    validation.targets(request.body)
    pool.targets |= {k: v for k, v in request.body.items() if k in TARGETS}
    pool.option = request.body.get("nodeDeallocationOption", "requeue")
    resizing.resize(world, pool)
    return Response(202, headers=world.tags(pool))


def stop_resize(world: World, request: Request) -> Response:
    pool = alive(world, request)
    if pool.allocation != "resizing":
        raise ServiceError("OperationInvalidForCurrentState", "The pool is not being resized.")
    resizing.stop(world, pool)
    return Response(202, headers=world.tags(pool))


def remove_nodes(world: World, request: Request) -> Response:
    """ "removes them from the pool [...] can only run when the allocation state is steady"."""
    pool = alive(world, request)
    if pool.allocation != "steady":
        raise ServiceError("PoolBeingResized", "The specified pool is being resized")
    missing = [i for i in request.body["nodeList"] if i not in pool.nodes]
    if missing:
        raise ServiceError("NodeNotFound", "The specified node does not exist.")
    pool.option = request.body.get("nodeDeallocationOption", "requeue")
    for node in [pool.nodes[i] for i in request.body["nodeList"]]:
        name = TARGETS[0] if node.dedicated else TARGETS[1]
        pool.targets[name] = max(0, pool.targets[name] - 1)
        resizing.leave(world, node, pool.option)
    resizing.resize(world, pool)
    return Response(202, headers=world.tags(pool))


def enable_autoscale(world: World, request: Request) -> Response:
    """ "You cannot enable automatic scaling on a Pool if a resize operation is in progress".

    Here also of pools that scale by themselves already, which nothing says; "You cannot call this API
    for the same Pool more than once every 30 seconds".
    """
    pool = alive(world, request)
    body: Mapping[str, Any] = request.body
    if not body:
        raise ServiceError("MissingRequiredProperty", "A formula or an interval must be given.")
    if pool.allocation != "steady":
        raise ServiceError("PoolBeingResized", "The specified pool is being resized")
    if not pool.body.get("enableAutoScale") and "autoScaleFormula" not in body:
        raise wrong("autoScaleFormula", None, "it is needed to enable automatic scaling")
    autoscaler.check_settings({"enableAutoScale": True, **pool.body, **body})
    if time.monotonic() - pool.enabled_s < world.settings.enable_s:
        message = "Too many Enable Pool AutoScale requests are issued on the pool."
        raise ServiceError("TooManyEnableAutoScaleRequests", message)
    pool.enabled_s = time.monotonic()
    pool.body |= {"enableAutoScale": True, **{k: body[k] for k in AUTOSCALE if k in body}}
    pool.touch()
    autoscaler.begin(world, pool)
    return Response(200, headers=world.tags(pool))


def disable_autoscale(world: World, request: Request) -> Response:
    pool = alive(world, request)
    pool.body["enableAutoScale"] = False
    for name in AUTOSCALE:
        pool.body.pop(name, None)
    pool.touch()
    return Response(200, headers=world.tags(pool))


def evaluate_autoscale(world: World, request: Request) -> Response:
    """ "The Pool must have auto scaling enabled in order to evaluate a formula"; nothing is changed."""
    pool = alive(world, request)
    if not pool.body.get("enableAutoScale"):
        raise ServiceError(
            "OperationNotValidOnPool", "The pool is not configured for automatic scaling."
        )
    return Response(200, autoscaler.evaluated(world, pool, request.body["autoScaleFormula"])[0])


def counts(world: World, request: Request) -> Response:
    """PoolNodeCounts: how many nodes of each kind are in which state."""

    def shown(pool: Pool) -> dict[str, Any]:
        return {
            "poolId": pool.id,
            "dedicated": states(pool, dedicated=True),
            "lowPriority": states(pool, dedicated=False),
        }

    return listing.page(world, request, world.pools.values(), shown, "poolnodecounts", lag=False)


NODE_STATES = {
    "creating": "creating",
    "idle": "idle",
    "leavingpool": "leavingPool",
    "offline": "offline",
    "preempted": "preempted",
    "rebooting": "rebooting",
    "reimaging": "reimaging",
    "running": "running",
    "starting": "starting",
    "starttaskfailed": "startTaskFailed",
    "unknown": "unknown",
    "unusable": "unusable",
    "waitingforstarttask": "waitingForStartTask",
    "deallocated": "deallocated",
    "deallocating": "deallocating",
    "upgradingos": "upgradingOS",
}


def states(pool: Pool, dedicated: bool) -> dict[str, int]:
    of = [n.state for n in pool.nodes.values() if n.dedicated == dedicated]
    return {**{shown: of.count(name) for name, shown in NODE_STATES.items()}, "total": len(of)}
