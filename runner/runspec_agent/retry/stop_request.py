"""Requests to stop a task of a sweep: `stop/TASK` in the store of its run, written before the task is stopped.

TASK is the number of the task within the service's job.

A later attempt finds the request before it begins. A running task polls for it if the service has no way to tell it.
"""

import os
import signal
import threading
from typing import Callable

from runspec_agent.base.job_env import Failure
from runspec_agent.store.base import Bucket

WHY = "its task was stopped"


def is_stopped(bucket: Bucket, at: str, task: int) -> bool:
    """Return whether *task* of the run at *at* was asked to stop."""
    return bucket.get("{}stop/{}".format(at, task)) is not None


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
