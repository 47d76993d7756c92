"""Stop single tasks of a sweep, by a request in the store that agents read when they start and while they run.

It is undocumented which signal a program gets when the service terminates its task (see docs/unverified.md, azure-27),
and how a waiting task ends (azure-23). So the agent of a running task stops the program, with its grace period, and
saves its outputs.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from runspec_azure.batch.status import Tasks, number_of
from runspec_azure.store.blobs import Blobs

WAITING = frozenset({"active", "preparing"})


class Stops:
    """Stops tasks, which have the numbers of the service's tasks."""

    def __init__(self, blobs: Blobs, tasks: Tasks) -> None:
        self.blobs, self.tasks = blobs, tasks
        self._since: dict[tuple[str, int], float] = {}

    def stop(self, run: str, record: Mapping[str, Any], numbers: Collection[int]) -> None:
        """Stop the tasks *numbers*; terminate those that wait, that have no agent, or whose agent does not react."""
        for number in sorted(numbers):
            if (run, number) not in self._since:
                self.blobs.put_new(b"", "runs", run, "stop", str(number))
                self._since[run, number] = self.tasks.clock.monotonic()
                self.tasks.forget()
        for task in self.tasks.all(run):
            number, state = number_of(task), task["state"]
            if number not in numbers or state == "completed":
                continue
            late = (
                self.tasks.clock.monotonic() - self._since[run, number]
                > self.tasks.timing.listens_s
            )
            if state in WAITING or late or "stop_s" not in record:
                self.tasks.terminate(run, task["id"])
