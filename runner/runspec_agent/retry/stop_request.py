"""The wish that a task of a sweep ends: `stop/TASK` in the store of its run, which whoever stops it puts there first.

TASK is the number that the service has for it.

A task that is tried again finds it before it begins. One that runs looks for it where its service cannot tell it.
"""

import os
import signal
import threading
from typing import Callable

from runspec_agent.base.job_env import Failure
from runspec_agent.store.base import Bucket

WHY = "its task was stopped"


def is_stopped(bucket: Bucket, at: str, task: int) -> bool:
    """Say whether *task* of the run at *at* is to end."""
    return bucket.get("{}stop/{}".format(at, task)) is not None


class StopPoller(threading.Thread):
    """Looks for the wish every *look_s*, and then has this process told to end, where signals are looked after."""

    def __init__(self, stopped: Callable[[], bool], look_s: float) -> None:
        super().__init__(daemon=True)
        self._stopped, self._look_s = stopped, look_s
        self._over = threading.Event()

    def run(self) -> None:
        while not self._over.wait(self._look_s):
            try:
                found = self._stopped()
            except Failure:  # the next look says it
                continue
            if found and not self._over.is_set():  # at the end nobody looks after signals
                os.kill(os.getpid(), signal.SIGTERM)
                return

    def finish(self) -> None:
        self._over.set()
