"""Nodes: machines of a pool, each with an address, a disk of its own, and a start task."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from runspec_emulators.azure.batch import commands, metadata
from runspec_emulators.azure.batch.commands import Command, Ended
from runspec_emulators.azure.batch.errors import ServiceError
from runspec_emulators.azure.batch.things import Thing, now

if TYPE_CHECKING:
    from runspec_emulators.azure.batch.pools import Pool
    from runspec_emulators.azure.batch.tasks import Attempt
    from runspec_emulators.azure.batch.world import World

# Below the root folder: https://learn.microsoft.com/en-us/azure/batch/files-and-directories
STARTUP, SHARED, MOUNTS, WORK = "startup", "shared", "fsmounts", "workitems"
READY = ("idle", "running")


class Node(Thing):
    """One machine."""

    def __init__(self, pool: Pool, name: str, number: int, dedicated: bool, root: Path) -> None:
        super().__init__(name, "creating")
        self.pool = pool
        self.number = number
        self.dedicated = dedicated
        self.root = root
        self.address = f"127.0.{1 + number // 250}.{1 + number % 250}"
        self.attempts: list[Attempt] = []
        self.leaving: str | None = None
        """How it goes, once it is to: a deallocation option."""
        self.prepared: dict[str, dict[str, Any]] = {}
        """What became of the job preparation tasks here, by job."""
        self.preparing = threading.Lock()
        self.start_info: dict[str, Any] | None = None
        self.start: Command | None = None
        self.errors: list[dict[str, Any]] = []
        self.event: dict[str, Any] | None = None
        """What is scheduled for its machine: see `metadata`."""
        self.asked = 0
        """How often its metadata were asked for."""
        self.recent: list[dict[str, Any]] = []
        self.total = 0
        self.login: Mapping[str, str] = {}
        """By what variables programs on it find its identities."""

    @property
    def free(self) -> int:
        """How many task slots nobody has."""
        if self.state not in READY or self.leaving:
            return 0
        return int(self.pool.slots) - sum(a.slots for a in self.attempts)

    def folder(self, name: str) -> Path:
        return self.root / name

    def variables(self, world: World) -> dict[str, str]:
        """Give what all tasks on it have, the start task too.

        https://learn.microsoft.com/en-us/azure/batch/batch-compute-node-environment-variables
        """
        return {
            **self.login,
            metadata.VARIABLE: metadata.address(world, self),
            "AZ_BATCH_ACCOUNT_NAME": world.settings.account,
            "AZ_BATCH_ACCOUNT_URL": world.url,
            "AZ_BATCH_NODE_ID": self.id,
            "AZ_BATCH_NODE_IS_DEDICATED": "true" if self.dedicated else "false",
            "AZ_BATCH_NODE_MOUNTS_DIR": str(self.folder(MOUNTS)),
            "AZ_BATCH_NODE_ROOT_DIR": str(self.root),
            "AZ_BATCH_NODE_SHARED_DIR": str(self.folder(SHARED)),
            "AZ_BATCH_NODE_STARTUP_DIR": str(self.folder(STARTUP)),
            "AZ_BATCH_POOL_ID": self.pool.id,
            "AZ_BATCH_TASK_RESERVED_EPHEMERAL_DISK_SPACE_BYTES": "1000000000",
        }

    def settle(self) -> None:
        """Be running while a task is here, and idle otherwise."""
        if self.state in READY:
            self.move("running" if self.attempts else "idle")

    def shown(self, url: str) -> dict[str, Any]:
        """ComputeNode of the service's description."""
        found = {k: v for k, v in self.stamps(url).items() if k in ("id", "url", "state")}
        found |= {
            "stateTransitionTime": self.moved,
            "lastBootTime": self.created,
            "allocationTime": self.created,
            "ipAddress": self.address,
            "ipv6Address": f"::ffff:{self.address}",
            "affinityId": f"TVM:{self.id}",
            "vmSize": self.pool.body["vmSize"],
            "totalTasksRun": self.total,
            "runningTasksCount": len(self.attempts),
            "runningTaskSlotsCount": sum(a.slots for a in self.attempts),
            "totalTasksSucceeded": sum(
                r["executionInfo"].get("exitCode") == 0 for r in self.recent
            ),
            "isDedicated": self.dedicated,
            "schedulingState": "enabled",
            "recentTasks": self.recent[-10:],
        }
        machine = self.pool.body["virtualMachineConfiguration"]
        found["virtualMachineInfo"] = {"imageReference": machine["imageReference"]}
        if self.pool.body.get("startTask"):
            found["startTask"] = self.pool.body["startTask"]
            if self.start_info:
                found["startTaskInfo"] = self.start_info
        if self.errors:
            found["errors"] = self.errors
        return found


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
    for one in node.pool.body.get("mountConfiguration", ()):
        (inner,) = one.values()
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
    env = {**node.variables(world), **commands.folders(folder)}
    env |= {e["name"]: e.get("value", "") for e in task.get("environmentSettings", ())}
    while True:
        with world.lock:
            if world.closed or node.id not in node.pool.nodes:
                return
            info = node.start_info or {}
            command = node.start = Command(folder, env)
        end = command.run(world, task["commandLine"], task.get("resourceFiles", ()))
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
    info |= {"state": "completed", "endTime": now(), **end.told()}
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
    for one in node.folder(MOUNTS).rglob("*") if node.folder(MOUNTS).exists() else ():
        if one.is_symlink():
            one.unlink()
    shutil.rmtree(node.root, ignore_errors=True)


def find(world: World, path: dict[str, str]) -> Node:
    """Give the node that a request's path names; raise ServiceError if it is not there."""
    pool = world.pool(path["pool_id"])
    node = pool.nodes.get(path["node_id"])
    if node is None:
        raise ServiceError("NodeNotFound", "The specified node does not exist.")
    return node
