"""Measures one node: its processes or its container, the disk with its folder, and its GPUs."""

import os
import resource
import sys
import time
from typing import Any, Dict, Mapping, Optional, Tuple

from runspec_agent.usage import cgroup
from runspec_agent.usage.cgroup import Cgroup
from runspec_agent.usage.gpus import GpuMeter
from runspec_agent.usage.process_table import Process, ProcessTable
from runspec_agent.usage.series import Point, Series

EVERY_S = 10
OFTEN_S = 5.0  # how long samples are taken each second at first, since many jobs are short


class Meter:
    """Takes samples of a node whose *folder* has the disk to measure, and whose program has *env*.

    *age_s* is the time since the node began.
    """

    def __init__(self, folder: str, env: Mapping[str, str], name: str, age_s: float) -> None:
        self.folder = folder
        self._began_s = time.monotonic() - age_s
        self.gpus = GpuMeter(env, EVERY_S)
        began_s = round(time.time() - age_s, 3)
        about: Dict[str, Any] = {"node": name, "began_s": began_s, "every_s": EVERY_S}
        about.update(cpus=_cpus(), memory_bytes=memory_bytes(), disk_bytes=_disk(folder)[1])
        self.series = Series(about)
        self._last_s = 0.0
        self._last_cpu_s = 0.0
        self._last_disk_bytes = 0

    def sample(self, cpu_s: float, used_bytes: int) -> None:
        """Add a point for now; *cpu_s* is the processor time since the node began."""
        at_s = max(time.monotonic() - self._began_s, self._last_s + 0.01)
        about = self.series.about
        cpus = max(0.0, cpu_s - self._last_cpu_s) / (at_s - self._last_s)
        cpus = min(cpus, about["cpus"])  # the time of a process that ends may be counted twice
        read = self.gpus.read()
        about["gpus"] = [gpu.total_bytes for gpu in read] or about.get("gpus", [])
        about["no_gpus"] = self.gpus.why
        gpus = tuple((float(gpu.percent), gpu.memory_bytes) for gpu in read)
        # At the end, another thread may have removed the folder.
        self._last_disk_bytes = _disk(self.folder)[0] or self._last_disk_bytes
        self.series.add(Point(at_s, cpus, used_bytes, self._last_disk_bytes, gpus))
        self._last_s, self._last_cpu_s = at_s, cpu_s

    def pause_s(self) -> float:
        """Return the time until the next sample."""
        return 1.0 if self._last_s < OFTEN_S else EVERY_S

    def finish(self) -> None:
        self.gpus.finish()


class OwnUsage:
    """What this process and all its descendants use, or the container that has no other processes."""

    def __init__(self, proc: str = "/proc", pid: int = 0) -> None:
        self.pid = pid or os.getpid()
        self.table = ProcessTable(proc)
        group = cgroup.find(proc)
        self.group: Optional[Cgroup] = group if group is not None and self._is_own(group) else None

    def _is_own(self, group: Cgroup) -> bool:
        """Return whether the group has processes of this job alone: what started this process is idle."""
        family = set(self.table.below(self.pid)) | self.table.parents(self.pid)
        try:
            group.cpu_s()
            group.memory_bytes()
            return group.members() <= family
        except (OSError, ValueError, KeyError):
            # Without these files of the group, processes are counted one by one.
            return False

    def read(self) -> Tuple[float, int]:
        """Return the processor time in seconds, and the memory in bytes."""
        if self.group is not None:
            return self.group.cpu_s(), self.group.memory_bytes()
        return total(self.table.below(self.pid))

    def limit(self) -> Optional[int]:
        return None if self.group is None else self.group.memory_limit()


def total(processes: Dict[int, Process]) -> Tuple[float, int]:
    """Return the processor time and the memory of all *processes*; what they share is counted for each of them."""
    cpu_s = sum(process.cpu_s for process in processes.values())
    return cpu_s, sum(process.memory_bytes for process in processes.values())


def largest_child() -> int:
    """Return the most memory in bytes that one descendant of this process ever used, of those that have ended."""
    largest = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    return largest * (1 if sys.platform == "darwin" else 1024)


def _cpus() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def memory_bytes() -> int:
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def _disk(folder: str) -> Tuple[int, int]:
    """Return how much of the file system with *folder* is used, and its size, in bytes; 0 if nothing says so."""
    try:
        space = os.statvfs(folder)
    except OSError:
        return 0, 0
    return (space.f_blocks - space.f_bfree) * space.f_frsize, space.f_blocks * space.f_frsize
