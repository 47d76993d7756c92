"""A node getting ready: the cluster's mounts, its setup task."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from runspec_emulators.azure.batchai import places, scaling, surroundings
from runspec_emulators.azure.batchai.model import Cluster, Node
from runspec_emulators.azure.batchai.places import CannotMount, Volume, expanded
from runspec_emulators.azure.batchai.processes import MARK, Process, Wanted

if TYPE_CHECKING:
    from runspec_emulators.azure.batchai.world import World


def prepare(world: World, cluster: Cluster, node: Node) -> None:
    """Make a node idle, or unusable, which the cluster's errors then explain."""
    if node.state != "preparing":
        return
    asked = cluster.properties.get("nodeSetup", {})
    node.mounts.mkdir(parents=True, exist_ok=True)
    try:
        volumes = places.volumes(world, asked.get("mountVolumes", {}))
        for volume in volumes:
            places.mount(volume, node.mounts)
    except CannotMount as exc:
        unusable(cluster, node, "MountVolumeFailed", str(exc))
        return
    task = asked.get("setupTask")
    if task is None:
        ready(world, cluster, node)
        return
    given = (world, cluster, node, task, volumes)
    threading.Thread(target=set_up, args=given, daemon=True).start()


def set_up(
    world: World, cluster: Cluster, node: Node, task: dict[str, Any], volumes: list[Volume]
) -> None:
    """Run the setup task on a node. Its output's path: SetupTask.stdOutErrPathSuffix."""
    try:
        world.mirror.pull(world.settings, volumes)
    except CannotMount as exc:
        with world.lock:
            unusable(cluster, node, "MountVolumeFailed", str(exc))
        return
    env = surroundings.machine(world.settings, node)
    env[MARK] = mark(node)
    for given in (*task.get("environmentVariables", ()), *task.get("secrets", ())):
        env[given["name"]] = given.get("value", "")
    prefix = expanded(task["stdOutErrPathPrefix"], env)
    logs = Path(prefix) / cluster.setup_suffix
    logs.mkdir(parents=True, exist_ok=True)
    out, err = logs / f"stdout-{node.id}.txt", logs / f"stderr-{node.id}.txt"
    code = Process(Wanted(task["commandLine"], env, node.folder, out, err)).wait()
    world.mirror.push(world.settings, volumes)
    with world.lock:
        if code:
            message = f"The setup task failed with exit code {code} on node {node.id}."
            unusable(cluster, node, "SetupTaskFailed", message)
        else:
            ready(world, cluster, node)


def mark(node: Node) -> str:
    """Give what the processes of a node's setup task are known by."""
    return str(node.folder)


def ready(world: World, cluster: Cluster, node: Node) -> None:
    if node.state == "preparing":
        node.state, node.idle_since = "idle", time.monotonic()
        scaling.place(world, cluster)


def unusable(cluster: Cluster, node: Node, code: str, message: str) -> None:
    """ "Collection of errors encountered by various compute nodes during node setup": errors."""
    if node.state == "preparing":
        node.state = "unusable"
    details = [{"name": "NodeId", "value": node.id}]
    cluster.errors.append({"code": code, "message": message, "details": details})
