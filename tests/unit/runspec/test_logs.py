"""Logs: no line lost, none twice, and a copy that is exact whatever happens to the copier."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from runspec import logs, saving
from runspec.errors import TimedOut
from runspec.provider import Chunk, State, Status
from runspec.report import plain


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
    logs.follow(
        Service(pieces),  # type: ignore[arg-type]  # only what follow needs
        "run",
        lambda line: shown.append(line.text),
        sleep=lambda s: None,
        clock=lambda: float(next(ticks)),
    )
    return shown


@given(st.lists(st.binary(max_size=30), max_size=8))
def test_following_gives_every_line_once_however_it_comes(pieces: list[bytes]) -> None:
    whole = b"".join(pieces)

    shown = followed(list(pieces))

    assert b"\n".join(shown) == whole.removesuffix(b"\n")


def test_what_is_printed_just_before_the_end_is_not_lost() -> None:
    assert followed([b"first\n", b"last, without an end of line"]) == [
        b"first",
        b"last, without an end of line",
    ]


@given(st.text(min_size=1, max_size=60))
def test_a_line_that_is_too_long_is_never_cut_in_a_character(text: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(logs, "LINE_BYTES", 5)
        shown = followed([text.replace("\n", "n").encode()])

    assert "".join(part.decode() for part in shown) == text.replace("\n", "n")


def test_what_is_no_utf_8_is_shown_as_it_is() -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(logs, "LINE_BYTES", 5)
        shown = followed([b"\xff\x80\x80\x80\x80\x80\xe6\x97"])

    assert b"".join(shown) == b"\xff\x80\x80\x80\x80\x80\xe6\x97"


def test_while_a_run_waits_each_reason_is_told_once() -> None:
    reasons = ["no machine", "no machine", "", "starting"]
    states = iter([*(Status(State.WAITING, why) for why in reasons), Status(State.SUCCEEDED)])
    service = Service([])
    service.state = lambda run: next(states)  # type: ignore[method-assign]
    told: list[str] = []
    ticks = itertools.count(step=100)

    logs.follow(
        service,  # type: ignore[arg-type]  # only what follow needs
        "run",
        lambda line: None,
        waits=told.append,
        sleep=lambda s: None,
        clock=lambda: float(next(ticks)),
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

    logs.follow(
        printer,  # type: ignore[arg-type]  # only what follow needs
        "run",
        lambda line: late.append(printer.now - float(line.text)),
        sleep=printer.pass_by,
        clock=lambda: printer.now,
    )

    assert len(late) == 60 * often + 1 and max(late) < 0.11
    assert len([at for at in printer.looks if at < 1]) > 20
    assert len([at for at in printer.looks if at >= 40]) <= 20 * 10 + 2


def test_a_time_limit_ends_the_following_and_not_the_run() -> None:
    with pytest.raises(TimedOut):
        logs.follow(
            Service([b"x"] * 100),  # type: ignore[arg-type]
            "run",
            lambda line: None,
            timeout_s=5,
            sleep=lambda s: None,
            clock=itertools.count().__next__,
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
    return saving.save(lambda: [stream], lambda _: path, lambda: True, lambda: None)[0][2]


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

    assert saving.name(stream, tmp_path / "x", nodes, tasks) == tmp_path / name


def test_a_stream_that_comes_while_others_are_saved_is_saved_too(tmp_path: Path) -> None:
    """Of a sweep with few tasks at a time, the last begin when the first have ended."""
    begun = [Kept(b"one", 0, 0)]
    late = Kept(b"two", 1, 0)
    overs = iter([False, False, True])

    found = saving.save(
        lambda: tuple(begun),
        lambda stream: saving.name(stream, tmp_path, 1, 2),
        lambda: next(overs),
        lambda: begun.append(late) if late not in begun else None,
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
        (b"\x1b[31mred\x1b[0m", "\\x1b[31mred\\x1b[0m"),
        (b"a\tb", "a    b"),
        ("grün".encode(), "grün"),
        (b"\xff\xfe", "\ufffd\ufffd"),
    ],
)
def test_a_line_on_the_screen_is_harmless(raw: bytes, shown: str) -> None:
    assert logs.text(raw, plain) == shown


def test_lines_say_whose_they_are_only_where_there_are_several() -> None:
    line = logs.Line(2, 3, b"")

    assert logs.prefix(line, 1, 1) == ""
    assert logs.prefix(line, 4, 1) == "[node 3] "
    assert logs.prefix(line, 4, 9) == "[task 2 node 3] "
