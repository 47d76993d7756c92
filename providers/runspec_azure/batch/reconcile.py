"""End the tasks that wait for a machine while their elastic job is over."""

from __future__ import annotations

from collections.abc import Sequence

from runspec_azure.batch.status import Tasks


class Reconciler:
    """Ends tasks, each once."""

    def __init__(self, tasks: Tasks) -> None:
        self.tasks = tasks
        self._ended: set[tuple[str, str]] = set()

    def reconcile(self, run: str) -> Sequence[str]:
        """Terminate the tasks of an elastic job that is over which still wait: machines would start for them."""
        record = self.tasks.record(run)
        if record is None or not record.get("elastic"):
            return ()
        tasks = self.tasks.all(run)
        if self.tasks.elastic_end(run, record, tasks) is None:
            return ()
        waiting = [
            t["id"] for t in tasks if t["state"] == "active" and (run, t["id"]) not in self._ended
        ]
        for name in waiting:
            self.tasks.terminate(run, name)
            self._ended.add((run, name))
        count = f"{len(waiting)} {'task' if len(waiting) == 1 else 'tasks'}"
        why = "that waited for machines, because the elastic job is over"
        return [f"terminated {count} {why}"] if waiting else ()
