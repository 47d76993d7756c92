"""Whether the kernel has killed a process of this node for its memory, as the control group counts it.

An exit code does not tell: 137 may be that of a program, and a program may end with 1 after its worker was killed.

https://docs.kernel.org/admin-guide/cgroup-v2.html (`oom_kill` of memory.events)
"""

from typing import Any, Mapping, Optional

from runspec_agent.base import retry_rules
from runspec_agent.usage import cgroup

SIGKILLED = 137


class OomKills:
    """The kills since this object was made; *proc* is the folder of processes."""

    def __init__(self, proc: str = "/proc") -> None:
        self._group = cgroup.find(proc)
        self._before = self._count()

    def _count(self) -> Optional[int]:
        try:
            return None if self._group is None else self._group.oom_kills()
        except (OSError, ValueError, KeyError):
            return None

    def explains(self, code: int) -> bool:
        """Return whether memory that ran out explains that a program ended with *code*.

        A group without a limit may be one of many jobs, so that a kill there explains only a killed program.
        """
        now = self._count()
        if not code or self._before is None or now is None or now <= self._before:
            return False
        limited = self._group is not None and self._group.memory_limit() is not None
        return limited or code == SIGKILLED


def watch(record: Mapping[str, Any]) -> Optional[OomKills]:
    """Begin to count for a job whose *record* asks for it; return None for any other."""
    return OomKills() if retry_rules.asks_for(record, retry_rules.OOM) else None


def explain(kills: Optional[OomKills], code: int) -> bool:
    """Return whether *kills*, if they are counted, explain that a program ended with *code*."""
    return kills is not None and kills.explains(code)
