"""Jobs that Slurm does not list and that have no exit record, which may still appear in the workspace.

Clients of a file server see the files of others up to a minute late (acdirmax, nfs(5)), and a controller that lost its
state does not know jobs that still run.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from runspec_agent.base.retry_rules import OOM, STOP, find_rule
from runspec_jobs.provider import State, Status
from runspec_slurm import reasons
from runspec_slurm.status.states import AGAIN, LAUNCH_SIGNAL, STOPPED, Task
from runspec_slurm.status.workspace_poll import BATCH, AttemptKey, Seen
from runspec_slurm.store.workspace import NOTHING, WorkspaceStore

# Argument: the run, and for CHECK the minutes to wait. The time of the file `missing` says since when the run is
# unknown; any file that is written later restarts the wait. In a folder of another user, the time of the record has to
# do.
SINCE = f"""\
cd "runs/$1" 2>/dev/null || exit {NOTHING}
f=missing
[ -w . ] || f=record.json
valid() {{ [ -e "$f" ] && {{ [ "$f" != missing ] || [ -z "$(find . -type f -newer "$f" -print | head -n 1)" ]; }}; }}
"""
CHECK = f"""\
{SINCE}valid || exit 0
[ -z "$(find "$f" -mmin "+$2")" ] || echo over
"""
MARK = f'{SINCE}valid || echo >"$f"\n'


class UnknownOutcomes:
    """Runs with an unknown outcome. Neither the accounting nor the workspace is polled again at once."""

    def __init__(self, store: WorkspaceStore) -> None:
        self.store = store
        self._good_until_s: dict[str, float] = {}
        self._unmarked: set[str] = set()  # runs that `mark` has to look at

    def just_asked(self, run: str) -> bool:
        return self.store.clock.monotonic() < self._good_until_s.get(run, 0.0)

    def over(self, run: str) -> bool:
        """Return whether *run* has been unknown, without any change, for long enough to count as failed.

        The time counts from the first `mark`.
        """
        timing = self.store.timing
        output = self.store.look(f"look for {run}", CHECK, run, str(timing.unknown_min)) or b""
        over = output.strip() == b"over"
        if not over:
            self._good_until_s[run] = self.store.clock.monotonic() + timing.unknown_poll_s
            self._unmarked.add(run)
        return over

    def mark(self, run: str) -> None:
        """Note in the workspace that *run* is unknown, if the last `over` said so, and it was not noted yet."""
        if run in self._unmarked:
            self.store.change(f"note that {run} is unknown", MARK, run)
            self._unmarked.discard(run)


def status(seen: Seen) -> Status:
    """Return the status of a run of which only *seen* is known."""
    begun = bool(seen.ends) or any(seen.logs.values())
    return Status(State.RUNNING if begun else State.WAITING, reasons.NOT_KNOWN)


# Attempts whose batch script was killed, so that it could neither record its end nor requeue its job.
#
# A killed process is a failure, which may have another attempt: as Slurm does not start one, the next command of
# runspec that looks at the run requeues the job.


KILLED = 137  # the exit code of a process that SIGKILL ended: 128 + 9
SIGNALLED = 128  # a shell's exit code is greater if a signal ended its command
# In Slurm 22.05, a job whose processes the kernel killed for their memory is in one or the other.
ENDED = ("FAILED", "OUT_OF_MEMORY")
FAILED = (*ENDED, "BOOT_FAIL", "DEADLINE", "NODE_FAIL", "TIMEOUT")


def is_killed(task: Task) -> bool:
    """Return whether Slurm lists the last attempt as killed by a signal, and it left no exit record."""
    row = task.row
    if row is None or row.state not in ENDED or task.noted:
        return False
    by_signal = row.code is not None and row.code > SIGNALLED
    return row.state == "OUT_OF_MEMORY" or (by_signal and row.code not in (STOPPED, LAUNCH_SIGNAL))


def has_failed(task: Task) -> bool:
    """Return whether *task* has failed for good, as Slurm or the record of its end says.

    A task that was told to end has not failed, and one that was preempted may start again. A job that Slurm itself
    has ended, as at its time limit, may have the exit code of one that was told to.
    """
    row = task.row
    if row is None or task.due or row.state not in FAILED:
        return False
    note = task.note(task.attempts, BATCH)
    if note:
        return not note.get("again") and note["code"] not in (0, STOPPED)
    return row.state != "FAILED" or row.code not in (AGAIN, STOPPED)


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


def rule(task: Task, record: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the rule of `retry.on` for the end of a killed *task*, or an empty mapping."""
    out = task.row is not None and task.row.state == "OUT_OF_MEMORY"
    return find_rule(record, code(task), OOM if out else None)


def _is_left(task: Task, record: Mapping[str, Any]) -> bool:
    """Return whether *task* has another attempt. In an elastic job, a killed node counts as a lost one."""
    if record.get("elastic"):
        most: int | None = record.get("spot_attempts")
        return most is None or task.attempts < most
    if rule(task, record).get("action") == STOP:
        return False
    mine = {end for end in task.codes if (end.task, end.rank) == (task.number, 0)}
    failures = mine | {AttemptKey(task.number, task.attempts, 0)}
    return len(failures) < int(record.get("attempts", 1))
