"""The logs of tasks, which are files of the workspace. A position is an offset in bytes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from runspec_jobs.provider.elastic_tasks import seat
from runspec_jobs.provider.streams.log_streams import (
    Chunk,
    LogIndex,
    Stream,
    TimedChunk,
    timed_chunk,
)
from runspec_slurm.status.workspace_poll import WorkspacePoller
from runspec_slurm.store.workspace import WorkspaceStore

CHUNK_BYTES = 1 << 20
AT_ONCE_BYTES = 8 << 20  # the most that one command fetches

Place = tuple[int, int]


class Logs:
    """The streams of runs. A stream is always the same object, since its reader keeps it."""

    def __init__(
        self,
        store: WorkspaceStore,
        poller: WorkspacePoller,
        record: Callable[[str], Mapping[str, Any] | None] | None = None,
    ) -> None:
        self.store, self.poller = store, poller
        self._record = record or (lambda _: None)
        self._streams: dict[tuple[str, int, int], LogStream] = {}
        self._fetched: dict[tuple[str, Place, int], bytes] = {}

    def streams(self, run: str) -> Sequence[Stream]:
        """Return the streams of *run*; a node that has not opened its log yet has none."""
        seen = self.poller.seen(run)
        record = (None if seen is None else self._record(run)) or {"nodes": 1}
        for place in () if seen is None else seen.logs:
            stream = LogStream(self, run, place, seat(record, *place))
            self._streams.setdefault((run, *place), stream)
        return [self._streams[key] for key in sorted(self._streams) if key[0] == run]

    def size(self, run: str, place: Place) -> int:
        seen = self.poller.seen(run)
        return 0 if seen is None else seen.logs.get(place, 0)

    def fetched(self, run: str, place: Place, start: int) -> bytes:
        """Return the bytes from *start*; fetch with them those of other streams that are likely to be read next."""
        key = (run, place, start)
        if key not in self._fetched:
            self._fetched.clear()
            wanted = list(self._wanted(run, place, start))
            keys = [(f"runs/{run}/logs/{p[0]}-{p[1]}.txt", at, count) for p, at, count in wanted]
            parts = self.store.parts(keys) or []
            for (where, at, _), data in zip(wanted, parts, strict=False):
                self._fetched[run, where, at] = data
        return self._fetched.pop(key, b"")

    def _wanted(self, run: str, place: Place, start: int) -> Iterator[tuple[Place, int, int]]:
        """Yield the parts to fetch: this stream from *start*, then the other streams from their last position."""
        budget = AT_ONCE_BYTES
        later = [s for k, s in sorted(self._streams.items()) if k[0] == run and k[1:] > place]
        asked = [(place, start), *((s.place, s.read_to) for s in later)]
        for where, begin in asked:
            at, size = begin, self.size(run, where)
            while at < size and budget > 0:
                count = min(CHUNK_BYTES, size - at)
                yield where, at, count
                at, budget = at + count, budget - count


class LogStream:
    """The log of one node in all attempts: Slurm appends to it."""

    def __init__(self, logs: Logs, run: str, place: Place, seat: tuple[int, int]) -> None:
        self._logs, self._run = logs, run
        self.place = place  # the task and rank in the name of the file
        self.task, self.rank = seat
        self.read_to = 0
        self._index = LogIndex(
            self._read_index, logs.store.timing.index_s, logs.store.clock.monotonic
        )

    def read(self, position: str | None) -> Chunk:
        start, place = int(position or 0), self.place
        data = b""
        if start < self._logs.size(self._run, place):
            data = self._logs.fetched(self._run, place, start)
        self.read_to = start + len(data)
        return Chunk(data, str(self.read_to))

    def timed(self, position: str | None) -> TimedChunk:
        """Return a chunk with the times that the agent noted; see `runspec_agent.transfer.log_times`."""
        chunk, start = self.read(position), int(position or 0)
        end = start + len(chunk.data)
        if (known := self._index.known(start, end)) < end:
            self.read_to = known
            chunk = Chunk(chunk.data[: known - start], str(known), more=True)
        return timed_chunk(chunk, start, self._index.times)

    def _read_index(self, start: int) -> bytes:
        key = f"runs/{self._run}/logs/{self.place[0]}-{self.place[1]}.times"
        return self._logs.store.part(key, start, CHUNK_BYTES) or b""
