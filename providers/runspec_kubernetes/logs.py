"""The logs of nodes: of each attempt from the node that runs its pod, and from the store.

A node returns the newest file of a log alone, and begins a new one after 10 MiB; of a deleted pod it returns nothing.
In jobs with a store, the agent keeps a copy there.

https://kubernetes.io/docs/concepts/cluster-administration/logging/#log-rotation
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from runspec_jobs.provider import RemoteError
from runspec_jobs.provider.streams.log_streams import Chunk, LogIndex, TimedChunk, timed_chunk
from runspec_kubernetes import store as stores
from runspec_kubernetes.attempts import Pod
from runspec_kubernetes.errors import Refused
from runspec_kubernetes.job import CONTAINER
from runspec_kubernetes.logs_answer import CHUNK_BYTES, Gap, PodLog, Position, parse, since_of
from runspec_kubernetes.status import Runs

COPY, TIMES = "txt", "times"  # endings of the copy of a log, and of the index of its times
NAME = re.compile(rf"(\d+)/(\d+)/(\d+)\.{COPY}")
# The container has not started, or its log was deleted; the pod is gone.
ABSENT = (400, 404)


class Logs:
    """The log streams of runs. Each stream is always the same object, since followers keep it."""

    def __init__(self, runs: Runs) -> None:
        self.runs = runs
        self._streams: dict[tuple[str, int], PodStream] = {}
        self._kept: dict[str, tuple[float, dict[int, set[int]]]] = {}

    def streams(self, run: str) -> Sequence[PodStream]:
        """Return a stream for each node that has begun."""
        record = self.runs.record(run)
        if record is None:
            return []
        for index in {*self.runs.pods(run), *self._kept_attempts(run, record)}:
            if (run, index) not in self._streams:
                self._streams[run, index] = PodStream(self, run, index, record)
        return [self._streams[key] for key in sorted(self._streams) if key[0] == run]

    def attempts(self, run: str, index: int, record: Mapping[str, Any]) -> set[int]:
        """Return the attempts of a node that have begun."""
        of_pods = {pod.attempt for pod in self.runs.pods(run).get(index, ())}
        return of_pods | self._kept_attempts(run, record).get(index, set())

    def _kept_attempts(self, run: str, record: Mapping[str, Any]) -> dict[int, set[int]]:
        """Return the attempts of each node whose logs are in the store; none if all their pods exist."""
        pods, clock, nodes = self.runs.pods(run), self.runs.session.clock, int(record["nodes"])
        # Of a run that was canceled, the pods of earlier attempts stay, and the last one is deleted.
        whole = all(len(of) == of[-1].attempt and of[-1].phase != "Failed" for of in pods.values())
        whole = whole and len(pods) >= int(record.get("count") or 1) * nodes
        if self.runs.store is None or whole:
            return {}
        known = self._kept.get(run)
        if known is None or clock.monotonic() - known[0] > self.runs.session.timing.stored_s:
            found: dict[int, set[int]] = {}
            for name in stores.names(self.runs.store, f"runs/{run}/logs/"):
                if match := NAME.fullmatch(name):
                    task, rank, attempt = map(int, match.groups())
                    found.setdefault(task * nodes + rank, set()).add(attempt)
            known = self._kept[run] = (clock.monotonic(), found)
        return known[1]


class PodStream:
    """The log of one node over all its attempts."""

    def __init__(self, logs: Logs, run: str, index: int, record: Mapping[str, Any]) -> None:
        self.logs, self.run, self.index, self.record = logs, run, index, record
        self.runs = logs.runs
        self.task, self.rank = divmod(index, int(record["nodes"]))
        self._open: PodLog | None = None  # an answer that was not read to its end
        self._read_to = ""  # the position at the end of the log of a pod that is over
        self._absent = 0, 0  # an attempt, and which bytes of it the pod's log does not have
        self._times: list[tuple[int, float]] | None = None  # of the last chunk; None: in the index
        self._indexes: dict[int, LogIndex] = {}

    def read(self, position: str | None) -> Chunk:
        at = parse(position)
        while True:
            pods = {pod.attempt: pod for pod in self.runs.pods(self.run).get(self.index, ())}
            pod = pods.get(at.attempt)
            chunk = self._part(pod, at)
            over = pod is None or pod.over
            if chunk.data or not over:
                return chunk
            known = self.logs.attempts(self.run, self.index, self.record)
            later = min((number for number in known if number > at.attempt), default=None)
            if later is None:
                return chunk
            at = Position(later)

    def timed(self, position: str | None) -> TimedChunk:
        """Return a chunk with the times of its lines: those of the node, or in the store those of the agent."""
        chunk = self.read(position)
        if self._times is not None or not chunk.data:
            return TimedChunk(chunk, self._times or ())
        at = parse(chunk.position)
        if at.attempt not in self._indexes:
            read = partial(self._kept_part, at.attempt, TIMES)
            self._indexes[at.attempt] = LogIndex(read, 0.0, self.runs.session.clock.monotonic)
        start, index = at.offset - len(chunk.data), self._indexes[at.attempt]
        index.known(start, at.offset, over=True)
        return timed_chunk(chunk, start, index.times)

    def _part(self, pod: Pod | None, at: Position) -> Chunk:
        """Return the next bytes of an attempt, from its pod if that has them."""
        is_absent = self._absent[0] == at.attempt and at.offset < self._absent[1]
        if pod is None or is_absent:
            chunk = self._kept_chunk(at)
            if chunk.data or pod is None or not pod.over:
                return chunk
            at = Position(at.attempt, self._absent[1])  # neither has them: an agent was killed
        try:
            return self._pod_chunk(pod, at)
        except Gap as gap:
            if gap.begin is not None:
                self._absent = at.attempt, gap.begin
                return self._part(pod, at)
        except RemoteError as exc:
            chunk = self._kept_chunk(at)
            if chunk.data or (isinstance(exc, Refused) and exc.code in ABSENT):
                return chunk
            raise
        chunk = self._kept_chunk(at)
        if not chunk.data and pod.over and not at.offset:
            return self._pod_chunk(pod, at, marked=False)  # the container could not start the agent
        return chunk

    def _pod_chunk(self, pod: Pod, at: Position, marked: bool | None = None) -> Chunk:
        """Return the next bytes of the log of *pod*. Raises Gap if its node does not have them any more."""
        if str(at) == self._read_to:
            return Chunk(b"", str(at))
        if marked is None:
            marked = self.runs.store is not None
        log, self._open = self._open, None
        if log is None or log.at != at:
            log = self._request(pod, at, marked, since=at.time)
        try:
            data, self._times = log.read()
        except Gap:
            if not at.time:
                raise
            log, data = self._again(pod, at, marked)
        if len(data) >= CHUNK_BYTES:
            self._open = log
        elif pod.over:
            self._read_to = str(log.at)
        return Chunk(data, str(log.at))

    def _again(self, pod: Pod, at: Position, marked: bool) -> tuple[PodLog, bytes]:
        """Read the whole log, as the node has begun a new file; without marks, all is new if the line is absent."""
        anew = Position(at.attempt, at.offset)
        log = self._request(pod, anew if marked else at, marked)
        try:
            data, self._times = log.read()
        except Gap:
            if marked:
                raise
            log = self._request(pod, anew, marked)
            data, self._times = log.read()
        return log, data

    def _request(self, pod: Pod, at: Position, marked: bool, since: str = "") -> PodLog:
        query = {"container": CONTAINER, "timestamps": "true"}
        if since:
            query["sinceTime"] = since_of(since)
        path, what = f"{self.runs.path('pods', pod.name)}/log", f"read the log of {pod.name}"
        answer = self.runs.session.opened(path, query, what)
        return PodLog(answer, at, marked=marked, over=pod.over, action=what)

    def _kept_chunk(self, at: Position) -> Chunk:
        """Return the next bytes of the copy in the store."""
        data = self._kept_part(at.attempt, COPY, at.offset)
        if not data:
            return Chunk(b"", str(at))
        self._times = None
        return Chunk(data, str(Position(at.attempt, at.offset + len(data))))

    def _kept_part(self, attempt: int, ending: str, start: int) -> bytes:
        if self.runs.store is None:
            return b""
        key = f"runs/{self.run}/logs/{self.task}/{self.rank}/{attempt}.{ending}"
        size = self.runs.store.size(key) or 0
        if size <= start:
            return b""
        return self.runs.store.part(key, start, min(size, start + CHUNK_BYTES)) or b""
