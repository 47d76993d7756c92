"""Read the output of jobs from CloudWatch Logs: every attempt of every node, by position."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from runspec_agent.base.light_typing import NamedTuple
from runspec_aws.errors import code_of, got, translated
from runspec_aws.session import Session
from runspec_aws.status.jobs import Jobs
from runspec_aws.status.nodes import Place
from runspec_aws.status.poll import Job, has_ended
from runspec_jobs.provider import RemoteError
from runspec_jobs.provider.streams.log_streams import Chunk, Stream, TimedChunk

ABSENT = frozenset({"ResourceNotFoundException"})
STALE = frozenset({"InvalidParameterException"})


class Attempt(NamedTuple):
    """The log stream of one attempt, and the time at which it ended by the service's clock, or None."""

    name: str
    stopped_s: float | None


class Logs:
    """The log streams of runs. Each stream is always the same object, since followers keep it."""

    def __init__(self, session: Session, jobs: Jobs) -> None:
        self.session = session
        self.jobs = jobs
        self._streams: dict[tuple[str, int, int], CloudStream] = {}

    def streams(self, run: str) -> Sequence[Stream]:
        record = self.jobs.record(run)
        if record is None:
            return []
        self.jobs.look_at_all(run, record)
        job = self.jobs.job(run)
        if job is None:
            return []
        places, over = self.jobs.places(run, record), has_ended(job)
        if over:  # a node may have started and ended since the last request
            known = self.jobs.returns.describe(places, anew=True)
            over = all(map(has_ended, known.values()))
        for node in places:
            found = self._known(node)
            if found and (streams := attempts(found)):
                self._stream(run, node, record["log_group"]).know(streams, over=over)
        return [self._streams[key] for key in sorted(self._streams) if key[0] == run]

    def _known(self, node: Place) -> Job:
        """Return the latest description of a node, with its earlier jobs as they have ended."""
        if node.earlier:
            return self.jobs.returns.describe([node]).get(node.job, {})
        return self.jobs.poller.known(node.job)

    def _stream(self, run: str, node: Place, group: str) -> CloudStream:
        key = (run, node.task, node.rank)
        if key not in self._streams:
            clock = self.jobs.poller.service_s
            self._streams[key] = CloudStream(self.session, group, node.task, node.rank, clock)
        return self._streams[key]


def attempts(job: Job) -> list[Attempt]:
    """Return the attempts of *job* that have a log stream, in order."""
    streams = {
        name: Attempt(name, _seconds(attempt.get("stoppedAt")))
        for attempt in job.get("attempts", ())
        if (name := attempt.get("container", {}).get("logStreamName"))
    }
    if own_stream := job.get("container", {}).get("logStreamName"):
        streams.setdefault(own_stream, Attempt(own_stream, _seconds(job.get("stoppedAt"))))
    return list(streams.values())


def _seconds(milliseconds: int | None) -> float | None:
    return None if milliseconds is None else milliseconds / 1000


class CloudStream:
    """The log of one node.

    A position is the number of the attempt, the bytes of it that were read, and the service's token for the next
    page.
    """

    def __init__(
        self, session: Session, group: str, task: int, rank: int, clock: Callable[[], float]
    ) -> None:
        self.session = session
        self.group = group
        self.task, self.rank = task, rank
        self.clock = clock
        self.attempts: Sequence[Attempt] = ()
        self.over_s: float | None = None
        self._times: list[tuple[int, float]] = []  # of the page that was read last

    def know(self, attempts: Sequence[Attempt], *, over: bool) -> None:
        """Update the attempts; *over* is whether the whole run has ended.

        An answer that is older than an earlier one removes no attempt.
        """
        if over and self.over_s is None:
            self.over_s = self.clock()
        if len(attempts) >= len(self.attempts):
            self.attempts = attempts

    def read(self, position: str | None) -> Chunk:
        attempt, done, token = (position or "0:0:").split(":", 2)
        at, size = int(attempt), int(done)
        while at < len(self.attempts):
            data, after = self._page(at, size, token)
            if data:
                return Chunk(data, f"{at}:{size + len(data)}:{after}")
            if after != token:  # an empty page is not the end
                token = after
            elif self._may_come(at):
                return Chunk(b"", f"{at}:{size}:{token}", more=self.over_s is not None)
            elif at + 1 < len(self.attempts):
                at, size, token = at + 1, 0, ""
            else:
                break
        return Chunk(b"", f"{at}:{size}:{token}")

    def timed(self, position: str | None) -> TimedChunk:
        """Return a chunk with the service's own times of its lines."""
        self._times = []
        return TimedChunk(self.read(position), self._times)

    def _may_come(self, at: int) -> bool:
        """Return whether more lines of an attempt may arrive, which they may for a while after its end."""
        if self.attempts[at].stopped_s is None and at + 1 < len(self.attempts):
            return False
        stopped_s = self.attempts[at].stopped_s or self.over_s
        return stopped_s is None or self.clock() - stopped_s < self.session.timing.quiet_s

    def _page(self, at: int, size: int, token: str) -> tuple[bytes, str]:
        """Return the events of a page. A token expires after a day; then *size* finds the position.

        https://docs.aws.amazon.com/AmazonCloudWatchLogs/latest/APIReference/API_GetLogEvents.html
        """
        try:
            return self._events(at, token)
        except RemoteError as exc:
            if not token or code_of(exc) not in STALE:
                raise
        token = ""
        while True:
            data, after = self._events(at, token)
            if len(data) > size or after == token:
                self._times = [(end - size, at) for end, at in self._times if end > size]
                return data[size:], after
            size, token = size - len(data), after

    def _events(self, at: int, token: str) -> tuple[bytes, str]:
        """Return the lines after *token* and the next token, which equals *token* at the end of the stream so far.

        Empty lines, and no others, are missing, since a message has one character at least:
        https://docs.aws.amazon.com/AmazonCloudWatchLogs/latest/APIReference/API_InputLogEvent.html
        """
        params: dict[str, Any] = {"nextToken": token} if token else {}
        where = {"logGroupName": self.group, "logStreamName": self.attempts[at].name}
        try:
            with translated("get_log_events"):
                answer: Mapping[str, Any] = self.session.look("logs").get_log_events(
                    **where, startFromHead=True, **params
                )
        except RemoteError as exc:
            if code_of(exc) in ABSENT:  # the stream does not exist before the job prints
                return b"", token
            raise
        events: Sequence[Mapping[str, Any]] = got(answer, "events")
        lines = [f"{event['message']}\n".encode() for event in events]
        self._times = [
            (end, event["timestamp"] / 1000)
            for end, event in zip(itertools.accumulate(map(len, lines)), events, strict=True)
            if "timestamp" in event
        ]
        return b"".join(lines), got(answer, "nextForwardToken")
