"""Send the program of a job a signal some time before its time limit, so that it can save.

Each process gets it that has a handler for it, or whose main thread blocks it, so that another thread waits for it. Of
the others, it would end a shell that only waits for the program. A launcher gets none, because it would pass it on to
ranks that have it already. /proc/PID/status says both: proc_pid_status(5).
"""

import os
import re
from typing import Dict, List, Mapping, Optional

from runspec_agent.base.process import descendants
from runspec_agent.base.program_hooks import LAUNCHERS, OURS, SIGNALS

OF_NODE = ("RUNSPEC_RUN", "RUNSPEC_TASK", "RUNSPEC_RANK")
REMIND = (
    0  # in the store, among the numbers of signals to all nodes: the time for this one has come
)


def send(name: str, root: int, env: Optional[Mapping[str, str]] = None) -> str:
    """Send the signal *name* to *root* and the processes below it, and return a line about it.

    Processes of the same node that others have started, as srun does with ranks, are known by the variables in *env*.
    """
    number = SIGNALS[name]
    marks = {key: env[key] for key in OF_NODE if key in env} if env else {}
    found = descendants(root) | {root}
    if len(marks) == len(OF_NODE):
        found.update(pid for pid in _all() if pid not in found and _has(pid, marks))
    count = 0
    for pid in found - {os.getpid()}:
        if _takes(pid, number):
            try:
                os.kill(pid, number)
                count += 1
            except OSError:  # the process has already ended
                pass
    if count == 0:
        return "no process of the program has a handler for {}".format(name)
    return "{} was sent to processes of the program: {}".format(name, count)


def _all() -> List[int]:
    return [int(entry) for entry in os.listdir("/proc") if entry.isdigit()]


def _has(pid: int, marks: Mapping[str, str]) -> bool:
    try:
        with open("/proc/{}/environ".format(pid), "rb") as stream:
            words = set(stream.read().split(b"\0"))
    except OSError:  # it belongs to another user, or has ended
        return False
    return all(os.fsencode("{}={}".format(*mark)) in words for mark in marks.items())


def _takes(pid: int, number: int) -> bool:
    """Return whether *pid* is a process of the program that handles the signal."""
    try:
        with open("/proc/{}/status".format(pid), encoding="utf-8", errors="replace") as stream:
            fields: Dict[str, str] = dict(
                re.findall(r"^(Name|SigBlk|SigCgt):\s*(.*)$", stream.read(), re.MULTILINE)
            )
        handled = int(fields["SigBlk"], 16) | int(fields["SigCgt"], 16)
    except (OSError, KeyError, ValueError):  # the process has ended since it was listed
        return False
    return bool(handled >> (number - 1) & 1) and fields["Name"] not in (OURS, *LAUNCHERS)
