"""The status of tasks, computed from the rows of the queue and the exit records of the nodes, without requests."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from runspec_agent.base.end_causes import PEER, SETUP, TIMEOUT
from runspec_agent.base.failure import LOST
from runspec_agent.base.light_typing import NamedTuple
from runspec_jobs.provider import Attempt, NodeStatus, State, Status
from runspec_jobs.provider.node_ends import AWAY, RELEASED, overdue
from runspec_jobs.provider.types import blamed
from runspec_slurm import reasons
from runspec_slurm.queue import ENDED, Past, Row
from runspec_slurm.status.workspace_poll import BATCH, AttemptKey, Note

# https://slurm.schedmd.com/job_state_codes.html
WAITING = frozenset(
    "PENDING CONFIGURING EXPEDITING REQUEUED REQUEUE_FED REQUEUE_HOLD SPECIAL_EXIT SUSPENDED RESV_DEL_HOLD".split()
)
AGAIN = 75  # the exit code of an attempt that another one follows
STOPPED = 143  # the exit code of an attempt that was told to end: 128 + SIGTERM
TOO_LONG = 124  # the exit code of a job that reached its timeout, as of timeout(1)
LAUNCH_SIGNAL = 128 + 53  # of a job whose output or folder could not be opened, not of its program
BY_US = "cancelled by runspec"
FIELDS = 6  # of an attempt in the copy of a status


def alive(state: str) -> bool:
    """Return whether a job in *state* has not ended. A state that runspec does not know counts as not ended."""
    return bool(state) and state not in ENDED


class Task(NamedTuple):
    """All that is known of a task. *row* is None if the controller does not list the task any more, or not yet."""

    number: int
    row: Row | None
    attempts: int  # how many have begun, as far as is known
    notes: Mapping[AttemptKey, Note]
    codes: Mapping[AttemptKey, int]
    past: Past | None = None
    due: bool = False  # whether its last attempt was killed, and runspec has to requeue it
    timeout_s: int | None = None  # that of the spec
    away: bool = False  # whether it is a node that was released, and is held in the queue

    @property
    def state(self) -> str:
        """Return Slurm's state of the task; empty if it is unknown."""
        if self.row is not None:
            return self.row.state
        # The accounting may have missed the end of a job, and then has an old state for ever.
        return self.past.state if self.past is not None and self.past.state in ENDED else ""

    @property
    def over(self) -> bool:
        """Return whether the task has ended, is unknown to Slurm, or goes on only if somebody asks for it."""
        return self.away or (not self.due and not alive(self.state))

    @property
    def waits(self) -> bool:
        return self.due or (self.row is not None and self.row.state in WAITING)

    def note(self, number: int, rank: int) -> Note | None:
        """Return the exit record of an attempt, which the node wrote, or the batch script in its place.

        A node that was told to end does not know why; if the cause was the timeout, the batch script recorded it.
        """
        own = self.notes.get(AttemptKey(self.number, number, rank))
        whole = self.notes.get(AttemptKey(self.number, number, BATCH))
        if own is not None and own.get("cause") == PEER:
            own = {**own, "code": STOPPED}  # its agent ended with the code of the other node
        if own is None or whole is None:
            return whole if own is None else own
        late = whole.get("cause") == TIMEOUT or whole.get("code") == TOO_LONG
        if not late or own.get("code") != STOPPED:
            return own
        return {**own, "code": TOO_LONG, "why": whole.get("why"), "cause": TIMEOUT}

    def failed(self, number: int) -> bool:
        """Return whether a node failed by itself in that attempt, after which the batch script stops the others."""
        return any((one.task, one.number) == (self.number, number) for one in self.codes)

    def is_own(self, number: int, rank: int) -> bool:
        """Return whether the program of that node failed by itself: its code means what the program means by it."""
        cause = (self.note(number, rank) or {}).get("cause")
        return AttemptKey(self.number, number, rank) in self.codes and cause not in (TIMEOUT, PEER)

    @property
    def noted(self) -> bool:
        """Return whether the last attempt wrote an exit record."""
        return AttemptKey(self.number, self.attempts, BATCH) in self.notes

    @property
    def silent(self) -> bool:
        """Return whether neither Slurm nor an exit record says how the task ended."""
        return not self.state and not self.noted


def tasks(
    count: int,
    rows: Sequence[Row],
    notes: Mapping[AttemptKey, Note],
    codes: Mapping[AttemptKey, int],
    pasts: Sequence[Past] = (),
    each: int | None = None,
) -> list[Task]:
    """Return the *count* tasks of a run, whose arrays have *each* tasks, or all."""
    of_task = {number: row for row in rows for number in row.tasks}
    before = {past.task: past for past in pasts}  # the last attempt of each counts
    recorded = dict[int, int]()
    for one in notes:
        recorded[one.task] = max(recorded.get(one.task, 0), one.number)
    each = each or count
    rest = {row.offset // each: row for row in reversed(_never_begun(rows))} if count > 1 else {}
    tasks = []
    for number in range(count):
        row = of_task.get(number) or (None if number in recorded else rest.get(number // each))
        attempts = max(1, recorded.get(number, 0), row.restarts + 1 if row is not None else 0)
        tasks.append(Task(number, row, attempts, notes, codes, before.get(number)))
    return tasks


def _never_begun(rows: Sequence[Row]) -> list[Row]:
    """Return the rows of tasks of arrays that were cancelled before they began, and that do not name them.

    So it is in Slurm 22.05 after `scancel --name` or `--user`: the ArrayTaskID is N/A, as that of a job that is no
    array.
    """
    return [r for r in rows if r.tasks == (r.offset,) and r.state in ENDED and not r.nodes]


def nodes(task: Task, count: int, *, cancelled: bool) -> Iterator[NodeStatus]:
    """Yield the nodes of *task*."""
    for rank in range(count):
        if task.away:
            yield _away(task, rank)
        elif not task.over:
            assert task.row is not None, "BUG: a task that has not ended is in the queue"
            state = State.WAITING if task.waits else State.RUNNING
            reason = _waiting(task) if state is State.WAITING else ""
            over = tuple(_attempt(task, n, rank, None) for n in range(1, task.attempts))
            began_s = task.row.began_s if state is State.RUNNING else None
            yield NodeStatus(task.number, rank, task.attempts, state, reason, None, over, began_s)
        else:
            yield _ended(task, rank, cancelled=cancelled)


def _waiting(task: Task) -> str:
    assert task.row is not None, "BUG: a task that waits is in the queue"
    return reasons.KILLED if task.due else reasons.waiting(task.row)


def _away(task: Task, rank: int) -> NodeStatus:
    last = task.attempts if task.noted else task.attempts - 1
    over = tuple(_attempt(task, n, rank, None) for n in range(1, last + 1))
    return NodeStatus(task.number, rank, task.attempts, State.CANCELLED, AWAY, None, over)


def _ended(task: Task, rank: int, *, cancelled: bool) -> NodeStatus:
    code = _code(task, task.attempts, rank)
    state = _state(task, rank, code, cancelled=cancelled)
    over = tuple(
        _attempt(task, n, rank, state if n == task.attempts else None)
        for n in range(1, task.attempts + 1)
    )
    reason, exit_code = over[-1].reason, code
    if state is State.SUCCEEDED:
        reason, exit_code = "; ".join(filter(None, (_lost(over), over[-1].reason))), 0
    elif not code:
        exit_code = None  # the code is not that of the program of the task
    if state is State.CANCELLED and code is None and task.row is not None and not task.row.nodes:
        over = over[:-1]  # it was cancelled before it began
    return NodeStatus(task.number, rank, task.attempts, state, reason, exit_code, over)


def _code(task: Task, number: int, rank: int) -> int | None:
    """Return the exit code of an attempt: that of the program, if it was recorded."""
    note = task.note(number, rank)
    code = note.get("code") if note is not None else None
    if note is None and number == task.attempts:
        code = task.row.code if task.row is not None else task.past.code if task.past else None
        unset = task.state not in ("COMPLETED", "FAILED") and not code
        code = None if code == LAUNCH_SIGNAL or unset else code
    # The agent exits with another code if the program's would mean something to a service.
    if code != 0 and task.is_own(number, rank):
        code = task.codes.get(AttemptKey(task.number, number, rank), code)
    return code


def _state(task: Task, rank: int, code: int | None, *, cancelled: bool) -> State:
    said = task.state
    if said == "CANCELLED" and (task.row is None or task.row.reason != "DependencyNeverSatisfied"):
        return State.CANCELLED
    own = task.is_own(task.attempts, rank)
    if cancelled and not own and code in (STOPPED, None) and said != "COMPLETED":
        return State.CANCELLED
    # The recorded exit code counts, even if Slurm ended the job afterwards.
    return State.SUCCEEDED if code == 0 else State.FAILED


def _attempt(task: Task, number: int, rank: int, state: State | None) -> Attempt:
    """Return an attempt that has ended; *state* is None if another attempt followed."""
    note = task.note(number, rank) or {}
    return _judge_attempt(task, number, rank, state)._replace(setup_s=note.get("setup_s"))


def _judge_attempt(task: Task, number: int, rank: int, state: State | None) -> Attempt:
    note, code = task.note(number, rank) or {}, _code(task, number, rank)
    own = task.is_own(number, rank)
    began_s, ended_s = note.get("began_s"), note.get("ended_s")
    stopped = code in (STOPPED, None) and task.failed(number) and not own
    if note.get("cause") == RELEASED:
        return Attempt(number, code, AWAY, False, began_s, ended_s)
    if state is None:
        preempted = code in (None, STOPPED) and not (stopped or own)
        reason = reasons.PREEMPTED if preempted else reasons.exited(code or 0, is_own=own)
        if code == LOST and not own and note.get("why"):
            reason = str(note["why"])  # it had another attempt
        reason = reasons.STOPPED if stopped else _with_why(task, reason, note)
        return Attempt(number, code, reason, preempted, began_s, ended_s)
    known = task.row or task.past
    if known is not None and began_s is None:
        began_s, ended_s = known.began_s, known.ended_s
    reason = _reason(task, note, code, state, is_own=own)
    if stopped and state is State.FAILED and task.state not in reasons.ENDED:
        reason = reasons.STOPPED
    reclaimed = task.state == "PREEMPTED" and state is not State.SUCCEEDED
    return Attempt(number, code, reason, reclaimed, began_s, ended_s)


def _reason(task: Task, note: Note, code: int | None, state: State, *, is_own: bool) -> str:
    if state is State.SUCCEEDED:
        return "" if task.state in ("COMPLETED", "FAILED", "") else reasons.afterwards(task.state)
    if state is State.CANCELLED:
        return BY_US
    if not task.state and not note:
        return reasons.FORGOTTEN
    words = reasons.ended(task.state, task.row.reason if task.row else "", code, is_own=is_own)
    if task.state == "TIMEOUT" and _took_s(task) >= (task.timeout_s or math.inf):
        words = f"{overdue('Slurm', task.timeout_s)} (TIMEOUT)"
    return _with_why(task, words, note)


def _took_s(task: Task) -> float:
    """Return how long the last attempt took, as Slurm says; 0.0 if it does not."""
    known = task.row or task.past
    if known is None or known.began_s is None or known.ended_s is None:
        return 0.0
    return known.ended_s - known.began_s


def _with_why(task: Task, words: str, note: Note) -> str:
    why = str(note.get("why") or "")
    if note.get("cause") == TIMEOUT and not why and task.timeout_s:
        return f"timeout: not done after {task.timeout_s} s"  # of an elastic job
    if why and note.get("cause") in (SETUP, TIMEOUT):
        return why
    return f"{words}: {why}" if why and why not in words else words


def _lost(over: Sequence[Attempt]) -> str:
    preempted = sum(one.reclaimed for one in over)
    if not preempted:
        return ""
    return f"{preempted} of {len(over)} attempts ended because {reasons.PREEMPTED}"


def status(nodes: Sequence[NodeStatus], *, cancelled: bool, stops: Collection[int] = ()) -> Status:
    """Return the status of a run whose nodes have all ended. Stopped tasks are ignored, unless all were stopped."""
    stopped = {n.task for n in nodes if n.task in stops and n.state is State.CANCELLED}
    wanted = [node for node in nodes if node.task not in stopped]
    if stopped and wanted:
        ended = status(wanted, cancelled=cancelled)
        told = f"{len(stopped)} tasks were stopped" if ended.state is State.SUCCEEDED else ""
        return ended._replace(reason=ended.reason or told, nodes=tuple(nodes))
    cancelled = cancelled or bool(stopped)
    if all(node.state is State.SUCCEEDED for node in nodes):
        return Status(
            State.SUCCEEDED, next((n.reason for n in nodes if n.reason), ""), 0, tuple(nodes)
        )
    failed = [node for node in nodes if node.state is State.FAILED]
    if any(node.state is State.CANCELLED for node in nodes):
        return Status(State.CANCELLED, BY_US if cancelled else reasons.BY_HAND, None, tuple(nodes))
    bad = blamed(failed) or failed[0]
    return Status(State.FAILED, bad.reason, bad.exit_code, tuple(nodes))


def going(tasks: Sequence[Task], nodes_: tuple[NodeStatus, ...]) -> Status:
    """Return the status of a run that has not ended."""
    left = [task for task in tasks if not task.over]
    ended = any(task.over and not task.away for task in tasks)
    if ended or not all(task.waits for task in left):
        return Status(State.RUNNING, "", None, nodes_)
    return Status(State.WAITING, _waiting(left[0]), None, nodes_)


def to_json(status: Status) -> dict[str, Any]:
    """Return *status* as JSON for the workspace, because Slurm removes jobs soon after their end.

    The times of setups have a place of their own, because older versions read no more than FIELDS of an attempt.
    """
    setups = [[attempt.setup_s for attempt in node.attempts] for node in status.nodes]
    has_setup = any(time is not None for times in setups for time in times)
    return {
        "state": str(status.state),
        "reason": status.reason,
        "exit_code": status.exit_code,
        "nodes": [
            [
                *node[:3],
                str(node.state),
                node.reason,
                node.exit_code,
                [list(attempt[:FIELDS]) for attempt in node.attempts],
            ]
            for node in status.nodes
        ],
        **({"setups": setups} if has_setup else {}),
    }


def from_json(said: Mapping[str, Any]) -> Status:
    """Return the status that `to_json` wrote."""
    kept = []
    setups = said.get("setups") or [[None] * len(row[-1]) for row in said["nodes"]]
    for row, times in zip(said["nodes"], setups, strict=True):
        task, rank, attempt, state, reason, code, over = row
        pairs = zip(over, times, strict=True)
        attempts = tuple(Attempt(*one[:FIELDS])._replace(setup_s=time) for one, time in pairs)
        kept.append(NodeStatus(task, rank, attempt, State(state), reason, code, attempts))
    return Status(State(said["state"]), said["reason"], said["exit_code"], tuple(kept))
