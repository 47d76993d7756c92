"""Follows the logs of a run until it ends, and passes on each line as it appears."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, wait
from dataclasses import dataclass, field

from runspec_jobs.errors import RunspecError, Unavailable
from runspec_jobs.logs.outage import Outage, Start, start_call
from runspec_jobs.logs.read_pauses import FIRST_PAUSE_S, ReadPauses, Sleep, is_near, make_rests
from runspec_jobs.provider import Client, State, Status, SupportsLogs, SupportsLogTimes
from runspec_jobs.provider.streams.log_streams import Chunk, Stream, TimedChunk

STATE_SHARE = 10  # a request for the state is followed by a pause of this many times its duration,
STATE_CAP_S = 2.0  # but of this length at most
BRIEFLY_S = 0.3  # how long each pass over the logs waits for the state: most answers take less
LINE_BYTES = 1 << 20  # a longer line is yielded in parts
UNFINISHED_BYTES = 4096  # the most bytes kept of a line that has not ended

Wanted = Callable[[Stream], bool]
Timer = Callable[[Stream, str | None], TimedChunk]


@dataclass(slots=True)
class Line:
    """One line of one node's log without its line break, or a part of a long line.

    *continues* is true if the part before it belongs to the same line, and *ended* is false if more of it may follow.
    *at* is when it was printed, in seconds since 1970, if that was asked for and is known.
    """

    task: int
    rank: int
    text: bytes
    continues: bool = False
    ended: bool = True
    at: float | None = None


@dataclass
class Reader:
    """Splits one stream into lines, and yields each once its line break was read, or when it is flushed.

    With *timer*, which reads a part of a stream with its times, lines have times.
    """

    stream: Stream
    timer: Timer | None = None
    position: str | None = None
    rest: bytearray = field(default_factory=bytearray)
    within: bool = False  # inside a line of which a part was yielded
    looked: str | None = None  # the position at the last call of `read_unfinished`
    more: bool = False  # whether the last chunk said that the log is not complete
    read_to: int = 0  # bytes that were read,
    passed: int = 0  # and the lines that were yielded
    times: deque[tuple[int, float]] = field(default_factory=deque)  # by which byte each came

    def read_lines(self) -> Iterator[Line]:
        """Yield the new lines; text after the last line break is kept for the next call."""
        while (chunk := self._read()).data:
            self.position = chunk.position
            self.rest += chunk.data
            whole, mark, rest = self.rest.rpartition(b"\n")
            if mark:
                self.rest = bytearray(rest)
                yield from (self._make_line(bytes(text)) for text in whole.split(b"\n"))
            if len(self.rest) > LINE_BYTES:
                # A part must not end inside a character, or its halves would be replaced by two question marks.
                begun = self.rest[count_whole_characters(self.rest) :]
                del self.rest[len(self.rest) - len(begun) :]
                yield from self.flush()
                self.rest = begun
        self.more = chunk.more

    def read_unfinished(self) -> Line | None:
        """Return the current text of a line whose line break was not read yet, if more was read since the last call.

        It has at most UNFINISHED_BYTES, after a carriage return if it overwrites an earlier text of the line.
        """
        before, self.looked = self.looked, self.position
        # Nothing new: the screen shows this text already.
        if before == self.position or not self.rest:
            return None
        text = self.rest.rstrip(b"\r")
        begin = text.rfind(b"\r") + 1
        mark = b"\r" if begin or len(text) < len(self.rest) else b""
        shown = mark + bytes(text[begin : begin + UNFINISHED_BYTES])
        return Line(self.stream.task, self.stream.rank, shown, self.within, ended=False)

    def flush(self) -> Iterator[Line]:
        if self.rest:
            yield self._make_line(bytes(self.rest), ended=False)
            self.rest = bytearray()

    def _read(self) -> Chunk:
        if self.timer is None:
            return self.stream.read(self.position)
        timed = self.timer(self.stream, self.position)
        self.times.extend((self.read_to + count, at) for count, at in timed.times)
        self.read_to += len(timed.chunk.data)
        return timed.chunk

    def _make_line(self, text: bytes, *, ended: bool = True) -> Line:
        continues, self.within = self.within, not ended
        line = Line(self.stream.task, self.stream.rank, text, continues, ended)
        if self.timer is not None:
            self.passed += len(text) + ended
            # A line came with the first note of the log's length that reaches its end.
            while self.times and self.times[0][0] < self.passed:
                self.times.popleft()
            line.at = self.times[0][1] if self.times else None
        return line


def count_whole_characters(data: bytes | bytearray) -> int:
    """Return the length of *data* without an incomplete UTF-8 character at its end.

    >>> count_whole_characters("aé".encode()), count_whole_characters("aé".encode()[:2])
    (3, 1)
    """
    for back in range(1, min(4, len(data) + 1)):
        byte = data[-back]
        if byte < 0x80:
            break
        # The first byte of a character says how many follow: https://www.rfc-editor.org/rfc/rfc3629#section-3
        if byte >= 0xC0:
            wanted = 2 + (byte >= 0xE0) + (byte >= 0xF0)
            return len(data) - back if back < wanted else len(data)
    return len(data)


def get_log_client(client: Client) -> SupportsLogs:
    """Return *client* as a client that can read logs. Raises Unavailable if it cannot."""
    if not isinstance(client, SupportsLogs):
        raise Unavailable("this provider cannot read logs")
    return client


def get_timer(client: Client) -> Timer:
    """Return the function that reads a part of a log with its times. Raises Unavailable if there are no times."""
    if not isinstance(client, SupportsLogTimes):
        message = "this provider has no times of the lines of a log"
        raise Unavailable(message, "remove --since and --timestamps")
    return client.read_timed


def follow(
    client: Client,
    run: str,
    show: Callable[[Line], None],
    wanted: Wanted | None = None,
    *,
    unfinished: Callable[[Line], None] | None = None,
    timed: bool = False,
    caught_up: Callable[[], None] = lambda: None,
    waits: Callable[[str], None] = lambda reason: None,
    tell: Callable[[str], None] = lambda text: None,
    timeout_s: float | None = None,
    answered: bool = False,
    reconcile: Callable[[], Sequence[str]] = tuple,
    seen: Callable[[Status], None] = lambda status: None,
    sleep: Sleep = time.sleep,
    clock: Callable[[], float] = time.monotonic,
    start: Start[Status] = start_call,
) -> Status:
    """Show every line of *run* until it has ended and all its logs are read; return its last status.

    *unfinished* gets the current text of each line that has not ended, as `Reader.read_unfinished` returns it, and
    *caught_up* is called after each pass in which all logs were read, so that what follows is new. While the run
    waits, *waits* is called with the reason, once for each. The state of the run is requested in another thread, so
    that logs do not wait for a slow answer; *reconcile* is called after it, and *tell* gets the lines that it returns;
    *seen* is called with each state. If the service stops answering, *tell* is called once, and following goes on when
    it answers again. *answered* is true if the service has answered for this run before. If *timed*, lines have times.
    Raises TimedOut if the run does not end in *timeout_s*, or the rest of its logs cannot be read in that time.
    """
    outage = Outage(tell, answered=answered)
    following = Following(client, run, show, wanted or accept_every, outage, reconcile, unfinished)
    following.timer = get_timer(client) if timed else None
    # Logs are read in this thread, and the state is requested in another one.
    looks = Looks(following.look, start, clock, near=is_near(following.source))
    pauses = ReadPauses(run, following.source, timeout_s, sleep, clock)
    note_waiting = _make_reason_reporter(waits)
    while True:
        status = looks.take_result(outage)
        for line in following.take_lines():
            tell(line)
        if status is not None:
            seen(status)
            if status.state.terminal:
                following.finish(pauses.wait_for_rest)
                caught_up()
                return status
            note_waiting(status)
        pauses.pause(following.read(caught_up), outage)


def _make_reason_reporter(waits: Callable[[str], None]) -> Callable[[Status], None]:
    """Return a function that takes states of a run, and calls *waits* with each new reason why it waits."""
    before = ""

    def note(status: Status) -> None:
        nonlocal before
        if status.state is State.WAITING and status.reason not in ("", before):
            before = status.reason
            waits(before)

    return note


class Looks:
    """Requests the state of a run repeatedly, one request at a time, in the background.

    With *near*, the first requests follow one another sooner, and a short job is seen to end soon: see `is_near`.
    """

    def __init__(
        self,
        look: Callable[[], Status],
        start: Start[Status],
        clock: Callable[[], float],
        *,
        near: bool = False,
    ) -> None:
        self.look, self.start, self.clock, self.near = look, start, clock, near
        self._followed_s = self._began_s = self._ended_s = self._next_s = clock()
        self._asked: Future[Status] | None = None

    def take_result(self, outage: Outage) -> Status | None:
        """Return the result of the last request, once; return None while there is no new one."""
        if self._asked is None and self.clock() >= self._next_s:
            self._began_s = self.clock()
            self._asked = self.start(self._request_status)
            # Most services answer in that time, so a run that has ended is noticed in the pass that asked.
            wait((self._asked,), BRIEFLY_S)
        if self._asked is None or not self._asked.done():
            return None
        asked, self._asked = self._asked, None
        took_s = self._ended_s - self._began_s
        # A slow service is asked less often.
        pause_s = min(STATE_SHARE * took_s, STATE_CAP_S)
        if self.near:
            pause_s = min(pause_s, max(self._ended_s - self._followed_s, FIRST_PAUSE_S))
        self._next_s = self._ended_s + pause_s
        try:
            status = asked.result()
        except RunspecError as exc:
            outage.note_failure("state", exc)
            return None
        outage.note_answer("state")
        return status

    def _request_status(self) -> Status:
        """Request the state, and note the time of the answer before other threads can see the answer."""
        try:
            return self.look()
        finally:
            self._ended_s = self.clock()


class Following:
    """Shows the new lines in the log streams of a run."""

    def __init__(
        self,
        client: Client,
        run: str,
        show: Callable[[Line], None],
        wanted: Wanted,
        outage: Outage,
        reconcile: Callable[[], Sequence[str]],
        unfinished: Callable[[Line], None] | None = None,
    ) -> None:
        self.source, self.client, self.run = get_log_client(client), client, run
        self._reconcile = reconcile
        self._ended: list[str] = []  # lines of *reconcile* that were not told yet
        self.show, self.wanted, self.outage = show, wanted, outage
        self.unfinished = unfinished
        self.streams: Sequence[Stream] = ()
        self.timer: Timer | None = None
        self._readers: dict[tuple[int, int], Reader] = {}

    def look(self) -> Status:
        """Return the state of the run, and reconcile it; remember its log streams even if a request fails."""
        # A stream may appear only after the run has begun, and the last ones when it ends.
        self.streams = self.source.streams(self.run)
        status = self.client.state(self.run)
        self._ended += self._reconcile()
        return status

    def take_lines(self) -> list[str]:
        """Return the lines of *reconcile* since the last call."""
        lines, self._ended = self._ended, []
        return lines

    def read(self, caught_up: Callable[[], None]) -> int:
        """Show the new lines in every stream; return their number, even if the service stopped answering midway.

        If it did not, and there are streams, call *caught_up*.
        """
        count = 0
        try:
            for count in self._pass():  # noqa: B007 - only the last count is used
                pass
        except RunspecError as exc:
            self.outage.note_failure("logs", exc)
        else:
            if self.streams:  # otherwise the service was not asked
                self.outage.note_answer("logs")
                caught_up()
        return count

    def finish(self, sleep: Sleep) -> None:
        """Show the rest of the logs of a run that has ended."""

        def read_rest() -> bool:
            self.streams = self.source.streams(self.run)
            for _ in self._pass():
                pass
            return any(reader.more for reader in self._readers.values())

        rests = make_rests()
        # Services deliver the last lines of a log some seconds after the end of the job.
        while self.outage.call_until_answered("logs", read_rest, sleep):
            sleep(next(rests))
        for reader in self._readers.values():
            for line in reader.flush():
                self.show(line)

    def _pass(self) -> Iterator[int]:
        """Show the new lines of every stream, and yield their count so far after each."""
        count = 0
        for stream in self.streams:
            if self.wanted(stream):
                key = (stream.task, stream.rank)
                reader = self._readers.setdefault(key, Reader(stream, self.timer))
                for line in reader.read_lines():
                    self.show(line)
                    count += 1
                    yield count
                if self.unfinished is not None and (begun := reader.read_unfinished()):
                    self.unfinished(begun)
                    count += 1
                    yield count


def read_everything(
    client: Client, run: str, wanted: Wanted, *, timed: bool = False, sleep: Sleep = time.sleep
) -> Iterator[Line]:
    """Yield every line of *run* so far, one stream after the other; if *timed*, with their times.

    If the run has ended and the service may deliver more lines, *sleep* is called until the log is complete.
    """
    times = get_timer(client) if timed else None
    for stream in get_log_client(client).streams(run):
        if wanted(stream):
            reader, rests = Reader(stream, times), make_rests()
            yield from reader.read_lines()
            while reader.more:
                sleep(next(rests))
                yield from reader.read_lines()
            yield from reader.flush()


def show_line(line: bytes, plain: Callable[[str], str]) -> str:
    """Return a line as the screen shows it: only the last text of a progress bar that overwrites itself."""
    shown = line.rstrip(b"\r").rpartition(b"\r")[2]
    return plain(shown.decode("utf-8", "replace").replace("\t", "    "))


def format_prefix(line: Line, nodes: int, tasks: int) -> str:
    """Return the prefix of a line on the screen, which names its task and node if there are several."""
    parts = ([f"task {line.task}"] if tasks > 1 else []) + (
        [f"node {line.rank}"] if nodes > 1 else []
    )
    return f"[{' '.join(parts)}] " if parts else ""


def accept_every(_: Stream) -> bool:
    """Return True for every stream."""
    return True


def choose_streams(node: int | None, task: int | None) -> Wanted:
    """Return a function that is true for the streams of *node* and *task*, where None stands for all.

    For all streams it is `accept_every`.
    """
    if node is None and task is None:
        return accept_every
    return lambda s: (node is None or s.rank == node) and (task is None or s.task == task)
