"""Lines on the screen: whole, however long they are, and whatever comes between."""

from __future__ import annotations

import contextlib
import io
import json
import tracemalloc
from collections.abc import Sequence
from dataclasses import dataclass

import pytest
from hypothesis import given, strategies as st

from runspec_jobs.cli import output
from runspec_jobs.cli.live.log_printer import LogPrinter
from runspec_jobs.logs import follow
from runspec_jobs.provider.streams.log_streams import Chunk

Capture = pytest.CaptureFixture[str]


@dataclass
class Pieces:
    """A stream that gives a log in pieces."""

    pieces: list[bytes]
    task: int = 0
    rank: int = 0

    def read(self, position: str | None) -> Chunk:
        at = int(position or 0)
        return Chunk(b"".join(self.pieces[at : at + 1]), str(at + 1))


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(follow, "LINE_BYTES", 3)


def printed(
    *streams: Pieces, exact: bool = False, as_json: bool = False, coloured: bool = False
) -> None:
    """Print what each stream gives at once, and then what is left of all of them."""
    nodes = max(stream.rank for stream in streams) + 1
    readers = [follow.Reader(stream) for stream in streams]
    with LogPrinter(nodes, 1, json=as_json, exact=exact, coloured=coloured) as printer:
        for reader in readers:
            for line in reader.read_lines():
                printer.line(line)
        for reader in readers:
            for line in reader.flush():
                printer.line(line)


def test_a_line_longer_than_what_is_held_of_it_is_printed_whole(capsys: Capture) -> None:
    printed(Pieces([b"first\nabcd", b"efgh\xc3", b"\xa9", b"i\nlast\n"]))

    assert capsys.readouterr().out == "first\nabcdefgh\xe9i\nlast\n"


def test_a_long_line_is_one_json_object(capsys: Capture) -> None:
    printed(Pieces([b'ab"c\t', b"\x1bde", b"\nlast"]), as_json=True)

    found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert found == [
        {"format": "runspec.log/v1", "task": 0, "node": 0, "line": 'ab"c    \\x1bde'},
        {"format": "runspec.log/v1", "task": 0, "node": 0, "line": "last"},
    ]


@pytest.mark.parametrize(("exact", "end"), [(False, "\n"), (True, "")])
@pytest.mark.parametrize("pieces", [[b"abcd", b"e"], [b"abcd"], [b"a"]])
def test_a_log_without_a_last_end_of_line_gets_one_unless_it_is_to_be_exact(
    capsys: Capture, pieces: list[bytes], exact: bool, end: str
) -> None:
    printed(Pieces(pieces), exact=exact)

    assert capsys.readouterr().out == b"".join(pieces).decode() + end


def test_another_nodes_line_breaks_one_that_has_not_ended(capsys: Capture) -> None:
    printed(Pieces([b"abcd"], rank=0), Pieces([b"x\n"], rank=1))

    assert capsys.readouterr().out == "[node 0] abcd\n[node 1] x\n"


def test_text_that_overwrites_a_long_line_gets_its_own_line(capsys: Capture) -> None:
    printed(Pieces([b"abcd", b"efgh\r", b"30%\r40%\n"]))

    assert capsys.readouterr().out == "abcdefgh\n30%\n40%\n"


FIRST, SECOND = "\x1b[36m[node 0]\x1b[0m ", "\x1b[33m[node 1]\x1b[0m "
RED = "\x1b[31mred\x1b[0m"


@pytest.mark.parametrize(
    ("pieces", "shown"),
    [
        ([b"\x1b[31mred\x1b[0m\n"], RED + "\x1b[0m\n"),
        ([b"\x1b[31mred\n"], RED + "\n"),
        ([b"\x1b]0;title\x07\x1b[2J\x1b[Ax\n"], "x\n"),
    ],
)
def test_a_terminal_gets_colours_that_end_with_their_line(
    capsys: Capture, monkeypatch: pytest.MonkeyPatch, pieces: list[bytes], shown: str
) -> None:
    monkeypatch.setattr(follow, "LINE_BYTES", 1 << 20)

    printed(Pieces(pieces), coloured=True)

    assert capsys.readouterr().out == shown


def test_each_node_goes_on_in_its_own_colours(
    capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(follow, "LINE_BYTES", 1 << 20)

    printed(
        Pieces([b"\x1b[31mred\n", b"red\x1b[m.\n"], rank=0), Pieces([b"x\n"], rank=1), coloured=True
    )

    assert capsys.readouterr().out == (
        f"{FIRST}{RED}\n{FIRST}\x1b[31mred\x1b[m.\x1b[0m\n{SECOND}x\n"
    )


@pytest.mark.parametrize("coloured", [False, True])
def test_each_node_of_each_task_has_its_colour(capsys: Capture, coloured: bool) -> None:
    with LogPrinter(2, 3, coloured=coloured) as printer:
        for task, node in ((2, 1), (0, 0), (2, 1)):
            printer.line(follow.Line(task, node, b"x"))

    last, first = ("\x1b[96m", "\x1b[36m") if coloured else ("", "")
    end = "\x1b[0m" if coloured else ""
    assert capsys.readouterr().out.splitlines() == [
        f"{last}[task 2 node 1]{end} x",
        f"{first}[task 0 node 0]{end} x",
        f"{last}[task 2 node 1]{end} x",
    ]


@pytest.mark.parametrize("as_json", [False, True])
def test_without_a_terminal_there_are_no_colours(
    capsys: Capture, monkeypatch: pytest.MonkeyPatch, as_json: bool
) -> None:
    monkeypatch.setattr(follow, "LINE_BYTES", 1 << 20)

    printed(Pieces([RED.encode() + b" \x1b[Kand\x07\n"]), as_json=as_json)

    shown = capsys.readouterr().out
    assert (json.loads(shown)["line"] if as_json else shown.strip()) == "red and"


def test_the_line_ends_of_windows_leave_a_long_line_whole(capsys: Capture) -> None:
    printed(Pieces([b"abcd\r", b"\nx\r\n"]))

    assert capsys.readouterr().out == "abcd\nx\n"


class Recorder:
    """A screen of a terminal that keeps what is printed and what is shown below."""

    def __init__(self) -> None:
        self.text, self.below = "", list[list[str]]()

    def print(self, text: str, open_lines: Sequence[str] = (), more: int = 0) -> None:
        assert not open_lines or (self.text[-1:] in ("", "\n") and text[-1:] in ("", "\n"))
        self.text += text
        self.below.append([*open_lines, *[f"{more} more"] * bool(more)])


def test_of_thousands_of_open_bars_the_first_are_drawn() -> None:
    """A line costs the same, however many there are."""
    screen = Recorder()
    printer = LogPrinter(1, 5000, screen=screen)
    for number in range(2):
        for task in reversed(range(5000)):
            printer.unfinished(follow.Line(task, 0, f"\r{number}%".encode(), ended=False))
    printer.line(follow.Line(1, 0, b"done"))

    first = [f"[task {task}] 1%" for task in (0, 2, 3, 4, 5, 6, 7, 8)]
    assert screen.below[-1] == [*first, "4991 more"]
    assert max(len(below) for below in screen.below) == 9


@dataclass
class Follower:
    """Passes on what streams give as a follower does, one piece of each stream in each pass, *pause_s* apart."""

    streams: Sequence[Pieces]
    pause_s: float = 1.0
    now: float = 0.0

    def follow(self, printer: LogPrinter) -> None:
        readers = [follow.Reader(One(stream)) for stream in self.streams]
        for _ in range(max(len(stream.pieces) for stream in self.streams)):
            for reader in readers:
                for line in reader.read_lines():
                    printer.line(line)
                if begun := reader.read_unfinished():
                    printer.unfinished(begun)
            self.now += self.pause_s
        for reader in readers:
            for line in reader.flush():
                printer.line(line)


class One(Pieces):
    """A stream that gives one piece in each pass, which ends with a read that gives nothing."""

    def __init__(self, of: Pieces) -> None:
        super().__init__(of.pieces, of.task, of.rank)
        self.at, self.given = 0, False

    def read(self, position: str | None) -> Chunk:
        piece = b"" if self.given else b"".join(self.pieces[self.at : self.at + 1])
        self.at += not self.given
        self.given = bool(piece)
        return Chunk(piece, str(self.at))


def shown(*streams: Pieces, pause_s: float = 1.0) -> Recorder:
    screen, nodes = Recorder(), max(stream.rank for stream in streams) + 1
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(output, "write", screen.print)
        with LogPrinter(nodes, 1, screen=screen) as printer:
            Follower(streams, pause_s).follow(printer)
    return screen


def piped(*streams: Pieces, pause_s: float = 1.0, exact: bool = False) -> None:
    nodes = max(stream.rank for stream in streams) + 1
    follower = Follower(streams, pause_s)
    with LogPrinter(nodes, 1, exact=exact, clock=lambda: follower.now) as printer:
        follower.follow(printer)


@pytest.fixture
def long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(follow, "LINE_BYTES", 1 << 20)


BAR = [
    b"\r  0%|    | 0/4",
    b"\r 25%|#   | 1/4",
    b"\r 50%|##  | 2/4",
    b"\r100%|####| 4/4\n",
    b"done\n",
]


@pytest.mark.parametrize("held", [3, 1 << 20], ids=["in parts", "whole"])
def test_a_terminal_shows_each_text_of_a_bar_in_place(
    monkeypatch: pytest.MonkeyPatch, held: int
) -> None:
    monkeypatch.setattr(follow, "LINE_BYTES", held)

    screen = shown(Pieces(BAR))

    assert screen.text == "100%|####| 4/4\ndone\n"
    below = [lines for lines in screen.below if lines]
    assert below == [["  0%|    | 0/4"], [" 25%|#   | 1/4"], [" 50%|##  | 2/4"]]


@pytest.mark.usefixtures("long")
def test_a_terminal_shows_a_line_that_has_not_ended_and_one_for_each_node() -> None:
    screen = shown(
        Pieces([b"1%\r", b"2%\r", b"", b"end\n"], rank=0),
        Pieces([b"..", b"..", b"x\n", b"y\n"], rank=1),
    )

    assert screen.text == "[node 1] ....x\n[node 0] end\n[node 1] y\n"
    assert ["[node 0] 2%", "[node 1] ...."] in screen.below
    assert screen.below[-1] == []


@pytest.mark.usefixtures("long")
@pytest.mark.parametrize("end", [[], [b"\n"], [b"\r"], [b"\r\n"]])
def test_a_bar_that_stays_open_is_there_at_the_end(end: list[bytes]) -> None:
    screen = shown(Pieces([b"10%\r", b"20%", *end]))

    assert screen.text == "20%\n"


@pytest.mark.parametrize("held", [3, 1 << 20], ids=["in parts", "whole"])
def test_a_pipe_gets_the_first_text_of_a_bar_some_and_the_last(
    capsys: Capture, monkeypatch: pytest.MonkeyPatch, held: int
) -> None:
    monkeypatch.setattr(follow, "LINE_BYTES", held)
    states = [b"\r%d%%" % percent for percent in range(25)]

    piped(Pieces([b"begun\n", *states, b"\r25%\n", b"done\n"]), pause_s=1)

    assert capsys.readouterr().out == "begun\n0%\n10%\n20%\n25%\ndone\n"


@pytest.mark.usefixtures("long")
@pytest.mark.parametrize(
    ("text", "lines"),
    [
        (b"\r0%\r50%\r100%\n", "0%\n100%\n"),
        (b"\r100%\n", "100%\n"),
        (b"0%\r50%\r\n", "0%\n50%\n"),
        (b"a\r\nb\r\n", "a\nb\n"),
        (b"\r\n", "\n"),
        (b"0%\r50%", "0%\n50%"),
        (b"50%\r", "50%\n"),
        (b"x\n0%\r50%\r", "x\n0%\n50%"),
    ],
)
def test_a_whole_log_in_a_pipe_has_the_first_and_the_last_text(
    capsys: Capture, text: bytes, lines: str
) -> None:
    printed(Pieces([text]), exact=True)
    assert capsys.readouterr().out == lines

    if text.endswith(b"\n"):
        piped(Pieces([text]), exact=True)
        assert capsys.readouterr().out == lines


@pytest.mark.usefixtures("long")
def test_json_has_the_last_text_alone(capsys: Capture) -> None:
    printed(Pieces([b"0%\r50%\r100%\n", b"a\rb"]), as_json=True)

    found = [json.loads(line)["line"] for line in capsys.readouterr().out.splitlines()]
    assert found == ["100%", "b"]


@given(st.lists(st.lists(st.sampled_from([b"a", b"bc", b"\r", b"\n", b"\r\n"]), max_size=8)))
def test_no_line_is_swallowed(passes: list[list[bytes]]) -> None:
    """A line ends with its last text, however it comes, at a terminal and in a pipe."""
    pieces = [b"".join(parts) for parts in passes]
    whole = b"".join(pieces)
    lines = [follow.show_line(line, str) for line in whole.split(b"\n")]
    for held in (3, 1 << 20):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(follow, "LINE_BYTES", held)
            with contextlib.redirect_stdout(io.StringIO()) as out:
                piped(Pieces(pieces or [b""]), exact=True)
            screen = shown(Pieces(pieces or [b""]))

            found = iter(out.getvalue().split("\n"))
            assert all(line in found for line in lines)
            found = iter(screen.text.split("\n"))
            assert all(line in found for line in lines)


@pytest.mark.timeout(60)
@pytest.mark.usefixtures("long")
def test_ten_megabytes_of_carriage_returns_are_quick_and_need_no_memory(capsys: Capture) -> None:
    text = b"".join(b"\r%7d/1000000" % number for number in range(700_000))
    tracemalloc.start()

    piped(Pieces([text[at : at + 65_536] for at in range(0, len(text), 65_536)]), pause_s=0.01)

    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < len(text) + 20e6
    out = capsys.readouterr().out.split("\n")
    assert (len(out), out[-2]) == (3, " 699999/1000000")
