"""What an elastic job keeps counts when the fence says so, and is what every node begins from."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import pytest

from runspec_agent.base.job_env import Failure
from runspec_agent.elastic.checkpoint import CheckpointManifest
from runspec_agent.elastic.member import Member
from runspec_agent.store.folder import FolderBucket
from runspec_agent.store.manifest import MANIFEST, OBJECTS, Manifest, parsed
from runspec_agent.transfer.output_saver import Saver
from runspec_agent.transfer.resume import Resume

AT = "runs/r/elastic/0/"
OUT = "runs/r/outputs/out/0/0/"


class Fence:
    """A member as far as a saver asks it."""

    def __init__(self) -> None:
        self.generation, self.note = 1, ""

    def may_write(self, generation: int) -> bool:
        return generation == self.generation

    def commit(self, generation: int, note: str) -> bool:
        if generation == self.generation:
            self.note = note
        return generation == self.generation


@pytest.fixture
def store(tmp_path: Path) -> FolderBucket:
    (tmp_path / "store").mkdir()
    return FolderBucket({"RUNSPEC_STORE": f"file://{tmp_path / 'store'}"})


@pytest.fixture
def fence() -> Fence:
    return Fence()


class Node:
    """The folder of one node, and what it keeps."""

    def __init__(self, store: FolderBucket, folder: Path, fence: Fence) -> None:
        folder.mkdir()
        self.folder, self.fence = folder, fence
        self.kept = CheckpointManifest(store, AT, "runs/r/", 0)
        self.kept.add("out", str(folder), None)

    def write(self, **files: str) -> None:
        for name, text in files.items():
            (self.folder / name).write_text(text)

    def save(self, generation: int, note: str = "") -> list[str]:
        saver = self.kept.saver(cast(Member, self.fence), generation, note)
        return saver.finish()

    def found(self) -> Mapping[str, str]:
        return {path.name: path.read_text() for path in self.folder.iterdir()}


def manifest(store: FolderBucket) -> Manifest:
    return parsed(store.get(OUT + MANIFEST), MANIFEST)


def counted(store: FolderBucket) -> Mapping[str, str]:
    """Give what who fetches finds."""
    files = manifest(store).files
    found = {name: store.get(OUT + OBJECTS + entry.object) for name, entry in files.items()}
    return {name: (content or b"").decode() for name, content in found.items()}


def test_all_nodes_begin_from_what_the_first_one_saved(
    store: FolderBucket, tmp_path: Path, fence: Fence
) -> None:
    """What another one has written for itself is not part of it."""
    first, other = (Node(store, tmp_path / name, fence) for name in "ab")
    first.write(model="one", log="line")
    other.write(model="else", junk="x")

    assert first.save(1) == []
    other.kept.restore(fence.note)
    first.kept.restore(fence.note)

    assert other.found() == first.found() == {"model": "one", "log": "line"}
    assert sorted(manifest(store).files) == ["log", "model"]


def test_a_generation_that_is_over_makes_nothing_count(
    store: FolderBucket, tmp_path: Path, fence: Fence
) -> None:
    stale, new = (Node(store, tmp_path / name, fence) for name in "ab")
    stale.write(model="one")
    assert stale.save(1) == []
    fence.generation = 2
    new.kept.restore(fence.note)
    new.write(model="two")
    assert new.save(2, fence.note) == []
    note = fence.note

    stale.write(model="late", more="late")
    lost = stale.save(1)

    assert "later generation" in lost[0]
    assert fence.note == note
    fresh = Node(store, tmp_path / "c", fence)
    fresh.kept.restore(note)
    assert fresh.found() == {"model": "two"}


def test_a_generation_that_wakes_up_takes_nothing_away(
    store: FolderBucket, tmp_path: Path, fence: Fence, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was about to follow with the manifest, or to collect, when the next one began."""
    stale, new = (Node(store, tmp_path / name, fence) for name in "ab")
    stale.write(model="one", state="one")
    saver = stale.kept.saver(cast(Member, fence), 1, "")
    follow = saver.follow

    def late(output: Any) -> None:
        fence.generation = 2
        new.kept.restore(fence.note)
        new.write(model="two", state="two")
        assert new.save(2, fence.note) == []
        follow(output)

    monkeypatch.setattr(saver, "follow", late)

    assert "later generation" in saver.whole()[0]

    assert new.found() == counted(store) == {"model": "two", "state": "two"}
    fresh = Node(store, tmp_path / "c", fence)
    fresh.kept.restore(fence.note)
    assert fresh.found() == new.found()


def test_the_save_a_generation_starts_from_is_kept_until_all_nodes_read_it(
    store: FolderBucket, tmp_path: Path, fence: Fence
) -> None:
    """The first node may save before a slow one has read all."""
    first, slow = (Node(store, tmp_path / name, fence) for name in "ab")
    first.write(model="one")
    assert first.save(1) == []
    begun, fence.generation = fence.note, 2
    saver = first.kept.saver(cast(Member, fence), 2, begun, 2)
    first.kept.has_restored(2, 0, begun)
    first.write(model="two, and longer")
    assert saver.whole() == []

    slow.kept.restore(begun)
    assert slow.found() == {"model": "one"}
    slow.kept.has_restored(2, 1, begun)
    assert saver.finish() == []

    assert len(list(store.listing("runs/r/outputs/out/0/0/.runspec/objects/"))) == 1
    with pytest.raises(Failure, match="cannot be read"):
        slow.kept.restore(begun)


def test_a_manifest_that_a_killed_node_did_not_come_to_is_written_by_the_next(
    store: FolderBucket, tmp_path: Path, fence: Fence, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = Node(store, tmp_path / "a", fence)
    node.write(model="one")
    saver = node.kept.saver(cast(Member, fence), 1, "")
    monkeypatch.setattr(saver, "follow", lambda output: None)
    assert saver.whole() == []
    assert counted(store) == {}
    fence.generation = 2

    assert node.save(2, fence.note) == []

    assert counted(store) == {"model": "one"}


def test_a_generation_that_ends_while_it_saves_makes_nothing_count(
    store: FolderBucket, tmp_path: Path, fence: Fence, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The look before was in time, and the write came too late."""
    node = Node(store, tmp_path / "a", fence)
    node.write(model="one")
    fence.generation = 2
    monkeypatch.setattr(fence, "may_write", lambda generation: True)

    assert node.save(1) != []
    assert fence.note == ""


def test_restoring_fetches_no_file_that_the_node_has(
    store: FolderBucket, tmp_path: Path, fence: Fence, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = Node(store, tmp_path / "a", fence)
    node.write(model="one")
    node.save(1)
    asked: list[Any] = []
    monkeypatch.setattr(store, "get_file", lambda *words: asked.append(words))

    node.kept.restore(fence.note)

    assert asked == []


def test_restoring_a_deleted_save_fails_with_its_name(
    store: FolderBucket, tmp_path: Path, fence: Fence
) -> None:
    with pytest.raises(Failure, match="1-1 does not exist any more"):
        Node(store, tmp_path / "a", fence).kept.restore("1-1")


def test_nothing_is_written_through_a_link(
    store: FolderBucket, tmp_path: Path, fence: Fence
) -> None:
    """A program points `best` at its best checkpoint, and is killed when it has just pointed it at another one."""
    node = Node(store, tmp_path / "a", fence)
    node.write(first="1", second="2")
    (node.folder / "best").symlink_to("first")
    assert node.save(1) == []
    (node.folder / "best").unlink()
    (node.folder / "best").symlink_to("second")

    node.kept.restore(fence.note)

    assert node.found() == {"first": "1", "second": "2", "best": "1"}


def test_restoring_replaces_folders_by_files_and_files_by_folders(
    store: FolderBucket, tmp_path: Path, fence: Fence
) -> None:
    """And the reverse, also where the folder is a link to another one."""
    node = Node(store, tmp_path / "a", fence)
    for name in ("folder", "linked"):
        (node.folder / name).mkdir()
        (node.folder / name / "inner").write_text("1")
    node.write(file="2")
    assert node.save(1) == []
    for name in ("folder", "linked"):
        (node.folder / name / "inner").unlink()
        (node.folder / name).rmdir()
    (node.folder / "file").unlink()
    (node.folder / "file" / "below").mkdir(parents=True)
    (node.folder / "file" / "below" / "x").write_text("3")
    (node.folder / "folder").write_text("4")
    (tmp_path / "elsewhere").mkdir()
    (node.folder / "linked").symlink_to(tmp_path / "elsewhere")

    node.kept.restore(fence.note)

    assert (node.folder / "file").read_text() == "2"
    assert (node.folder / "folder" / "inner").read_text() == "1"
    assert (node.folder / "linked" / "inner").read_text() == "1"
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_generations_begin_with_the_run_that_is_resumed_until_one_has_saved(
    store: FolderBucket, tmp_path: Path, fence: Fence
) -> None:
    """A copy of what was resumed is no progress; an output that has not saved yet begins with it again."""
    other = Saver(store)
    (tmp_path / "other").mkdir()
    (tmp_path / "other/model").write_text("resumed")
    other.add("out", str(tmp_path / "other"), "runs/x/outputs/out/0/0/", None)
    assert other.whole() == []
    record = {"run": "x", "saves": {"out": {"0/0": 1}}}
    node = Node(store, tmp_path / "a", fence)
    node.kept.resume = Resume(store, record, {}, str(tmp_path))
    node.write(junk="x")

    node.kept.restore(fence.note)
    assert node.found() == {"model": "resumed"}
    saver = node.kept.saver(cast(Member, fence), 1, fence.note)
    assert saver.finish() == []
    assert not saver.has_new()

    node.write(model="new")
    assert node.save(1, fence.note) == []
    node.write(model="lost")
    node.kept.restore(fence.note)
    assert node.found() == {"model": "new"}

    node.kept.add("log", str(tmp_path / "log"), None)
    record["saves"] = {"log": {"0/0": 1}}
    other.add("log", str(tmp_path / "other"), "runs/x/outputs/log/0/0/", None)
    assert other.whole() == []
    node.kept.restore(fence.note)
    assert (tmp_path / "log/model").read_text() == "resumed"
