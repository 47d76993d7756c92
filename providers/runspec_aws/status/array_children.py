"""The children of large arrays: which of them are worth a question, by what their parent says of all.

A call describes a hundred jobs, so an array of 10,000 takes a hundred calls. The parent has the counts of its children
by status: https://docs.aws.amazon.com/batch/latest/APIReference/API_ArrayPropertiesDetail.html
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from runspec_aws.errors import got, translated
from runspec_aws.session.clients import Session
from runspec_aws.status.poll import AT_ONCE, Job, JobPoller, has_ended

WAITS = ("SUBMITTED", "PENDING", "RUNNABLE", "STARTING")
LISTED = 10_000  # the largest array
ALL_S = 60.0  # between two times that all are described while some end: short ones are never listed as running


@dataclass
class Seen:
    """What was seen of an array: the counts of its children, when all were described, and whose turn is next."""

    counts: Mapping[str, int] = field(default_factory=dict)
    all_at_s: float = -math.inf
    turn: int = 0


class Children:
    """Looks at the children of arrays, as seldom as that is news."""

    def __init__(
        self, session: Session, asking: JobPoller, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.session, self.asking, self.clock = session, asking, clock
        self._seen: dict[str, Seen] = {}

    def look(self, parent: str, children: Sequence[str]) -> None:
        """Ask for *parent* and those *children* of which there may be news.

        While nothing runs, that is one call: of the parent, the first child that has not ended, and others in turn.
        """
        if self.asking.is_old(parent):
            self._look(parent, children, self._seen.setdefault(parent, Seen()))

    def _look(self, parent: str, children: Sequence[str], seen: Seen) -> None:
        alive = [child for child in children if not self._ended(child)]
        turn = seen.turn % max(1, len(alive))
        seen.turn = turn + AT_ONCE - 2
        asked = [parent, *alive[:1], *alive[turn : seen.turn]]
        job = self.asking.describe(dict.fromkeys(asked)).get(parent, {})
        counts = job.get("arrayProperties", {}).get("statusSummary", {})
        going = [c for c in alive if self.asking.known(c).get("status") in ("STARTING", "RUNNING")]
        if counts != seen.counts:
            running = self._listed(parent, "RUNNING") if counts.get("RUNNING") else []
            going += [job["jobId"] for job in running]
            if self._more_ended(counts, seen):
                seen.all_at_s = self.clock()
                going = alive
        seen.counts = dict(counts)
        self.asking.describe(dict.fromkeys(going))

    def _more_ended(self, counts: Mapping[str, int], seen: Seen) -> bool:
        """Say whether children have ended of which some may never have been seen to run."""
        ended = any(counts.get(s, 0) != seen.counts.get(s, 0) for s in ("SUCCEEDED", "FAILED"))
        return ended and self.clock() - seen.all_at_s >= ALL_S

    def _ended(self, child: str) -> bool:
        known = self.asking.known(child)
        return bool(known) and has_ended(known)

    def waiting(self, parent: str, children: Sequence[str]) -> Job | None:
        """Give a child that waits: the first of those that are known, or the first of all, or any."""
        known = [*map(self.asking.known, children)]
        if not any(known):
            known = [*self.asking.describe(children[:1]).values()]
        found = (job for job in known if job.get("status") in WAITS)
        return next(found, None) or next(iter(self._listed(parent, "RUNNABLE", 1)), None)

    def _listed(self, parent: str, status: str, most: int = LISTED) -> list[Job]:
        pages = self.session.look("batch").get_paginator("list_jobs")
        how = {"MaxItems": most, "PageSize": min(most, AT_ONCE)}
        with translated("list_jobs"):
            found = pages.paginate(arrayJobId=parent, jobStatus=status, PaginationConfig=how)
            return [job for page in found for job in got(page, "jobSummaryList")]
