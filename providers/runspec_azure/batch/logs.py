"""What tasks print: read from their nodes while they have them, and from blobs after that, by position."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from runspec_azure.batch import timing
from runspec_azure.batch.job import job as jobs
from runspec_azure.batch.status import Tasks, tried
from runspec_azure.errors import status_of
from runspec_azure.session.clients import Session
from runspec_azure.store.blobs import Blobs
from runspec_azure.timing import PollScheduler
from runspec_jobs.provider import Chunk, RemoteError, Stream, seat

BLOCK_BYTES = 1 << 20
STDOUT = "stdout.txt"
# No file, none yet, or no such part of it: see docs/unverified.md, azure-26.
ABSENT = (404, 409, 416)


class Seen(NamedTuple):
    """A task as it was before its file is read: what it printed until then is in the file."""

    tries: int
    over: bool
    runs: bool


class Logs:
    """The streams of runs. Each is one object for good, for a follower keeps it."""

    def __init__(self, session: Session, blobs: Blobs, tasks: Tasks) -> None:
        self.session, self.blobs, self.tasks = session, blobs, tasks
        self._streams: dict[tuple[str, int, int], TaskStream] = {}
        self.turns = PollScheduler(lambda: timing.POLL_S)
        self.ended: set[str] = set()  # runs of which all that is there is to be read now

    def streams(self, run: str) -> Sequence[Stream]:
        record = self.tasks.record(run)
        if record is None:
            return []
        for task in self.tasks.all(run):
            if task["state"] in ("active", "preparing") and tried(task) == 1:
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
    """One node's log. A position is the number of the try, and the bytes of it that were read."""

    def __init__(self, logs: Logs, run: str, place: tuple[int, int], seat: tuple[int, int]) -> None:
        self.logs, self.run = logs, run
        self.number, self.at = place  # of the service's task
        self.task, self.rank = seat
        self._ranks: dict[int, Sequence[str]] = {}

    def read(self, position: str | None) -> Chunk:
        position = position or "1:0"
        log, mark = (self.run, self.number, self.at), f"{position} {self._mark()}"
        if self.run not in self.logs.ended and not self.logs.turns.due(log, mark):
            return Chunk(b"", position)
        chunk = self._read(position)
        over, new = "completed" in mark, bool(chunk.data)
        self.logs.turns.note(log, mark, new=new, calls=self._calls(), last=over)
        return chunk

    def _listed(self) -> Mapping[str, Any] | None:
        name = jobs.task_id(self.number)
        return next((t for t in self.logs.tasks.all(self.run) if t["id"] == name), None)

    def _mark(self) -> str:
        """Return what of the task says that there may be more to read, or that all is there now."""
        found = self._listed()
        return "gone" if found is None else f"{found['state']} {tried(found)}"

    def _calls(self) -> int:
        """Return how many calls a look takes that finds nothing: other nodes are asked for by their machines."""
        found = self._listed() or {}
        requeued = bool(found.get("executionInfo", {}).get("requeueCount"))
        return 1 + (self.at > 0) + requeued

    def _read(self, position: str) -> Chunk:
        at, done = map(int, position.split(":"))
        while True:
            seen = self._seen()  # before the file: what comes after it is read the next time
            data = self._earlier(at, done) if at < seen.tries else self._now(at, done, seen)
            if data and at >= seen.tries and self._tries_now() > seen.tries:
                self.logs.tasks.forget()  # the file is another try's by now, perhaps
                continue
            if data:
                return Chunk(data, f"{at}:{done + len(data)}")
            if at >= seen.tries:
                return Chunk(b"", f"{at}:{done}")
            at, done = at + 1, 0

    def _seen(self) -> Seen:
        found = self._listed()
        if found is None:
            return Seen(1, True, False)
        state, place = found["state"], (self.number, self.at)
        tries = self.logs.tasks.tries(self.run, found, place)
        return Seen(tries, state == "completed", state == "running")

    def _tries_now(self) -> int:
        try:
            found = self.logs.tasks.one(self.run, self.number)
        except RemoteError as exc:
            if status_of(exc) in ABSENT:
                return 0
            raise
        self.logs.tasks.forget_tries(self.run, self.number)
        return self.logs.tasks.tries(self.run, found, (self.number, self.at))

    def _earlier(self, number: int, done: int) -> bytes:
        """A try that another followed was kept by the job itself; of a lost machine nothing may be there."""
        return self._kept(number, done) or b""

    def _now(self, number: int, done: int, seen: Seen) -> bytes:
        """Return what the last try printed. Its file goes with its node; then there is the copy of it."""
        data = self._live(done, seen)
        if not data and seen.over:
            kept = self._kept(number, done)
            return kept if kept is not None else data or b""
        return data or b""

    def _kept(self, number: int, done: int) -> bytes | None:
        """Return bytes of the copy in the store; None where there is no copy."""
        key = self.logs.blobs.key("runs", self.run, "logs", str(self.number))
        names = [f"{key}/{self.at}/{number}.txt"]
        if self.at == 0 and number == self._seen().tries:
            names.append(f"{key}/{STDOUT}")
        for name in names:
            size = self.logs.blobs.size(name)
            if size is not None:
                return self.logs.blobs.part(name, done, min(size, done + BLOCK_BYTES))
        return None

    def _live(self, done: int, seen: Seen) -> bytes | None:
        """Return what is in the file on the node after *done* bytes; None where there is no file.

        The length first, and then a range that it has: beyond the end is an error, and a range
        without an end is not safe from what is written meanwhile.
        """
        where = self._where(seen)
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

    def _where(self, seen: Seen) -> tuple[str, Mapping[str, str]] | None:
        """Return the call that reads the file, of the first node by its task, of the others by theirs."""
        if self.at == 0:
            path = {"jobId": self.run, "taskId": jobs.task_id(self.number), "filePath": STDOUT}
            return "File_GetFromTask", path
        info = self._machine(seen)
        if not all(info.get(key) for key in ("poolId", "nodeId", "taskRootDirectory")):
            return None
        file = f"{info['taskRootDirectory']}/{STDOUT}"
        path = {"poolId": info["poolId"], "nodeId": info["nodeId"], "filePath": file}
        return "File_GetFromComputeNode", path

    def _machine(self, seen: Seen) -> Mapping[str, Any]:
        """Return where this rank's subtask is; nothing while nobody has said which of them it is."""
        try:
            others = self.logs.tasks.subtasks(self.run, self.number)
        except RemoteError as exc:
            if status_of(exc) in ABSENT:
                return {}
            raise
        found: Sequence[Mapping[str, Any]] = [one.get("nodeInfo", {}) for one in others]
        machines = self._machines(seen.tries)
        if len(machines) > self.at:
            return next((i for i in found if i.get("nodeId") == machines[self.at]), {})
        # Where no agent of ours came to say it, a subtask has what its command printed.
        return found[self.at - 1] if seen.over and len(found) >= self.at else {}

    def _machines(self, number: int) -> Sequence[str]:
        """Return the ids of the nodes of a try by their ranks; see docs/inside.md."""
        if number not in self._ranks:
            key = ("runs", self.run, "nodes", str(self.number), "open")
            told = json.loads(self.logs.blobs.read(*key) or b"{}")
            if told.get("number") != number:
                return ()
            self._ranks[number] = told.get("machines", ())
        return self._ranks[number]
