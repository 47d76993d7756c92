"""Read the output of tasks by position: from their nodes while those exist, and then from blobs."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from runspec_agent.base.light_typing import NamedTuple
from runspec_azure.batch import job as jobs
from runspec_azure.batch.status import Tasks, attempts_of, seconds
from runspec_azure.errors import status_of
from runspec_azure.session.clients import Session
from runspec_azure.store import Blobs
from runspec_azure.timing import PollScheduler
from runspec_jobs.provider import RemoteError
from runspec_jobs.provider.elastic_tasks import seat
from runspec_jobs.provider.streams.log_streams import (
    Chunk,
    LogIndex,
    Stream,
    TimedChunk,
    timed_chunk,
)

BLOCK_BYTES = 1 << 20
STDOUT = "stdout.txt"
# The index of its times, which the agent writes: see `runspec_agent.transfer.log_times`.
TIMES = "stdout.times"
TIMES_ON_NODE = f"wd/{TIMES}"
# There is no file, not yet a file, or no such range of it: see docs/unverified.md, azure-26.
ABSENT = (404, 409, 416)


class Seen(NamedTuple):
    """The state of a task just before its file is read: the file contains its output until then."""

    attempts: int
    over: bool
    runs: bool


class Logs:
    """The log streams of runs. Each stream is always the same object, since followers keep it."""

    def __init__(self, session: Session, blobs: Blobs, tasks: Tasks) -> None:
        self.session, self.blobs, self.tasks = session, blobs, tasks
        self._streams: dict[tuple[str, int, int], TaskStream] = {}
        self.turns = PollScheduler(tasks.timing.poll_s, tasks.clock.monotonic)
        self.ended: set[str] = set()  # runs that have ended, whose logs are read without waiting

    def streams(self, run: str) -> Sequence[Stream]:
        record = self.tasks.record(run)
        if record is None:
            return []
        for task in self.tasks.all(run):
            if task["state"] in ("active", "preparing") and attempts_of(task) == 1:
                continue
            number = int(task["id"].rpartition("-")[2])
            for rank in range(record["nodes"]):
                key = (run, number, rank)
                if key not in self._streams:
                    self._streams[key] = TaskStream(
                        self, run, (number, rank), seat(record, number, rank)
                    )
        return [self._streams[key] for key in sorted(self._streams) if key[0] == run]


class TaskStream:
    """The log of one node. A position is the number of the attempt, and the bytes of it that were read."""

    def __init__(self, logs: Logs, run: str, place: tuple[int, int], seat: tuple[int, int]) -> None:
        self.logs, self.run = logs, run
        self.number, self.at = place  # of the service's task
        self.task, self.rank = seat
        self._ranks: dict[int, Sequence[str]] = {}
        self._indexes: dict[int, LogIndex] = {}  # by attempt
        self._held: tuple[str, Chunk] | None = None  # what was read and not shown yet, by position
        self._next_s = -math.inf  # when the index is read again

    def read(self, position: str | None) -> Chunk:
        position = position or "1:0"
        log, mark = (self.run, self.number, self.at), f"{position} {self._mark()}"
        if self.run not in self.logs.ended and not self.logs.turns.due(log, mark):
            return Chunk(b"", position)
        chunk = self.read_file(position)
        over, new = "completed" in mark, bool(chunk.data)
        # How many requests a poll needs that finds nothing: subtasks need one more for their machine
        listing = self._listed() or {}
        requeued = bool(listing.get("executionInfo", {}).get("requeueCount"))
        self.logs.turns.note(log, mark, new=new, calls=1 + (self.at > 0) + requeued, last=over)
        return chunk

    def timed(self, position: str | None) -> TimedChunk:
        """Return a chunk with the times of the index; what was not noted yet is held back for a while.

        What a signed job has printed last, without an agent to note it, has the time at which its task ended.
        """
        held, self._held = self._held, None
        position = position or "1:0"
        chunk = held[1] if held is not None and held[0] == position else self.read(position)
        if not chunk.data:
            return TimedChunk(chunk, ())
        at, end = map(int, chunk.position.split(":"))
        if at not in self._indexes:
            tasks = self.logs.tasks
            read = partial(self._read_index, at)
            self._indexes[at] = LogIndex(read, tasks.timing.index_s, tasks.clock.monotonic)
        start, index, over = end - len(chunk.data), self._indexes[at], self._is_over(at)
        known = index.known(start, end, over=over)
        if known < end:
            self._held = f"{at}:{known}", Chunk(chunk.data[known - start :], chunk.position)
            chunk = Chunk(chunk.data[: known - start], f"{at}:{known}", more=True)
        times, ended_s = list(index.times), self._ended_s(at)
        if times and times[-1][0] < end and ended_s is not None:
            times.append((end, ended_s))
        return timed_chunk(chunk, start, times)

    def _read_index(self, number: int, start: int) -> bytes:
        """Return the next bytes of the index of an attempt; it is asked for once a second while it grows."""
        now_s = self.logs.tasks.clock.monotonic()
        if now_s < self._next_s:
            return b""
        seen = self._seen()
        data = self._live(start, seen, TIMES_ON_NODE) if number >= seen.attempts else None
        if data is None:
            data = self._stored(self._names(number, "times", TIMES), start)
        if not data and not self._is_over(number):
            self._next_s = now_s + self.logs.tasks.timing.index_pause_s
        return data or b""

    def _is_over(self, number: int) -> bool:
        seen = self._seen()
        return seen.over or number < seen.attempts

    def _ended_s(self, number: int) -> float | None:
        """Return when the task ended, if this was its last attempt."""
        task, seen = self._listed() or {}, self._seen()
        last = seen.over and number >= seen.attempts
        return seconds(task.get("executionInfo", {}).get("endTime")) if last else None

    def _listed(self) -> Mapping[str, Any] | None:
        name = jobs.task_id(self.number)
        return next((t for t in self.logs.tasks.all(self.run) if t["id"] == name), None)

    def _mark(self) -> str:
        """Return the state of the task that decides whether there may be more output."""
        listing = self._listed()
        return "gone" if listing is None else f"{listing['state']} {attempts_of(listing)}"

    def read_file(self, position: str) -> Chunk:
        at, done = map(int, position.split(":"))
        while True:
            seen = self._seen()  # before the file, so that no output is missed
            data = self._earlier(at, done) if at < seen.attempts else self._now(at, done, seen)
            if data and at >= seen.attempts and self._attempts_now() > seen.attempts:
                self.logs.tasks.forget()  # the file may already belong to a later attempt
                continue
            if data:
                return Chunk(data, f"{at}:{done + len(data)}")
            if at >= seen.attempts:
                return Chunk(b"", f"{at}:{done}")
            at, done = at + 1, 0

    def _seen(self) -> Seen:
        listing = self._listed()
        if listing is None:
            return Seen(1, True, False)
        state, place = listing["state"], (self.number, self.at)
        attempts = self.logs.tasks.count_attempts(self.run, listing, place)
        return Seen(attempts, state == "completed", state == "running")

    def _attempts_now(self) -> int:
        try:
            task = self.logs.tasks.one(self.run, self.number)
        except RemoteError as exc:
            if status_of(exc) in ABSENT:
                return 0
            raise
        self.logs.tasks.forget_attempts(self.run, self.number)
        return self.logs.tasks.count_attempts(self.run, task, (self.number, self.at))

    def _earlier(self, number: int, done: int) -> bytes:
        """Return the output of an earlier attempt, which the agent uploads; that of a lost machine may be missing."""
        return self._kept(number, done) or b""

    def _now(self, number: int, done: int, seen: Seen) -> bytes:
        """Return the output of the last attempt, from its file, or from the copy after the node was released."""
        data = self._live(done, seen)
        if not data and seen.over:
            kept = self._kept(number, done)
            return kept if kept is not None else data or b""
        return data or b""

    def _kept(self, number: int, done: int) -> bytes | None:
        """Return bytes of the copy in the store; None if there is no copy."""
        return self._stored(self._names(number, "txt", STDOUT), done)

    def _names(self, number: int, ending: str, of_service: str) -> Sequence[str]:
        """Return the blobs that may have a file of an attempt; the service uploads those of the first node, too."""
        key = self.logs.blobs.key("runs", self.run, "logs", str(self.number))
        names = [f"{key}/{self.at}/{number}.{ending}"]
        if self.at == 0 and number == self._seen().attempts:
            names.append(f"{key}/{of_service}")
        return names

    def _stored(self, names: Sequence[str], start: int) -> bytes | None:
        """Return bytes of the first of the blobs that exists, or None."""
        for name in names:
            size = self.logs.blobs.size(name)
            if size is not None:
                return self.logs.blobs.part(name, start, min(size, start + BLOCK_BYTES))
        return None

    def _live(self, done: int, seen: Seen, file: str = STDOUT) -> bytes | None:
        """Return the content of a file on the node after *done* bytes; None if there is no file.

        The length is requested first, and then a range within it: a range beyond the end is an error, and the
        end of an open range may change while it is read.
        """
        where = self._where(seen, file)
        if where is None:
            return None
        operation, path = where
        try:
            size = int(self.logs.session.head(operation, path).get("Content-Length", "0"))
            end = min(size, done + BLOCK_BYTES)
            if end <= done:
                return b""
            return self.logs.session.part(operation, path, done, end)[: end - done]
        except RemoteError as exc:
            if status_of(exc) in ABSENT:
                return None
            raise

    def _where(self, seen: Seen, file: str) -> tuple[str, Mapping[str, str]] | None:
        """Return the operation and path that read the file: of the task for the first node, of a machine for others."""
        if self.at == 0:
            path = {"jobId": self.run, "taskId": jobs.task_id(self.number), "filePath": file}
            return "File_GetFromTask", path
        info = self._machine(seen)
        if not all(info.get(key) for key in ("poolId", "nodeId", "taskRootDirectory")):
            return None
        there = f"{info['taskRootDirectory']}/{file}"
        path = {"poolId": info["poolId"], "nodeId": info["nodeId"], "filePath": there}
        return "File_GetFromComputeNode", path

    def _machine(self, seen: Seen) -> Mapping[str, Any]:
        """Return the machine and folder of this rank's subtask; empty until the nodes have published their ranks."""
        try:
            others = self.logs.tasks.subtasks(self.run, self.number)
        except RemoteError as exc:
            if status_of(exc) in ABSENT:
                return {}
            raise
        infos: Sequence[Mapping[str, Any]] = [node.get("nodeInfo", {}) for node in others]
        machines = self._machines(seen.attempts)
        if len(machines) > self.at:
            return next((i for i in infos if i.get("nodeId") == machines[self.at]), {})
        # If no agent has published it, the subtask has the output of its command.
        return infos[self.at - 1] if seen.over and len(infos) >= self.at else {}

    def _machines(self, number: int) -> Sequence[str]:
        """Return the ids of the machines of an attempt by rank; see docs/agent.md."""
        if number not in self._ranks:
            key = self.logs.blobs.key("runs", self.run, "nodes", str(self.number), "open")
            opened = json.loads(self.logs.blobs.read(key) or b"{}")
            if opened.get("number") != number:
                return ()
            self._ranks[number] = opened.get("machines", ())
        return self._ranks[number]
