"""What jobs print, followed on the screen."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from runspec.errors import TimedOut, Unavailable
from runspec.provider import Client, State, Status, Stream, Tail

FIRST_PAUSE_S = 0.01
LONGEST_PAUSE_S = 1.0
STEADY_PAUSE_S = 0.1  # nobody sees that a line came so late
# Looks cost the job its processor: pauses grow with the time that it has been followed, until they are steady.
FOLLOWED_SHARE = 200
QUIET_SHARE = 10  # an end is seen late by a tenth of how long nothing has been seen, at most
STATE_SHARE = 10  # the state is asked for at most a tenth of the time
LINE_BYTES = 1 << 20  # a longer line is shown in parts

Sleep = Callable[[float], None]
Wanted = Callable[[Stream], bool]


@dataclass
class Line:
    """One line of one node's log, without its end."""

    task: int
    rank: int
    text: bytes


@dataclass
class Reader:
    """Reads one stream to lines: a line is given once, when its end has been seen or flushed."""

    stream: Stream
    position: str | None = None
    rest: bytearray = field(default_factory=bytearray)

    def lines(self) -> Iterator[Line]:
        """Give the lines that are new; what follows the last end of line waits."""
        while (chunk := self.stream.read(self.position)).data:
            self.position = chunk.position
            self.rest += chunk.data
            whole, mark, rest = self.rest.rpartition(b"\n")
            if mark:
                self.rest = bytearray(rest)
                yield from (self._line(bytes(text)) for text in whole.split(b"\n"))
            if len(self.rest) > LINE_BYTES:
                begun = self.rest[whole_characters(self.rest) :]
                del self.rest[len(self.rest) - len(begun) :]
                yield from self.flush()
                self.rest = begun

    def flush(self) -> Iterator[Line]:
        if self.rest:
            yield self._line(bytes(self.rest))
            self.rest = bytearray()

    def _line(self, text: bytes) -> Line:
        return Line(self.stream.task, self.stream.rank, text)


def whole_characters(data: bytes | bytearray) -> int:
    """Give how many bytes of *data* are not of a character of UTF-8 whose end is still to come.

    >>> whole_characters("aé".encode()), whole_characters("aé".encode()[:2])
    (3, 1)
    """
    for back in range(1, min(4, len(data) + 1)):
        byte = data[-back]
        if byte < 0x80:
            break
        if byte >= 0xC0:
            wanted = 2 + (byte >= 0xE0) + (byte >= 0xF0)
            return len(data) - back if back < wanted else len(data)
    return len(data)


def tail(client: Client) -> Tail:
    """Give *client* as one that can read logs. Raises Unavailable when it cannot."""
    if not isinstance(client, Tail):
        raise Unavailable("this provider cannot read logs")
    return client


def follow(
    client: Client,
    run: str,
    show: Callable[[Line], None],
    wanted: Wanted | None = None,
    *,
    waits: Callable[[str], None] = lambda reason: None,
    timeout_s: float | None = None,
    sleep: Sleep = time.sleep,
    clock: Callable[[], float] = time.monotonic,
) -> Status:
    """Show every line of *run* until it has ended, then whatever is still there; give how it ended.

    While the run waits, *waits* is told why, once for each reason. Raises TimedOut when the end
    does not come in *timeout_s*.
    """
    wanted = wanted or every
    source, readers = tail(client), dict[tuple[int, int], Reader]()
    started, next_state, status = clock(), 0.0, None
    seen = started  # when something was shown last
    why = ""
    while True:
        ended = status is not None and status.state.terminal
        shown = sum(_pass(source, run, readers, show, wanted))
        if ended:
            for reader in readers.values():
                for line in reader.flush():
                    show(line)
            assert status is not None, "BUG: ended without a status"
            return status
        if (now := clock()) >= next_state:
            status = client.state(run)
            next_state = clock() + STATE_SHARE * (clock() - now)
            if status.state.terminal:
                continue
            if status.state is State.WAITING and status.reason not in ("", why):
                why = status.reason
                waits(why)
        if timeout_s is not None and clock() - started > timeout_s:
            raise TimedOut(f"{run} has not ended after {timeout_s:g} s; it goes on")
        seen = now if shown else seen
        pause_s = _pause_s(now - started, now - seen)
        sleep(pause_s if shown else max(pause_s, _least_s(source)))


def _pause_s(followed_s: float, quiet_s: float) -> float:
    """Give how long to wait where a run has been followed so long, and nothing was shown for so long."""
    least_s = max(FIRST_PAUSE_S, min(followed_s / FOLLOWED_SHARE, STEADY_PAUSE_S))
    return min(max(quiet_s / QUIET_SHARE, least_s), LONGEST_PAUSE_S)


def _least_s(source: Tail) -> float:
    """A service is asked no more often than it says; this machine may be asked sooner at first."""
    return source.poll_s if source.poll_s >= LONGEST_PAUSE_S else 0.0


def _pass(
    source: Tail,
    run: str,
    readers: dict[tuple[int, int], Reader],
    show: Callable[[Line], None],
    wanted: Wanted,
) -> Iterator[int]:
    """Show what is new in every stream; give how many lines each had."""
    for stream in source.streams(run):
        if wanted(stream):
            reader = readers.setdefault((stream.task, stream.rank), Reader(stream))
            for count, line in enumerate(reader.lines(), 1):
                show(line)
                yield count


def everything(client: Client, run: str, wanted: Wanted) -> Iterator[Line]:
    """Give every line of *run* so far, one stream after the other."""
    for stream in tail(client).streams(run):
        if wanted(stream):
            reader = Reader(stream)
            yield from reader.lines()
            yield from reader.flush()


def text(line: bytes, plain: Callable[[str], str]) -> str:
    """Give a line for the screen: of what a progress bar drew over itself, the last that shows."""
    shown = line.rstrip(b"\r").rpartition(b"\r")[2]
    return plain(shown.decode("utf-8", "replace").replace("\t", "    "))


def prefix(line: Line, nodes: int, tasks: int) -> str:
    """Give what stands before a line on the screen, to tell whose it is."""
    parts = ([f"task {line.task}"] if tasks > 1 else []) + (
        [f"node {line.rank}"] if nodes > 1 else []
    )
    return f"[{' '.join(parts)}] " if parts else ""


def every(_: Stream) -> bool:
    """Pick every stream."""
    return True


def chosen(node: int | None, task: int | None) -> Wanted:
    """Give what picks the streams of one node or task."""
    return lambda s: (node is None or s.rank == node) and (task is None or s.task == task)
