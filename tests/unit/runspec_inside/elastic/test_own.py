"""What a node of an elastic job keeps for itself counts as long as no other machine has taken its place."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from runspec_inside.bucket import Bucket
from runspec_inside.elastic import own
from runspec_inside.elastic.own import OVER, OwnSaver
from runspec_inside.saver import MANIFEST, entries_of
from runspec_inside.words import Failure

PLACE = "runs/r/outputs/own/0/1/"


class Machine:
    """One that has the seat, with a folder that is its own."""

    def __init__(self, bucket: Bucket, folder: Path) -> None:
        folder.mkdir(exist_ok=True)
        self.folder, self.saver = folder, OwnSaver(bucket)
        self.saver.add("own", str(folder), PLACE, None)

    def write(self, **files: str) -> None:
        for name, text in files.items():
            (self.folder / name).write_text(text)

    def found(self) -> Mapping[str, str]:
        return {path.name: path.read_text() for path in self.folder.iterdir()}


def kept(bucket: Bucket) -> Mapping[str, bytes | None]:
    """Give what counts, as who fetches finds it."""
    listed = bucket.get(PLACE + MANIFEST)
    assert listed is not None
    return {name: bucket.get(PLACE + name) for name in entries_of(listed)}


def test_the_next_machine_of_a_seat_goes_on_from_what_was_saved(
    bucket: Bucket, tmp_path: Path
) -> None:
    """At the end of each generation, and at the last."""
    first = Machine(bucket, tmp_path / "a")
    first.write(log="one", shard="x")
    assert first.saver.whole() == []
    first.write(log="one two")
    assert first.saver.finish() == []

    second = Machine(bucket, tmp_path / "b")
    second.write(log="one two three")
    assert second.saver.finish() == []

    assert second.found() == {"log": "one two three", "shard": "x"}
    assert kept(bucket) == {"log": b"one two three", "shard": b"x"}


def test_a_machine_that_wakes_up_when_its_seat_is_taken_makes_nothing_count(
    bucket: Bucket, tmp_path: Path
) -> None:
    """Neither before the other one has saved anything nor after that."""
    stale = Machine(bucket, tmp_path / "a")
    stale.write(log="one")
    assert stale.saver.whole() == []
    new = Machine(bucket, tmp_path / "b")

    stale.write(late="x")
    assert (stale.saver.whole(), stale.saver.replaced) == ([f"output 'own': {OVER}"], True)
    new.write(log="two")
    assert new.saver.whole() == []
    assert stale.saver.finish() == [f"output 'own': {OVER}"]

    assert kept(bucket) == {"log": b"two"}
    assert not new.saver.replaced


def test_what_is_still_on_the_machine_is_newer_than_what_was_saved(
    bucket: Bucket, tmp_path: Path
) -> None:
    """The node was killed before it could save, and starts again where it was."""
    first = Machine(bucket, tmp_path / "a")
    first.write(log="one", gone="x")
    assert first.saver.whole() == []
    first.write(log="one two")
    os.unlink(first.folder / "gone")

    again = Machine(bucket, tmp_path / "a")

    assert again.found() == {"log": "one two", "gone": "x"}
    assert again.saver.finish() == []
    assert kept(bucket) == {"log": b"one two", "gone": b"x"}


def test_a_place_that_is_never_free_is_a_failure(
    bucket: Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(own.OwnSaver, "_swapped", lambda *words: False)

    with pytest.raises(Failure, match="written to all the time"):
        Machine(bucket, tmp_path / "a")
