"""What jobs print, followed on the screen."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, wait
from dataclasses import dataclass, field

from runspec_jobs.errors import RunspecError, TimedOut, Unavailable
from runspec_jobs.logs.outage import Outage, Start, in_thread
from runspec_jobs.provider import Client, State, Status, Stream, SupportsLogs

FIRST_PAUSE_S = 0.01
LONGEST_PAUSE_S = 1.0
STEADY_PAUSE_S = 0.1  # nobody sees that a line came so late
# Looks cost the job its processor: pauses grow with the time that it has been followed, until they are steady.
FOLLOWED_SHARE = 200
QUIET_SHARE = 10  # an end is seen late by a tenth of how long nothing has been seen, at most
STATE_SHARE = 10  # the state is asked for a tenth of the time at most,
STATE_CAP_S = 2.0  # and again after so long at the latest, however long an answer takes
BRIEFLY_S = 0.3  # that a pass over the logs waits for it: most answers come sooner
LINE_BYTES = 1 << 20  # a longer line is given in parts

Sleep = Callable[[float], None]
Wanted = Callable[[Stream], bool]


@dataclass
class Line:
    """One line of one node's log, without its end; or a part of a long one.

    A part *continues* the line whose earlier part was given before, and has not *ended* where more of it may come.
    """

    task: int
    rank: int
    text: bytes
    continues: bool = False
    ended: bool = True


@dataclass
class Reader:
    """Reads one stream to lines: a line is given once, when its end has been seen or flushed."""

    stream: Stream
    position: str | None = None
    rest: bytearray = field(default_factory=bytearray)
    within: bool = False  # a line of which parts were given

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
            yield self._line(bytes(self.rest), ended=False)
            self.rest = bytearray()

    def _line(self, text: bytes, *, ended: bool = True) -> Line:
        continues, self.within = self.within, not ended
        return Line(self.stream.task, self.stream.rank, text, continues, ended)


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


def tail(client: Client) -> SupportsLogs:
    """Give *client* as one that can read logs. Raises Unavailable when it cannot."""
    if not isinstance(client, SupportsLogs):
        raise Unavailable("this provider cannot read logs")
    return client


def follow(
    client: Client,
    run: str,
    show: Callable[[Line], None],
    wanted: Wanted | None = None,
    *,
    waits: Callable[[str], None] = lambda reason: None,
    tell: Callable[[str], None] = lambda text: None,
    timeout_s: float | None = None,
    answered: bool = False,
    sleep: Sleep = time.sleep,
    clock: Callable[[], float] = time.monotonic,
    start: Start[Status] = in_thread,
) -> Status:
    """Show every line of *run* until it has ended, then whatever is still there; give how it ended.

    While the run waits, *waits* is told why, once for each reason. How the run stands is asked for beside the logs:
    they do not wait for a slow answer. A service that ceases to answer is lived through, and *tell* hears of it once.
    *answered* says that it is a service that has answered for this run already.
    Raises TimedOut when the end does not come in *timeout_s*, or the rest of the logs cannot be read in that time.
    """
    following = Following(client, run, show, wanted or every, Outage(tell, answered=answered))
    looks = Looks(following.look, start, clock)
    started = seen = clock()  # when something was shown last
    why = ""

    def wait_for_logs(pause_s: float) -> None:
        if timeout_s is not None and clock() - started > timeout_s:
            raise TimedOut(f"{run} has ended, and its logs cannot be read after {timeout_s:g} s")
        sleep(pause_s)

    while True:
        status = looks.taken(following.outage)
        if status is not None:
            if status.state.terminal:
                following.finish(wait_for_logs)
                return status
            if status.state is State.WAITING and status.reason not in ("", why):
                why = status.reason
                waits(why)
        shown = following.read()
        now = clock()
        if timeout_s is not None and now - started > timeout_s:
            raise TimedOut(f"{run} has not ended after {timeout_s:g} s; it goes on")
        seen = now if shown else seen
        pause_s = _pause_s(now - started, now - seen)
        pause_s = pause_s if shown else max(pause_s, _least_s(following.source))
        sleep(max(pause_s, following.outage.pause_s))


class Looks:
    """Looks at how a run stands, one after the other, each begun and then taken when its answer has come."""

    def __init__(
        self, look: Callable[[], Status], start: Start[Status], clock: Callable[[], float]
    ) -> None:
        self.look, self.start, self.clock = look, start, clock
        self._began_s = self._ended_s = self._next_s = clock()
        self._asked: Future[Status] | None = None

    def taken(self, outage: Outage) -> Status | None:
        """Give what the last look has found, once; None while nothing new is known."""
        if self._asked is None and self.clock() >= self._next_s:
            self._began_s = self.clock()
            self._asked = self.start(self._timed)
            wait((self._asked,), BRIEFLY_S)
        if self._asked is None or not self._asked.done():
            return None
        asked, self._asked = self._asked, None
        took_s = self._ended_s - self._began_s
        self._next_s = self._ended_s + min(STATE_SHARE * took_s, STATE_CAP_S)
        try:
            found = asked.result()
        except RunspecError as exc:
            outage.begun("state", exc)
            return None
        outage.over("state")
        return found

    def _timed(self) -> Status:
        """Look, and note when the answer came: before anybody can see that it has."""
        try:
            return self.look()
        finally:
            self._ended_s = self.clock()


class Following:
    """Shows the lines of a run's streams as far as they can be read."""

    def __init__(
        self,
        client: Client,
        run: str,
        show: Callable[[Line], None],
        wanted: Wanted,
        outage: Outage,
    ) -> None:
        self.source, self.client, self.run = tail(client), client, run
        self.show, self.wanted, self.outage = show, wanted, outage
        self.streams: Sequence[Stream] = ()
        self._readers: dict[tuple[int, int], Reader] = {}

    def look(self) -> Status:
        """Give how the run stands; the streams that it has are known from then on, whatever becomes of the question."""
        self.streams = self.source.streams(self.run)
        return self.client.state(self.run)

    def read(self) -> int:
        """Show what is new in every stream; give how many lines that were, as far as they came."""
        count = 0
        try:
            for count in self._pass():  # noqa: B007 - the last one counts
                pass
        except RunspecError as exc:
            self.outage.begun("logs", exc)
        else:
            if self.streams:  # else nobody was asked
                self.outage.over("logs")
        return count

    def finish(self, sleep: Sleep) -> None:
        """Show what is left of a run that has ended."""

        def rest() -> None:
            self.streams = self.source.streams(self.run)
            for _ in self._pass():
                pass

        self.outage.lived_through("logs", rest, sleep)
        for reader in self._readers.values():
            for line in reader.flush():
                self.show(line)

    def _pass(self) -> Iterator[int]:
        """Show the lines of every stream that are new, and count them."""
        count = 0
        for stream in self.streams:
            if self.wanted(stream):
                key = (stream.task, stream.rank)
                for line in self._readers.setdefault(key, Reader(stream)).lines():
                    self.show(line)
                    count += 1
                    yield count


def _pause_s(followed_s: float, quiet_s: float) -> float:
    """Give how long to wait where a run has been followed so long, and nothing was shown for so long."""
    least_s = max(FIRST_PAUSE_S, min(followed_s / FOLLOWED_SHARE, STEADY_PAUSE_S))
    return min(max(quiet_s / QUIET_SHARE, least_s), LONGEST_PAUSE_S)


def _least_s(source: SupportsLogs) -> float:
    """A service is asked no more often than it says; this machine may be asked sooner at first."""
    return source.poll_s if source.poll_s >= LONGEST_PAUSE_S else 0.0


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
