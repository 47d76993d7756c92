"""Attempts whose batch script was killed, so that it could neither record its end nor requeue its job.

A killed process is a failure, which may have another attempt: as Slurm does not start one, the next command of runspec
that looks at the run requeues the job.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from runspec_slurm.status.states import LAUNCH_SIGNAL, STOPPED, Task
from runspec_slurm.status.workspace_poll import AttemptKey

KILLED = 137  # the exit code of a process that SIGKILL ended: 128 + 9
SIGNALLED = 128  # a shell's exit code is greater if a signal ended its command
# In Slurm 22.05, a job whose processes the kernel killed for their memory is in one or the other.
ENDED = ("FAILED", "OUT_OF_MEMORY")


def is_killed(task: Task) -> bool:
    """Return whether Slurm lists the last attempt as killed by a signal, and it left no exit record."""
    row = task.row
    if row is None or row.state not in ENDED or task.noted:
        return False
    by_signal = row.code is not None and row.code > SIGNALLED
    return row.state == "OUT_OF_MEMORY" or (by_signal and row.code not in (STOPPED, LAUNCH_SIGNAL))


def code(task: Task) -> int:
    """Return the exit code to record for a killed attempt."""
    known = task.row.code if task.row is not None else None
    return known if known is not None and known > SIGNALLED else KILLED


def marked(tasks: Sequence[Task], record: Mapping[str, Any], stops: Collection[int]) -> list[Task]:
    """Return *tasks*; those of which a killed attempt is followed by another are marked as due."""
    return [
        task._replace(due=is_killed(task) and task.number not in stops and _is_left(task, record))
        for task in tasks
    ]


def _is_left(task: Task, record: Mapping[str, Any]) -> bool:
    """Return whether *task* has another attempt. In an elastic job, a killed node counts as a lost one."""
    if record.get("elastic"):
        most: int | None = record.get("spot_attempts")
        return most is None or task.attempts < most
    mine = {one for one in task.codes if (one.task, one.rank) == (task.number, 0)}
    failures = mine | {AttemptKey(task.number, task.attempts, 0)}
    return len(failures) < int(record.get("attempts", 1))
