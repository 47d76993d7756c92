"""Notes each second how long the logs of nodes are, so that it is known when a line was printed. Standard library only.

Beside the log `T-R.log` is `T-R.times`, with a line for each second in which the log grew: its length in bytes, and the
middle of that second in seconds since 1970.
"""

from __future__ import annotations

import contextlib
import os
import time
from pathlib import Path

from runspec_local.supervisor import durable

EVERY_S = 1.0


class LogTimes:
    """Notes the lengths of the logs that are watched."""

    def __init__(self) -> None:
        self._lengths: dict[Path, int] = {}  # as they were noted last, also of earlier attempts
        self._watched: set[Path] = set()
        self._next_s = 0.0
        self._looked_s = time.time()

    @property
    def next_s(self) -> list[float]:
        """The time of `time.monotonic` at which to call `note` again, if any log is watched."""
        return [self._next_s] if self._watched else []

    def watch(self, log: Path) -> None:
        """Note the length of *log* from now on; the index exists before the log does."""
        with contextlib.suppress(OSError):
            durable.private_log(_index(log)).close()
        if not self._watched:
            self._looked_s = time.time()
        self._lengths.setdefault(log, 0)
        self._watched.add(log)

    def note(self) -> None:
        """Note the lengths, unless that was done less than a second ago."""
        now_s = time.monotonic()
        if now_s >= self._next_s:
            self._next_s = now_s + EVERY_S
            for log in self._watched:
                self._note(log)
            self._looked_s = time.time()

    def end(self, task: int) -> None:
        """Note the lengths of the logs of a task whose attempt has ended, and watch them no longer."""
        for log in [log for log in self._watched if log.name.startswith(f"{task}-")]:
            self._note(log)
            self._watched.remove(log)

    def _note(self, log: Path) -> None:
        """Write a line if the log has grown; a full disk or a deleted run ends nothing."""
        with contextlib.suppress(OSError):
            length = os.stat(log).st_size
            if length != self._lengths[log]:
                with durable.private_log(_index(log)) as index:
                    index.write(b"%d %.1f\n" % (length, (self._looked_s + time.time()) / 2))
                self._lengths[log] = length


def _index(log: Path) -> Path:
    return log.with_suffix(".times")
