"""Nodes: machines of a pool, each with an address, a disk of its own, and a start task."""

from __future__ import annotations

import shutil
from functools import partial
from typing import Any

from runspec_emulators.azure_batch.errors import ServiceError
from runspec_emulators.azure_batch.model import MOUNTS, SHARED, STARTUP, WORK, Node
from runspec_emulators.azure_batch.nodes import metadata
from runspec_emulators.azure_batch.processes import commands
from runspec_emulators.azure_batch.processes.commands import Command, Ended
from runspec_emulators.azure_batch.resource import now
from runspec_emulators.azure_batch.world import World
from runspec_emulators.frame.folders import list_below


def variables(world: World, node: Node) -> dict[str, str]:
    """Return the environment variables that every task on a node gets, the start task included.

    https://learn.microsoft.com/en-us/azure/batch/batch-compute-node-environment-variables
    """
    return {
        **node.login,
        metadata.VARIABLE: metadata.address(world, node),
        "AZ_BATCH_ACCOUNT_NAME": world.settings.account,
        "AZ_BATCH_ACCOUNT_URL": world.url,
        "AZ_BATCH_NODE_ID": node.id,
        "AZ_BATCH_NODE_IS_DEDICATED": "true" if node.dedicated else "false",
        "AZ_BATCH_NODE_MOUNTS_DIR": str(node.folder(MOUNTS)),
        "AZ_BATCH_NODE_ROOT_DIR": str(node.root),
        "AZ_BATCH_NODE_SHARED_DIR": str(node.folder(SHARED)),
        "AZ_BATCH_NODE_STARTUP_DIR": str(node.folder(STARTUP)),
        "AZ_BATCH_POOL_ID": node.pool.id,
        "AZ_BATCH_TASK_RESERVED_EPHEMERAL_DISK_SPACE_BYTES": "1000000000",
    }


def boot(world: World, node: Node) -> None:
    """Have a node that was allocated start, run its start task, and be ready."""
    for name in (STARTUP, SHARED, MOUNTS, WORK):
        node.folder(name).mkdir(parents=True, exist_ok=True)
    mount(world, node)
    if world.identity is not None and node.pool.identities:
        node.login = world.identity.machine(node.pool.identities)
    node.move("starting")
    world.timers.after(world.settings.boot_s, partial(started, world, node))


def mount(world: World, node: Node) -> None:
    """Have a folder for each mount; settings may say which folder of this machine it is.

    "relativeMountPath: [...] All file systems are mounted relative to the Batch mounts directory,
    accessible via the AZ_BATCH_NODE_MOUNTS_DIR environment variable."
    """
    for entry in node.pool.body.get("mountConfiguration", ()):
        (inner,) = entry.values()
        name = inner["relativeMountPath"]
        at = node.folder(MOUNTS) / name
        at.parent.mkdir(parents=True, exist_ok=True)
        given = world.settings.mounts.get(name)
        if given is None:
            at.mkdir(exist_ok=True)
        elif not at.is_symlink():
            at.symlink_to(given, target_is_directory=True)


def started(world: World, node: Node) -> None:
    if node.state != "starting":
        return
    if node.number in world.settings.unusable:
        node.errors = [{"code": "NodeUnusable", "message": "The node became unusable."}]
        node.move("unusable")
        return
    task = node.pool.body.get("startTask")
    if task is None:
        ready(world, node)
        return
    node.start_info = {"state": "running", "startTime": now(), "retryCount": 0}
    if task.get("waitForSuccess", True):
        node.move("waitingforstarttask")
    else:
        ready(world, node)
    world.later(partial(run_start, world, node, task))


def ready(world: World, node: Node) -> None:
    node.move("idle")
    node.settle()
    world.place()


def run_start(world: World, node: Node, task: dict[str, Any]) -> None:
    """Run a start task, with retries, in a thread of its own.

    "maxTaskRetryCount: [...] the Batch service retries up to this limit"; -1 is for ever.
    """
    folder = node.folder(STARTUP)
    env = {**variables(world, node), **commands.folders(folder)}
    env |= {e["name"]: e.get("value", "") for e in task.get("environmentSettings", ())}
    while True:
        with world.lock:
            if world.closed or node.id not in node.pool.nodes:
                return
            info = node.start_info or {}
            command = node.start = Command(folder, env)
        end = command.run(world.settings, task["commandLine"], task.get("resourceFiles", ()))
        limit = task.get("maxTaskRetryCount", 0)
        with world.lock:
            if (
                end.failed
                and end.exit_code is not None
                and limit in (-1, *range(info["retryCount"] + 1, limit + 1))
            ):
                info |= {"retryCount": info["retryCount"] + 1, "lastRetryTime": now()}
                continue
            start_ended(world, node, end)
            return


def start_ended(world: World, node: Node, end: Ended) -> None:
    info = node.start_info or {}
    info |= {"state": "completed", "endTime": now(), **end.execution_info()}
    info["result"] = "failure" if end.failed else "success"
    if node.state == "waitingforstarttask":
        if end.failed:
            node.move("starttaskfailed")
        else:
            ready(world, node)


def gone(node: Node) -> None:
    """Take a node's disk away: files are gone with it."""
    if node.start:
        node.start.kill()
    for path in list_below(node.folder(MOUNTS)):
        if path.is_symlink():
            path.unlink()
    shutil.rmtree(node.root, ignore_errors=True)


def find(world: World, path: dict[str, str]) -> Node:
    """Return the node that a request's path names; raise ServiceError if it is not there."""
    pool = world.pool(path["pool_id"])
    node = pool.nodes.get(path["node_id"])
    if node is None:
        raise ServiceError("NodeNotFound", "The specified node does not exist.")
    return node
