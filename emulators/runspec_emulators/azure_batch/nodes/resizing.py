"""Pools that grow and shrink: nodes come after a while, and go as the deallocation option says."""

from __future__ import annotations

from functools import partial
from typing import Any

from runspec_emulators.azure_batch.model import Node, Pool
from runspec_emulators.azure_batch.nodes import lifecycle, metadata
from runspec_emulators.azure_batch.resource import now
from runspec_emulators.azure_batch.world import World

KINDS = {True: "targetDedicatedNodes", False: "targetLowPriorityNodes"}
QUOTA = {True: "AccountCoreQuotaReached", False: "AccountLowPriorityCoreQuotaReached"}
# Words of resizeErrors: https://learn.microsoft.com/en-us/azure/batch/batch-pool-node-error-checking
SAID = {
    "AccountCoreQuotaReached": "The specified account has reached core quota",
    "AccountLowPriorityCoreQuotaReached": "The specified account has reached low priority core quota",
    "AllocationFailed": "Desired number of dedicated nodes could not be allocated",
    "AllocationTimedout": "Desired number of dedicated nodes could not be allocated as the resize timeout was reached",
    "ResizeStopped": "Desired number of nodes could not be allocated due to a stop resize operation",
}


def error(code: str) -> dict[str, Any]:
    return {"code": code, "message": SAID.get(code, code), "values": []}


def resize(world: World, pool: Pool) -> None:
    """Begin to bring the pool to its targets."""
    pool.turn += 1
    pool.resize_errors = []
    allocation(pool, "resizing")
    shrink(world, pool)
    world.timers.after(max(world.settings.resize_s, 0), partial(grow, world, pool, pool.turn))


def allocation(pool: Pool, state: str) -> None:
    if pool.allocation != state:
        pool.allocation, pool.allocated_at = state, now()


def shrink(world: World, pool: Pool) -> None:
    """Have nodes leave, those that run nothing first."""
    for dedicated, name in KINDS.items():
        here = [n for n in pool.nodes.values() if n.dedicated == dedicated]
        staying = [n for n in here if not n.leaving]
        staying.sort(key=lambda n: (bool(n.attempts), n.number))
        for node in staying[: max(0, len(staying) - pool.targets[name])]:
            leave(world, node, pool.option)


def leave(world: World, node: Node, option: str) -> None:
    """Take a node away: now, or when its tasks have ended.

    ComputeNodeDeallocationOption of the service's description: requeue, terminate, taskcompletion,
    retaineddata (here: as taskcompletion).
    """
    node.leaving = option
    if option in ("taskcompletion", "retaineddata") and node.attempts:
        return
    for attempt in list(node.attempts):
        attempt.cut("requeue" if option == "requeue" else "node-terminated")
    world.timers.after(0, partial(drop, world, node))


def drop(world: World, node: Node) -> None:
    """Let a node go once nothing runs on it any more."""
    if node.attempts:
        if node.leaving not in ("taskcompletion", "retaineddata"):
            world.timers.after(0.01, partial(drop, world, node))
        return
    if node.pool.nodes.pop(node.id, None):
        world.later(partial(lifecycle.gone, node))
    settle(world, node.pool)


def grow(world: World, pool: Pool, turn: int) -> None:
    """Allocate the nodes that are missing, as far as the account's quota lets."""
    if turn != pool.turn or pool.state == "deleting":
        settle(world, pool)
        return
    failing = world.settings.resize_errors.get(pool.id) or world.settings.resize_errors.get("*")
    wanted = 0
    for dedicated, name in KINDS.items():
        staying = sum(n.dedicated == dedicated and not n.leaving for n in pool.nodes.values())
        missing = pool.targets[name] - staying
        if missing > 0 and failing:
            pool.resize_errors.append(error(failing))
            continue
        granted = min(missing, left(world, dedicated))
        if granted < missing:
            pool.resize_errors.append(error(QUOTA[dedicated]))
        for _ in range(granted):
            wanted += 1
            world.timers.after(world.settings.node_s, partial(make, world, pool, turn, dedicated))
    world.timers.after(world.settings.node_s if wanted else 0, partial(settle, world, pool))


def left(world: World, dedicated: bool) -> int:
    """Return how many more nodes of a kind the quota of the account allows."""
    settings = world.settings
    quota = settings.dedicated_quota if dedicated else settings.low_priority_quota
    return max(0, quota - sum(p.count(dedicated) for p in world.pools.values()))


def make(world: World, pool: Pool, turn: int, dedicated: bool) -> None:
    if turn != pool.turn or pool.state == "deleting":
        return
    pool.made += 1
    number = world.next_number()
    name = f"tvm-{number:010d}_{pool.made}-{pool.created[:19].replace('-', '').replace(':', '').lower()}z"
    node = Node(pool, name, number, dedicated, world.settings.folder / "nodes" / name)
    pool.nodes[name] = node
    lifecycle.boot(world, node)


def settle(world: World, pool: Pool) -> None:
    """Set the pool to steady when no node is missing or leaving, and place tasks that wait."""
    if not any(n.leaving for n in pool.nodes.values()):
        missing = any(pool.count(kind) < pool.targets[name] for kind, name in KINDS.items())
        if not missing or pool.resize_errors:
            allocation(pool, "steady")
    world.place()


def stop(world: World, pool: Pool) -> None:
    """ "the Pool will stop [...] at the number of nodes it has"; the targets become that."""
    pool.turn += 1
    allocation(pool, "stopping")
    pool.resize_errors = [error("ResizeStopped")]
    for dedicated, name in KINDS.items():
        pool.targets[name] = pool.count(dedicated)
    for node in pool.nodes.values():
        if node.leaving in ("taskcompletion", "retaineddata"):
            node.leaving = None
    world.timers.after(world.settings.resize_s, partial(settle, world, pool))


def preempt(world: World, node: Node) -> None:
    """Take a low-priority node's machine away: all that runs there is killed and queued again.

    "the node's state is preempted [...] the tasks running on it are requeued", and the service
    tries to bring the node back: https://learn.microsoft.com/en-us/azure/batch/batch-spot-vms
    """
    metadata.withdraw(node)
    node.move("preempted")
    if node.start:
        node.start.kill()
    for attempt in list(node.attempts):
        attempt.cut("preempted")
    if world.settings.comes_back:
        world.timers.after(world.settings.wake_s, partial(wake, world, node))


def wake(world: World, node: Node) -> None:
    """Bring a preempted node back, with an empty disk."""
    if node.state != "preempted" or node.id not in node.pool.nodes or not world.settings.comes_back:
        return
    if node.attempts:
        world.timers.after(0.01, partial(wake, world, node))
        return
    lifecycle.gone(node)
    node.prepared.clear()
    node.move("creating")
    lifecycle.boot(world, node)
