"""Nodes of elastic jobs leave for good: each is a child of an array, and AWS Batch starts no child twice."""

from __future__ import annotations

from collections.abc import Collection

from runspec_aws.status.jobs import Jobs
from runspec_aws.status.poll import has_ended
from runspec_jobs.provider import Released, Seat
from runspec_jobs.provider.node_ends import AWAY

NEVER_BACK = (
    "nodes that have left cannot come back on AWS Batch, which starts no child of an array twice"
)
WAITING = ("SUBMITTED", "PENDING", "RUNNABLE")


class Releases:
    """Releases nodes; children that wait are terminated once."""

    def __init__(self, jobs: Jobs) -> None:
        self.jobs = jobs
        self._terminated: set[str] = set()

    def release(self, run: str, away: Collection[Seat]) -> Released:
        """Have the nodes *away* leave: a child that runs ends by itself with 0, and one that waits is terminated."""
        record = self.jobs.record(run)
        if record is None or self.jobs.settled_job(run) is None:
            return Released((), (), NEVER_BACK)
        gone = self.jobs.released(run)
        for task, rank in sorted(set(away) - gone):
            number = str(task * record["nodes"] + rank)
            self.jobs.files.put_new(b"", "runs", run, "released", number)
        places = [place for place in self.jobs.places(run, record) if place[:2] in away]
        known = self.jobs.poller.describe([place.job for place in places], anew=True)
        waiting = [name for name, job in known.items() if job["status"] in WAITING]
        new = [name for name in waiting if name not in self._terminated]
        self.jobs.terminate(new, AWAY, self._terminated)
        left = [
            place[:2] for place in places if not has_ended(known.get(place.job, {"status": ""}))
        ]
        return Released(gone | set(away), left, NEVER_BACK)
