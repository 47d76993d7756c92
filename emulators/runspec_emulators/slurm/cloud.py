"""A Slurm whose nodes are started when there are jobs for them, shaped as ParallelCluster shapes it."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from runspec_emulators.slurm.cluster import Cluster
from runspec_emulators.slurm.conf import Partition, Shape

QUEUES = ("main", "spot")
BAD = ("down", "drain", "fail")
AWAY = "idle~"  # the state that sinfo shows for a node that may be started
# https://slurm.schedmd.com/power_save.html
SETTINGS: Mapping[str, str | int] = {
    "PrivateData": "cloud",  # nodes that are away are shown all the same
    "ReturnToService": 1,
    "SuspendTimeout": 5,
    "ResumeTimeout": 30,
    "TreeWidth": 65533,
    "SlurmctldParameters": "idle_on_node_suspend,cloud_dns,power_save_interval=1,"
    "power_save_min_interval=0",
}


class Cloud(Cluster):
    """A cluster of queues, each with *nodes* nodes QUEUE-dy-m-1 ..., none of which has been started.

    A node takes a second to start, and goes away when it was idle for *idle_s*. What srun asks for runs
    then; a batch job may wait for half a minute more, until slurmctld looks at it again (22.05).
    """

    state = "CLOUD"
    resting = AWAY

    def __init__(
        self,
        folder: Path,
        nodes: int = 2,
        shape: Shape | None = None,
        queues: Sequence[str] = QUEUES,
        idle_s: int = 8,
    ) -> None:
        self.without_capacity: frozenset[str] = frozenset()
        partitions = [
            Partition(queue, nodes=tuple(f"{queue}-dy-m-{i}" for i in range(1, nodes + 1)))
            for queue in queues
        ]
        programs = {
            f"{what.title()}Program": str(folder.resolve() / what) for what in ("resume", "suspend")
        }
        names = [name for partition in partitions for name in partition.nodes]
        more = {**SETTINGS, **programs, "SuspendTime": idle_s}
        super().__init__(folder, names, shape, partitions, more)

    def take_capacity(self, names: Iterable[str]) -> None:
        """Make the nodes *names* impossible to start: they become DOWN, as with ParallelCluster."""
        self.without_capacity = frozenset(names)
        self._write_plan()

    def give_capacity(self) -> None:
        """Restore the capacity of all nodes, so that they can be started."""
        for name in self._give():
            self._take_away(name)

    def reclaim(self, name: str) -> None:
        """Reclaim a running node like a spot instance; slurmctld may start it again."""
        self.lose(name)
        self.set_node(name, "DOWN", "spot instance reclaimed")
        self._take_away(name)

    def mend(self, *, cancel: bool = True) -> None:
        """Restore capacity and the controller; with *cancel*, also cancel all jobs and wait until no node runs."""
        self._mend_controller()
        names = self._give()
        bad = (name for name, state in self.states().items() if state.startswith(BAD))
        for name in names.union(bad):  # each node once, even if two reasons name it
            self._take_away(name)
        if cancel:
            self.cancel()
            self.await_states()

    def start_node(self, name: str) -> None:
        """Ask slurmctld to start a node."""
        self.set_node(name, "POWER_UP")

    def _give(self) -> frozenset[str]:
        """Restore the capacity of all nodes, and return the names of those that had none."""
        names, self.without_capacity = self.without_capacity, frozenset()
        self._write_plan()
        return names

    def _take_away(self, name: str) -> None:
        self.set_node(name, "POWER_DOWN_FORCE")

    def _configure(self) -> None:
        super()._configure()
        self._write_plan()
        for what in ("resume", "suspend"):
            script = self.places.folder / what
            command = [
                sys.executable,
                "-IS",
                Path(__file__).with_name("power.py"),
                what,
                self._plan,
            ]
            line = " ".join(shlex.quote(str(word)) for word in command)
            log = shlex.quote(str(self.places.log(what)))
            script.write_text(f'#!/bin/sh\nexec {line} "$@" >>{log} 2>&1\n')
            script.chmod(0o700)

    @property
    def _plan(self) -> Path:
        return self.places.folder / "power.json"

    def _write_plan(self) -> None:
        plan: dict[str, Any] = {
            "env": self._own,
            "slurmd": self.programs["slurmd"],
            "scontrol": self.programs["scontrol"],
            "logs": str(self.places.folder / "logs"),
            "pids": str(self.places.near),
            "without_capacity": sorted(self.without_capacity),
        }
        new = self._plan.with_suffix(".new")
        new.write_text(json.dumps(plan))
        new.replace(self._plan)

    def _start_nodes(self) -> None:
        """Start nothing: slurmctld starts nodes for jobs."""
