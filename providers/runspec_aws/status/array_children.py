"""Choose which children of a large array to describe, from the counts of their parent.

A call describes a hundred jobs, so an array of 10,000 takes a hundred calls. The parent has the number of children in
each status: https://docs.aws.amazon.com/batch/latest/APIReference/API_ArrayPropertiesDetail.html
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from runspec_aws.errors import got, translated
from runspec_aws.session.clients import Session
from runspec_aws.status.poll import AT_ONCE, Job, JobPoller, has_ended

WAITS = ("SUBMITTED", "PENDING", "RUNNABLE", "STARTING")
LISTED = 10_000  # the largest array


@dataclass
class Seen:
    """The state of an array job: the counts of its children, when all were described, and which are next."""

    counts: Mapping[str, int] = field(default_factory=dict)
    all_at_s: float = -math.inf
    turn: int = 0


class Children:
    """Describes the children of arrays, with as few calls as possible."""

    def __init__(self, session: Session, poller: JobPoller) -> None:
        self.session, self.poller = session, poller
        self._seen: dict[str, Seen] = {}

    def look(self, parent: str, children: Sequence[str]) -> None:
        """Describe *parent* and those of *children* that may have changed.

        While nothing runs, that is one call: for the parent, the first child that has not ended, and a few others in
        turn.
        """
        if self.poller.is_old(parent):
            self._look(parent, children, self._seen.setdefault(parent, Seen()))

    def _look(self, parent: str, children: Sequence[str], seen: Seen) -> None:
        alive = [child for child in children if not self._ended(child)]
        turn = seen.turn % max(1, len(alive))
        seen.turn = turn + AT_ONCE - 2
        polled = [parent, *alive[:1], *alive[turn : seen.turn]]
        job = self.poller.describe(dict.fromkeys(polled)).get(parent, {})
        counts = job.get("arrayProperties", {}).get("statusSummary", {})
        changing = [
            c for c in alive if self.poller.known(c).get("status") in ("STARTING", "RUNNING")
        ]
        if counts != seen.counts:
            running = self._listed(parent, "RUNNING") if counts.get("RUNNING") else []
            changing += [job["jobId"] for job in running]
            if self._more_ended(counts, seen):
                seen.all_at_s = self.session.clock.monotonic()
                changing = alive
        seen.counts = dict(counts)
        self.poller.describe(dict.fromkeys(changing))

    def _more_ended(self, counts: Mapping[str, int], seen: Seen) -> bool:
        """Return whether children have ended that were perhaps never seen running."""
        ended = any(counts.get(s, 0) != seen.counts.get(s, 0) for s in ("SUCCEEDED", "FAILED"))
        all_s = self.session.clock.monotonic() - seen.all_at_s
        return ended and all_s >= self.session.timing.children_s

    def _ended(self, child: str) -> bool:
        known = self.poller.known(child)
        return bool(known) and has_ended(known)

    def waiting(self, parent: str, children: Sequence[str]) -> Job | None:
        """Return a waiting child: the first known one, or the first of all, or any."""
        known = [*map(self.poller.known, children)]
        if not any(known):
            known = [*self.poller.describe(children[:1]).values()]
        found = (job for job in known if job.get("status") in WAITS)
        return next(found, None) or next(iter(self._listed(parent, "RUNNABLE", 1)), None)

    def _listed(self, parent: str, status: str, most: int = LISTED) -> list[Job]:
        pages = self.session.look("batch").get_paginator("list_jobs")
        how = {"MaxItems": most, "PageSize": min(most, AT_ONCE)}
        with translated("list_jobs"):
            found = pages.paginate(arrayJobId=parent, jobStatus=status, PaginationConfig=how)
            return [job for page in found for job in got(page, "jobSummaryList")]
