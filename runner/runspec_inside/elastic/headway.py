"""Whether a generation has got on. One whose program asks for the next one, and has not, leads to nothing."""

import os
import time
from typing import Optional

TAIL = 64  # bytes that hold the last line
RUN_S = 60.0  # for a program that tells no steps: one that starts and ends writes its log, too


class Headway:
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
        step = self._step()
        if step is None:
            ran_s = time.monotonic() - self._began
            return self._furthest is None and saved and ran_s >= RUN_S
        further = self._furthest is None or step > self._furthest
        if further:
            self._furthest = step
        return further

    def _step(self) -> Optional[int]:
        try:
            with open(self.path, "rb") as stream:
                stream.seek(max(0, os.fstat(stream.fileno()).st_size - TAIL))
                return int(stream.read().rpartition(b"\n")[0].split(b"\n")[-1])
        except (OSError, ValueError):
            return None
