"""End what a run does not need any more: a second job of it, and nodes that wait while their elastic job is over."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from runspec_aws.status.jobs import Jobs
from runspec_jobs.provider import NOT_NEEDED

SECOND = "a second job of the same run"
QUEUED = ("SUBMITTED", "PENDING", "RUNNABLE")


class Reconciler:
    """Ends jobs, each once."""

    def __init__(self, jobs: Jobs) -> None:
        self.jobs = jobs
        self._next_s: dict[
            str, float | None
        ] = {}  # when to list the jobs of a run again; None for never
        self._ended: set[str] = set()

    def reconcile(self, run: str) -> Sequence[str]:
        """Terminate what *run* does not need; return a line for each kind of it."""
        record = self.jobs.record(run)
        if record is None:
            return ()
        waited = "terminated {} that waited for machines, because the elastic job is over"
        return [
            *_lines("terminated {} of the same run", self._end_others(run)),
            *_lines(waited, self._end_waiting(run, record)),
        ]

    def _end_others(self, run: str) -> list[str]:
        """Terminate all jobs of *run* except the one to use, after two listings: one may lack a new job."""
        now = self.jobs.session.clock.monotonic()
        next_s = self._next_s.get(run, now)
        if next_s is None or now < next_s:
            return []
        self._next_s[run] = None if run in self._next_s else now + self.jobs.session.timing.settle_s
        found = self.jobs.all_of(run)
        if found:
            self.jobs.remember(run, found[0]["jobId"])
        alive = (job for job in found[1:] if not self.jobs.state_of(job).terminal)
        return self._terminate((job["jobId"] for job in alive), SECOND)

    def _end_waiting(self, run: str, record: Mapping[str, Any]) -> list[str]:
        """Terminate the nodes of an elastic job that is over which still wait: machines would start for them."""
        job = self.jobs.job(run) if record.get("elastic") else None
        if job is None or self.jobs.elastic_end(run, record, job) is None:
            return []
        nodes = self.jobs.poller.describe([place.job for place in self.jobs.places(run, record)])
        waiting = (node["jobId"] for node in nodes.values() if node["status"] in QUEUED)
        return self._terminate(waiting, NOT_NEEDED)

    def _terminate(self, ids: Iterable[str], reason: str) -> list[str]:
        """Terminate the jobs *ids*, except those that were terminated before; return the others."""
        ended = [name for name in ids if name not in self._ended]
        self.jobs.terminate(ended, reason, self._ended)
        return ended


def _lines(text: str, ids: Sequence[str]) -> list[str]:
    """Return *text* with the number of *ids*, or nothing if there are none.

    >>> _lines("terminated {} of the same run", ["a", "b"])
    ['terminated 2 jobs of the same run']
    """
    count = len(ids)
    return [text.format(f"{count} {'job' if count == 1 else 'jobs'}")] if ids else []
