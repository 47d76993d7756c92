"""Logs: no line lost, none twice, and a copy that is exact whatever happens to the copier."""

from __future__ import annotations

import itertools
import math
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from runspec_jobs.diagnostics.terminal_text import strip_sequences
from runspec_jobs.errors import (
    Conflict,
    CredentialsError,
    FileFailed,
    NoAnswer,
    OutputFailed,
    RemoteError,
    RunspecError,
    TimedOut,
    Unavailable,
)
from runspec_jobs.logs import follow, save
from runspec_jobs.logs.outage import LONGEST_PAUSE_S, Outage, answer, start_call
from runspec_jobs.provider import State, Status
from runspec_jobs.provider.streams.log_streams import Chunk


@dataclass
class Kept:
    """A stream that gives at most *page* bytes at a time."""

    data: bytes
    task: int = 0
    rank: int = 0
    page: int = 7
    reads: int = 0

    def read(self, position: str | None) -> Chunk:
        self.reads += 1
        at = int(position or 0)
        data = self.data[at : at + self.page]
        return Chunk(data, str(at + len(data)))


def at_once(ask: Callable[[], Status]) -> Future[Status]:
    """Ask, and give what has the answer."""
    future: Future[Status] = Future()
    answer(ask, future)
    return future


@dataclass
class Service:
    """A run that prints a piece each time it is asked how it stands, then ends."""

    pieces: list[bytes]
    kept: Kept = field(default_factory=lambda: Kept(b""))
    poll_s: float = 0.05

    def streams(self, run: str) -> Sequence[Kept]:
        return [self.kept] if self.kept.data else []

    def state(self, run: str) -> Status:
        if not self.pieces:
            return Status(State.SUCCEEDED)
        self.kept.data += self.pieces.pop(0)
        return Status(State.RUNNING if self.pieces else State.SUCCEEDED)


def followed(pieces: list[bytes]) -> list[bytes]:
    shown: list[bytes] = []
    ticks = itertools.count()
    follow.follow(
        Service(pieces),  # type: ignore[arg-type]  # only what follow needs
        "run",
        lambda line: shown.append(line.text),
        sleep=lambda s: None,
        clock=lambda: float(next(ticks)),
        start=at_once,
    )
    return shown


@given(st.lists(st.binary(max_size=30), max_size=8))
def test_following_gives_every_line_once_however_it_comes(pieces: list[bytes]) -> None:
    whole = b"".join(pieces)

    shown = followed(list(pieces))

    assert b"\n".join(shown) == whole.removesuffix(b"\n")


@pytest.mark.parametrize(
    "exc",
    [OutputFailed(OSError(28, "No space left on device")), FileFailed("cannot write /a: full")],
)
def test_follow_ends_if_this_machine_cannot_write_a_line(exc: RunspecError) -> None:
    """It is no outage of the service: every later line would be lost as well."""
    told: list[str] = []

    def show(line: follow.Line) -> None:
        raise exc

    with pytest.raises(type(exc)):
        follow.follow(
            Service([b"a\n", b"b\n"]),  # type: ignore[arg-type]  # only what follow needs
            "run",
            show,
            tell=told.append,
            answered=True,
            sleep=lambda s: None,
            start=at_once,
        )

    assert told == []


def test_lines_printed_just_before_the_end_are_shown() -> None:
    assert followed([b"first\n", b"last, without an end of line"]) == [
        b"first",
        b"last, without an end of line",
    ]


@given(st.text(min_size=1, max_size=60))
def test_a_line_that_is_too_long_is_never_cut_in_a_character(text: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(follow, "LINE_BYTES", 5)
        shown = followed([text.replace("\n", "n").encode()])

    assert "".join(part.decode() for part in shown) == text.replace("\n", "n")


def test_bytes_that_are_not_utf8_are_shown_unchanged() -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(follow, "LINE_BYTES", 5)
        shown = followed([b"\xff\x80\x80\x80\x80\x80\xe6\x97"])

    assert b"".join(shown) == b"\xff\x80\x80\x80\x80\x80\xe6\x97"


def test_while_a_run_waits_each_reason_is_told_once() -> None:
    reasons = ["no machine", "no machine", "", "starting"]
    states = iter([*(Status(State.WAITING, why) for why in reasons), Status(State.SUCCEEDED)])
    service = Service([])
    service.state = lambda run: next(states)  # type: ignore[method-assign]
    told: list[str] = []
    ticks = itertools.count(step=100)

    follow.follow(
        service,  # type: ignore[arg-type]  # only what follow needs
        "run",
        lambda line: None,
        waits=told.append,
        sleep=lambda s: None,
        clock=lambda: float(next(ticks)),
        start=at_once,
    )

    assert told == ["no machine", "starting"]


@dataclass
class Printer:
    """A run that prints when it is as a line, so many a second, for a minute; *now* is its clock."""

    often: int
    now: float = 0.0
    looks: list[float] = field(default_factory=list)
    kept: Kept = field(default_factory=lambda: Kept(b"", page=1 << 20))
    poll_s: float = 0.05

    def streams(self, run: str) -> Sequence[Kept]:
        self.looks.append(self.now)
        count = 1 + int(min(self.now, 60) * self.often)
        lines = (f"{k / self.often:.2f}\n".encode() for k in range(count))
        self.kept.data = b"".join(lines)
        return [self.kept]

    def state(self, run: str) -> Status:
        return Status(State.SUCCEEDED if self.now >= 60 else State.RUNNING)

    def pass_by(self, pause_s: float) -> None:
        self.now += pause_s


@pytest.mark.parametrize("often", [1, 5, 50])
def test_looks_become_fewer_while_a_job_is_followed_and_no_line_is_seen_late(often: int) -> None:
    """Each costs the job processor, where all cores have work."""
    printer, late = Printer(often), list[float]()

    follow.follow(
        printer,  # type: ignore[arg-type]  # only what follow needs
        "run",
        lambda line: late.append(printer.now - float(line.text)),
        sleep=printer.pass_by,
        clock=lambda: printer.now,
        start=at_once,
    )

    assert len(late) == 60 * often + 1 and max(late) < 0.11
    assert len([at for at in printer.looks if at < 1]) > 20
    assert len([at for at in printer.looks if at >= 40]) <= 20 * 10 + 2


def test_a_line_after_a_long_silence_is_shown_within_a_second() -> None:
    """The request for the state may take `BRIEFLY_S` more."""
    printer, late = Printer(often=0), list[float]()
    printer.streams = lambda run: [printer.kept]  # type: ignore[method-assign]
    printer.state = lambda run: Status(  # type: ignore[method-assign]
        State.SUCCEEDED if printer.now > 40 else State.RUNNING
    )

    def pass_by(pause_s: float) -> None:
        printer.now += pause_s
        if printer.now >= 30 and not printer.kept.data:
            late.append(printer.now - pause_s)
            printer.kept.data = b"at last\n"

    follow.follow(
        printer,  # type: ignore[arg-type]  # only what follow needs
        "run",
        lambda line: late.append(printer.now),
        sleep=pass_by,
        clock=lambda: printer.now,
        start=at_once,
    )

    asleep, shown = late
    assert shown - asleep + follow.BRIEFLY_S < 1


@dataclass
class Down:
    """A run of a service that is down from *begins* on for *lasts* seconds; it ends at *ends*. *now* is its clock."""

    failure: RunspecError
    begins: float = 60.0
    lasts: float = 600.0
    ends: float = 700.0
    takes: float = 0.0  # that each question takes while it is down
    now: float = 0.0
    asked: list[float] = field(default_factory=list)
    poll_s: float = 1.0
    task: int = 0
    rank: int = 0

    def ask(self) -> None:
        self.asked.append(self.now)
        if 0 <= self.now - self.begins < self.lasts:
            self.now += self.takes
            raise self.failure

    def streams(self, run: str) -> Sequence[Any]:
        self.ask()
        return [self]

    def read(self, position: str | None) -> Chunk:
        self.ask()
        there = b"begun\n" + b"ended\n" * (self.now >= self.ends)
        data = there[int(position or 0) :]
        return Chunk(data, str(int(position or 0) + len(data)))

    def state(self, run: str) -> Status:
        self.ask()
        return Status(State.SUCCEEDED if self.now >= self.ends else State.RUNNING)

    def pass_by(self, pause_s: float) -> None:
        self.now += pause_s


def follow_down(
    service: Down, timeout_s: float | None = None
) -> tuple[Status, list[bytes], list[str]]:
    """Follow to the end; give how it ended, the lines that came, and what was said of the service."""
    shown, told = list[bytes](), list[str]()
    status = follow.follow(
        service,  # type: ignore[arg-type]  # only what follow needs
        "run",
        lambda line: shown.append(line.text),
        tell=told.append,
        timeout_s=timeout_s,
        sleep=service.pass_by,
        clock=lambda: service.now,
        start=at_once,
    )
    return status, shown, told


PASSING = [NoAnswer("500"), Unavailable("refused"), RemoteError("slow down", transient=True)]


@pytest.mark.parametrize("failure", PASSING, ids=lambda exc: type(exc).__name__)
def test_an_outage_of_ten_minutes_is_lived_through_and_told_once(failure: RunspecError) -> None:
    service = Down(failure)

    status, shown, told = follow_down(service)

    assert (status.state, shown) == (State.SUCCEEDED, [b"begun", b"ended"])
    assert [line.partition(" since ")[0] for line in told] == [
        "the service does not answer",
        "the service answers again",
    ]
    assert service.now < service.ends + 10
    down = [at for at in service.asked if 60 <= at < 660]
    assert len(down) <= 2 * 600 / LONGEST_PAUSE_S + 20, "more than 0.44 requests a second"


def test_an_end_in_an_outage_is_seen_ten_seconds_after_it_at_the_latest() -> None:
    service = Down(NoAnswer("500"), ends=300)

    status, shown, _ = follow_down(service)

    assert (status.state, shown) == (State.SUCCEEDED, [b"begun", b"ended"])
    assert 660 <= service.now < 670


def test_questions_that_take_a_minute_each_do_not_space_the_next_by_ten() -> None:
    service = Down(NoAnswer("time-out"), lasts=20.0, ends=200.0, takes=61.0)

    follow_down(service)

    assert service.now < 210


@pytest.mark.parametrize(
    "failure", [CredentialsError("expired"), RemoteError("no"), Conflict("another")]
)
def test_a_permanent_error_ends_following(failure: RunspecError) -> None:
    with pytest.raises(type(failure)):
        follow_down(Down(failure))


def test_a_service_that_never_answered_ends_the_following() -> None:
    """A name that is wrong must not be waited for."""
    with pytest.raises(Unavailable):
        follow_down(Down(Unavailable("no such host"), begins=0.0))


def test_a_service_that_is_slow_to_say_that_it_cannot_be_reached_ends_the_following() -> None:
    """A run whose streams nobody has listed yet is no service that has answered."""
    service, asked = Service([]), threading.Event()
    states = iter([Unavailable("no such host")])

    def state(run: str) -> Status:
        assert asked.wait(60)
        if (failure := next(states, None)) is not None:
            raise failure
        return Status(State.SUCCEEDED)

    service.state = state  # type: ignore[method-assign]

    with pytest.raises(Unavailable):
        follow.follow(
            service,  # type: ignore[arg-type]  # only what follow needs
            "run",
            lambda line: None,
            sleep=lambda s: asked.set(),
        )


def test_looks_are_spaced_by_an_answer_that_is_seen_before_its_callbacks_have_run() -> None:
    class Seen(Future[Status]):
        def add_done_callback(self, fn: Any) -> None: ...

    def start(ask: Callable[[], Status]) -> Future[Status]:
        future = Seen()
        answer(ask, future)
        return future

    now = [0.0]

    def look() -> Status:
        now[0] += 1.0
        return Status(State.RUNNING)

    looks, outage = follow.Looks(look, start, lambda: now[0]), Outage(print)

    assert looks.take_result(outage) is not None
    assert looks.take_result(outage) is None, "it is asked again after two seconds"


@pytest.mark.parametrize(("near", "asked"), [(False, [0.2, 2.4]), (True, [0.2, 0.6, 1.4, 3.0])])
def test_a_run_on_this_machine_is_looked_at_sooner_at_first(near: bool, asked: list[float]) -> None:
    now, times = [0.0], list[float]()

    def look() -> Status:
        now[0] += 0.2
        times.append(round(now[0], 1))
        return Status(State.RUNNING)

    def start(ask: Callable[[], Status]) -> Future[Status]:
        future = Future[Status]()
        answer(ask, future)
        return future

    looks = follow.Looks(look, start, lambda: now[0], near=near)
    while now[0] < 3.0:
        if looks.take_result(Outage(print)) is None:
            now[0] += 0.1

    assert times == asked


def test_logs_that_cannot_be_read_at_the_end_are_read_when_they_can() -> None:
    service = Down(NoAnswer("500"), begins=100, lasts=100, ends=50)
    service.state = lambda run: Status(  # type: ignore[method-assign]
        State.SUCCEEDED if service.now >= 100 else State.RUNNING
    )

    status, shown, told = follow_down(service)

    assert (status.state, shown, len(told)) == (State.SUCCEEDED, [b"begun", b"ended"], 2)


def test_a_time_limit_is_for_logs_that_cannot_be_read_at_the_end_too() -> None:
    service = Down(NoAnswer("500"), begins=100, lasts=10_000, ends=50)
    service.state = lambda run: Status(  # type: ignore[method-assign]
        State.SUCCEEDED if service.now >= 100 else State.RUNNING
    )
    service.streams = lambda run: [service]  # type: ignore[method-assign]

    with pytest.raises(TimedOut, match="its logs cannot be read"):
        follow_down(service, timeout_s=200)

    assert service.now < 210


def test_logs_do_not_wait_for_a_slow_answer_of_how_the_run_stands() -> None:
    service, answers = Down(NoAnswer("never")), threading.Event()
    service.begins = math.inf
    first, shown = [State.RUNNING], list[bytes]()

    def state(run: str) -> Status:
        if first:
            return Status(first.pop())
        assert answers.wait(60), "the lines were to come meanwhile"
        return Status(State.SUCCEEDED)

    def show(line: follow.Line) -> None:
        shown.append(line.text)
        if line.text == b"ended":
            answers.set()

    service.state = state  # type: ignore[method-assign]

    follow.follow(
        service,  # type: ignore[arg-type]  # only what follow needs
        "run",
        show,
        sleep=lambda s: service.pass_by(10 * s),
        clock=lambda: service.now,
        start=start_call,
    )

    assert shown == [b"begun", b"ended"]


def test_a_copy_is_made_through_an_outage(tmp_path: Path) -> None:
    service, told = Down(NoAnswer("500"), begins=1, lasts=100, ends=50), list[str]()

    found = save.save(
        lambda: service.streams("run"),
        lambda _: tmp_path / "log",
        lambda: service.state("run").state.terminal,
        lambda s: service.pass_by(max(s, 1.0)),
        Outage(told.append),
    )

    assert [path.read_bytes() for _, path, _ in found] == [b"begun\nended\n"]
    assert len(told) == 2
    assert len(service.asked) <= 40


@pytest.mark.parametrize(
    "cursor", ["null", "{}", '{"position": "7"}', '{"position": "7", "size": []}']
)
def test_a_damaged_cursor_has_the_copy_made_anew(tmp_path: Path, cursor: str) -> None:
    (tmp_path / "log.cursor").write_text(cursor)
    service = Down(NoAnswer("500"), begins=math.inf, ends=0)

    copy = save.Copy(service, tmp_path / "log")
    copy.advance()
    copy.finish(lambda s: None)
    copy.close()

    assert (tmp_path / "log").read_bytes() == b"begun\nended\n"


@dataclass
class Late(Kept):
    """A stream whose service delivers the last *held* bytes only after some reads, long after the end of the run."""

    held: int = 5
    left: int = 3  # reads without an answer

    def read(self, position: str | None) -> Chunk:
        whole, at = len(self.data) - (self.held if self.left else 0), int(position or 0)
        data = self.data[at : min(at + self.page, whole)]
        self.left -= bool(self.left and not data)
        return Chunk(data, str(at + len(data)), more=at + len(data) < len(self.data))


LATE = b"one\ntwo\nlast\n"


def test_a_run_is_reconciled_after_each_look_and_its_end_too() -> None:
    service, told = Service([b"a\n", b"b\n", b"c\n"]), list[str]()
    states: list[State] = []

    def reconcile() -> list[str]:
        states.append(State.RUNNING if service.pieces else State.SUCCEEDED)
        return ["ended a node"] if len(states) == 2 else []

    follow.follow(
        service,  # type: ignore[arg-type]
        "run",
        lambda line: None,
        tell=told.append,
        reconcile=reconcile,
        sleep=lambda s: None,
        start=at_once,
    )

    assert states == [State.RUNNING, State.RUNNING, State.SUCCEEDED]
    assert told == ["ended a node"]


def test_lines_that_come_after_the_end_of_the_run_are_waited_for() -> None:
    shown, slept = list[bytes](), list[float]()

    follow.follow(
        Service([LATE], Late(b"")),  # type: ignore[arg-type]
        "run",
        lambda line: shown.append(line.text),
        sleep=slept.append,
        start=at_once,
    )

    assert shown == LATE.splitlines()
    assert len(slept) >= 3


def test_a_log_is_read_to_its_end_with_pauses() -> None:
    service, slept = Service([], Late(LATE)), list[float]()

    found = follow.read_everything(service, "run", follow.accept_every, sleep=slept.append)  # type: ignore[arg-type]

    assert [line.text for line in found] == LATE.splitlines()
    assert len(slept) == 3


@pytest.mark.parametrize("left", range(8))
def test_a_copy_has_the_lines_that_come_late(tmp_path: Path, left: int) -> None:
    stream, paused = Late(LATE, left=left), list[float]()

    found = save.save(
        lambda: [stream],
        lambda _: tmp_path / "log",
        lambda: True,
        paused.append,
        Outage(lambda text: None),
    )

    assert found == [(stream, tmp_path / "log", len(LATE))]
    assert (tmp_path / "log").read_bytes() == LATE
    assert len(paused) == left


def test_a_time_limit_ends_the_following_and_not_the_run() -> None:
    with pytest.raises(TimedOut):
        follow.follow(
            Service([b"x"] * 100),  # type: ignore[arg-type]
            "run",
            lambda line: None,
            timeout_s=5,
            sleep=lambda s: None,
            clock=itertools.count().__next__,
            start=at_once,
        )


@given(st.binary(max_size=300), st.integers(1, 50))
def test_a_saved_copy_is_exact(
    tmp_path_factory: pytest.TempPathFactory, data: bytes, page: int
) -> None:
    path = tmp_path_factory.mktemp("saved") / "log"

    size = saved(Kept(data, page=page), path)

    assert path.read_bytes() == data
    assert size == len(data)
    assert [p.name for p in path.parent.iterdir()] == ["log"]


def saved(stream: Kept, path: Path) -> int:
    """Save *stream* alone, which has ended; give the size of the copy."""
    return save.save(lambda: [stream], lambda _: path, lambda: True, lambda _: None, Outage(print))[
        0
    ][2]


class Killed(BaseException):
    """Stands for kill -9: nothing may run after it."""


@pytest.mark.parametrize("at", range(1, 12))
def test_a_copier_that_was_killed_goes_on_without_losing_or_doubling(
    tmp_path: Path, at: int
) -> None:
    path, data = tmp_path / "log", bytes(range(60))
    stream = Kept(data)
    reading = stream.read

    def read(position: str | None) -> Chunk:
        if stream.reads == at:
            raise Killed
        return reading(position)

    stream.read = read  # type: ignore[method-assign]
    with pytest.raises(Killed):
        saved(stream, path)
    assert not path.exists()
    if (partial := tmp_path / "log.partial").exists():
        partial.write_bytes(partial.read_bytes() + b"half a chunk that no cursor knows of")
    saved(Kept(data), path)

    assert path.read_bytes() == data


def test_a_copy_that_differs_from_the_stream_is_mended_at_the_end(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.with_name("log.partial").write_bytes(b"wrong!!")
    path.with_name("log.cursor").write_text('{"position": "7", "size": 7}')

    saved(Kept(b"right, and longer"), path)

    assert path.read_bytes() == b"right, and longer"


@pytest.mark.parametrize(
    "nodes, tasks, name",
    [(1, 1, "x"), (2, 1, "x/node-1.log"), (1, 3, "x/task-2-node-1.log")],
)
def test_where_a_stream_is_saved_is_known_before_others_come(
    tmp_path: Path, nodes: int, tasks: int, name: str
) -> None:
    stream = Kept(b"", 2, 1)

    assert (
        save.choose_path(stream.task, stream.rank, tmp_path / "x", nodes, tasks) == tmp_path / name
    )


def test_a_stream_that_comes_while_others_are_saved_is_saved_too(tmp_path: Path) -> None:
    """Of a sweep with few tasks at a time, the last begin when the first have ended."""
    begun = [Kept(b"one", 0, 0)]
    late = Kept(b"two", 1, 0)
    overs = iter([False, False, True])

    found = save.save(
        lambda: tuple(begun),
        lambda stream: save.choose_path(stream.task, stream.rank, tmp_path, 1, 2),
        lambda: next(overs),
        lambda _: begun.append(late) if late not in begun else None,
        Outage(print),
    )

    assert [(path.name, size) for _, path, size in found] == [
        ("task-0-node-0.log", 3),
        ("task-1-node-0.log", 3),
    ]
    assert (tmp_path / "task-1-node-0.log").read_bytes() == b"two"


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        (b"10%\r50%\r100%", "100%"),
        (b"done\r", "done"),
        (b"\x1b[31mred\x1b[0m", "red"),
        (b"\x00", "\\x00"),
        (b"a\tb", "a    b"),
        ("grün".encode(), "grün"),
        (b"\xff\xfe", "\ufffd\ufffd"),
    ],
)
def test_a_line_on_the_screen_is_harmless(raw: bytes, shown: str) -> None:
    assert follow.show_line(raw, strip_sequences) == shown


def test_lines_say_whose_they_are_only_where_there_are_several() -> None:
    line = follow.Line(2, 3, b"")

    assert follow.format_prefix(line, 1, 1) == ""
    assert follow.format_prefix(line, 4, 1) == "[node 3] "
    assert follow.format_prefix(line, 4, 9) == "[task 2 node 3] "
