"""Saving outputs: a file at the target is whole or not there, whatever happens in between."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from runspec_inside import sync
from runspec_inside.pack import zipapp_bytes
from runspec_inside.sync import Sync
from runspec_inside.words import Failure


@pytest.fixture
def source(tmp_path: Path) -> Path:
    folder = tmp_path / "source"
    (folder / "deep/er").mkdir(parents=True)
    (folder / "a").write_text("A")
    (folder / "deep/er/b").write_bytes(b"B" * 3_000_000)
    return folder


@pytest.fixture
def target(tmp_path: Path) -> Path:
    return tmp_path / "target"


def tree(folder: Path) -> dict[str, bytes]:
    """Give what a reader finds: the contents of all files but ours."""
    files = [f for f in folder.rglob("*") if f.is_file() and ".runspec" not in f.parts]
    return {str(f.relative_to(folder)): f.read_bytes() for f in files}


def manifest(target: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads((target / ".runspec/manifest.json").read_text())[
        "files"
    ]
    return found


def saved(source: Path, target: Path) -> tuple[str, ...]:
    """Save with a Sync that knows only what lies at the target."""
    return Sync(str(source), str(target)).once().copied


def test_everything_new_is_saved(source: Path, target: Path) -> None:
    """With its mode and time."""
    (source / "a").chmod(0o750)

    assert saved(source, target) == ("a", "deep/er/b")

    assert tree(target) == tree(source)
    kept, given = (target / "a").stat(), (source / "a").stat()
    assert (kept.st_mode, kept.st_mtime_ns) == (given.st_mode, given.st_mtime_ns)


def test_the_manifest_lists_what_is_there(source: Path, target: Path) -> None:
    """Path, size and sha256 of every file, in order."""
    saved(source, target)

    expected = [
        (name, len(content), hashlib.sha256(content).hexdigest())
        for name, content in sorted(tree(source).items())
    ]
    assert [(e["path"], e["size"], e["sha256"]) for e in manifest(target)] == expected


def test_nothing_is_saved_twice(source: Path, target: Path) -> None:
    """Not even by another process: what is known lies at the target."""
    saved(source, target)

    assert saved(source, target) == ()


def test_what_has_changed_is_saved_again(source: Path, target: Path) -> None:
    """By size or by time, and what has gone from the target."""
    saved(source, target)
    (source / "a").write_text("Z")
    (target / "deep/er/b").unlink()

    assert saved(source, target) == ("a", "deep/er/b")

    assert tree(target) == tree(source)


def test_what_is_deleted_at_the_source_stays_at_the_target(source: Path, target: Path) -> None:
    """And in the manifest."""
    saved(source, target)
    (source / "a").unlink()
    (source / "c").write_text("C")

    saved(source, target)

    assert sorted(tree(target)) == ["a", "c", "deep/er/b"]
    assert [entry["path"] for entry in manifest(target)] == ["a", "c", "deep/er/b"]


def test_a_file_that_changes_while_it_is_read_waits_for_the_next_pass(
    source: Path, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is never there in part; what was there before stays until then."""
    saved(source, target)
    (source / "a").write_text("A2")
    real = sync._copy

    def copy(stream: Any, part: str) -> Any:
        done = real(stream, part)
        (source / "a").write_text("A2 and more")
        return done

    one = Sync(str(source), str(target))
    with monkeypatch.context() as patch:
        patch.setattr(sync, "_copy", copy)
        report = one.once()
    assert (report.copied, report.left) == ((), ("a: it changed while it was read",))
    assert (target / "a").read_text() == "A"

    assert one.once().copied == ("a",)

    assert (target / "a").read_text() == "A2 and more"


def test_only_files_of_the_folder_are_read(source: Path, target: Path, tmp_path: Path) -> None:
    """Links inside it are; what leads out, hangs or loops is not."""
    (tmp_path / "secret").write_text("secret")
    (source / "inside").symlink_to("deep/er/b")
    (source / "outside").symlink_to(tmp_path / "secret")
    (source / "nowhere").symlink_to("not-there")
    (source / "loop").symlink_to("loop")
    (source / "folder").symlink_to("deep")
    os.mkfifo(source / "fifo")

    assert saved(source, target) == ("a", "inside", "deep/er/b")

    assert not (target / "inside").is_symlink()


@pytest.mark.parametrize("name", [b"\xff\xfe", "é".encode(), b"new\nline", b"-n", b"manifest.json"])
def test_names_are_bytes(source: Path, target: Path, name: bytes) -> None:
    """Whatever the job calls its files."""
    (source / os.fsdecode(name)).write_text("x")

    assert os.fsdecode(name) in saved(source, target)
    assert saved(source, target) == ()

    assert name in os.listdir(os.fsencode(target))


def test_a_file_that_cannot_be_saved_does_not_stop_the_others(source: Path, target: Path) -> None:
    """It is named, with the reason."""
    (source / ".runspec").write_text("a name that is ours at the target")

    report = Sync(str(source), str(target)).once()

    assert report.copied == ("a", "deep/er/b")
    assert report.left == (".runspec: this name is taken",)


def test_a_folder_that_became_a_file_is_saved_as_one(source: Path, target: Path) -> None:
    """And a file that became a folder; what they were is no longer in the manifest."""
    saved(source, target)
    (source / "a").unlink()
    (source / "a").mkdir()
    (source / "a/x").write_text("X")
    shutil.rmtree(source / "deep")
    (source / "deep").write_text("D")

    report = Sync(str(source), str(target)).once()

    assert (report.copied, report.left) == (("deep", "a/x"), ())
    assert tree(target) == {"a/x": b"X", "deep": b"D"}
    assert [entry["path"] for entry in manifest(target)] == ["a/x", "deep"]


def test_an_output_that_was_never_written_is_empty(tmp_path: Path, target: Path) -> None:
    """Not an error."""
    assert saved(tmp_path / "nothing", target) == ()

    assert manifest(target) == []


@pytest.mark.parametrize("inner", ["", "deep"])
def test_folders_within_each_other_are_refused(source: Path, inner: str) -> None:
    """A copy would be copied."""
    with pytest.raises(Failure, match="lie in each other"):
        Sync(str(source), str(source / inner))


DYING = ("open", "mkdir", "rename", "fsync", "chmod", "utime", "rmdir", "unlink")


def killed_before(call: int, source: Path, target: Path) -> bool:
    """Save in a process that is killed before it changes the disk for the *call*-th time."""
    child = os.fork()
    if child == 0:
        left = [call]

        def dying(real: Any) -> Any:
            def function(*args: Any, **kwargs: Any) -> Any:
                left[0] -= 1
                if left[0] < 0:
                    os.kill(os.getpid(), signal.SIGKILL)
                return real(*args, **kwargs)

            return function

        for name in DYING:
            setattr(os, name, dying(getattr(os, name)))
        try:
            Sync(str(source), str(target)).once()
        finally:
            os._exit(0)
    return os.waitpid(child, 0)[1] == signal.SIGKILL


@pytest.mark.slow
@pytest.mark.parametrize("fresh", [True, False])
def test_a_kill_at_any_moment_leaves_whole_files(source: Path, target: Path, fresh: bool) -> None:
    """Each call that changes the disk is the last one once; the next pass puts everything right.

    *fresh*: each time from the beginning; else from where the last one was killed.
    """
    died = 0
    while True:
        if fresh:
            shutil.rmtree(target, ignore_errors=True)
            target.mkdir()
            (target / "a").write_text("old")
        if not killed_before(died, source, target):
            break
        died += 1
        found = tree(target)
        assert found.pop("a", b"old") in (b"old", b"A")
        assert found in ({}, {"deep/er/b": b"B" * 3_000_000})
        listed = manifest(target) if (target / ".runspec/manifest.json").exists() else []
        assert {entry["path"] for entry in listed} <= set(tree(target))

    assert died > (10 if fresh else 0)
    assert tree(target) == tree(source)
    assert saved(source, target) == ()
    assert [f.name for f in (target / ".runspec").rglob("*") if f.is_file()] == ["manifest.json"]


def test_saving_goes_on_until_sigterm_and_then_once_more(
    source: Path, target: Path, tmp_path: Path
) -> None:
    """What the job writes at its end is saved, too."""
    (tmp_path / "inside.pyz").write_bytes(zipapp_bytes())
    command = [sys.executable, "-IS", str(tmp_path / "inside.pyz"), "sync", "--every"]
    child = subprocess.Popen([*command, "600", str(source), str(target)])
    until = time.monotonic() + 60
    while not (target / ".runspec/manifest.json").exists():
        assert time.monotonic() < until
        time.sleep(0.01)
    (source / "last").write_text("last")

    child.send_signal(signal.SIGTERM)

    assert child.wait(60) == 0
    assert (target / "last").read_text() == "last"


def test_once_says_what_is_not_saved(source: Path, target: Path, tmp_path: Path) -> None:
    """Exit 1 and a line for each."""
    (tmp_path / "inside.pyz").write_bytes(zipapp_bytes())
    (source / ".runspec").write_text("a name that is ours at the target")
    command = [sys.executable, "-IS", str(tmp_path / "inside.pyz"), "sync", "--once"]

    done = subprocess.run([*command, str(source), str(target)], capture_output=True, text=True)

    assert done.returncode == 1
    assert done.stderr.startswith("runspec: sync: .runspec: ")
