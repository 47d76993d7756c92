"""What tasks print: files of the workspace, which the controller knows nothing of. A position is an offset in bytes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from runspec_jobs.provider import Chunk, Stream, seat
from runspec_slurm.status.workspace_poll import WorkspacePoller
from runspec_slurm.store.workspace import WorkspaceStore

CHUNK_BYTES = 1 << 20
AT_ONCE_BYTES = 8 << 20  # that are fetched by one command

Place = tuple[int, int]


class Logs:
    """The streams of runs. Each is one object for good, for a follower keeps it."""

    def __init__(
        self,
        shelf: WorkspaceStore,
        looks: WorkspacePoller,
        record: Callable[[str], Mapping[str, Any] | None] | None = None,
    ) -> None:
        self.shelf, self.looks = shelf, looks
        self._record = record or (lambda _: None)
        self._streams: dict[tuple[str, int, int], LogStream] = {}
        self._fetched: dict[tuple[str, Place, int], bytes] = {}

    def streams(self, run: str) -> Sequence[Stream]:
        """Return the streams there are; none for a job that has not opened its log yet."""
        seen = self.looks.seen(run)
        record = (None if seen is None else self._record(run)) or {"nodes": 1}
        for place in () if seen is None else seen.logs:
            one = LogStream(self, run, place, seat(record, *place))
            self._streams.setdefault((run, *place), one)
        return [self._streams[key] for key in sorted(self._streams) if key[0] == run]

    def size(self, run: str, place: Place) -> int:
        seen = self.looks.seen(run)
        return 0 if seen is None else seen.logs.get(place, 0)

    def fetched(self, run: str, place: Place, start: int) -> bytes:
        """Return the bytes from *start* that are there; with them come those that are likely to be asked for next."""
        key = (run, place, start)
        if key not in self._fetched:
            self._fetched.clear()
            wanted = list(self._wanted(run, place, start))
            keys = [(f"runs/{run}/logs/{p[0]}-{p[1]}.txt", at, count) for p, at, count in wanted]
            found = self.shelf.parts(keys) or []
            for (where, at, _), data in zip(wanted, found, strict=False):
                self._fetched[run, where, at] = data
        return self._fetched.pop(key, b"")

    def _wanted(self, run: str, place: Place, start: int) -> Iterator[tuple[Place, int, int]]:
        """Yield what to fetch: this stream from *start*, then the others from where they were read to."""
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
    """One node's log, over all its tries: Slurm appends to it."""

    def __init__(self, logs: Logs, run: str, place: Place, seat: tuple[int, int]) -> None:
        self._logs, self._run = logs, run
        self.place = place  # of its file
        self.task, self.rank = seat
        self.read_to = 0

    def read(self, position: str | None) -> Chunk:
        start, place = int(position or 0), self.place
        data = b""
        if start < self._logs.size(self._run, place):
            data = self._logs.fetched(self._run, place, start)
        self.read_to = start + len(data)
        return Chunk(data, str(self.read_to))
