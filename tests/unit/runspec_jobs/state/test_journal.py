"""A journal is read as far as its lines are complete."""

from __future__ import annotations

import zlib

import pytest

from runspec_jobs.errors import Damaged, Newer
from runspec_jobs.state import journal


def line(body: bytes) -> bytes:
    return b'{"crc": "%08x", %s\n' % (zlib.crc32(body), body[1:])


LINES = [
    journal.format_line({"event": "want", "want": name}) for name in ("cancel", "destroy", "run")
]


@pytest.mark.parametrize("cut", range(1, len(LINES[2]) + 1))
def test_an_incomplete_last_line_is_dropped(cut: int) -> None:
    data = b"".join(LINES)[:-cut]

    events, whole = journal.parse(data, "journal.jsonl")

    assert [event["want"] for event in events] == ["cancel", "destroy"]
    assert whole == len(LINES[0]) + len(LINES[1])


def test_a_damaged_line_before_a_good_one_is_an_error() -> None:
    data = LINES[0] + LINES[1].replace(b"destroy", b"destrox") + LINES[2]

    with pytest.raises(Damaged, match=r"journal.jsonl:2: damaged line"):
        journal.parse(data, "journal.jsonl")


@pytest.mark.parametrize("later", [line(b"{not JSON}"), b"in another form\n" + LINES[1]])
def test_lines_after_a_newer_format_may_have_any_form(later: bytes) -> None:
    newer = line(b'{"format": "runspec.journal/v9", "event": "more"}')

    with pytest.raises(Newer):
        journal.parse(LINES[0] + newer + later, "journal.jsonl")
