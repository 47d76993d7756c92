"""The logs of nodes: of each attempt from the node that runs its pod, and from the store.

A node returns the newest file of a log alone, and begins a new one after 10 MiB; of a deleted pod it returns nothing.
In jobs with a store, the agent keeps a copy there, and prints marks, which say how many bytes of the log precede them:
`runspec_agent.job.log_copy`. No bytes of the log are in a mark.

https://kubernetes.io/docs/concepts/cluster-administration/logging/#log-rotation
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from itertools import chain
from typing import Any

from runspec_agent.base.light_typing import NamedTuple
from runspec_agent.base.record_formats import LOG_MARK
from runspec_jobs.provider import RemoteError
from runspec_jobs.provider.streams.log_streams import Chunk, LogIndex, TimedChunk, timed_chunk
from runspec_kubernetes.attempts import Pod
from runspec_kubernetes.errors import Refused, translated
from runspec_kubernetes.job import CONTAINER
from runspec_kubernetes.status import Runs

CHUNK_BYTES = 1 << 20
BLOCK_BYTES = 1 << 16
HEAD_BYTES = 256  # more than a time and a mark have
TIME = re.compile(rb"\d{4}-\d\d-\d\dT")
MARK_BEGIN = LOG_MARK.partition("{")[0].encode()
MARK = re.compile(re.escape(MARK_BEGIN) + rb"(\d{1,18})\n")
COPY, TIMES = "txt", "times"  # endings of the copy of a log, and of the index of its times
NAME = re.compile(rf"(\d+)/(\d+)/(\d+)\.{COPY}")
# The container has not started, or its log was deleted; the pod is gone.
ABSENT = (400, 404)


class Position(NamedTuple):
    """Where a reader of one node is: the attempt, and how many bytes of its log were read.

    *time* is that of a line of the pod's log which was read, the last one that differs from the time before it, and
    *since* how many bytes were read from the beginning of that line on. *pod* is the name of the pod that has printed
    what was read: empty if it was gone already, and None if nothing was read.
    """

    attempt: int = 1
    offset: int = 0
    time: str = ""
    since: int = 0
    pod: str | None = None

    def __str__(self) -> str:
        return json.dumps(list(self), separators=(",", ":"))


def parse(text: str | None) -> Position:
    """Return the position that *text* says; None is the beginning."""
    return Position() if text is None else Position(*json.loads(text))


class Gap(Exception):
    """The answer does not contain the byte at the position; *begin* is its first byte, or None if that is unknown."""

    def __init__(self, begin: int | None) -> None:
        super().__init__(begin)
        self.begin = begin


class Piece(NamedTuple):
    """A line, or a part of a long one; *time* is empty except at the beginning of a line."""

    time: str
    text: bytes


class PodLog:
    """The answer to a request for the log of a pod. *over*: nothing will be added to it."""

    def __init__(
        self, answer: Any, at: Position, *, marked: bool, over: bool, action: str = ""
    ) -> None:
        self.at, self._answer, self._action = at, answer, action
        self._line = (
            "",
            0,
        )  # the time and bytes of what was read of the answer last, as in a position
        self._pieces = located(_pieces(answer.stream(BLOCK_BYTES)), at, marked=marked, over=over)

    def read(self) -> tuple[bytes, list[tuple[int, float]]]:
        """Return the next bytes, about CHUNK_BYTES at most, and when they were printed; none at the end.

        Raises Gap if the bytes at the position are not in the answer, and what `translated` raises.
        """
        data = bytearray()
        times: list[tuple[int, str]] = []
        try:
            with translated(self._action):
                self._read(data, times)
        except BaseException:
            self._answer.close()
            raise
        if len(data) < CHUNK_BYTES:
            self._answer.close()
        return bytes(data), [(size, seconds_of(time)) for size, time in times]

    def __del__(self) -> None:
        self._answer.close()  # a reader may leave it before its end

    def _read(self, data: bytearray, times: list[tuple[int, str]]) -> None:
        end, (time, since) = self.at.offset, self._line
        for begin, piece in self._pieces:
            if piece.time and piece.time != time:
                time, since = piece.time, 0
            since += len(piece.text)
            if new := piece.text[max(0, end - begin) :]:
                data += new
                end += len(new)
                if times and times[-1][1][:19] == time[:19]:
                    times.pop()
                times.append((len(data), time))
            if len(data) >= CHUNK_BYTES:
                break
        self._line = time, since
        if time:
            self.at = self.at._replace(offset=end, time=time, since=since)


def located(
    pieces: Iterator[Piece], at: Position, *, marked: bool, over: bool
) -> Iterator[tuple[int, Piece]]:
    """Yield the pieces that are not before *at*, each with the number of bytes of the log before it.

    Without marks, an answer that is not searched for a time begins at the position.
    """
    here = at.offset
    if at.time:
        first = next((piece for piece in pieces if piece.time == at.time), None)
        if first is None:
            raise Gap(None)
        here, pieces = at.offset - at.since, chain((first,), pieces)
    elif marked:
        here, before = _find_mark(pieces)
        if here > at.offset:
            raise Gap(here)
        pieces = chain(before, pieces)
    for piece in pieces:
        if marked and piece.time and piece.text.startswith(MARK_BEGIN[: len(piece.text)]):
            if _mark(piece) == here:
                continue
            if not piece.text.endswith(b"\n") and not over:
                return  # the rest of a mark is to come
        yield here, piece
        here += len(piece.text)


def _find_mark(pieces: Iterator[Piece]) -> tuple[int, list[Piece]]:
    """Return where the answer begins in the log, and the pieces before its first mark."""
    before: list[Piece] = []
    for piece in pieces:
        number = _mark(piece)
        if number is not None:
            return number - sum(len(piece.text) for piece in before), before
        before.append(piece)
    raise Gap(None)


def _mark(piece: Piece) -> int | None:
    match = MARK.fullmatch(piece.text) if piece.time else None
    return int(match[1]) if match else None


def _pieces(blocks: Iterable[bytes]) -> Iterator[Piece]:
    rest, within = b"", False
    for block in blocks:
        *lines, rest = (rest + block).split(b"\n")
        for line in lines:
            yield from (Piece("", line + b"\n"),) if within else _line(line + b"\n")
            within = False
        if within or len(rest) > HEAD_BYTES:
            yield from (Piece("", rest),) if within else _line(rest)
            rest, within = b"", True
    yield from _line(rest)


def _line(line: bytes) -> Iterator[Piece]:
    """Yield the line, but not one without a time: the message of a node that has no log, or a time that was cut off."""
    time, space, text = line.partition(b" ")
    if space and TIME.match(time):
        yield Piece(time.decode("ascii", "replace"), text)


def seconds_of(time: str) -> float:
    """Return a time of a log in seconds since 1970, without its fraction, which has nine digits.

    >>> seconds_of("2026-11-25T10:00:00.123456789Z"), seconds_of("2026-11-25T11:00:00.5+01:00")
    (1795600800.0, 1795600800.0)
    """
    zone = "+00:00" if time.endswith("Z") else time[-6:]
    return datetime.fromisoformat(time[:19] + zone).timestamp()


def since_of(time: str) -> str:
    """Return the second of *time* as the API takes it, which knows no fractions.

    >>> since_of("2026-11-25T11:00:00.5+01:00")
    '2026-11-25T10:00:00Z'
    """
    return datetime.fromtimestamp(seconds_of(time), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


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
            for name in self.runs.store.names(f"runs/{run}/logs/"):
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
            if pod is not None and at.pod not in (None, pod.name):
                # Another pod of the attempt: Kueue has suspended the Job, and started it again.
                at, self._absent = Position(at.attempt), (0, 0)
                self._indexes.pop(at.attempt, None)
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
        if pod is not None:
            at = at._replace(pod=pod.name)
        if pod is None or is_absent:
            chunk = self._kept_chunk(at)
            if chunk.data or pod is None or not pod.over:
                return chunk
            at = Position(
                at.attempt, self._absent[1], pod=pod.name
            )  # neither has them: an agent was killed
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
        anew = at._replace(time="", since=0)
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
        return Chunk(data, str(Position(at.attempt, at.offset + len(data), pod=at.pod or "")))

    def _kept_part(self, attempt: int, ending: str, start: int) -> bytes:
        if self.runs.store is None:
            return b""
        key = f"runs/{self.run}/logs/{self.task}/{self.rank}/{attempt}.{ending}"
        size = self.runs.store.size(key) or 0
        if size <= start:
            return b""
        return self.runs.store.part(key, start, min(size, start + CHUNK_BYTES)) or b""
