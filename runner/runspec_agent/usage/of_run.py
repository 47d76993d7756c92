"""`usage FOLDER`: samples all nodes of a run on one machine, whose supervisor is a sibling of this process.

A node is known by the variables of its first process. Each record is written at each sample.
"""

import os
import time
from typing import Dict, Iterator, List, Optional, Tuple

from runspec_agent.base import files
from runspec_agent.usage.background import key
from runspec_agent.usage.meter import Meter, total
from runspec_agent.usage.process_table import TICKS, Process, ProcessTable

NAMES = ("RUNSPEC_TASK", "RUNSPEC_ATTEMPT", "RUNSPEC_RANK")
BOOTTIME = 7  # the clock of the start times of processes: clock_gettime(2)
Node = Tuple[int, int, int]  # task, attempt, rank


def main(argv: List[str]) -> int:
    supervisor, run = os.getppid(), RunUsage(argv[0])
    parent = run.table.process(supervisor)
    while parent is not None and os.getppid() == supervisor:
        run.sample(parent.parent)  # it adopts what nodes leave behind
        time.sleep(run.pause_s())
    return 0


class RunUsage:
    """The meters of the nodes of the run in *folder*."""

    def __init__(self, folder: str, proc: str = "/proc") -> None:
        self.folder = folder.rstrip("/")
        self.table = ProcessTable(proc)
        self.meters: Dict[Node, Meter] = {}
        self._known: Dict[Tuple[int, int], Node] = {}

    def sample(self, root: int) -> None:
        """Sample all nodes that run below the process *root*, and write their records."""
        members = self.table.below(root)
        nodes: Dict[Node, Dict[int, Process]] = {}
        for pid, node in self._placed(members, root):
            nodes.setdefault(node, {})[pid] = members[pid]
        for node, processes in nodes.items():
            meter = self.meters.get(node)
            if meter is None:
                first = min(processes.values(), key=lambda process: process.started)
                meter = self.meters[node] = self._meter(first, node)
            meter.sample(*total(processes))
            # Write the record; on a full disk, the next sample writes it
            path = os.path.join(self.folder, key("", *node))
            try:
                os.makedirs(os.path.dirname(path), 0o700, exist_ok=True)
                files.write(path, meter.series.document())
            except OSError:
                pass
        for node in set(self.meters) - set(nodes):
            self.meters.pop(node).finish()

    def pause_s(self) -> float:
        return min([meter.pause_s() for meter in self.meters.values()], default=1.0)

    def _placed(self, processes: Dict[int, Process], root: int) -> Iterator[Tuple[int, Node]]:
        """Yield the processes of nodes; a process without own variables belongs to the node of its parent."""
        known: Dict[Tuple[int, int], Node] = {}
        for process in processes.values():
            key = (process.pid, process.started)
            node = self._known.get(key) or self._node(process.pid)
            if node is not None:
                known[key] = node
        self._known = known
        for pid in processes:
            node = self._inherited(pid, processes, root)
            if node is not None:
                yield pid, node

    def _inherited(self, pid: int, processes: Dict[int, Process], root: int) -> Optional[Node]:
        while pid in processes:
            node = self._known.get((pid, processes[pid].started))
            if node is not None or pid == root:
                return node
            pid = processes[pid].parent
        return None

    def _node(self, pid: int) -> Optional[Node]:
        """Return the node whose variables the process was started with, or None."""
        env = self.table.environment(pid)
        values = [env.get(name, "") for name in NAMES]
        if env.get("RUNSPEC_RUN") != os.path.basename(self.folder):
            return None
        if not all(word.isdigit() for word in values):
            return None
        return int(values[0]), int(values[1]), int(values[2])

    def _meter(self, first: Process, node: Node) -> Meter:
        folder = os.path.join(self.folder, "tasks", str(node[0]), "nodes", str(node[2]))
        env = self.table.environment(first.pid)
        env.setdefault("CUDA_VISIBLE_DEVICES", "")  # a job with GPUs is told which ones
        age_s = time.clock_gettime(BOOTTIME) - first.started / TICKS
        meter = Meter(folder, env, "", max(0.0, age_s))
        meter.series.about["of"] = "processes"
        return meter
