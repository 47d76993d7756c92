"""End second jobs of a run, requeue killed ones, and note in the workspace how it ended, or is unknown since when."""

from __future__ import annotations

import json
from collections.abc import Sequence

from runspec_jobs.provider import RemoteError
from runspec_slurm import task_stop
from runspec_slurm.lookup.jobs import Jobs
from runspec_slurm.naming import array_of, run_of, suffix
from runspec_slurm.status import killed
from runspec_slurm.status.states import Task


class Reconciler:
    """Ends jobs, and writes notes to the workspace."""

    def __init__(self, jobs: Jobs) -> None:
        self.jobs = jobs

    def reconcile(self, run: str) -> Sequence[str]:
        seen = self.jobs.poller.seen(run)
        if seen is None or seen.last is not None:
            return ()
        doubted = [name for name in self.jobs.doubted if run_of(name) == run]
        others = [job for name in doubted for job in self._end_others(name)]
        self.jobs.status(run)  # what follows notes what this found
        again = [line for task in self.jobs.due.pop(run, ()) for line in self._requeue(run, task)]
        if again:
            self.jobs.forget(run)
            self.jobs.status(run)
        self.jobs.unknown.mark(run)
        self.jobs.keep(run)
        count = f"{len(others)} {'job' if len(others) == 1 else 'jobs'}"
        ended = [f"cancelled {count} of the same run"] if others else []
        return [*ended, *again] or ()

    def _requeue(self, run: str, task: Task) -> list[str]:
        """Requeue a task whose batch script was killed; if Slurm refuses that, note the end of its attempt."""
        record, code = self.jobs.record(run), killed.code(task)
        assert task.row is not None and record is not None, "BUG: only a listed task is due"
        name = task.row.task_id(task.number) if record["count"] > 1 else task.row.job
        failure = (
            "" if record.get("elastic") else f"failures/{task.number}-0/{task.attempts}-{code}"
        )
        content = json.dumps({"code": code})
        try:
            again = self.jobs.queue.requeue(run, task.row, name, failure, content)
        except RemoteError as exc:
            if exc.transient:
                raise
            why = f"another attempt was due, but the job cannot be requeued: {exc.message}"
            note = json.dumps({"code": code, "why": why})
            self.jobs.store.put(
                f"runs/{run}/ends/{task.number}/{task.attempts}/batch", note.encode()
            )
            return [f"{name}: {why}"]
        return [f"requeued job {name}, whose batch script was killed"] if again else []

    def _end_others(self, name: str) -> list[str]:
        """Cancel the jobs with that *name* except the one that has its place in the run, and return them.

        If no job has claimed the place, it is claimed for the first one before, so that no other one can begin.
        """
        jobs, rows = self.jobs, self.jobs.queue.of_name(name)
        run, array = run_of(name), array_of(name)
        seen = jobs.poller.seen(run)
        ids = sorted({row.job for row in rows}, key=int)
        holder = None if seen is None else seen.holder(array)
        if holder is None and ids:
            claim = jobs.store.put_new(ids[0], "runs", run, f"claim{suffix(array)}") or ids[0]
            holder = claim if claim.isdigit() else ids[0]
            jobs.forget(run)
        others = sorted({row.job for row in task_stop.alive(rows)} - {holder})
        jobs.queue.cancel(others)
        if holder is not None:
            jobs.remember(name, holder)
        jobs.doubted.discard(name)
        return others
