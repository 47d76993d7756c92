"""Ending single tasks of a sweep. The wish is in the store first: a try that begins finds it, and one that runs looks.

Nobody says what a program gets that the service terminates (see docs/unverified.md, azure-27), nor what becomes of a
task that waits (see docs/unverified.md, azure-23). So one that runs hears of it from its agent, which gives
it its grace and saves what it wrote.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from typing import Any

from runspec_azure.batch import timing
from runspec_azure.batch.status import Tasks, number_of
from runspec_azure.store.blobs import Blobs

WAITING = frozenset({"active", "preparing"})


class Stops:
    """Tasks that are to end, by the numbers that the service has for them."""

    def __init__(self, blobs: Blobs, tasks: Tasks) -> None:
        self.blobs, self.tasks = blobs, tasks
        self._since: dict[tuple[str, int], float] = {}

    def stop(self, run: str, record: Mapping[str, Any], numbers: Collection[int]) -> None:
        """End those of *numbers* that wait, and those that run where nobody listens, or nobody has for long."""
        for number in sorted(numbers):
            if (run, number) not in self._since:
                self.blobs.put_new(b"", "runs", run, "stop", str(number))
                self._since[run, number] = time.monotonic()
                self.tasks.forget()
        for task in self.tasks.all(run):
            number, state = number_of(task), task["state"]
            if number not in numbers or state == "completed":
                continue
            late = time.monotonic() - self._since[run, number] > timing.LISTENS_S
            if state in WAITING or late or "stop_s" not in record:
                self.tasks.call_off(run, task["id"])
