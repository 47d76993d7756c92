"""Saving outputs: a file at the target is whole or not there, whatever happens in between."""

from __future__ import annotations

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

from runspec_agent.base.failure import DISK_FULL, Failure, NoSpace
from runspec_agent.store.folder import FolderBucket
from runspec_agent.store.manifest import MANIFEST, OBJECTS, parsed
from runspec_agent.transfer import folder_sync
from runspec_jobs.provider.payload import pack_agent


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


def kept(target: Path) -> dict[str, bytes]:
    """Give what counts."""
    found = target / MANIFEST
    listed = parsed(found.read_bytes() if found.exists() else None, MANIFEST).files
    return {name: (target / OBJECTS / entry.object).read_bytes() for name, entry in listed.items()}


def saved(source: Path, target: Path) -> int:
    """Save in one go; give the exit status."""
    return folder_sync.main(["--once", str(source), str(target)])


@pytest.mark.parametrize(
    ("patterns", "names"),
    [
        ({}, {"a", "deep/er/b", "deep/c.tmp"}),
        ({"include": ["b", "c*"]}, {"deep/er/b", "deep/c.tmp"}),
        ({"include": ["deep/*"], "exclude": ["*.tmp"]}, {"deep/er/b"}),
        ({"exclude": ["deep/er/*", "a"]}, {"deep/c.tmp"}),
        ({"include": ["er"]}, set()),
        ({"include": ["**/a", "deep/**/c.tmp"]}, {"a", "deep/c.tmp"}),
        ({"include": ["**/b"]}, {"deep/er/b"}),
    ],
)
def test_files_that_the_patterns_leave_out_are_not_saved(
    source: Path,
    target: Path,
    monkeypatch: pytest.MonkeyPatch,
    patterns: dict[str, list[str]],
    names: set[str],
) -> None:
    """A pattern without a slash is that of a name in any folder, and one with a slash that of a path."""
    (source / "deep/c.tmp").write_text("C")
    monkeypatch.setenv(folder_sync.FILES, json.dumps(patterns))

    assert saved(source, target) == 0

    assert kept(target).keys() == tree(target).keys() == names


@pytest.mark.parametrize(
    ("patterns", "links"),
    [
        ({"include": ["best", "other"]}, {"best": "", "other": ""}),
        ({"exclude": ["latest"]}, {"best": "deep/er/b", "other": ""}),
        ({}, {"best": "deep/er/b", "other": "latest/b"}),
    ],
)
def test_a_link_to_a_file_that_the_patterns_leave_out_is_saved_as_a_file(
    source: Path,
    target: Path,
    monkeypatch: pytest.MonkeyPatch,
    patterns: dict[str, list[str]],
    links: dict[str, str],
) -> None:
    (source / "latest").symlink_to("deep/er")
    (source / "best").symlink_to("deep/er/b")
    (source / "other").symlink_to("latest/b")
    monkeypatch.setenv(folder_sync.FILES, json.dumps(patterns))

    assert saved(source, target) == 0

    files = parsed((target / MANIFEST).read_bytes(), MANIFEST).files
    assert {name: files[name].link for name in links} == links
    assert kept(target)["best"] == (source / "deep/er/b").read_bytes()


@pytest.mark.parametrize(
    ("patterns", "links", "lost"),
    [
        ({"include": ["*.pt"]}, {"latest": "deep/er", "again": "deep/er"}, {"data"}),
        ({"include": ["latest/*"]}, {"latest": "deep/er", "again": "deep/er"}, {"data"}),
        ({"include": ["*.pt"], "exclude": ["latest", "data"]}, {"again": "deep/er"}, set()),
        ({}, {"latest": "deep/er", "again": "latest"}, {"data"}),
    ],
)
def test_a_link_to_a_folder_is_saved_with_the_files_that_the_patterns_take(
    source: Path,
    target: Path,
    monkeypatch: pytest.MonkeyPatch,
    patterns: dict[str, list[str]],
    links: dict[str, str],
    lost: set[str],
) -> None:
    """Unless `exclude` has it. A pattern with a slash may lead through it."""
    (source / "deep/er/new.pt").write_text("new")
    (source / "latest").symlink_to("deep/er")
    (source / "again").symlink_to("latest")
    (source / "data").symlink_to(target.parent)
    monkeypatch.setenv(folder_sync.FILES, json.dumps(patterns))

    assert saved(source, target) == 0

    manifest = parsed((target / MANIFEST).read_bytes(), MANIFEST)
    assert {name: link.target for name, link in manifest.shape.links.items()} == links
    assert manifest.shape.lost.keys() == lost
    assert "deep/er/new.pt" in manifest.files
    assert "a" not in manifest.files or not patterns


def test_times_that_no_manifest_can_have_become_the_nearest(source: Path, target: Path) -> None:
    """File systems know times after 2262, which nanoseconds in 64 bits do not."""
    late_s = 2**34
    for path in (source / "a", source / "deep/er/b", source / "deep/er", source / "deep"):
        os.utime(path, (late_s, late_s))
    if (source / "a").stat().st_mtime_ns < 2**63:
        pytest.skip("this file system knows no such time")

    assert saved(source, target) == 0

    manifest = parsed((target / MANIFEST).read_bytes(), MANIFEST)
    assert {entry.mtime_ns for entry in manifest.files.values()} == {2**63 - 1}
    assert {folder.mtime_ns for folder in manifest.shape.folders.values()} == {2**63 - 1}


def test_a_link_in_place_of_the_output_is_not_followed(source: Path, target: Path) -> None:
    """As in a store: what it leads to is no output of the job."""
    other = source.with_name("other")
    source.rename(other)
    source.symlink_to(other)

    with pytest.raises(Failure, match="it has become a link to another place"):
        saved(source, target)

    assert kept(target) == {}


def test_everything_is_saved_and_has_its_plain_name_in_the_end(source: Path, target: Path) -> None:
    assert saved(source, target) == 0

    assert kept(target) == tree(target) == tree(source)
    assert (target / "a").stat().st_nlink == 2  # it takes no room of its own


@pytest.mark.parametrize("name", [b"\xff", b"a\nb", b" ", "日".encode()])
def test_file_names_that_are_not_utf8_are_saved(source: Path, target: Path, name: bytes) -> None:
    (source / os.fsdecode(name)).write_text("x")

    assert saved(source, target) == 0

    assert tree(target) == tree(source)


def test_a_link_by_the_path_in_the_container_leads_into_the_output(
    source: Path, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RUNSPEC_KNOWN_AS", "/job/model")
    (source / "latest").symlink_to("/job/model/deep")
    (source / "other").symlink_to("/job/models/deep")

    assert saved(source, target) == 0

    shape = parsed((target / MANIFEST).read_bytes(), MANIFEST).shape
    assert {name: link.target for name, link in shape.links.items()} == {"latest": "/deep"}
    assert shape.lost == {"other": "a link to /job/models/deep, outside of the output"}


def test_as_many_saves_stay_as_are_asked_for(source: Path, target: Path) -> None:
    for text in "123":
        (source / "a").write_text(text)
        assert folder_sync.main(["--once", "--keep", "2", str(source), str(target)]) == 0

    saves = parsed((target / MANIFEST).read_bytes(), MANIFEST).saves
    assert [(target / OBJECTS / save.files["a"].object).read_text() for save in saves] == ["2", "3"]


@pytest.mark.parametrize(
    "words",
    [[], ["--every"], ["--every", "x", "a", "b"], ["--once", "a"], ["--once", "--keep", "a", "b"]],
)
def test_unknown_arguments_are_refused(words: list[str]) -> None:
    with pytest.raises(Failure, match="usage: sync"):
        folder_sync.main(words)


@pytest.mark.parametrize("inner", ["", "deep"])
def test_folders_within_each_other_are_refused(source: Path, inner: str) -> None:
    """A copy would be copied."""
    with pytest.raises(Failure, match="is inside the other"):
        saved(source, source / inner)


DYING = ("open", "mkdir", "rename", "fsync", "link", "utime", "rmdir", "unlink")


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
            saved(source, target)
        finally:
            os._exit(0)
    return os.waitpid(child, 0)[1] == signal.SIGKILL


@pytest.mark.slow
@pytest.mark.parametrize("fresh", [True, False])
def test_a_kill_at_any_moment_leaves_one_save(
    source: Path, target: Path, tmp_path: Path, fresh: bool
) -> None:
    """Each call that changes the disk is the last one once; the next pass puts everything right.

    *fresh*: each time from the save before; else from where the last one was killed.
    """
    old = tmp_path / "old"
    shutil.copytree(source, old)
    (old / "a").write_text("old")
    (old / "deep/er/b").write_text("old, too")
    assert saved(old, target) == 0
    shutil.copytree(target, tmp_path / "before")
    died = 0
    while True:
        if fresh:
            shutil.rmtree(target)
            shutil.copytree(tmp_path / "before", target)
        if not killed_before(died, source, target):
            break
        died += 1
        assert kept(target) in (tree(old), tree(source))

    assert died > (10 if fresh else 0)
    assert kept(target) == tree(target) == tree(source)
    assert saved(source, target) == 0
    there = {path.name for path in (target / OBJECTS).iterdir()}
    assert there == parsed((target / MANIFEST).read_bytes(), MANIFEST).objects


@pytest.mark.process
def test_saving_goes_on_until_sigterm_and_then_once_more(
    source: Path, target: Path, tmp_path: Path
) -> None:
    """What the job writes at its end is saved, too."""
    (tmp_path / "inside.pyz").write_bytes(pack_agent())
    command = [sys.executable, "-IS", str(tmp_path / "inside.pyz"), "sync", "--every"]
    child = subprocess.Popen([*command, "0.1", str(source), str(target)])
    until = time.monotonic() + 60
    while not (target / ".runspec/manifest.json").exists():
        assert time.monotonic() < until
        time.sleep(0.01)
    (source / "last").write_text("last")

    child.send_signal(signal.SIGTERM)

    assert child.wait(60) == 0
    assert (target / "last").read_text() == "last"


@pytest.mark.process
def test_once_says_what_is_not_saved(source: Path, target: Path, tmp_path: Path) -> None:
    """Exit 1 and a line for each, and 0 if it is nothing that could be saved."""
    (tmp_path / "inside.pyz").write_bytes(pack_agent())
    (source / ".runspec").write_text("a name that is ours at the target")
    command = [sys.executable, "-IS", str(tmp_path / "inside.pyz"), "sync", "--once"]

    done = subprocess.run([*command, str(source), str(target)], capture_output=True, text=True)

    said = "not saved, as it cannot be: .runspec: runspec itself uses this name"
    assert done.returncode == 0
    assert done.stderr == f"runspec: output '{target}': {said}\n"
    shutil.rmtree(source)
    source.write_text("no folder")

    done = subprocess.run([*command, str(source), str(target)], capture_output=True, text=True)

    assert done.returncode == 1
    assert f"runspec: sync: output '{target}': {source}: Not a directory\n" in done.stderr


@pytest.mark.parametrize(
    "error, code",
    [
        (Failure("b: No space left on device"), 1),
        (NoSpace("the store refuses b"), DISK_FULL),
    ],
)
def test_a_save_that_fails_returns_the_code_of_its_error_and_publishes_nothing(
    source: Path,
    target: Path,
    error: Failure,
    code: int,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def refuse(*_: Any) -> None:
        raise error

    monkeypatch.setattr(FolderBucket, "put_file", refuse)

    assert saved(source, target) == code

    assert str(error) in capsys.readouterr().err
    assert tree(target) == {}


def test_a_pattern_of_exclude_may_lead_through_a_link_to_a_folder_too(
    source: Path, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (source / "deep/er/new.tmp").write_text("new")
    (source / "latest").symlink_to("deep/er")
    monkeypatch.setenv(
        folder_sync.FILES, json.dumps({"include": ["latest/*"], "exclude": ["latest/*.tmp"]})
    )

    assert saved(source, target) == 0

    assert parsed((target / MANIFEST).read_bytes(), MANIFEST).files.keys() == {"deep/er/b"}
