"""The journal after a crash or a bad disk: a torn end is dropped, damage before it changes nothing."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from runspec_jobs.errors import Damaged
from runspec_jobs.state import journal
from runspec_jobs.state.journal import Event, Journal, RunState
from tests.faults.cells import started
from tests.faults.world import LONG, Driver, new_world

STEPS = st.sampled_from(["upload-code", "environment", "job"])
EVENTS = st.one_of(
    st.builds(lambda step: {"event": "begun", "step": step}, STEPS),
    st.builds(lambda step: {"event": "undone", "step": step}, STEPS),
    st.builds(
        lambda step, value: {"event": "done", "step": step, "answer": {"id": value}},
        STEPS,
        st.text(),
    ),
    st.builds(lambda want: {"event": "want", "want": want}, st.sampled_from(["cancel", "destroy"])),
    st.builds(
        lambda state, reason, code: {
            "event": "ended",
            "state": state,
            "reason": reason,
            "exit_code": code,
        },
        st.sampled_from(["succeeded", "failed", "cancelled"]),
        st.text(),
        st.none() | st.integers(0, 255),
    ),
    st.just({"event": "deleted"}),
)
JOURNALS = st.lists(EVENTS, max_size=12)
calm = settings(
    deadline=None, max_examples=50, database=None
)  # other work on this machine is no failure


def text(events: Sequence[Event]) -> bytes:
    return b"".join(journal.format_line(event) for event in events)


def filled(folder: Path) -> bytes:
    """Make a journal of three lines in *folder* and give its bytes."""
    opened = Journal(folder)
    opened.add("born", run="faults-000000", digest="sha256:0")
    opened.add("begun", step="job")
    opened.add("done", step="job", answer={"run": "faults-000000"})
    opened.close()
    return (folder / "journal.jsonl").read_bytes()


def test_a_last_line_cut_anywhere_is_dropped_and_the_next_takes_its_place(tmp_path: Path) -> None:
    whole = filled(tmp_path)
    path = tmp_path / "journal.jsonl"
    last = whole.rstrip(b"\n").rindex(b"\n") + 1

    for end in range(last, len(whole)):
        path.write_bytes(whole[:end])
        opened = Journal(tmp_path)
        opened.add("refused", step="job", why="no")
        opened.close()
        assert journal.read(tmp_path).answers == {}, end
        assert journal.read(tmp_path).begun == set(), end


def test_a_bit_flipped_anywhere_in_the_last_line_drops_it(tmp_path: Path) -> None:
    whole = filled(tmp_path)
    last = whole.rstrip(b"\n").rindex(b"\n") + 1

    kept = []
    for place in range(last, len(whole) - 1):
        for bit in range(8):
            torn = bytearray(whole)
            torn[place] ^= 1 << bit
            events, length = journal.parse(bytes(torn), "journal")
            if len(events) != 2 or length != last:
                kept.append((place - last, bit))

    assert kept == []


@pytest.mark.parametrize("line", [0, 1])
def test_damage_before_the_last_line_is_said_with_its_line_and_changes_nothing(
    tmp_path: Path, line: int
) -> None:
    lines = filled(tmp_path).splitlines(keepends=True)
    lines[line] = lines[line].replace(b'"event"', b'"evenT"')
    path = tmp_path / "journal.jsonl"
    path.write_bytes(b"".join(lines))

    for use in (journal.read, Journal):
        with pytest.raises(Damaged, match=f"journal.jsonl:{line + 1}: damaged line"):
            use(tmp_path)
    assert path.read_bytes() == b"".join(lines)


def test_a_damaged_journal_stops_apply_with_one_line_and_changes_nothing(driver: Driver) -> None:
    """What it began may be alive, and is ended by destroy, which needs the id alone."""
    with new_world(driver, LONG) as world:
        run = started(world)
        path = world.home / "runs" / run / "journal.jsonl"
        damaged = path.read_bytes().replace(b'"born"', b'"burn"', 1)
        path.write_bytes(damaged)

        ended = world.run("apply", "faults.yaml")

        assert ended.code == Damaged.exit_code
        assert "journal.jsonl:1: damaged line" in ended.err
        assert path.read_bytes() == damaged
        assert world.run("destroy", run).code == 0
        assert world.await_quiet() == {}
        assert world.run("apply", "-d", "faults.yaml").code == 0


@calm
@given(JOURNALS)
def test_events_added_to_the_journal_are_read_back(events: list[dict[str, Any]]) -> None:
    data = text(events)

    assert journal.parse(data, "journal") == (events, len(data))


@calm
@given(JOURNALS, st.binary(max_size=80))
def test_a_torn_end_takes_nothing_with_it(events: list[dict[str, Any]], rest: bytes) -> None:
    data = text(events)

    assert journal.parse(data + rest.replace(b"\n", b""), "journal") == (events, len(data))


@calm
@given(JOURNALS, st.data())
def test_a_journal_cut_anywhere_reads_as_the_events_before_the_cut(
    events: list[dict[str, Any]], data: st.DataObject
) -> None:
    whole = text(events)
    cut = data.draw(st.integers(0, len(whole)))

    found, length = journal.parse(whole[:cut], "journal")

    assert found == events[: len(found)]
    assert length == len(text(found)) <= cut


@calm
@given(JOURNALS)
def test_a_longer_journal_never_knows_less(events: list[dict[str, Any]]) -> None:
    """Fold is monotone: an answer, an undone step, an end or a deletion is never forgotten."""
    memories = [journal.fold(list(events[:n])) for n in range(len(events) + 1)]

    for before, after in pairwise(memories):
        assert knows(after, before)


def knows(after: RunState, before: RunState) -> bool:
    return (
        after.begun >= before.begun
        and set(after.answers) >= set(before.answers)
        and after.undone >= before.undone
        and (after.status is not None or before.status is None)
        and after.deleted >= before.deleted
        and (after.want != "run" or before.want == "run")
    )


def test_every_event_of_the_product_is_one_that_memory_knows() -> None:
    """A journal of a later version is read for what is known of it."""
    later: list[Event] = [{"event": "begun", "step": "job"}, {"event": "from-the-future", "x": 1}]

    memory = journal.fold(later)

    assert json.dumps(sorted(memory.begun)) == '["job"]'
