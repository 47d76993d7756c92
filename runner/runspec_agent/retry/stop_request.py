"""Requests to stop a task of a sweep: `stop/TASK` in the store of its run, written before the task is stopped.

TASK is the number of the task within the service's job.

A later attempt finds the request before it begins. A running task polls for it if the service has no way to tell it.

The record's `max_failed` stops all tasks that have not ended, once as many have failed: `failed/TASK` is written when a
task has failed for good, so that each task can count them.
"""

import os
import signal
import threading
from typing import Any, Callable, Mapping

from runspec_agent.base.job_env import Failure
from runspec_agent.base.task_identity import TaskIdentity
from runspec_agent.store.base import Bucket

WHY = "its task was stopped"
HALTED = "as many tasks have failed as max_failed says: this one ends"
LOOK_S = 5.0  # between two counts while a task runs


def is_stopped(bucket: Bucket, at: str, task: int) -> bool:
    """Return whether *task* of the run at *at* was asked to stop."""
    return bucket.get("{}stop/{}".format(at, task)) is not None


def is_halted(bucket: Bucket, at: str, task: int, record: Mapping[str, Any]) -> bool:
    """Return whether so many other tasks of the run have failed that *task* is to end."""
    most = record.get("max_failed")
    if most is None:
        return False
    folder = "{}failed/".format(at)
    failed = {entry.key[len(folder) :] for entry in bucket.listing(folder)}
    return len(failed) >= most and str(task) not in failed


def mark_failed(bucket: Bucket, at: str, identity: TaskIdentity, record: Mapping[str, Any]) -> None:
    """Count a task that has failed for good; the first node does for nodes that the service starts together."""
    if record.get("max_failed") and not (record["shape"] == "nodes" and identity.rank):
        bucket.put("{}failed/{}".format(at, identity.task), b"")


def unmark(bucket: Bucket, at: str, identity: TaskIdentity, record: Mapping[str, Any]) -> None:
    """Count a task no more that has succeeded, in an attempt that its service has started all the same."""
    if record.get("max_failed") and identity.attempt > 1:
        bucket.delete("{}failed/{}".format(at, identity.task))


class StopPoller(threading.Thread):
    """Poll for the request every *look_s*, and then send SIGTERM to this process, which handles it as usual."""

    def __init__(self, stopped: Callable[[], bool], look_s: float) -> None:
        super().__init__(daemon=True)
        self._stopped, self._look_s = stopped, look_s
        self._over = threading.Event()

    def run(self) -> None:
        while not self._over.wait(self._look_s):
            try:
                stopped = self._stopped()
            except Failure:  # the next poll finds it
                continue
            if stopped and not self._over.is_set():  # at the end, signals are not handled any more
                os.kill(os.getpid(), signal.SIGTERM)
                return

    def finish(self) -> None:
        self._over.set()
