"""What a job reads: whole, and nothing outside of its folder."""

from __future__ import annotations

import io
import os
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from runspec_inside import inputs
from runspec_inside.bucket import Bucket
from runspec_inside.words import LOST, USAGE, Failure
from tests.unit.runspec_inside.stores import Way

Change = Callable[[tarfile.TarInfo], None]


def tar(files: dict[str, bytes], change: Change | None = None) -> bytes:
    """Make a tar as bundles are: the last member is changed by *change*."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name, content in files.items():
            info = tarfile.TarInfo(name)
            info.size, info.mode = len(content), 0o755 if name.endswith(".sh") else 0o644
            if change is not None and name == list(files)[-1]:
                change(info)
            archive.addfile(info, io.BytesIO(content) if info.size else None)
    return buffer.getvalue()


def got(bucket: Bucket, content: bytes, path: Path) -> Path:
    bucket.put("blobs/x.tar", content)
    inputs.get(bucket, {"kind": "tar", "key": "blobs/x.tar"}, str(path))
    return path


def tree(folder: Path) -> dict[str, bytes]:
    return {str(f.relative_to(folder)): f.read_bytes() for f in folder.rglob("*") if f.is_file()}


FILES = {
    "a": b"A",
    "deep/er/b.sh": os.urandom(30_000),
    "é 日+": b"",
    "l" * 90 + "/" + "o" * 150: b"x",
}


def test_a_folder_comes_back(bucket: Bucket, tmp_path: Path) -> None:
    """Bytes, odd and long names, and who may be run."""
    folder = got(bucket, tar(FILES), tmp_path / "in/code")

    assert tree(folder) == FILES
    assert os.access(folder / "deep/er/b.sh", os.X_OK)
    assert not (folder / "a").stat().st_mode & 0o111


def test_a_folder_may_be_empty(bucket: Bucket, tmp_path: Path) -> None:
    """It is there all the same."""
    assert list(got(bucket, tar({}), tmp_path / "in").iterdir()) == []


def named(name: str) -> Change:
    return lambda info: setattr(info, "name", name)


def kind(what: bytes) -> Change:
    def change(info: tarfile.TarInfo) -> None:
        info.type, info.linkname, info.size = what, "/etc/passwd", 0

    return change


@pytest.mark.parametrize(
    "change",
    [
        named("../out"),
        named("a/../../out"),
        named("/tmp/out"),
        kind(tarfile.SYMTYPE),
        kind(tarfile.LNKTYPE),
        kind(tarfile.CHRTYPE),
        kind(tarfile.FIFOTYPE),
        kind(tarfile.DIRTYPE),
    ],
)
def test_what_is_not_a_plain_file_is_refused(
    bucket: Bucket, tmp_path: Path, change: Change
) -> None:
    """Nothing gets out of the folder."""
    with pytest.raises(Failure, match="has no place in a folder of ours") as failure:
        got(bucket, tar({"a": b"A", "last": b"L"}, change), tmp_path / "in")

    assert failure.value.code == USAGE
    assert tree(tmp_path) == {"in/a": b"A"}
    assert not (tmp_path / "in/last").is_symlink()


SHORT = tar({"a": b"A" * 512, "b": b"B" * 512})


@pytest.mark.parametrize("size", [0, 1, 511, 512, 700, 1024, 1100, 1536, 2048, len(SHORT) - 1])
def test_a_tar_that_is_cut_may_be_tried_again(
    bucket: Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    """Anywhere: tarfile takes one that ends between two files for a whole one."""

    class Cut(io.BytesIO):
        headers = {"Content-Length": str(len(SHORT))}  # noqa: RUF012

    monkeypatch.setattr(bucket, "opened", lambda key: Cut(SHORT[:size]))

    with pytest.raises(Failure, match=r"blobs/x\.tar came only in part") as failure:
        got(bucket, b"", tmp_path / "in")

    assert failure.value.code == LOST


def test_a_connection_that_breaks_may_be_tried_again(
    bucket: Bucket, way: Way, tmp_path: Path
) -> None:
    """Exit 75, by the real way."""
    way.breaks("cut", "GET", "x.tar")

    with pytest.raises(Failure, match="came only in part") as failure:
        got(bucket, tar({str(n): os.urandom(2000) for n in range(50)}), tmp_path / "in")

    assert failure.value.code == LOST


def test_a_tar_that_is_not_there_is_a_failure(bucket: Bucket, tmp_path: Path) -> None:
    """It has been cleaned away."""
    with pytest.raises(Failure, match=r"the store refuses blobs/y\.tar: 404 NoSuchKey"):
        inputs.get(bucket, {"kind": "tar", "key": "blobs/y.tar"}, str(tmp_path / "in"))


# A prefix of the store


def copied(bucket: Bucket, path: Path) -> Path:
    inputs.get(bucket, {"kind": "prefix", "key": "store/data/"}, str(path))
    return path


def test_all_under_a_prefix_is_copied(bucket: Bucket, tmp_path: Path) -> None:
    """Many, deep, with odd names; markers of folders and neighbours are not."""
    files = {f"deep/{n % 7}/{n}": b"%d" % n for n in range(60)} | {"é +\n&": b"odd", "a": b""}
    for name, content in files.items():
        bucket.put("store/data/" + name, content)
    bucket.put("store/data/folder/", b"")
    bucket.put("store/data-2/x", b"neighbour")

    assert tree(copied(bucket, tmp_path / "in")) == files


def test_a_prefix_with_nothing_is_a_mistake(bucket: Bucket, tmp_path: Path) -> None:
    """Of the user's."""
    with pytest.raises(Failure, match="there is nothing at store/data/") as failure:
        copied(bucket, tmp_path / "in")

    assert failure.value.code == USAGE


@pytest.mark.parametrize("name", ["a//b", "a/../b", "../b"])
def test_a_key_that_cannot_be_a_file_is_refused(bucket: Bucket, tmp_path: Path, name: str) -> None:
    """Nothing gets out of the folder."""
    bucket.put("store/data/" + name, b"x")

    with pytest.raises(Failure, match="cannot be a file") as failure:
        copied(bucket, tmp_path / "in")

    assert failure.value.code == USAGE
    assert tree(tmp_path) == {}


def test_a_busy_store_is_asked_again_for_each(bucket: Bucket, way: Way, tmp_path: Path) -> None:
    """And for what came only in part."""
    for n in range(5):
        bucket.put(f"store/data/{n}", os.urandom(1000))
    way.breaks("503", "GET", "data/", times=3)
    way.breaks("cut", "GET", "data/3")

    assert {len(content) for content in tree(copied(bucket, tmp_path / "in")).values()} == {1000}


# A shared file system


def test_a_shared_folder_is_shown_at_its_place(tmp_path: Path) -> None:
    """It is made where it is not there yet, and what was there stays; twice is once."""
    for _ in range(2):
        inputs.link(str(tmp_path / "shared/x"), str(tmp_path / "a/b"))
        (tmp_path / "a/b/file").write_text("x")

    assert (tmp_path / "shared/x/file").read_text() == "x"


def test_an_empty_folder_of_the_image_gives_way(tmp_path: Path) -> None:
    """Images make /data for just that."""
    (tmp_path / "data").mkdir()

    inputs.link(str(tmp_path / "shared"), str(tmp_path / "data"))

    assert (tmp_path / "data").is_symlink()


def test_a_folder_with_something_in_it_stays(tmp_path: Path) -> None:
    """And is an error."""
    (tmp_path / "data").mkdir()
    (tmp_path / "data/own").write_text("x")

    with pytest.raises(OSError, match="not empty"):
        inputs.link(str(tmp_path / "shared"), str(tmp_path / "data"))
