"""Processes and what they use, from /proc: see proc(5)."""

import os
from typing import Dict, List, NamedTuple, Optional, Set

FRESH = (
    30  # reads, after which the processes of others are looked at again: a process id may be reused
)
TICKS = os.sysconf("SC_CLK_TCK")
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


class Process(NamedTuple):
    """A process; *cpu_s* includes its children that have ended."""

    pid: int
    parent: int
    cpu_s: float
    memory_bytes: int
    started: int  # in ticks since boot


class ProcessTable:
    """Reads the processes below one process; the processes of others are read once, so that they cost little."""

    def __init__(self, proc: str = "/proc") -> None:
        self.proc = proc
        self._others: Set[int] = set()
        self._reads = 0

    def below(self, root: int) -> Dict[int, Process]:
        """Return *root* and all processes that descend from it."""
        if self._reads % FRESH == 0:
            self._others = set()
        self._reads += 1
        numbers = {int(name) for name in os.listdir(self.proc) if name.isdigit()}
        self._others &= numbers
        read = {pid: self.process(pid) for pid in numbers - self._others}
        known = {pid: process for pid, process in read.items() if process is not None}
        self._others.update(set(read) - set(known))  # the processes have ended
        ours: Set[int] = {root}
        for pid in known:
            self._sort(pid, known, ours)
        return {pid: process for pid, process in known.items() if pid in ours}

    def _sort(self, pid: int, known: Dict[int, Process], ours: Set[int]) -> None:
        """Add *pid* and its parents to *ours* or to the processes of others.

        They are added to neither if a parent has ended meanwhile.
        """
        chain: List[int] = []
        while pid not in ours and pid in known:
            chain.append(pid)
            pid = known[pid].parent
        if pid in ours:
            ours.update(chain)
        elif pid == 0 or pid in self._others:
            self._others.update(chain)

    def process(self, pid: int) -> Optional[Process]:
        """Return the process, or None if there is none that runs."""
        try:
            with open("{}/{}/stat".format(self.proc, pid), "rb") as stream:
                # pid (name) state ppid ...; the name may contain any character, also brackets
                fields = stream.read().rpartition(b")")[2].split()
            if fields[0] in (b"Z", b"X"):
                return None
            ticks = sum(int(field) for field in fields[11:15])
            memory = int(fields[21]) * PAGE_BYTES
            return Process(pid, int(fields[1]), ticks / TICKS, memory, int(fields[19]))
        except (OSError, IndexError):
            return None

    def parents(self, pid: int) -> Set[int]:
        """Return the parent of *pid*, its parent, and so on."""
        parents: Set[int] = set()
        process = self.process(pid)
        while process is not None and process.parent and process.parent not in parents:
            parents.add(process.parent)
            process = self.process(process.parent)
        return parents

    def environment(self, pid: int) -> Dict[str, str]:
        """Return the variables that *pid* was started with; none if this process may not read them."""
        try:
            with open("{}/{}/environ".format(self.proc, pid), "rb") as stream:
                entries = os.fsdecode(stream.read()).split("\0")
        except OSError:
            return {}
        return dict(word.split("=", 1) for word in entries if "=" in word)
