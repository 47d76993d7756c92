"""Whether a generation made progress. A program that asks for new generations without progress would never end."""

import time
from typing import Optional

from runspec_agent.elastic import step_log

RUN_S = 60.0  # seconds that a program without reported steps has to run: a short run may only have saved its log


class ProgressGuard:
    """Detect progress from *path*, the file `RUNSPEC_PROGRESS`, which is emptied when a generation begins."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._furthest: Optional[int] = None  # the highest step reported here so far
        self._began = 0.0

    def begin(self) -> None:
        self._began = time.monotonic()

    def made(self, saved: bool) -> bool:
        """Return whether a step was done that is further than any before.

        For a program that reports no steps: whether something new was *saved* and the program ran for RUN_S or
        longer.
        """
        step = step_log.last(self.path)
        if step is None:
            ran_s = time.monotonic() - self._began
            return self._furthest is None and saved and ran_s >= RUN_S
        further = self._furthest is None or step.number > self._furthest
        if further:
            self._furthest = step.number
        return further
