"""Poll AWS Batch for the state of jobs, with as few calls as possible."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from typing import Any

from runspec_agent.base.light_typing import NamedTuple
from runspec_aws.errors import got, translated
from runspec_aws.session import Session

# https://docs.aws.amazon.com/batch/latest/APIReference/API_DescribeJobs.html
AT_ONCE = 100

Job = Mapping[str, Any]


class Known(NamedTuple):
    """The description of a job, and when it was received, by the monotonic clock."""

    job: Job
    at: float


def has_ended(job: Job) -> bool:
    """Return whether *job* has ended, after which its description does not change."""
    return job["status"] in ("SUCCEEDED", "FAILED")


class JobPoller:
    """The latest descriptions of jobs, by job id, and the service's clock."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self._known: dict[str, Known] = {}
        self.clock = session.clock
        # The service's clock minus the monotonic clock.
        self._clock_s = self.clock.wall() - self.clock.monotonic()

    def describe(self, ids: Iterable[str], *, anew: bool = False) -> dict[str, Job]:
        """Return the description of each job of *ids*; the service forgets jobs some time after their end.

        Descriptions that are final are always reused, and others while they are fresh, except with *anew*.
        """
        now, wanted = self.clock.monotonic(), list(ids)
        fresh_s = 0.0 if anew else self.session.timing.fresh_s
        old = [name for name in wanted if self._is_old(name, now - fresh_s)]
        for start in range(0, len(old), AT_ONCE):
            self._ask(old[start : start + AT_ONCE])
        known = ((name, self._known.get(name)) for name in wanted)
        return {name: entry.job for name, entry in known if entry is not None}

    def known(self, name: str) -> Job:
        """Return the latest description of a job, or an empty one if there is none; no request is made."""
        entry = self._known.get(name)
        return {} if entry is None else entry.job

    def is_old(self, name: str) -> bool:
        """Return whether `describe` would make a request for the job *name* now."""
        return self._is_old(name, self.clock.monotonic() - self.session.timing.fresh_s)

    def forget(self, name: str) -> None:
        """Discard the description of a job, for example because it was just changed."""
        self._known.pop(name, None)

    def service_s(self) -> float:
        """Return the time by the service's clock, in seconds since 1970; this machine's clock may be wrong."""
        return self.clock.monotonic() + self._clock_s

    def _is_old(self, name: str, since: float) -> bool:
        entry = self._known.get(name)
        return entry is None or (not self._is_final(name, entry) and entry.at <= since)

    def _is_final(self, name: str, entry: Known) -> bool:
        """Return whether a description does not change any more.

        A node of a multi-node job that has failed by itself runs again in the next attempt of its job.
        """
        job, is_node, _ = name.partition("#")
        whole = self._known.get(job)
        over = whole is not None and has_ended(whole.job) and entry.at >= whole.at
        return has_ended(entry.job) and (not is_node or over)

    def _ask(self, names: list[str]) -> None:
        with translated("describe_jobs"):
            answer = self.session.look("batch").describe_jobs(jobs=names)
        date = answer["ResponseMetadata"]["HTTPHeaders"].get("date")
        self._clock_s = (
            parsedate_to_datetime(date).timestamp() if date else self.clock.wall()
        ) - self.clock.monotonic()
        jobs = {got(job, "jobId"): _complete(job) for job in got(answer, "jobs")}
        for name in names:
            if name not in jobs:
                self.forget(name)
        now = self.clock.monotonic()
        for name, job in jobs.items():
            self._known[name] = Known(job, now)


def _complete(job: Job) -> Job:
    """Return *job*. Raise NoAnswer if it has no status, so that it is not kept and the next poll requests it again."""
    got(job, "status")
    return job


# Choose which children of a large array to describe, from the counts of their parent.
#
# A call describes a hundred jobs, so an array of 10,000 takes a hundred calls. The parent has the number of
# children in each status: https://docs.aws.amazon.com/batch/latest/APIReference/API_ArrayPropertiesDetail.html


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
            ended = any(counts.get(s, 0) != seen.counts.get(s, 0) for s in ("SUCCEEDED", "FAILED"))
            all_s = self.session.clock.monotonic() - seen.all_at_s
            if ended and all_s >= self.session.timing.children_s:
                seen.all_at_s = self.session.clock.monotonic()
                changing = alive
        seen.counts = dict(counts)
        self.poller.describe(dict.fromkeys(changing))

    def _ended(self, child: str) -> bool:
        known = self.poller.known(child)
        return bool(known) and has_ended(known)

    def waiting(self, parent: str, children: Sequence[str]) -> Job | None:
        """Return a waiting child: the first known one, or the first of all, or any."""
        known = [*map(self.poller.known, children)]
        if not any(known):
            known = [*self.poller.describe(children[:1]).values()]
        waiting = (job for job in known if job.get("status") in WAITS)
        return next(waiting, None) or next(iter(self._listed(parent, "RUNNABLE", 1)), None)

    def _listed(self, parent: str, status: str, most: int = LISTED) -> list[Job]:
        pages = self.session.look("batch").get_paginator("list_jobs")
        how = {"MaxItems": most, "PageSize": min(most, AT_ONCE)}
        with translated("list_jobs"):
            answers = pages.paginate(arrayJobId=parent, jobStatus=status, PaginationConfig=how)
            return [job for page in answers for job in got(page, "jobSummaryList")]
