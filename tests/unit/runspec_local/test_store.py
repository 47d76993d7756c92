"""A folder is put there whole or not at all, whoever else does the same or has died of it."""

from __future__ import annotations

import io
import stat
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

from runspec_jobs.provider import File
from runspec_local.store import is_whole, put, remove


class OneFile:
    """A bundle with one file; *meanwhile* is called while it is being copied."""

    digest = "d1"

    def __init__(self, meanwhile: Callable[[], None] = lambda: None) -> None:
        self.meanwhile = meanwhile
        self.files = (File("a.txt", 5, False, "unused"),)

    def open(self, file: File) -> BinaryIO:
        self.meanwhile()
        return io.BytesIO(b"hello")


def quiet(done: int, whole: int) -> None:
    """Nobody is told how far it is."""


def test_two_that_put_the_same_folder_at_once_are_both_right(tmp_path: Path) -> None:
    there = tmp_path / "blobs" / "d1"

    put(OneFile(meanwhile=lambda: put(OneFile(), there, quiet)), there, quiet)

    assert (there / "a.txt").read_bytes() == b"hello"
    assert [path.name for path in there.parent.iterdir()] == ["d1"]


def test_unfinished_folders_of_dead_processes_are_removed(tmp_path: Path) -> None:
    there = tmp_path / "blobs" / "d1"
    left = there.with_name(".new-d1-0badf00d")
    left.mkdir(parents=True)
    (left / "a.txt").write_bytes(b"hel")

    put(OneFile(), there, quiet)

    assert [path.name for path in there.parent.iterdir()] == ["d1"]


def test_stored_folders_are_read_only(tmp_path: Path) -> None:
    """Other runs read the same folder."""
    there = tmp_path / "blobs" / "d1"

    put(OneFile(), there, quiet)

    assert (there / "a.txt").stat().st_mtime == 315532800  # zip knows no earlier date
    modes = [stat.S_IMODE(p.stat().st_mode) for p in (there.parent, there, there / "a.txt")]
    assert modes == [0o700, 0o555, 0o444]


def test_remove_also_deletes_half_removed_folders(tmp_path: Path) -> None:
    there = tmp_path / "d1"
    put(OneFile(), there, quiet)
    there.with_name(".gone-d1").mkdir()

    remove(there)
    remove(there)

    assert not is_whole(there)
    assert list(tmp_path.iterdir()) == []
