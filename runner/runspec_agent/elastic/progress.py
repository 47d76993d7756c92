"""Whether a generation has got on. One whose program asks for the next one, and has not, leads to nothing."""

import time
from typing import Optional

from runspec_agent.elastic import step_log

RUN_S = 60.0  # for a program that tells no steps: one that starts and ends writes its log, too


class ProgressGuard:
    """*path* is the file `RUNSPEC_PROGRESS`, which is emptied when a generation begins."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._furthest: Optional[int] = None  # step that was ever told here
        self._began = 0.0

    def begin(self) -> None:
        self._began = time.monotonic()

    def made(self, saved: bool) -> bool:
        """Say whether a step was done that is further than any before.

        Of a program that tells no steps: whether something new was *saved*, and it ran for a while.
        """
        step = step_log.last(self.path)
        if step is None:
            ran_s = time.monotonic() - self._began
            return self._furthest is None and saved and ran_s >= RUN_S
        further = self._furthest is None or step.number > self._furthest
        if further:
            self._furthest = step.number
        return further
