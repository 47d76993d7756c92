"""How the tasks of runs are, by the ids they have at the service."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, TypeVar, cast

from runspec_azure.batch import reasons, timing
from runspec_azure.batch.job import job as jobs
from runspec_azure.errors import status_of
from runspec_azure.session.clients import Session
from runspec_azure.store.blobs import Blobs
from runspec_jobs.provider import (
    Attempt,
    MembershipChange,
    NodeStatus,
    RemoteError,
    State,
    Status,
    blamed,
    elastic_changes,
    elastic_end,
    elastic_status,
    read_record,
    seated,
)

SHOWN = 100  # tasks that a status lists while the job runs; at its end, all
AGAIN = 75  # what a task ends with that is to be tried again, whatever its program's code was
# terminateReason, as it is described, and as it was seen for the first of them.
# https://learn.microsoft.com/en-us/rest/api/batchservice/jobs/get-job#batchjobexecutioninfo
ALL_OVER = ("AllTasksComplete", "AllTasksCompleted")
BY_A_TASK = "TaskFailed"
PAGE = 1000  # tasks in a reply: https://learn.microsoft.com/en-us/rest/api/batchservice/tasks/list-tasks
SELECT = "id,state,executionInfo,nodeInfo"
OURS = re.compile(r"task-\d{5,}")  # somebody may have added a task to our job

# https://learn.microsoft.com/en-us/rest/api/batchservice/tasks/get-task#taskstate
STATES = {
    "active": State.WAITING,
    "preparing": State.WAITING,
    "running": State.RUNNING,
    "completed": State.SUCCEEDED,  # or failed: its result says which
}
Found = Mapping[str, Any]
Answered = TypeVar("Answered")


class Tasks:
    """What the service says of jobs, tasks and pools. What was asked just now is not asked again."""

    def __init__(self, session: Session, blobs: Blobs) -> None:
        self.session, self.blobs = session, blobs
        self._records: dict[str, dict[str, Any]] = {}
        self._known: dict[tuple[str, str], tuple[float, Any]] = {}
        self._ended: dict[str, Sequence[Found]] = {}
        self._called_off: set[tuple[str, str]] = set()  # tasks that a job has no need of any more
        self._notes: dict[str, dict[tuple[int, int, int], int]] = {}

    def forget(self) -> None:
        """Something was made or ended: ask anew."""
        self._known.clear()
        self._ended.clear()

    def record(self, run: str) -> dict[str, Any] | None:
        """Return what the run is to do; None once it is destroyed."""
        if run not in self._records:
            found = self.blobs.read("runs", run, "record.json")
            if found is None:
                return None
            self._records[run] = read_record(found, f"the record of {run}")
        return self._records[run]

    def job(self, run: str) -> Found | None:
        """Return the job of *run*; None when there is none, or it is being deleted."""
        found = self._asked("job", run, timing.SLOW_S, lambda: self._job(run))
        return None if found is None or found["state"] == "deleting" else found

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
        pages = -(-self._records.get(run, {}).get("count", 1) // PAGE)
        return self._asked("tasks", run, timing.FRESH_S * pages, lambda: self._all(run))

    def _all(self, run: str) -> Sequence[Found]:
        try:
            found = self.session.pages("Task_List", {"jobId": run}, {"$select": SELECT})
        except RemoteError as exc:
            if status_of(exc) == 404:
                return []
            raise
        ours = (task for task in found if OURS.fullmatch(task["id"]))
        return sorted(ours, key=lambda task: str(task["id"]))

    def one(self, run: str, number: int) -> Found:
        """Return one task as it is now."""
        path = {"jobId": run, "taskId": jobs.task_id(number)}
        return self.session.look("Task_Get", path, {"$select": SELECT})

    def _at_the_end(self, run: str, count: int) -> tuple[Sequence[Found], bool]:
        """Return the tasks of a job that has ended, and whether one of them was never there.

        A list may be older than what the service said of the job: who has not ended in it is asked for alone.
        """
        self._known.pop(("tasks", run), None)  # they were asked before the job
        found = {task["id"]: task for task in self.all(run)}
        late = [n for n in range(count) if not _ended(found.get(jobs.task_id(n)))]
        lost = False
        for number in late[:SHOWN]:
            try:
                found[jobs.task_id(number)] = self.one(run, number)
            except RemoteError as exc:
                if status_of(exc) != 404:
                    raise
                lost = True
        tasks = [found[name] for name in sorted(found)]
        if _over(tasks, count):
            self._ended[run] = tasks
        return tasks, lost

    def tries(self, run: str, task: Found, place: tuple[int, int]) -> int:
        """Return which try of a node is the last so far, as the job counts: see docs/inside.md.

        A machine that was taken away before the job began on it is a try of the service's alone. The
        first node counts for all of its task.
        """
        if not task.get("executionInfo", {}).get("requeueCount"):
            return tried(task)
        base = self.blobs.key("runs", run, "tries", f"{place[0]}-0", "")

        def ask() -> int:
            return len(list(self.blobs.listing(base)))

        count = self._asked(f"tries {place[0]}", run, timing.SLOW_S, ask)
        return min(tried(task), max(1, count))

    def forget_tries(self, run: str, task: int) -> None:
        self._known.pop((f"tries {task}", run), None)

    def ids(self, run: str) -> set[str]:
        return {task["id"] for task in self.all(run)}

    def pool(self, name: str) -> Found:
        """Return the pool, with those of its nodes that are of no use."""
        return self._asked("pool", name, timing.SLOW_S, lambda: self._pool(name))

    def _pool(self, name: str) -> Found:
        try:
            found = dict(self.session.look("Pool_Get", {"poolId": name}))
            found["nodes"] = self.session.pages("ComputeNode_List", {"poolId": name})
        except RemoteError as exc:
            if status_of(exc) == 404:
                return {}
            raise
        return found

    def subtasks(self, run: str, task: int) -> Sequence[Found]:
        """Return the other nodes of a task of many, in the order of their ids."""

        def ask() -> Sequence[Found]:
            path = {"jobId": run, "taskId": jobs.task_id(task)}
            found = self.session.look("Task_ListSubtasks", path).get("value", [])
            return sorted((one for one in found if "id" in one), key=lambda one: int(one["id"]))

        return self._asked(f"subtasks {task}", run, timing.FRESH_S, ask)

    def _asked(self, kind: str, name: str, fresh_s: float, ask: Callable[[], Answered]) -> Answered:
        at, found = self._known.get((kind, name), (-math.inf, None))
        if time.monotonic() - at >= fresh_s:
            found = ask()
            self._known[kind, name] = (time.monotonic(), found)
        return cast(Answered, found)

    def status(self, run: str) -> Status:
        found, record = self._status(run), self._records.get(run)
        return found if record is None else seated(found, record)

    def _status(self, run: str) -> Status:
        """Return how *run* is; its nodes have the numbers of the service's tasks."""
        record = self.record(run)
        job = None if record is None else self.job(run)
        if record is None or job is None:
            self._records.pop(run, None)
            return Status(State.GONE)
        tasks = self.all(run)
        ended, lost = job["state"] == "completed", False
        if ended and not _over(tasks, record["count"]):
            tasks, lost = self._at_the_end(run, record["count"])
        over = _over(tasks, record["count"])
        end = self._elastic_end(run, record, tasks)
        if end is not None and over:
            nodes = tuple(map(_called_off, self._nodes(run, record, tasks)))
            return elastic_status(end, nodes)
        if not over and (not ended or (_terminate_reason(job) in ALL_OVER and not lost)):
            return self._going(run, record, tasks)
        self._known.pop(("stops", run), None)  # who was stopped was so before the end
        nodes = tuple(self._nodes(run, record, tasks))
        stopped = {n.task for n in nodes if n.state is State.CANCELLED}
        wanted = [n for n in nodes if n.task not in stopped]
        if over and not wanted:
            return Status(State.CANCELLED, reasons.TASK_STOPPED, None, nodes)
        if over and all(node.state is State.SUCCEEDED for node in wanted):
            told = f"{len(stopped)} tasks were stopped" if stopped else ""
            reason = next((n.reason for n in wanted if n.reason), told)
            return Status(State.SUCCEEDED, reason, 0, nodes)
        nodes = tuple(n._replace(reason=reasons.NEVER) if _waits(n) else n for n in nodes)
        if _terminate_reason(job) == jobs.CANCELLED:
            return Status(State.CANCELLED, jobs.CANCELLED, None, nodes)
        if _terminate_reason(job) == BY_A_TASK and (first := _stopper(tasks)) is not None:
            return Status(State.FAILED, reasons.stopped(first, len(tasks)), jobs.STOPS, nodes)
        bad = blamed(nodes)
        if bad is None:
            return Status(
                State.FAILED, _terminate_reason(job) or "its job has ended before it", None, nodes
            )
        return Status(State.FAILED, bad.reason, bad.exit_code, nodes)

    def _elastic_end(
        self, run: str, record: Found, tasks: Sequence[Found]
    ) -> tuple[int, str] | None:
        """Return how a job has ended whose nodes come and go, as these have it; who has not come yet is called off.

        A task that waits would have a machine started for nothing. None has ended before the job has.
        """
        if not record.get("elastic") or not any(map(_ended, tasks)):
            return None
        count = record["count"] // record["elastic"]["max"]
        read = self.blobs.read
        end = elastic_end(record, count, lambda path: read("runs", run, *path.split("/")))
        for task in tasks if end is not None else ():
            if task["state"] == "active" and (run, task["id"]) not in self._called_off:
                self.call_off(run, task["id"])
        return end

    def changes(self, run: str) -> Sequence[MembershipChange]:
        """Return the changes of an elastic job: a list for each task, and a get for each change."""
        base, blobs = f"runs/{run}/", self.blobs
        return elastic_changes(
            self.record(run) or {},
            lambda folder: blobs.names(f"{base}{folder}"),
            lambda paths: blobs.read_all([f"{base}{path}" for path in paths]),
        )

    def call_off(self, run: str, task: str) -> None:
        """Terminate a task, whether it runs or not."""
        try:
            self.session.make("Task_Terminate", {"jobId": run, "taskId": task}, None)
        except RemoteError as exc:
            if status_of(exc) not in (404, 409):  # it has ended meanwhile
                raise
        self._called_off.add((run, task))

    def _going(self, run: str, record: Found, tasks: Sequence[Found]) -> Status:
        nodes = tuple(self._nodes(run, record, tasks)) if len(tasks) <= SHOWN else ()
        if any(task["state"] == "running" for task in tasks):
            return Status(State.RUNNING, "", None, nodes)
        return Status(State.WAITING, reasons.waiting(self.pool(record["pool"]), tasks), None, nodes)

    def _nodes(self, run: str, record: Found, tasks: Sequence[Found]) -> Iterator[NodeStatus]:
        for task in tasks:
            number = number_of(task)
            for rank in range(record["nodes"]):
                yield self._node(run, task, number, rank)

    def _node(self, run: str, task: Found, number: int, rank: int) -> NodeStatus:
        state, info = STATES.get(task["state"], State.WAITING), task.get("executionInfo", {})
        tries = self.tries(run, task, (number, rank))
        code = info.get("exitCode") if state.terminal else None
        good = info.get("result", "success") == "success" or reasons.only_a_copy(info)
        if state.terminal and (code or not good):
            state = State.FAILED
        over = tuple(self._attempts(run, task, (number, rank), state, tries))
        reason = ""
        if state is State.FAILED:
            code = over[-1].exit_code if code == AGAIN and over else code
            reason = reasons.ended(info, code)
        elif state is State.SUCCEEDED and reasons.only_a_copy(info):
            reason = reasons.ended(info, None)
        elif state is State.WAITING:
            reason = reasons.WAITING.get(task["state"], "")
        if state is State.FAILED and number in self._stops(run):
            state, reason, code = State.CANCELLED, reasons.TASK_STOPPED, None
        return NodeStatus(number, rank, tries, state, reason, code, over)

    def _attempts(
        self, run: str, task: Found, place: tuple[int, int], state: State, tries: int
    ) -> Iterator[Attempt]:
        """Yield the tries that are over: the job itself noted its failures, and a lost machine notes nothing."""
        info = task.get("executionInfo", {})
        for number in range(1, tries):
            code = self._noted(run, (*place, number), fresh_s=timing.SLOW_S)
            taken = code is None and bool(info.get("requeueCount"))
            reason = reasons.TAKEN if taken else reasons.ended({}, code)
            yield Attempt(number, code, reason, taken)
        if state.terminal:
            code = info.get("exitCode")
            code = self._noted(run, (*place, tries), fresh_s=0.0) if code == AGAIN else code
            reason = "" if state is State.SUCCEEDED else reasons.ended(info, code)
            began_s, ended_s = _seconds(info.get("startTime")), _seconds(info.get("endTime"))
            yield Attempt(tries, code, reason, False, began_s, ended_s)

    def _stops(self, run: str) -> set[int]:
        """Return the tasks that somebody has stopped, as far as that is known."""
        record = self._records.get(run, {})
        if not record.get("sweep"):
            return set()
        base = self.blobs.key("runs", run, "stop", "")

        def ask() -> set[int]:
            return {int(found.key[len(base) :]) for found in self.blobs.listing(base)}

        return self._asked("stops", run, timing.SLOW_S, ask)

    def _noted(self, run: str, which: tuple[int, int, int], *, fresh_s: float) -> int | None:
        """Return the code that a try noted of its failure, which is in the name of the note."""
        known = self._notes.setdefault(run, {})
        base = self.blobs.key("runs", run, "failures", "")

        def ask() -> None:
            notes = (noted(found.key[len(base) :]) for found in self.blobs.listing(base))
            known.update(note for note in notes if note is not None)

        if which not in known:
            self._asked("failures", run, fresh_s, ask)
        return known.get(which)


def _called_off(node: NodeStatus) -> NodeStatus:
    """A task that was ended before it began has failed, to the service."""
    never = node.state is State.FAILED and node.exit_code is None
    return node._replace(state=State.CANCELLED) if never else node


def tried(task: Found) -> int:
    """Return which try of a task is the last one so far. A lost machine is a try of its own."""
    info = task.get("executionInfo", {})
    return int(info.get("retryCount", 0)) + int(info.get("requeueCount", 0)) + 1


def noted(name: str) -> tuple[tuple[int, int, int], int] | None:
    """Return what a job noted of a failure.

    >>> noted("2-0/1-139")
    ((2, 0, 1), 139)
    """
    place, _, tried_ = name.partition("/")
    words = [*place.split("-"), *tried_.split("-")]
    if len(words) != 4 or not all(word.isdigit() for word in words):
        return None
    task, rank, number, code = map(int, words)
    return (task, rank, number), code


def number_of(task: Found) -> int:
    return int(task["id"].rpartition("-")[2])


def _over(tasks: Sequence[Found], count: int) -> bool:
    return len(tasks) == count and all(_ended(task) for task in tasks)


def _ended(task: Found | None) -> bool:
    return task is not None and task["state"] == "completed"


def _stopper(tasks: Sequence[Found]) -> int | None:
    """Return the number of the task that ended its job, by what it ended with at the service."""
    codes = ((t["id"], t.get("executionInfo", {}).get("exitCode")) for t in tasks)
    return next((int(name.rpartition("-")[2]) for name, c in codes if c == jobs.STOPS), None)


def _waits(node: NodeStatus) -> bool:
    return node.state is State.WAITING


def _terminate_reason(job: Found) -> str:
    return str(job.get("executionInfo", {}).get("terminateReason", ""))


def _seconds(moment: str | None) -> float | None:
    return None if moment is None else datetime.fromisoformat(moment).timestamp()
