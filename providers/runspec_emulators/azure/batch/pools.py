"""Pools: what they are made of, how they are shown, changed and deleted."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from runspec_emulators.azure.batch import autoscale, guards, listing, scaling
from runspec_emulators.azure.batch.answers import Answer
from runspec_emulators.azure.batch.errors import ServiceError, wrong
from runspec_emulators.azure.batch.things import Thing, now

if TYPE_CHECKING:
    from runspec_emulators.azure.batch.nodes import Node
    from runspec_emulators.azure.batch.requests import Request
    from runspec_emulators.azure.batch.world import World

TARGETS = ("targetDedicatedNodes", "targetLowPriorityNodes")
AUTOSCALE = ("autoScaleFormula", "autoScaleEvaluationInterval")
DEFAULTS = {
    "taskSlotsPerNode": 1,
    "enableInterNodeCommunication": False,
    "taskSchedulingPolicy": {"nodeFillType": "spread"},
    "resizeTimeout": "PT15M",
}


class Pool(Thing):
    """One pool and its nodes, by id."""

    def __init__(self, body: dict[str, Any]) -> None:
        super().__init__(body["id"], "active")
        self.body = {**DEFAULTS, **body}
        self.nodes: dict[str, Node] = {}
        self.made = 0
        self.targets = {name: body.get(name, 0) for name in TARGETS}
        self.allocation, self.allocated_at = "steady", now()
        self.resize_errors: list[dict[str, Any]] = []
        self.option = "requeue"
        self.turn = 0
        """Counts resizes: what was due for an older one is not done."""
        self.clock = 0
        """Counts formulas, for their timers."""
        self.run: dict[str, Any] | None = None
        """autoScaleRun."""
        self.enabled_s = -math.inf
        """When autoscale was enabled last."""
        self.incarnation = 1
        """Of the document of scheduled events."""
        self.samples: list[tuple[float, dict[str, float]]] = []

    @property
    def slots(self) -> int:
        return int(self.body["taskSlotsPerNode"])

    @property
    def identities(self) -> list[str]:
        """Give the ids of its user-assigned identities."""
        given = self.body.get("identity", {}).get("userAssignedIdentities", ())
        return [one["resourceId"] for one in given]

    @property
    def contained(self) -> bool:
        return "containerConfiguration" in self.body.get("virtualMachineConfiguration", {})

    def count(self, dedicated: bool) -> int:
        return sum(n.dedicated == dedicated for n in self.nodes.values())

    def shown(self, url: str) -> dict[str, Any]:
        """BatchPool of the service's description, which has no previous state."""
        hidden = ("id", *TARGETS)
        stamps = {k: v for k, v in self.stamps(url).items() if not k.startswith("previous")}
        found = {**stamps, **{k: v for k, v in self.body.items() if k not in hidden}}
        found |= {
            "allocationState": self.allocation,
            "allocationStateTransitionTime": self.allocated_at,
            "currentDedicatedNodes": self.count(dedicated=True),
            "currentLowPriorityNodes": self.count(dedicated=False),
            "enableAutoScale": self.body.get("enableAutoScale", False),
            **self.targets,
        }
        if found["enableAutoScale"]:
            found.pop("resizeTimeout", None)
        if self.resize_errors:
            found["resizeErrors"] = self.resize_errors
        if self.run:
            found["autoScaleRun"] = self.run
        return found


def add(world: World, request: Request) -> Answer:
    return made(world, request.body)


def made(world: World, body: dict[str, Any]) -> Answer:
    """Make a pool of a body that the models allow."""
    guards.id_of(body)
    guards.pool(body)
    autoscale.check_settings(body)
    found = world.pools.get(body["id"].lower())
    if found is not None:
        code = "PoolBeingDeleted" if found.state == "deleting" else "PoolExists"
        raise ServiceError(code, "The specified pool already exists.")
    pool = Pool(body)
    world.pools[pool.id.lower()] = pool
    pool.remember(pool.shown(world.pool_url(pool)))
    if body.get("enableAutoScale"):
        autoscale.begin(world, pool)
    else:
        scaling.resize(world, pool)
    return Answer(201, headers=world.made(pool, world.pool_url(pool)))


def show(world: World, request: Request) -> Answer:
    pool = world.pool(request.path["pool_id"])
    shown = pool.shown(world.pool_url(pool))
    return Answer(200, listing.selected(shown, request), world.tags(pool))


def exists(world: World, request: Request) -> Answer:
    return Answer(200, headers=world.tags(world.pool(request.path["pool_id"])))


def listed(world: World, request: Request) -> Answer:
    return listing.page(
        world, request, world.pools.values(), lambda p: p.shown(world.pool_url(p)), "pools"
    )


def delete(world: World, request: Request) -> Answer:
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
    scaling.resize(world, pool)
    world.timers.after(world.settings.delete_s, partial(remove, world, pool))
    return Answer(202)


def remove(world: World, pool: Pool) -> None:
    if pool.nodes:
        world.timers.after(0.01, partial(remove, world, pool))
    else:
        world.pools.pop(pool.id.lower(), None)


def alive(world: World, request: Request) -> Pool:
    """Give the pool that is to be changed; raise ServiceError if it is being deleted."""
    pool = world.pool(request.path["pool_id"])
    if pool.state == "deleting":
        message = "The specified pool has been marked for deletion and is being reclaimed."
        raise ServiceError("PoolBeingDeleted", message)
    return pool


def patch(world: World, request: Request) -> Answer:
    """Replace what is given. Mounts are "updated only when the pool is empty"."""
    pool = alive(world, request)
    if "mountConfiguration" in request.body and pool.nodes:
        raise ServiceError(
            "OperationNotValidOnPool", "Mounts can only be changed when the pool is empty."
        )
    guards.pool({"vmSize": pool.body["vmSize"], **request.body})
    pool.body |= request.body
    pool.touch()
    return Answer(200, headers=world.tags(pool))


def resize(world: World, request: Request) -> Answer:
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
    if not request.body.keys() & set(TARGETS):
        raise ServiceError("MissingRequiredProperty", "A target must be given.")
    guards.targets(request.body)
    pool.targets |= {k: v for k, v in request.body.items() if k in TARGETS}
    pool.option = request.body.get("nodeDeallocationOption", "requeue")
    scaling.resize(world, pool)
    return Answer(202, headers=world.tags(pool))


def stop_resize(world: World, request: Request) -> Answer:
    pool = alive(world, request)
    if pool.allocation != "resizing":
        raise ServiceError("OperationInvalidForCurrentState", "The pool is not being resized.")
    scaling.stop(world, pool)
    return Answer(202, headers=world.tags(pool))


def remove_nodes(world: World, request: Request) -> Answer:
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
        scaling.leave(world, node, pool.option)
    scaling.resize(world, pool)
    return Answer(202, headers=world.tags(pool))


def enable_autoscale(world: World, request: Request) -> Answer:
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
    autoscale.check_settings({"enableAutoScale": True, **pool.body, **body})
    if time.monotonic() - pool.enabled_s < world.settings.enable_s:
        message = "Too many Enable Pool AutoScale requests are issued on the pool."
        raise ServiceError("TooManyEnableAutoScaleRequests", message)
    pool.enabled_s = time.monotonic()
    pool.body |= {"enableAutoScale": True, **{k: body[k] for k in AUTOSCALE if k in body}}
    pool.touch()
    autoscale.begin(world, pool)
    return Answer(200, headers=world.tags(pool))


def disable_autoscale(world: World, request: Request) -> Answer:
    pool = alive(world, request)
    pool.body["enableAutoScale"] = False
    for name in AUTOSCALE:
        pool.body.pop(name, None)
    pool.touch()
    return Answer(200, headers=world.tags(pool))


def evaluate_autoscale(world: World, request: Request) -> Answer:
    """ "The Pool must have auto scaling enabled in order to evaluate a formula"; nothing is changed."""
    pool = alive(world, request)
    if not pool.body.get("enableAutoScale"):
        raise ServiceError(
            "OperationNotValidOnPool", "The pool is not configured for automatic scaling."
        )
    return Answer(200, autoscale.evaluated(world, pool, request.body["autoScaleFormula"])[0])


def counts(world: World, request: Request) -> Answer:
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
