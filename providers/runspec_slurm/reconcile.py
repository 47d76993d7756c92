"""End second jobs of a run, and note in the workspace how it ended, or since when Slurm does not know it."""

from __future__ import annotations

from collections.abc import Sequence

from runspec_slurm import task_stop
from runspec_slurm.lookup.jobs import Jobs


class Reconciler:
    """Ends jobs, and writes notes to the workspace."""

    def __init__(self, jobs: Jobs) -> None:
        self.jobs = jobs

    def reconcile(self, run: str) -> Sequence[str]:
        seen = self.jobs.poller.seen(run)
        if seen is None or seen.last is not None:
            return ()
        others = self._end_others(run) if run in self.jobs.doubted else []
        self.jobs.status(run)  # what follows notes what this found
        self.jobs.unknown.mark(run)
        self.jobs.keep(run)
        count = f"{len(others)} {'job' if len(others) == 1 else 'jobs'}"
        return [f"cancelled {count} of the same run"] if others else ()

    def _end_others(self, run: str) -> list[str]:
        """Cancel the jobs named *run* except the one that owns the run, and return them.

        If no job has claimed the run, it is claimed for the first one before, so that no other one can begin.
        """
        jobs, rows = self.jobs, self.jobs.queue.of_name(run)
        seen = jobs.poller.seen(run)
        names = sorted({row.job for row in rows}, key=int)
        holder = None if seen is None else seen.holder
        if holder is None and names:
            claim = jobs.store.put_new(names[0], "runs", run, "claim") or names[0]
            holder = claim if claim.isdigit() else names[0]
            jobs.forget(run)
        others = sorted({row.job for row in task_stop.alive(rows)} - {holder})
        jobs.queue.cancel(others)
        if holder is not None:
            jobs.remember(run, holder)
        jobs.doubted.discard(run)
        return others
