"""Saving into the store: what the manifest lists is there, whole, whatever goes wrong in between."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import stat
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from runspec_agent.base.failure import NoName
from runspec_agent.base.job_env import LOST, Failure
from runspec_agent.store.base import Bucket
from runspec_agent.store.manifest import MANIFEST, OBJECTS, PUBLISHED, Manifest, parsed
from runspec_agent.transfer import output_saver as module, snapshot
from runspec_agent.transfer.output_saver import OVER, Saver
from tests.support.agent.breakable_stores import Way

pytestmark = pytest.mark.process

AT = "runs/r/outputs/model/0/0/"


@pytest.fixture
def source(tmp_path: Path) -> Path:
    folder = tmp_path / "source"
    (folder / "deep/er").mkdir(parents=True)
    (folder / "a").write_text("A")
    (folder / "deep/er/b").write_bytes(b"B" * 100_000)
    return folder


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshot, "CLOCK_TICK_S", 0.0)
    monkeypatch.setattr(module, "SETTLED_S", 0.0)


def opened(bucket: Bucket, source: Path, every_s: float | None = None, keep: int = 1) -> Saver:
    """Give what saves for the first attempt."""
    saver = Saver(bucket)
    saver.add("model", str(source), AT, every_s, keep, alone=True)
    return saver


def saved(bucket: Bucket, source: Path) -> list[str]:
    """Save at the end of a job; give what could not be."""
    return opened(bucket, source).finish()


def once(saver: Saver) -> list[str]:
    return saver.once(saver.outputs[0])


def brought(bucket: Bucket, folder: Path) -> Saver:
    """Begin another attempt, in a *folder* of its own."""
    saver = Saver(bucket)
    saver.add("model", str(folder), AT, None)
    return saver


def manifest(bucket: Bucket) -> Manifest:
    return parsed(bucket.get(AT + MANIFEST), MANIFEST)


def listed(bucket: Bucket) -> list[str]:
    return sorted(manifest(bucket).files)


def kept(bucket: Bucket) -> dict[str, bytes | None]:
    """Give what counts, as who fetches finds it."""
    return {n: bucket.get(AT + OBJECTS + e.object) for n, e in manifest(bucket).files.items()}


def objects(bucket: Bucket) -> set[str]:
    """Give what lies there, which nothing may name."""
    return {one.key[len(AT + OBJECTS) :] for one in bucket.listing(AT + OBJECTS)}


def tree(folder: Path) -> dict[str, bytes]:
    return {str(f.relative_to(folder)): f.read_bytes() for f in folder.rglob("*") if f.is_file()}


def test_everything_is_saved_and_listed(bucket: Bucket, source: Path) -> None:
    """Nested folders too, with sizes, times and checksums."""
    assert saved(bucket, source) == []

    assert kept(bucket) == tree(source)
    assert {path: entry[:3] for path, entry in manifest(bucket).files.items()} == {
        path: (
            len(content),
            (source / path).stat().st_mtime_ns,
            hashlib.sha256(content).hexdigest(),
        )
        for path, content in tree(source).items()
    }
    assert objects(bucket) == manifest(bucket).objects


@pytest.mark.parametrize("name", ["a b", "a+b%20", "é日", "-n", "manifest.json", "#?&"])
def test_file_names_are_saved_and_restored_unchanged(
    bucket: Bucket, source: Path, tmp_path: Path, name: str
) -> None:
    """There and back."""
    (source / "deep" / name).write_text(name)

    assert saved(bucket, source) == []
    brought(bucket, tmp_path / "back")

    assert tree(tmp_path / "back") == tree(source)


def test_file_names_that_are_not_utf8_are_restored(
    bucket: Bucket, source: Path, tmp_path: Path
) -> None:
    """Keys of the store are UTF-8, and names are in the manifest alone."""
    name = os.fsdecode(b"\xff")
    (source / name).write_text("x")

    assert saved(bucket, source) == []
    brought(bucket, tmp_path / "back")

    assert tree(tmp_path / "back") == tree(source)


def test_an_output_that_was_never_written_is_empty(bucket: Bucket, tmp_path: Path) -> None:
    """Which is not the same as none."""
    assert bucket.get(AT + MANIFEST) is None

    assert saved(bucket, tmp_path / "nothing") == []

    assert len(manifest(bucket).saves) == 1 and listed(bucket) == []


def shape(folder: Path) -> dict[str, tuple[object, ...]]:
    """Give what is below *folder*, with modes and times; links are not followed."""
    found: dict[str, tuple[object, ...]] = {}
    for path in sorted(folder.rglob("*")):
        status = path.lstat()
        kind = stat.S_IFMT(status.st_mode)
        end = os.readlink(path) if path.is_symlink() else ""
        mode = 0 if path.is_symlink() else stat.S_IMODE(status.st_mode)
        found[os.fsencode(path.relative_to(folder)).hex()] = (kind, mode, status.st_mtime_ns, end)
    return found


def test_an_output_is_restored_as_it_was_written(
    bucket: Bucket, source: Path, tmp_path: Path
) -> None:
    """With links, modes, empty folders and times, on a machine that has nothing of it."""
    (source / "step-20").mkdir()
    (source / "step-20/step").write_text("20")
    (source / "latest").symlink_to("step-20")
    (source / "latest.txt").symlink_to("step-20/step")
    (source / "deep/up").symlink_to("../step-20/")
    (source / "next").symlink_to("step-30")
    (source / "here").symlink_to(".")
    (source / "loop").symlink_to("loop")
    (source / "empty/of/it").mkdir(parents=True)
    (source / "tool").write_text("#!/bin/sh")
    (source / "tool").chmod(0o755)
    (source / "key").write_text("secret")
    (source / "key").chmod(0o600)
    (source / "nothing").touch()
    (source / "closed").mkdir()
    (source / "closed/a").write_text("A")
    for path, moment in ((source / "key", 1), (source / "closed/a", 2**33), (source / "empty", 7)):
        os.utime(path, ns=(moment * 10**9 + 5, moment * 10**9 + 5))
    os.utime(source / "latest", (9, 9), follow_symlinks=False)
    (source / "closed").chmod(0o555)
    wanted = shape(source)

    assert saved(bucket, source) == []
    again = brought(bucket, tmp_path / "back")

    left_out = {os.fsencode("latest.txt").hex()}  # of a link to a file only the target is kept
    found = shape(tmp_path / "back")
    assert {k: v for k, v in found.items() if k not in left_out} == {
        k: v for k, v in wanted.items() if k not in left_out
    }
    assert (tmp_path / "back/latest.txt").readlink() == Path("step-20/step")
    assert (tmp_path / "back/latest/step").read_text() == "20"
    before = bucket.get(AT + MANIFEST)
    assert once(again) == []
    assert bucket.get(AT + MANIFEST) == before, "nothing has changed, so nothing is saved"


def test_an_older_version_finds_the_content_of_a_link_to_a_file(
    bucket: Bucket, source: Path
) -> None:
    """It knows files alone, and what it does not know it leaves out."""
    (source / "latest").symlink_to("a")

    saved(bucket, source)

    (save,) = json.loads(bucket.get(AT + MANIFEST) or b"")["saves"]
    (entry,) = (one for one in save["files"] if one["path"] == "latest")
    assert bucket.get(AT + OBJECTS + entry["object"]) == b"A"


def test_a_link_by_the_whole_path_leads_into_the_output_elsewhere(
    bucket: Bucket, source: Path, tmp_path: Path
) -> None:
    """A program knows the folder by a path that the saver need not have, such as that in its container."""
    (source / "latest").symlink_to(source / "deep/er")
    (source / "top").symlink_to(f"{source}/")
    (source / "inside").symlink_to("/job/model/deep/er/b")
    (source / "around").symlink_to("deep/../deep/er")
    saver = Saver(bucket)
    saver.add("model", str(source), AT, None, alone=True, names=["/job/model"])

    assert saver.finish() == []
    shutil.rmtree(source)
    back = tmp_path / "back"
    brought(bucket, back)

    assert {p.name: os.readlink(p) for p in back.iterdir() if p.is_symlink()} == {
        "latest": f"{back}/deep/er",
        "top": str(back),
        "inside": f"{back}/deep/er/b",
        "around": "deep/er",
    }
    assert (back / "inside").read_bytes() == b"B" * 100_000


def test_files_that_cannot_be_saved_are_named(
    bucket: Bucket, source: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """In the log and in the save: links that lead out, and what is neither a file, a folder nor a link."""
    (source / "data").symlink_to("/data/sets")
    (source / "deep/up").symlink_to("../..")
    (source / "passwd").symlink_to("/etc/passwd")
    os.mkfifo(source / "pipe")

    assert saved(bucket, source) == []

    lost = {
        "data": "a link to /data/sets, outside of the output",
        "deep/up": "a link to ../.., outside of the output",
        "passwd": "a link to /etc/passwd, outside of the output",
        "pipe": "a named pipe",
    }
    assert manifest(bucket).shape.lost == lost
    said = "runspec: output 'model': not saved, as it cannot be: "
    assert capfd.readouterr().err == "".join(f"{said}{p}: {why}\n" for p, why in lost.items())
    brought(bucket, tmp_path / "back")
    assert "the last save is without: data: a link" in capfd.readouterr().err
    assert not (tmp_path / "back/data").is_symlink()


def test_a_change_of_mode_or_link_is_saved(bucket: Bucket, source: Path) -> None:
    """That of a folder's time alone is none: each temporary file changes it."""
    saver = opened(bucket, source)
    changes: list[Callable[[], object]] = [
        lambda: None,
        lambda: (source / "a").chmod(0o711),
        lambda: (source / "deep").chmod(0o711),
        lambda: os.symlink("deep", source / "latest"),
        lambda: os.replace(
            shutil.copy(source / "next", source / "n", follow_symlinks=False), source / "latest"
        ),
        (source / "more").mkdir,
        lambda: os.utime(source / "more", (5, 5)),
    ]

    numbers = []
    (source / "next").symlink_to("deep/er")
    for change in changes:
        change()
        once(saver)
        numbers.append(manifest(bucket).saves[-1].number)

    assert numbers == [1, 2, 3, 4, 5, 6, 6]


@pytest.mark.parametrize("in_the_way", ["file", "folder", "link"])
def test_restoring_replaces_files_that_are_in_the_way(
    bucket: Bucket, source: Path, tmp_path: Path, in_the_way: str
) -> None:
    """It is from before the save, or from an image."""
    (source / "latest").symlink_to("deep")
    saved(bucket, source)
    back, elsewhere = tmp_path / "back", tmp_path / "elsewhere"
    elsewhere.mkdir()
    back.mkdir()
    for name in ("a", "deep", "latest"):
        if in_the_way == "file":
            (back / name).write_text("x")
        elif in_the_way == "folder":
            (back / name / "x").mkdir(parents=True)
        else:
            (back / name).symlink_to(elsewhere)

    brought(bucket, back)

    assert {k: v for k, v in tree(back).items() if "x" not in k} == tree(source)
    assert (back / "latest").readlink() == Path("deep")
    assert list(elsewhere.iterdir()) == []


def test_only_files_of_the_folder_are_read(bucket: Bucket, source: Path, tmp_path: Path) -> None:
    """Links inside it are; what leads out, hangs or loops is not."""
    (tmp_path / "secret").write_text("secret")
    (tmp_path / "out").mkdir()
    (tmp_path / "out/secret").write_text("secret")
    (source / "inside").symlink_to("deep/er/b")
    (source / "outside").symlink_to(tmp_path / "secret")
    (source / "way-out").symlink_to(tmp_path / "out")
    (source / "nowhere").symlink_to("not-there")
    (source / "loop").symlink_to("loop")
    (source / "folder").symlink_to("deep")
    os.mkfifo(source / "fifo")

    assert saved(bucket, source) == []

    assert listed(bucket) == ["a", "deep/er/b", "inside"]
    assert kept(bucket)["inside"] == b"B" * 100_000
    assert len(objects(bucket)) == 2  # what two names have is there once


def test_the_manifest_comes_last(bucket: Bucket, source: Path, way: Way) -> None:
    """Whoever reads it finds all that it lists."""
    saved(bucket, source)

    puts = [call.path for call in way.calls if call.method == "PUT"]
    assert len(puts) == 3
    assert puts[-1].endswith("/.runspec/manifest.json")


def test_nothing_is_saved_twice(bucket: Bucket, source: Path, way: Way) -> None:
    """Neither what looks the same, nor what is the same; another attempt takes the place, and that is all."""
    saver = opened(bucket, source)
    once(saver)
    way.calls.clear()

    assert once(saver) == []
    assert way.calls == []

    os.utime(source / "a", (1, 1))
    assert once(saver) == []
    assert [call.path.rpartition("/")[2] for call in way.calls] == ["manifest.json"]
    way.calls.clear()

    assert brought(bucket, source).finish() == []
    assert [call.method for call in way.calls if not call.lists] == ["GET", "PUT"]


def test_changed_files_are_saved_again(bucket: Bucket, source: Path) -> None:
    """By its time, where the size is the same. What has gone is gone, and what was saved of it is collected."""
    saver = opened(bucket, source)
    once(saver)
    os.utime(source / "a", ns=(1, 1))
    (source / "a").write_text("Z")
    (source / "deep/er/b").unlink()

    assert saver.finish() == []

    assert kept(bucket) == {"a": b"Z"}
    assert objects(bucket) == manifest(bucket).objects


@pytest.mark.parametrize("kind", ["folder"], indirect=True)
def test_there_is_twice_the_output_at_the_most(
    bucket: Bucket, source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While all of it is saved anew, again and again, and gets its plain names."""
    most = [0]

    def measured(name: str) -> None:
        do = getattr(bucket, name)

        def then(*words: Any) -> Any:
            result = do(*words)
            most[0] = max(most[0], sum(one.size for one in bucket.listing(AT) if not ours(one.key)))
            return result

        monkeypatch.setattr(bucket, name, then)

    def ours(key: str) -> bool:
        return key in (AT + MANIFEST, AT + PUBLISHED)

    for name in ("put_file", "copy"):
        measured(name)
    saver = opened(bucket, source)
    for step in range(4):
        for name in ("a", "deep/er/b"):
            (source / name).write_bytes(bytes([step]) * 1000 + name.encode().ljust(9))
        assert once(saver) == []
    saver.publish()

    assert most[0] == 2 * sum(len(content) for content in tree(source).values())


def test_as_many_saves_are_kept_as_the_output_says(bucket: Bucket, source: Path) -> None:
    """Each a whole set; the same content is there once for all of them."""
    saver = opened(bucket, source, keep=2)
    for text in ("1", "2", "3"):
        (source / "a").write_text(text)
        assert once(saver) == []

    saves = manifest(bucket).saves
    assert [save.number for save in saves] == [2, 3]
    assert [bucket.get(AT + OBJECTS + s.files["a"].object) for s in saves] == [b"2", b"3"]
    assert len({save.files["deep/er/b"].object for save in saves}) == 1
    assert objects(bucket) == manifest(bucket).objects and len(objects(bucket)) == 3


def test_a_folder_that_became_a_file_is_listed_as_one(bucket: Bucket, source: Path) -> None:
    """And a file that became a folder: whoever fetches them could not have both."""
    saver = opened(bucket, source)
    once(saver)
    (source / "a").unlink()
    (source / "a").mkdir()
    (source / "a/x").write_text("X")
    shutil.rmtree(source / "deep")
    (source / "deep").write_text("D")

    assert saver.finish() == []

    assert listed(bucket) == ["a/x", "deep"]


@pytest.mark.parametrize("kind", ["file", "folder", "link", "link to a folder", "link to a file"])
def test_what_has_our_name_is_named_as_lost_whatever_it_is(
    bucket: Bucket, source: Path, tmp_path: Path, kind: str, capfd: pytest.CaptureFixture[str]
) -> None:
    """A manifest that lists it could not be read, and the files of all saves would be lost with it."""
    ours = source / ".runspec"
    if kind == "file":
        ours.write_text("x")
    elif kind == "folder":
        (ours / "deep").mkdir(parents=True)
        (ours / "deep/x").write_text("x")
    else:
        ours.symlink_to({"link": "nothing", "link to a folder": "deep"}.get(kind, "a"))

    for _ in range(2):
        assert saved(bucket, source) == []

    said = ".runspec: runspec itself uses this name\n"
    assert capfd.readouterr().err.endswith(f"'model': not saved, as it cannot be: {said}")
    assert manifest(bucket).shape.lost == {".runspec": "runspec itself uses this name"}
    brought(bucket, tmp_path / "back")
    assert sorted(path.name for path in (tmp_path / "back").iterdir()) == ["a", "deep"]


def test_a_link_to_what_has_our_name_is_lost_for_that(bucket: Bucket, source: Path) -> None:
    (source / ".runspec").mkdir()
    (source / ".runspec/x").write_text("x")
    (source / "to").symlink_to(".runspec/x")

    assert saved(bucket, source) == []

    why = "a link to .runspec/x, whose name runspec itself uses"
    assert manifest(bucket).shape.lost["to"] == why


# A store that fails


@pytest.mark.parametrize("part", ["-1", "-2", "manifest.json"])
def test_a_store_that_refuses_once_is_tried_again(
    bucket: Bucket, source: Path, way: Way, part: str
) -> None:
    """A file as well as the manifest."""
    way.breaks("403", "PUT", part)

    assert saved(bucket, source) == []

    assert listed(bucket) == ["a", "deep/er/b"]


def test_a_manifest_that_failed_is_written_by_the_next_pass(
    bucket: Bucket, source: Path, way: Way
) -> None:
    """Though nothing has changed since."""
    saver = opened(bucket, source)
    way.breaks("403", "PUT", "manifest.json")
    with pytest.raises(Failure):
        once(saver)

    assert once(saver) == []

    assert listed(bucket) == ["a", "deep/er/b"]


def test_a_failed_save_leaves_the_save_before_valid(
    bucket: Bucket, source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Half a set is none."""
    saver = opened(bucket, source)
    once(saver)
    before = kept(bucket)
    (source / "a").write_text("new")
    (source / "deep/er/b").write_text("new, too")
    put = bucket.put_file

    def refusing(key: str, opened: Any, size: int, digest: str) -> None:
        if size == len("new, too"):
            raise Failure("the store refuses it")
        put(key, opened, size, digest)

    monkeypatch.setattr(bucket, "put_file", refusing)

    assert saver.finish() == ["output 'model': the store refuses it"]
    assert kept(bucket) == before


def test_a_file_that_cannot_be_read_is_named(
    bucket: Bucket, source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And the rest is saved without it."""
    real = open

    def refusing(path: Any, *words: Any) -> Any:
        if path == str(source / "a"):
            raise PermissionError(13, "Permission denied")
        return real(path, *words)

    monkeypatch.setattr(snapshot, "open", refusing, raising=False)

    assert saved(bucket, source) == ["output 'model': a: Permission denied"]
    assert listed(bucket) == ["deep/er/b"]


def test_a_manifest_that_cannot_be_written_is_named(bucket: Bucket, source: Path, way: Way) -> None:
    """It is the manifest that makes an output."""
    way.breaks("403", "PUT", "manifest", times=100)

    left = saved(bucket, source)

    assert len(left) == 1 and "manifest.json: 403 Told" in left[0]


@pytest.mark.parametrize("kind", ["503", "reset before"])
def test_an_upload_that_breaks_off_is_in_no_manifest(
    bucket: Bucket, source: Path, way: Way, kind: str
) -> None:
    """What was there before stays listed with what belongs to it."""
    saver = opened(bucket, source)
    once(saver)
    before = manifest(bucket)
    (source / "a").write_text("longer")
    (source / "c").write_text("new")
    way.breaks(kind, "PUT", "", times=100)

    with pytest.raises(Failure):
        once(saver)

    way.mend()
    assert manifest(bucket) == before
    assert once(saver) == []
    assert kept(bucket) == tree(source)
    assert objects(bucket) == manifest(bucket).objects


def test_a_commit_whose_reply_is_lost_is_our_own(bucket: Bucket, source: Path, way: Way) -> None:
    """Nobody has taken the place, and what that one named is there until it counts no more."""
    saver = opened(bucket, source)
    once(saver)
    (source / "a").write_text("new")
    way.breaks("reset after", "PUT", "manifest.json", times=1)
    way.breaks("reset before", "", "manifest.json", times=20)
    with pytest.raises(Failure):
        once(saver)
    way.mend()
    assert kept(bucket) == tree(source)
    (source / "a").write_text("A")

    assert once(saver) == []

    assert kept(bucket) == tree(source) and not saver.replaced
    assert objects(bucket) == manifest(bucket).objects


# While the job runs


def test_outputs_are_saved_while_the_job_writes(bucket: Bucket, source: Path) -> None:
    """Every so often, and once more at the end."""
    saver = opened(bucket, source, 0.01)

    saver.start()
    until = time.monotonic() + 60
    while listed(bucket) != ["a", "deep/er/b"]:
        assert time.monotonic() < until
        time.sleep(0.01)
    (source / "last").write_text("last")
    left = saver.finish()

    assert left == []
    assert listed(bucket) == ["a", "deep/er/b", "last"]


def test_a_store_that_fails_meanwhile_does_not_end_the_saving(
    bucket: Bucket, source: Path, way: Way
) -> None:
    """The next pass saves it."""
    before = threading.active_count()
    way.breaks("403", "PUT", "", times=5)
    saver = opened(bucket, source, 0.01)

    saver.start()
    until = time.monotonic() + 60
    while listed(bucket) != ["a", "deep/er/b"]:
        assert time.monotonic() < until
        time.sleep(0.01)

    assert saver.finish() == []
    assert threading.active_count() < before + 20


def test_a_store_that_refuses_deletions_is_told_once_and_not_asked_for_more(
    bucket: Bucket, source: Path, way: Way, capsys: pytest.CaptureFixture[str]
) -> None:
    """A role from before the right to delete was asked for; what was saved counts all the same."""
    saver = opened(bucket, source)
    once(saver)
    way.breaks("403", "DELETE", "", times=1000)
    for step in range(5):
        (source / "a").write_text(f"{step}")
        assert once(saver) == []

    assert way.count("DELETE") == 5
    told = capsys.readouterr().err.splitlines()
    assert len(told) == 1 and "objects of old saves cannot be deleted" in told[0]

    way.mend()
    (source / "a").write_text("last")
    assert once(saver) == []
    assert once(saver) == []
    assert kept(bucket) == tree(source)
    assert objects(bucket) == manifest(bucket).objects


# The next attempt


def test_a_later_attempt_finds_what_was_saved(
    bucket: Bucket, source: Path, tmp_path: Path, way: Way
) -> None:
    """Bytes and times; and it does not save them once more."""
    os.utime(source / "a", ns=(123_456_789, 987_654_321))
    saved(bucket, source)
    back = tmp_path / "back"

    saver = brought(bucket, back)

    assert tree(back) == tree(source)
    times = [(back / p).stat().st_mtime_ns == (source / p).stat().st_mtime_ns for p in tree(back)]
    assert times == [True, True]
    way.calls.clear()
    assert saver.finish() == []
    assert way.calls == []


def test_small_files_are_found_together(
    bucket: Bucket, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each waits for the other: one after the other they would wait for ever."""
    saved(bucket, source)
    together = threading.Barrier(2, timeout=60)
    get = bucket.get_file

    def met(key: str, path: str) -> None:
        together.wait()
        get(key, path)

    monkeypatch.setattr(bucket, "get_file", met)

    brought(bucket, tmp_path / "back")

    assert tree(tmp_path / "back") == tree(source)


def test_restoring_without_a_save_begins_empty(bucket: Bucket, tmp_path: Path) -> None:
    """The machine went before anything was saved; what it had sent is nobody's, and is collected."""
    bucket.put(AT + OBJECTS + "0123-1", b"half a save")
    saver = brought(bucket, tmp_path / "back")
    assert not (tmp_path / "back").exists()

    assert saver.finish() == []

    assert objects(bucket) == set()


@pytest.mark.parametrize("now", [b"Z", b"AA", None])
def test_a_changed_or_deleted_object_is_not_restored(
    bucket: Bucket, source: Path, tmp_path: Path, now: bytes | None
) -> None:
    """Somebody else has put something else there, or taken it away: that is said, and nothing begins from it."""
    saved(bucket, source)
    key = AT + OBJECTS + manifest(bucket).files["a"].object
    if now is None:
        bucket.delete(key)
    else:
        bucket.put(key, now)

    with pytest.raises(Failure):
        brought(bucket, tmp_path / "back")

    assert not (tmp_path / "back" / "a").exists()


def test_the_first_format_is_read(bucket: Bucket, tmp_path: Path) -> None:
    """It has files under their own names."""
    digest = hashlib.sha256(b"A").hexdigest()
    file = {"path": "a", "size": 1, "mtime_ns": 5, "sha256": digest}
    bucket.put(AT + "a", b"A")
    bucket.put(
        AT + MANIFEST, json.dumps({"format": "runspec.outputs/v1", "files": [file]}).encode()
    )

    saver = brought(bucket, tmp_path / "back")
    (tmp_path / "back" / "b").write_text("B")
    assert saver.finish() == []

    assert kept(bucket) == tree(tmp_path / "back") == {"a": b"A", "b": b"B"}


def test_the_manifest_of_a_newer_version_is_refused_in_words(
    bucket: Bucket, tmp_path: Path
) -> None:
    bucket.put(AT + MANIFEST, b'{"format": "runspec.outputs/v3"}')

    with pytest.raises(Failure, match="a newer version of runspec wrote it"):
        brought(bucket, tmp_path / "back")


@pytest.mark.parametrize("text", ["{", "[1]", "{}"])
def test_an_invalid_manifest_is_refused(bucket: Bucket, tmp_path: Path, text: str) -> None:
    bucket.put(AT + MANIFEST, text.encode())

    with pytest.raises(Failure, match="is not a manifest of saved files"):
        brought(bucket, tmp_path / "back")


# Two that believe to be the one


def test_a_replaced_saver_cannot_make_a_save_valid(
    bucket: Bucket, source: Path, tmp_path: Path
) -> None:
    """Neither before the other one has saved anything nor after that, and it takes nothing away."""
    stale = opened(bucket, source)
    assert stale.whole() == []
    new = brought(bucket, tmp_path / "back")

    (source / "late").write_text("x")
    assert (stale.whole(), stale.replaced) == ([f"output 'model': {OVER}"], True)
    (tmp_path / "back" / "a").write_text("two")
    assert new.whole() == []
    assert stale.finish() == [f"output 'model': {OVER}"]

    assert kept(bucket) == tree(tmp_path / "back")
    assert not new.replaced


def test_a_replaced_saver_without_a_save_cannot_begin_one(
    bucket: Bucket, source: Path, tmp_path: Path
) -> None:
    stale = opened(bucket, source)
    new = brought(bucket, tmp_path / "back")

    assert stale.whole() == [f"output 'model': {OVER}"]
    assert new.whole() == []

    assert kept(bucket) == {}


def test_an_object_that_comes_late_is_nobodys(bucket: Bucket, source: Path, tmp_path: Path) -> None:
    """It was on its way when the place was taken; the attempt after that collects it."""
    saved(bucket, source)
    new = brought(bucket, tmp_path / "b")
    bucket.put(AT + OBJECTS + "stale-7", b"late")
    assert new.finish() == []
    assert kept(bucket) == tree(source)

    assert brought(bucket, tmp_path / "c").finish() == []

    assert kept(bucket) == tree(source)
    assert objects(bucket) == manifest(bucket).objects


def test_a_manifest_that_others_keep_changing_is_a_failure(
    bucket: Bucket, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Saver, "swap_manifest", lambda *words: False)

    with pytest.raises(Failure, match="another node keeps changing it"):
        brought(bucket, tmp_path / "a")


# Plain names


def test_plain_names_come_last_and_only_those_of_the_last_save(
    bucket: Bucket, source: Path, tmp_path: Path
) -> None:
    """A file that an earlier attempt had published and that is no more is taken away."""
    first = opened(bucket, source)
    assert first.finish() == []
    assert not [one for one in bucket.listing(AT) if "/.runspec/" not in one.key]
    first.publish()
    assert {p: bucket.get(AT + p) for p in tree(source)} == tree(source)

    second = brought(bucket, tmp_path / "back")
    (tmp_path / "back" / "a").write_text("two")
    (tmp_path / "back" / "deep/er/b").unlink()
    assert second.finish() == []
    assert bucket.get(AT + "a") == b"A"
    second.publish()

    plain = [one.key[len(AT) :] for one in bucket.listing(AT) if "/.runspec/" not in one.key]
    assert (plain, bucket.get(AT + "a")) == (["a"], b"two")
    note = json.loads(bucket.get(AT + PUBLISHED) or b"")
    assert (note["save"], note["files"]) == (2, ["a"])


def test_plain_names_that_may_not_be_deleted_are_not_forgotten(
    bucket: Bucket, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = opened(bucket, source)
    first.finish()
    first.publish()
    second = brought(bucket, tmp_path / "back")
    (tmp_path / "back" / "a").unlink()
    second.finish()

    def refuse(key: str) -> None:
        raise Failure("no right to delete", 77)

    with monkeypatch.context() as patch:
        patch.setattr(bucket, "delete", refuse)
        (line,) = second.publish()

    assert "no right to delete" in line
    note = json.loads(bucket.get(AT + PUBLISHED) or b"")
    assert (note["save"], note["files"]) == (0, ["a", "deep/er/b"])
    assert second.publish() == []
    assert bucket.get(AT + "a") is None


def test_a_name_that_the_store_does_not_take_needs_no_deletion(
    bucket: Bucket, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def untaken(key: str) -> None:
        raise NoName("the store takes no such name")

    saver = opened(bucket, source)
    saver.finish()
    bucket.put(AT + PUBLISHED, b'{"save": 0, "files": ["b"]}')
    monkeypatch.setattr(bucket, "delete", untaken)

    assert saver.publish() == []

    assert json.loads(bucket.get(AT + PUBLISHED) or b"")["save"] == 1


@pytest.mark.parametrize("note", [b"", b"{", b"[]", b'{"save": 1}'])
def test_a_damaged_note_of_plain_names_is_written_anew(
    bucket: Bucket, source: Path, note: bytes
) -> None:
    saver = opened(bucket, source)
    saver.finish()
    bucket.put(AT + PUBLISHED, note)

    assert saver.publish() == []

    assert json.loads(bucket.get(AT + PUBLISHED) or b"")["save"] == 1


def test_plain_names_of_a_publication_that_was_cut_off_are_known_to_the_next(
    bucket: Bucket, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = opened(bucket, source)
    first.finish()
    with monkeypatch.context() as patch:
        copy = bucket.copy

        def cut(source_: str, target: str, size: int) -> None:
            copy(source_, target, size)
            raise Failure("the machine is lost", LOST)

        patch.setattr(bucket, "copy", cut)
        assert len(first.publish()) == 1
    assert json.loads(bucket.get(AT + PUBLISHED) or b"")["save"] == 0

    second = brought(bucket, tmp_path / "back")
    shutil.rmtree(tmp_path / "back" / "deep")
    (tmp_path / "back" / "a").unlink()
    (tmp_path / "back" / "deep").write_text("a file now")
    second.finish()
    assert second.publish() == []

    plain = [one.key[len(AT) :] for one in bucket.listing(AT) if "/.runspec/" not in one.key]
    assert plain == ["deep"]


def test_nothing_begins_from_plain_names(bucket: Bucket, source: Path, tmp_path: Path) -> None:
    first = opened(bucket, source)
    first.finish()
    first.publish()
    bucket.put(AT + "a", b"changed by hand")

    brought(bucket, tmp_path / "back")

    assert tree(tmp_path / "back") == tree(source)


@pytest.mark.parametrize("text", ["A", "of the first"])
def test_a_machine_that_was_replaced_gives_no_plain_names(
    bucket: Bucket, source: Path, tmp_path: Path, text: str
) -> None:
    """They would be of its last save, over those of a later one; it may have nothing more to save itself."""
    first = opened(bucket, source)
    os.utime(source / "a", (1, 1))
    once(first)
    then = brought(bucket, tmp_path / "then")
    (tmp_path / "then/a").write_text("later")
    assert then.finish() == [] and then.publish() == []

    if text != "A":
        (source / "a").write_text(text)

    first.finish()
    assert first.publish() == []

    assert bucket.get(AT + "a") == b"later"
