"""What jobs print, from CloudWatch Logs: every attempt of every node, by position."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from runspec.provider import Chunk, RemoteError, Stream
from runspec_aws import times
from runspec_aws.errors import code_of, got, translated
from runspec_aws.jobs import Job, Jobs, Place
from runspec_aws.session import Session

PAUSE_S = 0.5
ABSENT = frozenset({"ResourceNotFoundException"})


class Logs:
    """The streams of runs. Each is one object for good, for a follower keeps it."""

    def __init__(self, session: Session, jobs: Jobs) -> None:
        self.session = session
        self.jobs = jobs
        self._streams: dict[tuple[str, int, int], CloudStream] = {}

    def streams(self, run: str) -> Sequence[Stream]:
        record, job = self.jobs.record(run), None
        if record is not None:
            job = self.jobs.job(run)
        if record is None or job is None:
            return []
        places = self.jobs.places(run, record)
        found = self.jobs.describe(place.job for place in places)
        for place in places:
            if place.job in found and (names := attempts(found[place.job])):
                stream = self._stream(run, place, record["log_group"])
                stream.names = names
                stream.ended_s = stream.ended_s or _now_if_ended(found[place.job])
        return [self._streams[key] for key in sorted(self._streams) if key[0] == run]

    def _stream(self, run: str, place: Place, group: str) -> CloudStream:
        key = (run, place.task, place.rank)
        if key not in self._streams:
            self._streams[key] = CloudStream(self.session, group, place.task, place.rank)
        return self._streams[key]


def _now_if_ended(job: Job) -> float | None:
    return time.monotonic() if job["status"] in ("SUCCEEDED", "FAILED") else None


def attempts(job: Job) -> list[str]:
    """Give the names of the log streams of *job*, the first attempt's first."""
    own = job.get("container", {}).get("logStreamName")
    found = [a.get("container", {}).get("logStreamName") for a in job.get("attempts", ())]
    return list(dict.fromkeys(name for name in [*found, own] if name))


class CloudStream:
    """One node's log. A position is the number of the attempt and the service's own token."""

    def __init__(self, session: Session, group: str, task: int, rank: int) -> None:
        self.session = session
        self.group = group
        self.task, self.rank = task, rank
        self.names: list[str] = []
        self.ended_s: float | None = None

    def read(self, position: str | None) -> Chunk:
        attempt, _, token = (position or "0:").partition(":")
        at = int(attempt)
        while True:
            data, after = self._page(at, token)
            if data:
                return Chunk(data, f"{at}:{after}")
            if after != token:  # an empty page is not the end
                token = after
            elif at + 1 < len(self.names):
                at, token = at + 1, ""
            elif not self._may_come():
                return Chunk(b"", f"{at}:{token}")
            else:
                time.sleep(PAUSE_S)

    def _may_come(self) -> bool:
        """Say whether lines of a job that has ended may still arrive."""
        return self.ended_s is not None and time.monotonic() - self.ended_s < times.QUIET_S

    def _page(self, at: int, token: str) -> tuple[bytes, str]:
        """Give the lines after *token* and the token after them; equal tokens are the end for now."""
        params: dict[str, Any] = {"nextToken": token} if token else {}
        where = {"logGroupName": self.group, "logStreamName": self.names[at]}
        try:
            with translated("get_log_events"):
                found: Mapping[str, Any] = self.session.look("logs").get_log_events(
                    **where, startFromHead=True, **params
                )
        except RemoteError as exc:
            if code_of(exc) in ABSENT:  # nothing was printed yet
                return b"", token
            raise
        data = "".join(f"{event['message']}\n" for event in got(found, "events")).encode()
        return data, got(found, "nextForwardToken")
