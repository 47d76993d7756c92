"""Saving into the store: what the manifest lists is there, whole, whatever goes wrong in between."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from runspec_inside import saver as module
from runspec_inside.bucket import Bucket, file_digest
from runspec_inside.saver import Saver, restore
from runspec_inside.words import Failure
from tests.unit.runspec_inside.stores import Way

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
    monkeypatch.setattr(module, "CLOCK_TICK_S", 0.0)


def opened(bucket: Bucket, source: Path, every_s: float | None = None) -> Saver:
    saver = Saver(bucket)
    saver.add("model", str(source), AT, every_s)
    return saver


def saved(bucket: Bucket, source: Path) -> list[str]:
    """Save at the end of a job; give what could not be."""
    return opened(bucket, source).finish()


def manifest(bucket: Bucket) -> list[dict[str, Any]] | None:
    found = bucket.get(AT + ".runspec/manifest.json")
    files: list[dict[str, Any]] | None = json.loads(found)["files"] if found is not None else None
    return files


def listed(bucket: Bucket) -> list[str]:
    return [entry["path"] for entry in manifest(bucket) or []]


def tree(folder: Path) -> dict[str, bytes]:
    return {str(f.relative_to(folder)): f.read_bytes() for f in folder.rglob("*") if f.is_file()}


def test_everything_is_saved_and_listed(bucket: Bucket, source: Path) -> None:
    """Nested folders too, with sizes, times and checksums."""
    assert saved(bucket, source) == []

    files = tree(source)
    assert {path: bucket.get(AT + path) for path in files} == files
    assert manifest(bucket) == [
        {
            "path": path,
            "size": len(content),
            "mtime_ns": (source / path).stat().st_mtime_ns,
            "sha256": hashlib.sha256(content).hexdigest(),
        }
        for path, content in sorted(files.items())
    ]


@pytest.mark.parametrize("name", ["a b", "a+b%20", "é日", "-n", "manifest.json", "#?&"])
def test_names_are_what_they_are(bucket: Bucket, source: Path, tmp_path: Path, name: str) -> None:
    """There and back."""
    (source / "deep" / name).write_text(name)

    assert saved(bucket, source) == []
    restore(bucket, AT, str(tmp_path / "back"))

    assert tree(tmp_path / "back") == tree(source)


def test_a_name_that_is_no_text_is_told_and_does_not_stop_the_others(
    bucket: Bucket, source: Path
) -> None:
    """Keys of the store are UTF-8."""
    (source / os.fsdecode(b"\xff")).write_text("x")

    left = saved(bucket, source)

    assert len(left) == 1 and left[0].startswith("output 'model': \\xff: ")
    assert listed(bucket) == ["a", "deep/er/b"]


def test_an_output_that_was_never_written_is_empty(bucket: Bucket, tmp_path: Path) -> None:
    """Which is not the same as none."""
    assert manifest(bucket) is None

    assert saved(bucket, tmp_path / "nothing") == []

    assert manifest(bucket) == []


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
    assert bucket.get(AT + "inside") == b"B" * 100_000
    assert not list(bucket.listing(AT + "out")) and not list(bucket.listing(AT + "way"))


def test_the_manifest_comes_last(bucket: Bucket, source: Path, way: Way) -> None:
    """Whoever reads it finds all that it lists."""
    saved(bucket, source)

    puts = [call.path for call in way.calls if call.method == "PUT"]
    assert len(puts) == 3
    assert puts[-1].endswith("/.runspec/manifest.json")


def test_nothing_is_saved_twice(bucket: Bucket, source: Path, way: Way) -> None:
    """What is there already costs no request but one, by another attempt too."""
    saved(bucket, source)
    way.calls.clear()

    assert saved(bucket, source) == []

    assert [call.method for call in way.calls] == ["GET"]


def test_what_has_changed_is_saved_again(bucket: Bucket, source: Path) -> None:
    """By its time, where the size is the same; what has gone stays."""
    saver = opened(bucket, source)
    saver.once(saver.outputs[0])
    os.utime(source / "a", ns=(1, 1))
    (source / "a").write_text("Z")
    (source / "deep/er/b").unlink()

    assert saver.finish() == []

    assert bucket.get(AT + "a") == b"Z"
    assert listed(bucket) == ["a", "deep/er/b"]


def test_two_writes_in_one_tick_of_the_clock_are_both_seen(
    bucket: Bucket, source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file is left alone until its time says something."""
    monkeypatch.setattr(module, "CLOCK_TICK_S", 0.2)
    real = file_digest
    began = time.time()
    os.utime(source / "deep/er/b", (1, 1))
    ages: list[float] = []

    def digest(path: str) -> Any:
        ages.append(time.time() - os.stat(path).st_mtime)
        return real(path)

    monkeypatch.setattr(module, "file_digest", digest)
    os.utime(source / "a", (began, began))

    saved(bucket, source)

    assert min(ages) >= 0.2


def changing(monkeypatch: pytest.MonkeyPatch, change: Callable[[], object]) -> None:
    """Have *change* happen once, between the checksum and the upload."""
    real = file_digest

    def digest(path: str) -> Any:
        found = real(path)
        if path.endswith("/a"):
            monkeypatch.setattr(module, "file_digest", real)
            change()
        return found

    monkeypatch.setattr(module, "file_digest", digest)


@pytest.mark.parametrize("now", ["", "B", "longer"])
def test_a_file_that_changes_while_it_is_read_waits_for_the_next_pass(
    bucket: Bucket, source: Path, monkeypatch: pytest.MonkeyPatch, now: str
) -> None:
    """It is named until then, and in no manifest."""
    saver = opened(bucket, source)
    os.utime(source / "a", (1, 1))
    changing(monkeypatch, lambda: (source / "a").write_text(now))

    assert saver.once(saver.outputs[0]) == ["a: it changed while it was read"]
    assert listed(bucket) == ["deep/er/b"]

    assert saver.once(saver.outputs[0]) == []
    assert (listed(bucket), bucket.get(AT + "a")) == (["a", "deep/er/b"], now.encode())


def test_a_file_that_goes_while_it_is_read_is_not_missed(
    bucket: Bucket, source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There is nothing to save."""
    changing(monkeypatch, (source / "a").unlink)

    assert saved(bucket, source) == []

    assert listed(bucket) == ["deep/er/b"]


def test_a_folder_that_became_a_file_is_listed_as_one(bucket: Bucket, source: Path) -> None:
    """And a file that became a folder: whoever fetches them could not have both."""
    saver = opened(bucket, source)
    saver.once(saver.outputs[0])
    (source / "a").unlink()
    (source / "a").mkdir()
    (source / "a/x").write_text("X")
    shutil.rmtree(source / "deep")
    (source / "deep").write_text("D")

    assert saver.finish() == []

    assert listed(bucket) == ["a/x", "deep"]


def test_a_name_that_is_ours_is_told(bucket: Bucket, source: Path) -> None:
    """Whoever fetches it would have it in the way."""
    (source / ".runspec").write_text("x")

    assert saved(bucket, source) == ["output 'model': .runspec: this name is taken"]


# A store that fails


@pytest.mark.parametrize("part", ["/a", "/b", "manifest.json"])
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
        saver.once(saver.outputs[0])

    assert saver.once(saver.outputs[0]) == []

    assert listed(bucket) == ["a", "deep/er/b"]


def test_what_cannot_be_saved_is_named(bucket: Bucket, source: Path, way: Way) -> None:
    """With the reason; the rest is saved and listed."""
    way.breaks("403", "PUT", "er/b", times=100)

    left = saved(bucket, source)

    key = AT + "deep/er/b"
    assert left == [f"output 'model': deep/er/b: the store refuses {key}: 403 Told"]
    assert listed(bucket) == ["a"]


def test_a_manifest_that_cannot_be_written_is_named(bucket: Bucket, source: Path, way: Way) -> None:
    """It is the manifest that makes an output."""
    way.breaks("403", "PUT", "manifest", times=100)

    left = saved(bucket, source)

    assert len(left) == 1 and "manifest.json: 403 Told" in left[0]


@pytest.mark.parametrize("kind", ["503", "reset"])
def test_an_upload_that_breaks_off_is_in_no_manifest(
    bucket: Bucket, source: Path, way: Way, kind: str
) -> None:
    """What was there before stays listed with what belongs to it."""
    saver = opened(bucket, source)
    saver.once(saver.outputs[0])
    before = manifest(bucket)
    (source / "a").write_text("longer")
    (source / "c").write_text("new")
    way.breaks(kind, "PUT", "", times=100)

    assert len(saver.once(saver.outputs[0])) == 2

    way.mend()
    assert manifest(bucket) == before


# While the job runs


def test_it_is_saved_while_the_job_writes(bucket: Bucket, source: Path) -> None:
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


# The next attempt


def test_a_later_attempt_finds_what_was_saved(
    bucket: Bucket, source: Path, tmp_path: Path, way: Way
) -> None:
    """Bytes and times; and it does not save them once more."""
    os.utime(source / "a", ns=(123_456_789, 987_654_321))
    saved(bucket, source)
    back = tmp_path / "back"

    restore(bucket, AT, str(back))

    assert tree(back) == tree(source)
    times = [(back / p).stat().st_mtime_ns == (source / p).stat().st_mtime_ns for p in tree(back)]
    assert times == [True, True]
    way.calls.clear()
    assert saved(bucket, back) == []
    assert way.count("PUT") == 0


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

    restore(bucket, AT, str(tmp_path / "back"))

    assert tree(tmp_path / "back") == tree(source)


def test_there_may_be_nothing_to_find(bucket: Bucket, tmp_path: Path) -> None:
    """The machine went before anything was saved."""
    restore(bucket, AT, str(tmp_path / "back"))

    assert not (tmp_path / "back").exists()


def test_what_was_saved_but_not_listed_is_listed_anew(
    bucket: Bucket, source: Path, tmp_path: Path
) -> None:
    """The machine went between the two: the checksum of the manifest is that of older bytes."""
    saved(bucket, source)
    bucket.put(AT + "a", b"Z")
    back = tmp_path / "back"

    restore(bucket, AT, str(back))
    saved(bucket, back)

    assert bucket.get(AT + "a") == b"Z"
    found = {entry["path"]: entry["sha256"] for entry in manifest(bucket) or []}
    assert found["a"] == hashlib.sha256(b"Z").hexdigest()
