"""The control group of this process, of version 1 or 2, as a container has one.

Sources: cgroups(7), proc_pid_mountinfo(5), and Documentation/admin-guide/cgroup-v1 and cgroup-v2 of the kernel.
"""

import os
from typing import Dict, Iterator, List, NamedTuple, Optional, Set, Tuple

UNLIMITED = 1 << 60  # version 1 has no word for "no limit", but the largest multiple of a page


class Mount(NamedTuple):
    root: str
    point: str
    kind: str
    options: str


class Cgroup(NamedTuple):
    """The folders of a control group with the files of memory and of processor time."""

    memory: str
    cpu: str
    version: int

    def memory_bytes(self) -> int:
        """Return the memory in use, without the file cache that the kernel can give back at once."""
        two = self.version == 2
        total = _number(self.memory, "memory.current" if two else "memory.usage_in_bytes")
        word = "inactive_file" if two else "total_inactive_file"
        return max(0, total - _words(self.memory, "memory.stat").get(word, 0))

    def cpu_s(self) -> float:
        if self.version == 2:
            return _words(self.cpu, "cpu.stat")["usage_usec"] / 1e6
        return _number(self.cpu, "cpuacct.usage") / 1e9

    def memory_limit(self) -> Optional[int]:
        """Return the limit in bytes, or None if there is none."""
        name = "memory.max" if self.version == 2 else "memory.limit_in_bytes"
        try:
            limit = _number(self.memory, name)
        except (OSError, ValueError):  # the word "max", or no such file
            return None
        return limit if limit < UNLIMITED else None

    def oom_kills(self) -> int:
        """Return how many processes the kernel has killed for their memory. Linux 4.13 counts them in version 1."""
        two = self.version == 2
        return _words(self.memory, "memory.events" if two else "memory.oom_control")["oom_kill"]

    def members(self) -> Set[int]:
        """Return its processes; those outside of this process id namespace are 0."""
        return {int(pid) for pid in _text(self.memory, "cgroup.procs").split()}


def find(proc: str = "/proc") -> Optional[Cgroup]:
    """Return the control group of this process, or None if its files are not there."""
    try:
        with open("{}/self/cgroup".format(proc)) as stream:
            lines = [line.rstrip("\n").split(":", 2) for line in stream]
        mounts = list(_mounts(proc))
    except (OSError, ValueError):
        return None
    paths = {name: path for _, names, path in lines for name in names.split(",")}
    unified = _folder(mounts, "cgroup2", "", paths.get(""))
    if unified and os.path.exists(os.path.join(unified, "memory.current")):
        return Cgroup(unified, unified, 2)
    memory = _folder(mounts, "cgroup", "memory", paths.get("memory"))
    cpu = _folder(mounts, "cgroup", "cpuacct", paths.get("cpuacct"))
    return Cgroup(memory, cpu, 1) if memory and cpu else None


def _mounts(proc: str) -> Iterator[Mount]:
    with open("{}/self/mountinfo".format(proc)) as stream:
        for line in stream:
            before, _, after = line.partition(" - ")
            kind, _, options = after.split()[:3]
            root, point = before.split()[3:5]
            yield Mount(root, point, kind, options)


def _folder(mounts: List[Mount], kind: str, controller: str, path: Optional[str]) -> Optional[str]:
    """Return the folder of the group at *path*; what is mounted may be a part of all groups."""
    for mount in mounts:
        if path is None or mount.kind != kind:
            continue
        if controller and controller not in mount.options.split(","):
            continue
        inner = os.path.relpath(path, mount.root)
        if not inner.startswith(".."):
            return os.path.normpath(os.path.join(mount.point, inner))
    return None


def _text(folder: str, name: str) -> str:
    with open(os.path.join(folder, name)) as stream:
        return stream.read()


def _number(folder: str, name: str) -> int:
    return int(_text(folder, name))


def _words(folder: str, name: str) -> Dict[str, int]:
    lines = (line.split() for line in _text(folder, name).splitlines())
    pairs: Iterator[Tuple[str, int]] = ((line[0], int(line[1])) for line in lines if len(line) == 2)
    return dict(pairs)
