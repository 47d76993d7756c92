"""End second jobs of a run, and note in the workspace how it ended, or since when Slurm does not know it."""

from __future__ import annotations

from collections.abc import Sequence

from runspec_slurm import task_stop
from runspec_slurm.lookup.jobs import Jobs
from runspec_slurm.naming import array_of, run_of, suffix


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
        self.jobs.unknown.mark(run)
        self.jobs.keep(run)
        count = f"{len(others)} {'job' if len(others) == 1 else 'jobs'}"
        return [f"cancelled {count} of the same run"] if others else ()

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
