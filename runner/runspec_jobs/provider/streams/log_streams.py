"""The logs of nodes as a provider reads them: parts of streams, and the times of their lines."""

from __future__ import annotations

import bisect
import math
from collections.abc import Callable, Sequence
from typing import Protocol

from runspec_agent.base.light_typing import NamedTuple


class Chunk(NamedTuple):
    """Bytes of a log stream as they are stored, and the position after them; *data* is empty at the end.

    If *more* is true, an empty chunk does not complete the log, even if the run has ended: the service may deliver
    further bytes, or could not deliver them now. Then the reader pauses and reads again.
    """

    data: bytes
    position: str
    more: bool = False


class TimedChunk(NamedTuple):
    """A chunk, and when its bytes were printed: *times* are pairs of a number of bytes and a time, both ascending.

    The first bytes of the chunk, up to that number, had been printed at that time, in seconds since 1970 and to a
    second. What comes after the last number has no known time.
    """

    chunk: Chunk
    times: Sequence[tuple[int, float]]


def timed_chunk(chunk: Chunk, start: int, index: Sequence[tuple[int, float]]) -> TimedChunk:
    """Return *chunk*, which begins at the byte *start* of a log, with its times from the *index* of the whole log.

    >>> timed_chunk(Chunk(b"cdef", "6"), 2, [(1, 10.0), (4, 11.0), (9, 12.0), (12, 13.0)]).times
    [(2, 11.0), (4, 12.0)]
    """
    end = start + len(chunk.data)
    first = bisect.bisect_right(index, (start, math.inf))
    last = bisect.bisect_left(index, (end, -math.inf)) + 1
    return TimedChunk(chunk, [(min(size, end) - start, at) for size, at in index[first:last]])


class Stream(Protocol):
    """The log of one node of one task over all its attempts, as the service stores it."""

    @property
    def task(self) -> int: ...

    @property
    def rank(self) -> int: ...

    def read(self, position: str | None) -> Chunk:
        """Return the bytes after *position*; None is the beginning.

        A position always gives the same bytes, also on another machine, as long as the stream exists. An empty chunk
        means that there are no more bytes at the moment. Must not sleep: the reader paces its reads. Raises the errors
        of `Client.state`.
        """


class LogIndex:
    """The index beside one log, to which a line is added for each second in which the log has grown.

    A line is the length of the log in bytes, and a time in seconds since 1970: `1024 1795400746.5`. *read* returns the
    bytes of the index from a position.
    """

    def __init__(
        self, read: Callable[[int], bytes], wait_s: float, clock: Callable[[], float]
    ) -> None:
        self.times: list[tuple[int, float]] = []
        self._read, self._wait_s, self._clock = read, wait_s, clock
        self._to = 0  # the bytes of the index that were read
        self._held = -1, 0.0  # the length that was noted last, and since when nothing else was

    def known(self, start: int, end: int, *, over: bool = False) -> int:
        """Return up to which byte a part of the log, from *start* to *end*, can be shown with its times.

        What was not noted yet is held back for *wait_s*, and then has no time: the result is *end*, as it is if the
        index is *over*.
        """
        if self._noted < end:
            self._read_on()
        noted, now_s = self._noted, self._clock()
        if over or noted >= end:
            return end
        # The index has moved on, so the node is alive: the time to wait begins anew.
        if self._held[0] != noted:
            self._held = noted, now_s
        return end if now_s - self._held[1] >= self._wait_s else max(noted, start)

    @property
    def _noted(self) -> int:
        return self.times[-1][0] if self.times else 0

    def _read_on(self) -> None:
        """Read the new lines; there are none if the node has just begun."""
        while data := self._read(self._to):
            # The node may be writing the last line just now.
            whole = data[: data.rfind(b"\n") + 1]
            if not whole:
                return
            self._to += len(whole)
            for line in whole.splitlines():
                size, _, at = line.partition(b" ")
                self.times.append((int(size), float(at)))
