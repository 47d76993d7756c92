"""Read an answer of `pods/log` from a position in the log of an attempt on.

Each line of it has a time in front. In jobs with a store, the agent prints marks, which say how many bytes of the log
precede them: `runspec_agent.job.log_copy`. No bytes of the log are in a mark.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from itertools import chain
from typing import Any

from runspec_agent.base.light_typing import NamedTuple
from runspec_agent.base.record_formats import LOG_MARK
from runspec_kubernetes.errors import translated

CHUNK_BYTES = 1 << 20
BLOCK_BYTES = 1 << 16
HEAD_BYTES = 256  # more than a time and a mark have
TIME = re.compile(rb"\d{4}-\d\d-\d\dT")
MARK_BEGIN = LOG_MARK.partition("{")[0].encode()
MARK = re.compile(re.escape(MARK_BEGIN) + rb"(\d{1,18})\n")


class Position(NamedTuple):
    """Where a reader of one node is: the attempt, and how many bytes of its log were read.

    *time* is that of a line of the pod's log which was read, the last one that differs from the time before it, and
    *since* how many bytes were read from the beginning of that line on.
    """

    attempt: int = 1
    offset: int = 0
    time: str = ""
    since: int = 0

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
            self.at = Position(self.at.attempt, end, time, since)


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
