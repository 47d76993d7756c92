"""Folders as tars, made while they are sent."""

from __future__ import annotations

import io
import os
import tarfile
from pathlib import Path

import pytest

from runspec_jobs.errors import Conflict
from runspec_jobs.load.bundle import bundle
from runspec_jobs.provider.streams.tar_stream import (
    BLOCK_BYTES,
    Member,
    join_blocks,
    list_members,
    make_pieces as tar,
)

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
    assert modes.pop("run.sh") == 0o700
    assert set(modes.values()) == {0o644}
    assert len(content) % tarfile.RECORDSIZE == 0


def test_equal_folders_make_equal_tars(tmp_path: Path) -> None:
    first, second = folder(tmp_path / "a"), folder(tmp_path / "b")
    for one in (first, second):
        for path in one.rglob("*"):
            os.utime(path, (10**9, 10**9))

    assert list(tar(bundle(first))) == list(tar(bundle(second)))


@pytest.mark.parametrize(
    ("moment", "mode", "kept"),
    [
        (10**9, 0o755, 10**9),
        (10**9, 0o600, 10**9),
        (0, 0o644, 315532800),
        (-(10**9), 0o644, 315532800),
    ],
)
def test_a_file_keeps_its_mode_and_time_but_none_before_1980(
    tmp_path: Path, moment: int, mode: int, kept: int
) -> None:
    """No earlier date is known to zip."""
    (tmp_path / "a").write_text("a")
    (tmp_path / "a").chmod(mode)
    os.utime(tmp_path / "a", (moment, moment))

    content = b"".join(tar(bundle(tmp_path)))

    with tarfile.open(fileobj=io.BytesIO(content)) as archive:
        assert [(m.mtime, m.mode) for m in archive] == [(kept, mode)]


def test_times_and_other_modes_do_not_change_the_digest(tmp_path: Path) -> None:
    """A checkout by git, and another umask, make no new run of an unchanged spec."""
    first, second = folder(tmp_path / "a"), folder(tmp_path / "b")
    os.utime(second / "empty", (5, 5))
    (second / "empty").chmod(0o600)

    assert bundle(first).digest == bundle(second).digest


def read_back(archive: bytes) -> dict[str, Member]:
    return {m.path: m for m in list_members(lambda start, end: archive[start:end], len(archive))}


def test_a_tar_is_read_with_its_links_folders_modes_and_times(tmp_path: Path) -> None:
    out = tmp_path / "out"
    (out / "step-20/empty").mkdir(parents=True)
    (out / "step-20/step").write_text("20")
    (out / "step-20/step").chmod(0o600)
    os.utime(out / "step-20/step", (10**9, 10**9))
    os.link(out / "step-20/step", out / "hard")
    (out / "latest").symlink_to("step-20")
    (out / "step").symlink_to("latest/step")
    (out / "away").symlink_to("../../etc")
    (out / "passwd").symlink_to("/etc/passwd")
    os.mkfifo(out / "pipe")
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.GNU_FORMAT) as archive:
        archive.add(out, ".")

    found = read_back(packed.getvalue())

    assert {path: (m.kind, m.target) for path, m in found.items()} == {
        "step-20": ("folder", ""),
        "step-20/empty": ("folder", ""),
        "step-20/step": ("file", ""),
        "hard": ("file", ""),
        "latest": ("link", "step-20"),
        "step": ("file", "latest/step"),
        "away": ("lost", "a link to ../../etc, outside of the output"),
        "passwd": ("lost", "a link to /etc/passwd, outside of the output"),
        "pipe": ("lost", "it is neither a file, a folder nor a link"),
    }
    for path in ("step-20/step", "hard", "step"):
        one = found[path]
        assert packed.getvalue()[one.start : one.start + one.bytes] == b"20"
        assert (one.mode, one.mtime_ns) == (0o600, 10**18)


@pytest.mark.parametrize("mtime", [1 << 80, -(1 << 80), 9223372037])
def test_a_time_that_no_file_can_have_is_not_known(mtime: int) -> None:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w", format=tarfile.GNU_FORMAT) as archive:
        info = tarfile.TarInfo("a")
        info.mtime = mtime
        archive.addfile(info)
    content = file.getvalue()

    (found,) = list_members(lambda start, end: content[start:end], len(content))

    assert found.mtime_ns is None


def test_a_tar_with_a_negative_size_ends(tmp_path: Path) -> None:
    """Python 3.11 may read such a tar for ever: CVE-2025-8194."""
    info = tarfile.TarInfo("a")
    header = bytearray(info.tobuf(tarfile.GNU_FORMAT))
    header[124:136] = b"\xff" * 8 + (-512 & 0xFFFFFFFF).to_bytes(4, "big")
    header[148:156] = b" " * 8
    header[148:156] = b"%06o\0 " % sum(header)
    with pytest.raises(tarfile.TarError):
        read_back(bytes(header) + bytes(10240))


def test_blocks_are_the_pieces_in_order_and_tell_how_far_they_are() -> None:
    pieces, told = [b"ab" * 200_000, b"c"] * 5 + [LARGE, b"d"], list[tuple[int, int]]()
    whole = sum(map(len, pieces))

    found = list(join_blocks(iter(pieces), lambda done, of: told.append((done, of)), whole))

    assert b"".join(found) == b"".join(pieces)
    assert [len(block) for block in found] == [800_002, 800_002, 400_001, len(LARGE), 1]
    assert told[-1] == (whole, whole)
    assert told == sorted(told)


def test_a_file_that_changes_while_it_is_sent_ends_thetar(tmp_path: Path) -> None:
    hashed = bundle(folder(tmp_path))
    (tmp_path / "deep" / "large").write_bytes(LARGE[::-1])

    with pytest.raises(Conflict, match="changed while it was uploaded"):
        list(tar(hashed))
