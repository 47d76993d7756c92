"""The status of runs, from their jobs, tasks and pools at Azure Batch."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, TypeVar, cast

from runspec_azure.batch import job as jobs, reasons
from runspec_azure.batch.attempts import AGAIN, AttemptNotes
from runspec_azure.batch.timing import DEFAULT, Timing
from runspec_azure.errors import status_of
from runspec_azure.session.clients import Session
from runspec_azure.store import Blobs
from runspec_azure.timing import CLOCK, Clock
from runspec_jobs.provider import Attempt, NodeStatus, RemoteError, State, Status
from runspec_jobs.provider.elastic_tasks import elastic_status, seated
from runspec_jobs.provider.node_ends import (
    AWAY,
    NodeEnd,
    NodeEnds,
    contradicted,
    overdue,
    unproven,
    unrecorded,
)
from runspec_jobs.provider.types import blamed, tell_halted
from runspec_objects.run_files import RunFiles

SERVICE = "Azure Batch"
SHOWN = 100  # the most tasks that a status lists while the job runs; at its end, it lists all
# Values of terminateReason: the first one as documented and as observed.
# https://learn.microsoft.com/en-us/rest/api/batchservice/jobs/get-job#batchjobexecutioninfo
ALL_OVER = ("AllTasksComplete", "AllTasksCompleted")
BY_A_TASK = "TaskFailed"
CLOCK_S = 2  # between the time that a task took and the limit at which the service ended it
PAGE = 1000  # tasks in a reply: https://learn.microsoft.com/en-us/rest/api/batchservice/tasks/list-tasks
SELECT = "id,state,creationTime,executionInfo,nodeInfo"
OURS = re.compile(r"task-\d{5,}")  # others may have added a task to the job

# https://learn.microsoft.com/en-us/rest/api/batchservice/tasks/get-task#taskstate
STATES = {
    "active": State.WAITING,
    "preparing": State.WAITING,
    "running": State.RUNNING,
    "completed": State.SUCCEEDED,  # or failed: the result of the task tells which
}
Found = Mapping[str, Any]
Answered = TypeVar("Answered")


class Tasks:
    """The jobs, tasks and pools of the service; recent answers are cached."""

    def __init__(
        self, session: Session, blobs: Blobs, timing: Timing = DEFAULT, clock: Clock = CLOCK
    ) -> None:
        self.session, self.blobs = session, blobs
        self.timing, self.clock = timing, clock
        self.kept = RunFiles(blobs, blobs.key(""))
        self.known: dict[tuple[str, str], tuple[float, Any]] = {}
        self._ended: dict[str, Sequence[Found]] = {}
        self.notes = AttemptNotes(blobs, timing, clock)

    def forget(self) -> None:
        """Discard the cached answers, after a request that changed something or when newer ones are needed."""
        self.known.clear()
        self.notes.forget()
        self._ended.clear()

    def record(self, run: str) -> dict[str, Any] | None:
        """Return the record of the job; None after the run was destroyed."""
        return self.kept.record(run)

    def job(self, run: str) -> Found | None:
        """Return the job of *run*; None if it does not exist or is being deleted."""
        job = self._cached("job", run, self.timing.slow_s, lambda: self._job(run))
        return None if job is None or job["state"] == "deleting" else job

    def _job(self, run: str) -> Found | None:
        try:
            return self.session.look("Job_Get", {"jobId": run})
        except RemoteError as exc:
            if status_of(exc) == 404:
                return None
            raise

    def all(self, run: str) -> Sequence[Found]:
        """Return all tasks of *run*, in order."""
        if run in self._ended:
            return self._ended[run]
        pages = -(-self.kept.records.get(run, {}).get("count", 1) // PAGE)
        return self._cached("tasks", run, self.timing.fresh_s * pages, lambda: self.all_of(run))

    def all_of(self, run: str) -> Sequence[Found]:
        try:
            tasks = self.session.pages("Task_List", {"jobId": run}, {"$select": SELECT})
        except RemoteError as exc:
            if status_of(exc) == 404:
                return []
            raise
        ours = (task for task in tasks if OURS.fullmatch(task["id"]))
        return sorted(ours, key=lambda task: str(task["id"]))

    def one(self, run: str, number: int) -> Found:
        """Return one task, without the cache."""
        path = {"jobId": run, "taskId": jobs.task_id(number)}
        return self.session.look("Task_Get", path, {"$select": SELECT})

    def _at_the_end(self, run: str, count: int) -> tuple[Sequence[Found], bool]:
        """Return the tasks of a job that has ended, and whether one of them does not exist.

        A list may be older than the job's state, so a task that has not ended in the list is requested separately.
        """
        self.known.pop(("tasks", run), None)  # the cached list is older than the job's state
        by_id = {task["id"]: task for task in self.all(run)}
        late = [n for n in range(count) if not _ended(by_id.get(jobs.task_id(n)))]
        lost = False
        for number in late[:SHOWN]:
            try:
                by_id[jobs.task_id(number)] = self.one(run, number)
            except RemoteError as exc:
                if status_of(exc) != 404:
                    raise
                lost = True
        tasks = [by_id[name] for name in sorted(by_id)]
        if _over(tasks, count):
            self._ended[run] = tasks
        return tasks, lost

    def count_attempts(self, run: str, task: Found, place: tuple[int, int]) -> int:
        """Return the number of attempts of a node so far, as the job counts them: see docs/agent.md.

        If a machine is reclaimed before the job starts on it, only the service counts an attempt. The first node
        counts for all nodes of its task.
        """
        if place[0] in self.returned(run):
            return max(attempts_of(task), len(self.notes.begins(run, place[0])))
        if not task.get("executionInfo", {}).get("requeueCount"):
            return attempts_of(task)
        count = len(self.notes.begins(run, place[0]))
        return min(attempts_of(task), max(1, count))

    def forget_attempts(self, run: str, task: int) -> None:
        self.notes.forget_begins(run, task)

    def ids(self, run: str) -> set[str]:
        return {task["id"] for task in self.all(run)}

    def pool(self, name: str) -> Found:
        """Return the pool with its nodes; an empty mapping if it does not exist."""
        return self._cached("pool", name, self.timing.slow_s, lambda: self._pool(name))

    def _pool(self, name: str) -> Found:
        try:
            pool = dict(self.session.look("Pool_Get", {"poolId": name}))
            pool["nodes"] = self.session.pages("ComputeNode_List", {"poolId": name})
        except RemoteError as exc:
            if status_of(exc) == 404:
                return {}
            raise
        return pool

    def subtasks(self, run: str, task: int) -> Sequence[Found]:
        """Return the subtasks of a multi-instance task, one for each node except the first, ordered by their ids."""

        def ask() -> Sequence[Found]:
            path = {"jobId": run, "taskId": jobs.task_id(task)}
            subtasks = self.session.look("Task_ListSubtasks", path).get("value", [])
            return sorted(
                (subtask for subtask in subtasks if "id" in subtask),
                key=lambda subtask: int(subtask["id"]),
            )

        return self._cached(f"subtasks {task}", run, self.timing.fresh_s, ask)

    def _cached(
        self, kind: str, name: str, fresh_s: float, ask: Callable[[], Answered]
    ) -> Answered:
        at, value = self.known.get((kind, name), (-math.inf, None))
        if self.clock.monotonic() - at >= fresh_s:
            value = ask()
            self.known[kind, name] = (self.clock.monotonic(), value)
        return cast(Answered, value)

    def status(self, run: str) -> Status:
        status, record = self._status(run), self.kept.records.get(run)
        return status if record is None else seated(status, record)

    def _status(self, run: str) -> Status:
        """Return the status of *run*; its nodes have the numbers of the service's tasks."""
        record = self.record(run)
        job = None if record is None else self.job(run)
        if record is None or job is None:
            self.kept.records.pop(run, None)
            return Status(State.GONE)
        tasks = self.all(run)
        ended, lost = job["state"] == "completed", False
        if ended and not _over(tasks, record["count"]):
            tasks, lost = self._at_the_end(run, record["count"])
        over = _over(tasks, record["count"])
        end = self.elastic_end(run, record, tasks)
        if end is not None and over:
            nodes = tuple(map(_as_cancelled, self._nodes(run, record, tasks)))
            return elastic_status(end, nodes)
        if not over and (not ended or (_terminate_reason(job) in ALL_OVER and not lost)):
            return self._going(run, record, tasks)
        self.known.pop(("stops", run), None)  # all tasks were stopped before the end of the job
        nodes = tuple(self._nodes(run, record, tasks))
        stopped = {n.task for n in nodes if n.state is State.CANCELLED}
        wanted = [n for n in nodes if n.task not in stopped]
        if over and not wanted:
            return Status(State.CANCELLED, reasons.TASK_STOPPED, None, nodes)
        if over and all(node.state is State.SUCCEEDED for node in wanted):
            summary = f"{len(stopped)} tasks were stopped" if stopped else ""
            reason = next((n.reason for n in wanted if n.reason), summary)
            return Status(State.SUCCEEDED, reason, 0, nodes)
        nodes = tuple(
            n._replace(reason=reasons.NEVER) if n.state is State.WAITING else n for n in nodes
        )
        if _terminate_reason(job) == jobs.CANCELLED:
            ended_by_us = {number_of(task) for task in tasks if reasons.was_terminated(task)}
            nodes = tuple(_cancelled(n) if n.task in ended_by_us else n for n in nodes)
            return Status(State.CANCELLED, jobs.CANCELLED, None, nodes)
        if _terminate_reason(job) == BY_A_TASK and (first := _stopper(tasks)) is not None:
            return Status(State.FAILED, reasons.stopped(first, len(tasks)), jobs.STOPS, nodes)
        bad = blamed(nodes)
        if bad is None:
            return Status(
                State.FAILED,
                _terminate_reason(job) or "the job ended before its tasks",
                None,
                nodes,
            )
        ended = Status(State.FAILED, bad.reason, bad.exit_code, nodes)
        return tell_halted(ended, record.get("max_failed"))

    def elastic_end(
        self, run: str, record: Found, tasks: Sequence[Found]
    ) -> tuple[int, str] | None:
        """Return the exit code and the reason of an elastic job that has ended, or None.

        A job has not ended before one of its tasks has.
        """
        if not record.get("elastic") or not any(map(_ended, tasks)):
            return None
        count = record["count"] // record["elastic"]["max"]
        return self.kept.elastic_end(run, record, count)

    def released(self, run: str) -> set[int]:
        """Return the tasks that are nodes of an elastic job and were released."""
        return self._numbers(run, "released")

    def returned(self, run: str) -> set[int]:
        """Return those that came back: the service counts their attempts anew."""
        return self._numbers(run, "returned")

    def _numbers(self, run: str, folder: str) -> set[int]:
        if not self.kept.records.get(run, {}).get("elastic"):
            return set()
        return self._cached(
            folder, run, self.timing.slow_s, lambda: self.kept.numbers(run, f"{folder}/")
        )

    def terminate(self, run: str, task: str) -> None:
        """Terminate a task, whether it runs or not."""
        try:
            self.session.make("Task_Terminate", {"jobId": run, "taskId": task}, None)
        except RemoteError as exc:
            if status_of(exc) not in (404, 409):  # the task has ended in the meantime
                raise

    def _going(self, run: str, record: Found, tasks: Sequence[Found]) -> Status:
        nodes = tuple(self._nodes(run, record, tasks)) if len(tasks) <= SHOWN else ()
        if any(task["state"] == "running" for task in tasks):
            return Status(State.RUNNING, "", None, nodes)
        return Status(State.WAITING, reasons.waiting(self.pool(record["pool"]), tasks), None, nodes)

    def _nodes(self, run: str, record: Found, tasks: Sequence[Found]) -> Iterator[NodeStatus]:
        # Read the end records once after each end of an attempt.
        counted = ((t, self.count_attempts(run, t, (number_of(t), 0))) for t in tasks)
        over = ((number_of(t), 0, count - (not _ended(t))) for t, count in counted)
        self._ends_of(run).look({key for key in over if key[2] > 0})
        for task in tasks:
            number = number_of(task)
            for rank in range(record["nodes"]):
                yield self.node(run, task, number, rank)

    def node(self, run: str, task: Found, number: int, rank: int) -> NodeStatus:
        state, info = STATES.get(task["state"], State.WAITING), task.get("executionInfo", {})
        attempts = self.count_attempts(run, task, (number, rank))
        code = info.get("exitCode") if state.terminal else None
        good = _is_good(info)
        if state.terminal and (code or not good):
            state = State.FAILED
        ends = self._ends_of(run)
        end = self._end(run, task, (number, rank)) if state.terminal else None
        unseen = ends.written and rank == 0 and (end is None or end.code)
        if state is State.SUCCEEDED and unseen:
            state, code = State.FAILED, None if end is None else end.code
        over = tuple(self._attempts(run, task, (number, rank), state, attempts))
        reason = ""
        if state is State.FAILED and good and unseen and not info.get("exitCode"):
            reason = unproven(SERVICE) if end is None else contradicted(SERVICE, end, ends.record)
        elif state is State.FAILED and end is not None and end.code:
            code, reason = end.code, self._late(info, ends, end) or end.reason(ends.record)
        elif state is State.FAILED:
            code = over[-1].exit_code if code == AGAIN and over else code
            reason = self._late(info, ends, end) or reasons.ended(info, code)
            if unseen and end is None and reason.startswith("exited with code"):
                reason = unrecorded(reason)
        elif state is State.SUCCEEDED and reasons.only_a_copy(info):
            reason = reasons.ended(info, None)
        elif state is State.WAITING:
            reason = reasons.WAITING.get(task["state"], "")
        if state.terminal and number in self.released(run):
            state, reason, code = State.CANCELLED, AWAY, None
        if state is State.FAILED and number in self._stops(run):
            state, reason = State.CANCELLED, reasons.TASK_STOPPED
            over = over if info.get("startTime") else over[:-1]  # it may have waited until then
        began_s = seconds(info.get("startTime")) if state is State.RUNNING else None
        return NodeStatus(number, rank, attempts, state, reason, code, over, began_s)

    def _attempts(
        self, run: str, task: Found, place: tuple[int, int], state: State, attempts: int
    ) -> Iterator[Attempt]:
        """Yield the attempts that have ended: the agent notes each failure, unless its machine is lost."""
        info, ends = task.get("executionInfo", {}), self._ends_of(run)
        yield from self.notes.past(run, place, attempts, info, ends)
        if state.terminal:
            code, end = info.get("exitCode"), self._end(run, task, place)
            if code == AGAIN and end is None:
                failure = self.notes.failure(run, place, attempts, fresh_s=0.0)
                code = None if failure is None else failure.code
            late = self._late(info, ends, end)
            reason = "" if state is State.SUCCEEDED else late or reasons.ended(info, code)
            if state is State.FAILED and end is not None and end.code:
                code, reason = end.code, late or end.reason(ends.record)
            elif state is State.FAILED and code == 0:
                code, reason = None, unproven(SERVICE)
            began_s, ended_s = seconds(info.get("startTime")), seconds(info.get("endTime"))
            setup_s = None if end is None else end.setup_s
            yield Attempt(attempts, code, reason, False, began_s, ended_s, setup_s)

    def _late(self, info: Found, ends: NodeEnds, end: NodeEnd | None) -> str:
        """Return why the service ended the last attempt of a task at its maxWallClockTime, or an empty string.

        The service gives no reason of its own for that: it is known by the time that the attempt took.
        """
        began_s, ended_s = seconds(info.get("startTime")), seconds(info.get("endTime"))
        limit_s = ends.record.get("limit_s")
        if not (limit_s and began_s and ended_s) or (end is not None and not end.told):
            return ""
        if ended_s - began_s < limit_s - CLOCK_S:
            return ""
        return overdue(SERVICE, ends.record.get("timeout_s"), limit_s)

    def _end(self, run: str, task: Found, place: tuple[int, int]) -> NodeEnd | None:
        """Return how the last attempt of a task has ended, if its agent has recorded that.

        The attempts of a job with signed URLs share one record. An attempt that ended before it could write there has
        left that of an earlier one: it has another code than the service reports, and is older than the attempt.
        """
        info, ends = task.get("executionInfo", {}), self._ends_of(run)
        end = ends.newest(*place)
        if end is None or not ends.shared or info.get("exitCode") in (0, end.code):
            return end
        began_s, written_s = seconds(info.get("startTime")), self.notes.recorded_s(run, place[0])
        is_older = began_s and written_s and written_s < math.floor(began_s)  # a store has seconds
        return None if is_older else end

    def _ends_of(self, run: str) -> NodeEnds:
        return self.kept.ends(run, self.kept.records.get(run, {}))

    def _stops(self, run: str) -> set[int]:
        """Return the tasks for which there is a stop request."""
        record = self.kept.records.get(run, {})
        if not record.get("sweep"):
            return set()

        def ask() -> set[int]:
            return self.kept.numbers(run, "stop/") | self.halted(run, record)

        return self._cached("stops", run, self.timing.slow_s, ask)

    def halted(self, run: str, record: Found) -> set[int]:
        """Return the tasks that are to end because `max_failed` others have failed."""
        return self.kept.halted(run, record, record["count"])

    def count_failed(self, run: str, record: Found) -> None:
        """Count tasks for `max_failed` that have failed together with their agents."""
        if "max_failed" not in record:
            return
        failed = {number_of(t) for t in self.all(run) if _ended(t) and _was_failure(t)}
        self.kept.count_failed(run, record, failed, lambda key: self.blobs.put_new(key, b""))


def _was_failure(task: Found) -> bool:
    """Return whether the service says that a task has failed by itself."""
    info = task.get("executionInfo", {})
    return bool(info.get("exitCode") or not _is_good(info)) and not reasons.was_terminated(task)


def _is_good(info: Found) -> bool:
    """Return whether the service calls a task a success, but perhaps for a copy of its output."""
    return info.get("result", "success") == "success" or reasons.only_a_copy(info)


def _cancelled(node: NodeStatus) -> NodeStatus:
    """Return a node that has not succeeded before its job was cancelled."""
    if node.state is not State.FAILED:
        return node
    return node._replace(state=State.CANCELLED, reason=jobs.CANCELLED)


def _as_cancelled(node: NodeStatus) -> NodeStatus:
    """Return a node that was terminated before it started as cancelled; the service says that it failed."""
    never = node.state is State.FAILED and node.exit_code is None
    return node._replace(state=State.CANCELLED) if never else node


def attempts_of(task: Found) -> int:
    """Return the number of attempts of a task so far, as the service counts them, with those on lost machines."""
    info = task.get("executionInfo", {})
    return int(info.get("retryCount", 0)) + int(info.get("requeueCount", 0)) + 1


def number_of(task: Found) -> int:
    return int(task["id"].rpartition("-")[2])


def _over(tasks: Sequence[Found], count: int) -> bool:
    return len(tasks) == count and all(_ended(task) for task in tasks)


def _ended(task: Found | None) -> bool:
    return task is not None and task["state"] == "completed"


def _stopper(tasks: Sequence[Found]) -> int | None:
    """Return the number of the task whose exit code ended the job, if there is one."""
    codes = ((t["id"], t.get("executionInfo", {}).get("exitCode")) for t in tasks)
    return next((int(name.rpartition("-")[2]) for name, c in codes if c == jobs.STOPS), None)


def _terminate_reason(job: Found) -> str:
    return str(job.get("executionInfo", {}).get("terminateReason", ""))


def seconds(moment: str | None) -> float | None:
    return None if moment is None else datetime.fromisoformat(moment).timestamp()
