"""Poll AWS Batch for the state of jobs, with as few calls as possible."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from email.utils import parsedate_to_datetime
from typing import Any, NamedTuple

from runspec_aws.errors import got, translated
from runspec_aws.session.clients import Session

# https://docs.aws.amazon.com/batch/latest/APIReference/API_DescribeJobs.html
AT_ONCE = 100
FRESH_S = 0.9  # what was described so lately is not asked for again

Job = Mapping[str, Any]


class Known(NamedTuple):
    """A job as it was at *at*, of a clock that nobody turns back."""

    job: Job
    at: float


def has_ended(job: Job) -> bool:
    """Return whether the service will change nothing about *job* any more."""
    return job["status"] in ("SUCCEEDED", "FAILED")


class JobPoller:
    """What the service has said of jobs, by their ids, and how late it is there."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self._known: dict[str, Known] = {}
        self._clock_s = time.time() - time.monotonic()  # to be added to our own

    def describe(self, ids: Iterable[str], *, anew: bool = False) -> dict[str, Job]:
        """Return what the service knows of each of *ids*; it forgets jobs that have long ended.

        What was described just now is not asked for again, unless *anew*; what has ended never is.
        """
        now, wanted = time.monotonic(), list(ids)
        fresh_s = 0.0 if anew else FRESH_S
        old = [name for name in wanted if self._is_old(name, now - fresh_s)]
        for start in range(0, len(old), AT_ONCE):
            self._ask(old[start : start + AT_ONCE])
        known = ((name, self._known.get(name)) for name in wanted)
        return {name: one.job for name, one in known if one is not None}

    def known(self, name: str) -> Job:
        """Return what was said of a job last; nothing where it never was."""
        found = self._known.get(name)
        return {} if found is None else found.job

    def is_old(self, name: str) -> bool:
        """Return whether *name* would be asked for now."""
        return self._is_old(name, time.monotonic() - FRESH_S)

    def forget(self, name: str) -> None:
        """Ask again for a job that we have just changed."""
        self._known.pop(name, None)

    def service_s(self) -> float:
        """Return the time by the service's clock, in seconds since 1970: ours may be wrong."""
        return time.monotonic() + self._clock_s

    def _is_old(self, name: str, since: float) -> bool:
        found = self._known.get(name)
        return found is None or (not has_ended(found.job) and found.at <= since)

    def _ask(self, names: list[str]) -> None:
        with translated("describe_jobs"):
            answer = self.session.look("batch").describe_jobs(jobs=names)
        self._clock_s = _said_at(answer) - time.monotonic()
        found = {got(job, "jobId"): _whole(job) for job in got(answer, "jobs")}
        for name in names:
            if name not in found:
                self.forget(name)
        for name, job in found.items():
            self._known[name] = Known(job, time.monotonic())


def _whole(job: Job) -> Job:
    """Return *job*. Raises NoAnswer for one without a status: it is not kept, and so is asked for again."""
    got(job, "status")
    return job


def _said_at(answer: Mapping[str, Any]) -> float:
    """Return the time at which the service answered, by its own clock."""
    date = answer["ResponseMetadata"]["HTTPHeaders"].get("date")
    return parsedate_to_datetime(date).timestamp() if date else time.time()
