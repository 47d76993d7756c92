"""Log groups, streams and events, and when a reader gets to see them."""

from __future__ import annotations

import heapq
import random
import threading
import time
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from runspec_emulators.aws.errors import ServiceError
from runspec_emulators.aws.settings import Settings

JITTER_S = (0.05, 0.4)
"""The range of delays of a batch in the model "jitter"."""
BATCH = 10_000  # PutLogEvents, logEvents
OVERHEAD = 26  # bytes for each event. PutLogEvents


class Position(NamedTuple):
    """A place between events: after those with this time and a number up to *number*."""

    timestamp: int
    number: int


HEAD = Position(-1, 0)
TAIL = Position(2**62, 0)


class Event(NamedTuple):
    """One line."""

    timestamp: int
    number: int
    """The order of arrival in the whole store."""
    ingested: int
    message: str

    def bytes(self) -> int:
        text = self.message
        return OVERHEAD + (len(text) if text.isascii() else len(text.encode()))


@dataclass
class Stream:
    """One stream: what can be seen, sorted by time, and batches that cannot be seen yet.

    Columns, not records: a million lines are to fit in memory, and to be searched by halves.
    """

    name: str
    created_ms: int
    timestamps: array[int] = field(default_factory=lambda: array("q"))
    numbers: array[int] = field(default_factory=lambda: array("q"))
    ingested: array[int] = field(default_factory=lambda: array("q"))
    messages: list[str] = field(default_factory=list)
    hidden: list[tuple[float, int, list[Event]]] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.messages)

    def after(self, position: Position) -> int:
        """Return the index of the first event after a position."""
        low = bisect_left(self.timestamps, position.timestamp)
        high = bisect_right(self.timestamps, position.timestamp, low)
        return bisect_right(self.numbers, position.number, low, high)

    def event(self, index: int) -> Event:
        return Event(
            self.timestamps[index],
            self.numbers[index],
            self.ingested[index],
            self.messages[index],
        )

    def put(self, batch: Sequence[Event]) -> None:
        """Show a batch. A late event is put between those that were there before it."""
        low, high = (self.after(Position(e.timestamp, e.number)) for e in (batch[0], batch[-1]))
        among = [self.event(i) for i in range(low, high)]
        events = sorted([*among, *batch]) if among else batch
        self.timestamps[low:high] = array("q", [e.timestamp for e in events])
        self.numbers[low:high] = array("q", [e.number for e in events])
        self.ingested[low:high] = array("q", [e.ingested for e in events])
        self.messages[low:high] = [e.message for e in events]

    def reveal(self, now: float) -> None:
        """Show the batches whose time has come."""
        while self.hidden and self.hidden[0][0] <= now:
            self.put(heapq.heappop(self.hidden)[2])


@dataclass
class Group:
    """A log group."""

    name: str
    created_ms: int
    retention_days: int | None = None
    tags: dict[str, str] = field(default_factory=dict)
    streams: dict[str, Stream] = field(default_factory=dict)


def missing(what: str) -> ServiceError:
    return ServiceError("ResourceNotFoundException", f"The specified log {what} does not exist.")


class Logs:
    """All groups. Every public method takes the lock itself."""

    def __init__(self, settings: Callable[[], Settings], seed: int) -> None:
        self.lock = threading.RLock()
        self.settings = settings
        self._dice = random.Random(seed)  # noqa: S311 - no secret: a seed replays the run
        self._groups: dict[str, Group] = {}
        self._number = 0

    def has_group(self, name: str) -> bool:
        with self.lock:
            return name in self._groups

    def groups(self) -> list[Group]:
        with self.lock:
            return sorted(self._groups.values(), key=lambda g: g.name)

    def group(self, name: str) -> Group:
        with self.lock:
            if name not in self._groups:
                raise missing("group")
            return self._groups[name]

    def create_group(self, name: str, tags: Mapping[str, str] | None = None) -> None:
        with self.lock:
            if name in self._groups:
                message = "The specified log group already exists"
                raise ServiceError("ResourceAlreadyExistsException", message)
            self._groups[name] = Group(name, now_ms(), tags=dict(tags or {}))

    def delete_group(self, name: str) -> None:
        with self.lock:
            self.group(name)
            del self._groups[name]

    def stream(self, group: str, name: str) -> Stream:
        """Return a stream with everything shown that may be seen by now."""
        with self.lock:
            streams = self.group(group).streams
            if name not in streams:
                raise missing("stream")
            streams[name].reveal(time.monotonic())
            return streams[name]

    def create_stream(self, group: str, name: str) -> None:
        with self.lock:
            streams = self.group(group).streams
            if name in streams:
                message = "The specified log stream already exists"
                raise ServiceError("ResourceAlreadyExistsException", message)
            streams[name] = Stream(name, now_ms())

    def delete_stream(self, group: str, name: str) -> None:
        with self.lock:
            self.stream(group, name)
            del self.group(group).streams[name]

    def write(
        self, group: str, name: str, lines: Iterable[tuple[int, str]], create: bool = False
    ) -> None:
        """Take one batch of (milliseconds since 1970, text), in order of time."""
        with self.lock:
            if create and name not in self.group(group).streams:
                self.create_stream(group, name)
            stream = self.stream(group, name)
            ingested, first = now_ms(), self._number
            batch = [Event(t, first + n, ingested, text) for n, (t, text) in enumerate(lines, 1)]
            if not batch:
                return
            self._number += len(batch)
            late_s = self.lateness_s()
            if late_s:
                entry = (time.monotonic() + late_s, batch[0].number, batch)
                heapq.heappush(stream.hidden, entry)
            else:
                stream.put(batch)

    def lateness_s(self) -> float:
        """Return how long the next batch is not seen, by the model in force."""
        settings = self.settings()
        if settings.log_model == "jitter":
            return self._dice.uniform(*JITTER_S)
        if settings.log_model == "late" and self._dice.random() < settings.late_share:
            return self._dice.uniform(0, settings.late_s)
        return 0.0

    def load(self, group: str, name: str, lines: Iterable[tuple[int, str]]) -> None:
        """Take any number of lines, in batches such as PutLogEvents would have brought."""
        with self.lock:
            if not self.has_group(group):
                self.create_group(group)
        for batch in batches(lines):
            self.write(group, name, batch, create=True)

    def thrown(self) -> float:
        """Throw the dice for a page: a number from 0 to 1."""
        with self.lock:
            return self._dice.random()


def batches(lines: Iterable[tuple[int, str]]) -> Iterator[list[tuple[int, str]]]:
    batch: list[tuple[int, str]] = []
    for line in lines:
        batch.append(line)
        if len(batch) == BATCH:
            yield batch
            batch = []
    if batch:
        yield batch


def now_ms() -> int:
    return int(time.time() * 1000)
