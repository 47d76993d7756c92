"""Asking AWS Batch how jobs stand, as seldom as that is news."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from email.utils import parsedate_to_datetime
from typing import Any, NamedTuple

from runspec_aws.errors import got, translated
from runspec_aws.session import Session

# https://docs.aws.amazon.com/batch/latest/APIReference/API_DescribeJobs.html
AT_ONCE = 100
FRESH_S = 0.9  # what was described so lately is not asked for again

Job = Mapping[str, Any]


class Known(NamedTuple):
    """A job as it was at *at*, of a clock that nobody turns back."""

    job: Job
    at: float


def has_ended(job: Job) -> bool:
    """Say whether the service will change nothing about *job* any more."""
    return job["status"] in ("SUCCEEDED", "FAILED")


class Asking:
    """What the service has said of jobs, by their ids, and how late it is there."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self._known: dict[str, Known] = {}
        self._clock_s = time.time() - time.monotonic()  # to be added to our own

    def describe(self, ids: Iterable[str], *, anew: bool = False) -> dict[str, Job]:
        """Give what the service knows of each of *ids*; it forgets jobs that have long ended.

        What was described just now is not asked for again, unless *anew*; what has ended never is.
        """
        now, wanted = time.monotonic(), list(ids)
        fresh_s = 0.0 if anew else FRESH_S
        old = [name for name in wanted if self._is_old(name, now - fresh_s)]
        for start in range(0, len(old), AT_ONCE):
            self._ask(old[start : start + AT_ONCE])
        return {name: self._known[name].job for name in wanted if name in self._known}

    def known(self, name: str) -> Job:
        """Give what was said of a job last; nothing where it never was."""
        found = self._known.get(name)
        return {} if found is None else found.job

    def forget(self, name: str) -> None:
        """Ask again for a job that we have just changed."""
        self._known.pop(name, None)

    def service_s(self) -> float:
        """Give the time by the service's clock, in seconds since 1970: ours may be wrong."""
        return time.monotonic() + self._clock_s

    def _is_old(self, name: str, since: float) -> bool:
        found = self._known.get(name)
        return found is None or (not has_ended(found.job) and found.at <= since)

    def _ask(self, names: list[str]) -> None:
        with translated("describe_jobs"):
            answer = self.session.look("batch").describe_jobs(jobs=names)
        self._clock_s = _said_at(answer) - time.monotonic()
        for name in names:
            self.forget(name)
        for job in got(answer, "jobs"):
            self._known[job["jobId"]] = Known(job, time.monotonic())


def _said_at(answer: Mapping[str, Any]) -> float:
    """Give the time at which the service answered, by its own clock."""
    date = answer["ResponseMetadata"]["HTTPHeaders"].get("date")
    return parsedate_to_datetime(date).timestamp() if date else time.time()
