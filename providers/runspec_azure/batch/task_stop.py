"""Nodes of elastic jobs leave and come back: each is a task, which is deleted and added again.

A task that has ended with 0 cannot be reactivated, and one that has ended otherwise would be retried at once:
https://learn.microsoft.com/rest/api/batchservice/tasks/reactivate-task
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from runspec_azure.batch import job
from runspec_azure.batch.cleanup import WAITING
from runspec_azure.batch.status import Tasks, number_of
from runspec_azure.errors import status_of
from runspec_azure.session.clients import Session
from runspec_azure.store import Blobs
from runspec_jobs.provider import Released, RemoteError, Seat
from runspec_jobs.provider.elastic_tasks import seat, task_of

Add = Callable[[Collection[str]], None]  # sends the requests for tasks with these ids
OVER = "completed"


class Releases:
    """Releases nodes, and brings them back."""

    def __init__(self, session: Session, blobs: Blobs, tasks: Tasks) -> None:
        self.session, self.blobs, self.tasks = session, blobs, tasks

    def release(
        self, run: str, away: Collection[Seat], back: Collection[Seat], add: Add
    ) -> Released:
        """Have the nodes *away* leave, and those of *back* come back once their tasks have ended."""
        self.tasks.forget()
        record = self.tasks.record(run)
        if record is None:
            return Released((), ())
        if not away and not back:
            known = self.tasks.released(run) | self._missing(run)
            return Released({seat(record, task, 0) for task in known}, ())
        there = self.tasks.all(run)
        states = {number_of(task): str(task["state"]) for task in there}
        leave = {task_of(record, *node)[0] for node in away}
        come = {task_of(record, *node)[0] for node in back} - leave
        gone = self.tasks.released(run)
        leaving = self._send_away(run, leave, gone, states)
        over = self.tasks.elastic_end(run, record, there) is not None
        leaving |= set() if over else self._bring_back(run, come, gone, states, add)
        self.tasks.forget()
        known = (gone | leave) - (come - leaving)
        return Released(
            {seat(record, task, 0) for task in known}, {seat(record, task, 0) for task in leaving}
        )

    def _missing(self, run: str) -> set[int]:
        """Return the tasks that a command has deleted, and not added again, because it was killed on any machine."""
        returned = self.tasks.returned(run)
        return returned - {number_of(task) for task in self.tasks.all(run)} if returned else set()

    def _send_away(
        self, run: str, leave: set[int], gone: set[int], states: Mapping[int, str]
    ) -> set[int]:
        """Note which tasks are to leave, and end those that wait; return those that run."""
        for task in sorted(leave - gone):
            self.blobs.put_new(self.blobs.key("runs", run, "released", str(task)), b"")
        for task in sorted(leave):
            if states.get(task) in WAITING:
                self.tasks.terminate(run, job.task_id(task))
        return {task for task in leave if states.get(task, OVER) != OVER}

    def _bring_back(
        self, run: str, come: set[int], gone: set[int], states: Mapping[int, str], add: Add
    ) -> set[int]:
        """Add the tasks anew that have ended, and return those that have not.

        A task is deleted before the record of its release, and added after it: so it never starts while there is one,
        and an interrupted call can be continued.
        """
        left = {task for task in come & gone if states.get(task, OVER) != OVER}
        self._send_away(run, left, gone, states)
        missing = {task for task in come - left if states.get(task, OVER) == OVER}
        for task in sorted(missing):
            self.delete(run, job.task_id(task))
            self.blobs.put_new(self.blobs.key("runs", run, "returned", str(task)), b"")
            self.blobs.remove([self.blobs.key("runs", run, "released", str(task))])
        if missing:
            add({job.task_id(task) for task in missing})
        return left

    def delete(self, run: str, task: str) -> None:
        """Delete a task, if it is there."""
        try:
            self.session.make("Task_Delete", {"jobId": run, "taskId": task})
        except RemoteError as exc:
            if status_of(exc) != 404:
                raise
