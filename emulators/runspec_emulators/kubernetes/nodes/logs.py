"""Logs of containers as the kubelet keeps them: each line with its time.

https://kubernetes.io/docs/concepts/cluster-administration/logging/,
https://kubernetes.io/docs/reference/kubernetes-api/workload-resources/pod-v1/#get-read-log-of-the-specified-pod
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

TICK_S = 0.1
CHUNK = 1 << 16


def stamp(nanoseconds: int) -> bytes:
    """Return a time as RFC3339Nano with all nine digits, UTC.

    >>> stamp(1_000_000_005)
    b'1970-01-01T00:00:01.000000005Z'
    """
    seconds, rest = divmod(nanoseconds, 10**9)
    return b"%s.%09dZ" % (time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds)).encode(), rest)


@dataclass(frozen=True)
class Wanted:
    """Which part of a log is wanted."""

    timestamps: bool = False
    since: bytes = b""
    """Lines before this time are left out: a time as they have it, or the beginning of one."""
    tail: int | None = None
    limit: int | None = None
    follow: bool = False


class Log:
    """The log of one container: lines "TIME TEXT" in a file."""

    def __init__(self, file: Path, most: int = 0) -> None:
        self.file, self._most = file, most
        self._changed = threading.Condition()
        self._turn = 0
        self.ended = False
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch(0o600)

    def take(self, source: BinaryIO) -> None:
        """Write what comes from a pipe until its end; each line gets the time at which it came."""
        out, size = self.file.open("ab"), self.file.stat().st_size
        try:
            while line := source.readline():
                text = stamp(time.time_ns()) + b" " + line
                if not line.endswith(b"\n"):
                    text += b"\n"
                if self._most and size + len(text) > self._most and size:
                    out.close()
                    self.file.replace(self.file.with_suffix(".1"))
                    out, size = self.file.open("ab"), 0
                    self._turn += 1
                out.write(text)
                size += len(text)
                out.flush()
                with self._changed:
                    self._changed.notify_all()
        finally:
            out.close()
            with self._changed:
                self.ended = True
                self._changed.notify_all()

    def end(self) -> None:
        with self._changed:
            self.ended = True
            self._changed.notify_all()

    def read(self, wanted: Wanted) -> Iterator[bytes]:
        """Yield the wanted lines in parts; an empty part where none came for a while."""
        left = wanted.limit
        for part in self._lines(wanted):
            text = part if left is None else part[:left]
            yield text
            if left is not None:
                left -= len(text)
                if left <= 0:
                    return

    def _lines(self, wanted: Wanted) -> Iterator[bytes]:
        turn = self._turn
        try:
            file = self.file.open("rb")
        except FileNotFoundError:  # the pod was deleted meanwhile, and its log with it
            return
        try:
            file.seek(self._begin(wanted))
            rest = b""
            while True:
                ended = self.ended
                if data := file.read(CHUNK):
                    whole, newline, rest = (rest + data).rpartition(b"\n")
                    if newline:
                        yield self._shown(whole, wanted)
                elif turn != self._turn:  # the log was rotated: what follows is in a new file
                    file.close()
                    turn, file = self._turn, self.file.open("rb")
                elif ended or not wanted.follow:
                    return
                else:
                    yield b""
                    with self._changed:
                        if not self.ended:
                            self._changed.wait(TICK_S)
        finally:
            file.close()

    def _shown(self, lines: bytes, wanted: Wanted) -> bytes:
        shown = []
        for line in lines.split(b"\n"):
            time_of, _, text = line.partition(b" ")
            # Times of one length and zone are in the order of their texts.
            if time_of[: len(wanted.since)] >= wanted.since:
                shown.append(line if wanted.timestamps else text)
        return b"\n".join(shown) + b"\n" if shown else b""

    def _begin(self, wanted: Wanted) -> int:
        """Return where the last lines of the file begin."""
        if wanted.tail is None:
            return 0
        size = place = self.file.stat().st_size
        if wanted.tail == 0:
            return size
        found_lines, block = 0, b""
        with self.file.open("rb") as file:
            while place > 0:
                step = min(CHUNK, place)
                place -= step
                file.seek(place)
                block = file.read(step) + block
                found_lines = block.count(b"\n")
                if found_lines > wanted.tail:
                    break
        end = len(block)
        for _ in range(wanted.tail + 1):
            end = block.rfind(b"\n", 0, end)
            if end < 0:
                return 0
        return size - len(block) + end + 1

    def last(self, lines: int, size: int) -> str:
        """Return the end of the log, as a termination message has it."""
        text = b"".join(self.read(Wanted(tail=lines)))
        return text[-size:].decode(errors="replace")
