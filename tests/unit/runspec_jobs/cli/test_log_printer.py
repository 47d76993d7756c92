"""Lines on the screen: whole, however long they are, and whatever comes between."""

from __future__ import annotations

import json
from dataclasses import dataclass

import pytest

from runspec_jobs.cli.log_printer import LogPrinter
from runspec_jobs.logs import follow
from runspec_jobs.provider import Chunk

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
            for line in reader.lines():
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


@pytest.mark.parametrize("pieces", [[b"10%\r20", b"%\r30%\n"], [b"10%\r20%\r", b"30%\n"]])
def test_what_is_drawn_over_later_is_a_line_of_its_own(
    capsys: Capture, pieces: list[bytes]
) -> None:
    """It was printed already; of what comes with it, the last shows."""
    printed(Pieces(pieces))

    assert capsys.readouterr().out in ("20\n30%\n", "20%\n30%\n")


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
        f"[node 0] {RED}\n[node 0] \x1b[31mred\x1b[m.\x1b[0m\n[node 1] x\n"
    )


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
