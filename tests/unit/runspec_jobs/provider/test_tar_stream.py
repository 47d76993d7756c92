"""Folders as tars, made while they are sent."""

from __future__ import annotations

import io
import os
import tarfile
from pathlib import Path

import pytest

from runspec_jobs.errors import Conflict
from runspec_jobs.load.bundle import bundle
from runspec_jobs.provider.tar_stream import BLOCK_BYTES, blocks, pieces as tar

LARGE = os.urandom(2 * BLOCK_BYTES + 1)
FILES = {"run.sh": b"#!/bin/sh\n", "empty": b"", "deep/large": LARGE, "deep/é" + "x" * 150: b"a"}


def folder(at: Path) -> Path:
    for name, content in FILES.items():
        (at / name).parent.mkdir(parents=True, exist_ok=True)
        (at / name).write_bytes(content)
    (at / "run.sh").chmod(0o700)
    return at


def test_a_tar_holds_every_file_with_its_content_and_executable_bit(tmp_path: Path) -> None:
    content = b"".join(tar(bundle(folder(tmp_path))))

    with tarfile.open(fileobj=io.BytesIO(content)) as archive:
        opened = {m.name: archive.extractfile(m) for m in archive.getmembers()}
        found = {name: file.read() for name, file in opened.items() if file}
        modes = {m.name: m.mode for m in archive.getmembers()}
    assert found == FILES
    assert modes.pop("run.sh") == 0o755
    assert set(modes.values()) == {0o644}
    assert len(content) % tarfile.RECORDSIZE == 0


def test_equal_folders_make_equal_tars(tmp_path: Path) -> None:
    first, second = folder(tmp_path / "a"), folder(tmp_path / "b")
    os.utime(second / "run.sh", (0, 0))

    assert list(tar(bundle(first))) == list(tar(bundle(second)))


def test_blocks_are_the_pieces_in_order_and_tell_how_far_they_are() -> None:
    pieces, told = [b"ab" * 200_000, b"c"] * 5 + [LARGE, b"d"], list[tuple[int, int]]()
    whole = sum(map(len, pieces))

    found = list(blocks(iter(pieces), lambda done, of: told.append((done, of)), whole))

    assert b"".join(found) == b"".join(pieces)
    assert [len(block) for block in found] == [800_002, 800_002, 400_001, len(LARGE), 1]
    assert told[-1] == (whole, whole)
    assert told == sorted(told)


def test_a_file_that_changes_while_it_is_sent_ends_thetar(tmp_path: Path) -> None:
    hashed = bundle(folder(tmp_path))
    (tmp_path / "deep" / "large").write_bytes(LARGE[::-1])

    with pytest.raises(Conflict, match="changed while it was uploaded"):
        list(tar(hashed))
