"""A node getting ready: the cluster's mounts, its setup task."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from runspec_emulators.batch_ai.jobs import environment, mounts
from runspec_emulators.batch_ai.jobs.processes import MARK, Process, Wanted
from runspec_emulators.batch_ai.model import Cluster, Node
from runspec_emulators.batch_ai.storage.volumes import CannotMount, Volume, expanded, mount
from runspec_emulators.batch_ai.world import World


class NodeSetup:
    """The preparation of one node of a cluster."""

    def __init__(
        self, world: World, cluster: Cluster, node: Node, idle: Callable[[], None]
    ) -> None:
        """Call *idle* with the lock held when the node has become idle."""
        self._world, self._cluster, self._node = world, cluster, node
        self._idle = idle

    def prepare(self) -> None:
        """Make the node idle, or unusable, which the cluster's errors then explain."""
        node, asked = self._node, self._cluster.properties.get("nodeSetup", {})
        if node.state != "preparing":
            return
        node.mounts.mkdir(parents=True, exist_ok=True)
        try:
            volumes = mounts.volumes(self._world, asked.get("mountVolumes", {}))
            for volume in volumes:
                mount(volume, node.mounts)
        except CannotMount as exc:
            self._unusable("MountVolumeFailed", str(exc))
            return
        task = asked.get("setupTask")
        if task is None:
            self._ready()
            return
        threading.Thread(target=self._run, args=(task, volumes), daemon=True).start()

    def _run(self, task: dict[str, Any], volumes: Sequence[Volume]) -> None:
        """Run the setup task on the node. Its output's path: SetupTask.stdOutErrPathSuffix."""
        world, node = self._world, self._node
        try:
            world.mirror.pull(world.settings, volumes)
        except CannotMount as exc:
            with world.lock:
                self._unusable("MountVolumeFailed", str(exc))
            return
        env = environment.machine(world.settings, node)
        env[MARK] = node.mark
        for given in (*task.get("environmentVariables", ()), *task.get("secrets", ())):
            env[given["name"]] = given.get("value", "")
        logs = Path(expanded(task["stdOutErrPathPrefix"], env)) / self._cluster.setup_suffix
        logs.mkdir(parents=True, exist_ok=True)
        out, err = logs / f"stdout-{node.id}.txt", logs / f"stderr-{node.id}.txt"
        code = Process(Wanted(task["commandLine"], env, node.folder, out, err)).wait()
        world.mirror.push(world.settings, volumes)
        with world.lock:
            if code:
                message = f"The setup task failed with exit code {code} on node {node.id}."
                self._unusable("SetupTaskFailed", message)
            else:
                self._ready()

    def _ready(self) -> None:
        if self._node.state == "preparing":
            self._node.state, self._node.idle_since = "idle", time.monotonic()
            self._idle()

    def _unusable(self, code: str, message: str) -> None:
        """ "Collection of errors encountered by various compute nodes during node setup": errors."""
        node = self._node
        if node.state == "preparing":
            node.state = "unusable"
        details = [{"name": "NodeId", "value": node.id}]
        self._cluster.errors.append({"code": code, "message": message, "details": details})
