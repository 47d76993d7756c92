"""What a job reads: whole, and nothing outside of its folder."""

from __future__ import annotations

import contextlib
import hashlib
import io
import os
import tarfile
import threading
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from runspec_agent.base.job_env import LOST, USAGE, Failure
from runspec_agent.store import parallel
from runspec_agent.store.base import Bucket
from runspec_agent.transfer import inputs
from runspec_agent.transfer.untar import PART_BYTES
from runspec_jobs.load.bundle import bundle
from runspec_jobs.provider.job_manifest import blob_name
from runspec_jobs.provider.streams.tar_stream import tar_blocks
from tests.support.agent.breakable_stores import OBJECTS, Way

pytestmark = pytest.mark.process

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


def uploaded(bucket: Bucket, folder: Path, files: Mapping[str, bytes] = FILES) -> tuple[str, bytes]:
    """Put a folder into the store as every provider does; give its key and its tar."""
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        path.chmod(0o755 if name.endswith(".sh") else 0o644)
    made = bundle(folder)
    content = b"".join(tar_blocks(made, lambda done, whole: None))
    key = f"blobs/{blob_name(made.source)}"
    bucket.put(key, content)
    return key, content


def test_a_folder_that_was_uploaded_is_the_one_that_comes(bucket: Bucket, tmp_path: Path) -> None:
    key, _ = uploaded(bucket, tmp_path / "code")

    inputs.get(bucket, {"kind": "tar", "key": key}, str(tmp_path / "in"))

    assert tree(tmp_path / "in") == FILES


def test_files_come_with_their_modes_and_times(bucket: Bucket, tmp_path: Path) -> None:
    """Those of 1970, as versions up to 0.2.0 uploaded them, are of 1980: zip knows no earlier date."""
    code = tmp_path / "code"
    code.mkdir()
    for name, mode, moment in (("run", 0o755, 10**9), ("key", 0o600, 10**9 + 1)):
        (code / name).write_text(name)
        (code / name).chmod(mode)
        os.utime(code / name, (moment, moment))
    bucket.put("made", b"".join(tar_blocks(bundle(code), lambda done, whole: None)))
    bucket.put("old", tar({"a": b"a"}))

    new, old = tmp_path / "new", tmp_path / "old"
    inputs.get(bucket, {"kind": "tar", "key": "made"}, str(new))
    inputs.get(bucket, {"kind": "tar", "key": "old"}, str(old))

    found = {p.name: (p.stat().st_mode & 0o777, p.stat().st_mtime) for p in new.iterdir()}
    assert found == {"run": (0o755, 10**9), "key": (0o600, 10**9 + 1)}
    assert (old / "a").stat().st_mtime == 315532800


def test_a_file_comes_alone(bucket: Bucket, tmp_path: Path) -> None:
    """Beside other files, in the place of that of an earlier attempt, and not over a folder of the image."""
    key, _ = uploaded(bucket, tmp_path / "code", {"b.sh": b"new"})
    mount = {"kind": "tar", "key": key, "file": True}
    job = tmp_path / "job"
    (job / "folder" / "b.sh").mkdir(parents=True)
    (job / "a").write_bytes(b"a")
    (job / "b.sh").write_bytes(b"old")

    inputs.get(bucket, mount, str(job / "b.sh"))
    with pytest.raises(Failure, match="is a folder already"):
        inputs.get(bucket, mount, str(job / "folder" / "b.sh"))

    assert tree(job) == {"a": b"a", "b.sh": b"new"}
    assert os.access(job / "b.sh", os.X_OK)
    assert sorted(os.listdir(job)) == ["a", "b.sh", "folder"]


def test_a_file_that_is_not_the_one_that_was_uploaded_never_appears(
    bucket: Bucket, tmp_path: Path
) -> None:
    key, content = uploaded(bucket, tmp_path / "code", {"a": b"right"})
    bucket.put(key, content.replace(b"right", b"wrong"))

    with pytest.raises(Failure, match="differs from the folder that was uploaded"):
        inputs.get(bucket, {"kind": "tar", "key": key, "file": True}, str(tmp_path / "job" / "a"))

    assert os.listdir(tmp_path / "job") == []


def test_a_larger_file_is_compared_by_its_parts(bucket: Bucket, tmp_path: Path) -> None:
    """Two whole parts, two and a byte; the byte that differs is in the second part."""
    files = {"a": os.urandom(2 * PART_BYTES), "b": os.urandom(2 * PART_BYTES + 1), "c": b"c"}
    key, content = uploaded(bucket, tmp_path / "code", files)

    inputs.get(bucket, {"kind": "tar", "key": key}, str(tmp_path / "in"))
    assert tree(tmp_path / "in") == files
    at = content.index(files["b"]) + PART_BYTES
    bucket.put(key, content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :])
    with pytest.raises(Failure, match="differs from the folder that was uploaded"):
        inputs.get(bucket, {"kind": "tar", "key": key}, str(tmp_path / "again"))


def test_a_folder_that_an_older_version_uploaded_is_compared_by_whole_files(
    bucket: Bucket, tmp_path: Path
) -> None:
    """Versions that knew no parts have named it by the SHA-256 of each file, whatever its size."""
    big = os.urandom(PART_BYTES + 1)
    line = f"{hashlib.sha256(big).hexdigest()} - {len(big)} big\0"
    digest = hashlib.sha256(b"runspec.bundle/v1\n" + line.encode()).hexdigest()
    for content, fits in ((big, True), (big[:-1] + bytes([big[-1] ^ 1]), False)):
        bucket.put(f"blobs/{digest}.tar", tar({"big": content}))
        refused = pytest.raises(Failure, match="differs from the folder")
        with contextlib.nullcontext() if fits else refused:
            what = {"kind": "tar", "key": f"blobs/{digest}.tar"}
            inputs.get(bucket, what, str(tmp_path / str(fits)))


@pytest.mark.parametrize("what", ["a byte", "a mode", "a name", "a file"])
def test_a_folder_that_is_another_by_now_is_refused(
    bucket: Bucket, tmp_path: Path, what: str
) -> None:
    """Its name is its digest; where somebody has changed the object, or the store has, no program begins."""
    key, content = uploaded(bucket, tmp_path / "code")
    with tarfile.open(fileobj=io.BytesIO(content)) as archive:
        entries = [(m, archive.extractfile(m).read()) for m in archive]  # type: ignore[union-attr]
    first, content = entries[0]
    if what == "a byte":
        entries[0] = first, b"B" + content[1:]
    elif what == "a mode":
        first.mode = 0o755
    elif what == "a name":
        first.name = "z"
    else:
        entries.pop()
    changed = io.BytesIO()
    with tarfile.open(fileobj=changed, mode="w") as archive:
        for info, data in entries:
            archive.addfile(info, io.BytesIO(data))
    bucket.put(key, changed.getvalue())

    with pytest.raises(Failure, match="differs from the folder that was uploaded") as failure:
        inputs.get(bucket, {"kind": "tar", "key": key}, str(tmp_path / "in"))

    assert failure.value.code == USAGE


def named(name: str) -> Change:
    return lambda info: setattr(info, "name", name)


def of_type(what: bytes) -> Change:
    def change(info: tarfile.TarInfo) -> None:
        info.type, info.linkname, info.size = what, "/etc/passwd", 0

    return change


@pytest.mark.parametrize(
    "change",
    [
        named("../out"),
        named("a/../../out"),
        named("/tmp/out"),
        of_type(tarfile.SYMTYPE),
        of_type(tarfile.LNKTYPE),
        of_type(tarfile.CHRTYPE),
        of_type(tarfile.FIFOTYPE),
        of_type(tarfile.DIRTYPE),
    ],
)
def test_a_tar_member_that_is_not_a_plain_file_is_refused(
    bucket: Bucket, tmp_path: Path, change: Change
) -> None:
    """Nothing gets out of the folder."""
    with pytest.raises(Failure, match="is not a plain file") as failure:
        got(bucket, tar({"a": b"A", "last": b"L"}, change), tmp_path / "in")

    assert failure.value.code == USAGE
    assert tree(tmp_path) == {"in/a": b"A"}
    assert not (tmp_path / "in/last").is_symlink()


def test_a_tar_that_breaks_off_is_taken_up_where_it_stopped(
    bucket: Bucket, way: Way, tmp_path: Path
) -> None:
    """Again and again, and what has come does not come once more."""
    content = tar({str(n): os.urandom(2000) for n in range(50)})
    way.breaks("truncated", "GET", "x.tar", times=4)

    folder = got(bucket, content, tmp_path / "in")

    assert len(tree(folder)) == 50
    assert tar(dict(sorted(tree(folder).items(), key=lambda f: int(f[0])))) == content
    asked = [h["range"] for h in way.headers if "range" in h]
    starts = [int(text.partition("=")[2].partition("-")[0]) for text in asked]
    assert len(starts) == 4
    assert starts == sorted(set(starts)), "something came twice"


def test_a_tar_that_has_changed_meanwhile_is_not_mixed(
    bucket: Bucket, way: Way, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two halves of different folders are no folder."""
    other = tar({str(n): b"other" * 400 for n in range(50)})
    monkeypatch.setattr(
        "runspec_agent.store.ranged_read.time.sleep", lambda s: bucket.put("blobs/x.tar", other)
    )
    way.breaks("truncated", "GET", "x.tar")

    with pytest.raises(Failure, match=r"the store refuses blobs/x\.tar: 412") as failure:
        got(bucket, tar({str(n): os.urandom(2000) for n in range(50)}), tmp_path / "in")

    assert failure.value.code == LOST


def test_a_store_that_stays_away_may_be_tried_again(
    bucket: Bucket, way: Way, tmp_path: Path, pauses: list[float]
) -> None:
    """Exit 75: the job may be put somewhere else."""
    content = tar({str(n): os.urandom(2000) for n in range(50)})
    way.breaks("truncated", "GET", "x.tar")
    way.breaks("reset before", "GET", "x.tar", times=100)

    with pytest.raises(Failure, match="cannot reach the store") as failure:
        got(bucket, content, tmp_path / "in")

    assert failure.value.code == LOST


def test_content_that_is_no_tar_is_refused(bucket: Bucket, tmp_path: Path) -> None:
    with pytest.raises(Failure, match=r"blobs/x\.tar is not a tar file"):
        got(bucket, b"no tar" * 1000, tmp_path / "in")


def test_a_tar_that_is_not_there_is_a_failure(bucket: Bucket, tmp_path: Path) -> None:
    """It has been cleaned away."""
    with pytest.raises(
        Failure,
        match=r"the store refuses blobs/y\.tar: (404 (NoSuchKey|BlobNotFound)|No such file)",
    ):
        inputs.get(bucket, {"kind": "tar", "key": "blobs/y.tar"}, str(tmp_path / "in"))


# A prefix of the store


def copied(bucket: Bucket, path: Path) -> Path:
    inputs.get(bucket, {"kind": "prefix", "key": "store/data/"}, str(path))
    return path


def test_all_under_a_prefix_is_copied(bucket: Bucket, tmp_path: Path, kind: str) -> None:
    """Many, deep, with odd names; markers of folders and neighbours are not."""
    files = {f"deep/{n % 7}/{n}": b"%d" % n for n in range(60)} | {"é +&": b"odd", "a": b""}
    for name, content in files.items():
        bucket.put("store/data/" + name, content)
    if kind != "folder":
        bucket.put("store/data/folder/", b"")
    bucket.put("store/data-2/x", b"neighbour")

    assert tree(copied(bucket, tmp_path / "in")) == files


def test_a_prefix_with_nothing_is_a_mistake(bucket: Bucket, tmp_path: Path) -> None:
    """It is an error of the user, and exits with the code for that."""
    with pytest.raises(Failure, match="the store has no object at store/data/") as failure:
        copied(bucket, tmp_path / "in")

    assert failure.value.code == USAGE


@OBJECTS
@pytest.mark.parametrize("name", ["a//b", "a/../b", "../b"])
def test_a_key_that_cannot_be_a_file_is_refused(bucket: Bucket, tmp_path: Path, name: str) -> None:
    """Nothing gets out of the folder."""
    bucket.put("store/data/" + name, b"x")

    with pytest.raises(Failure, match="is not a valid file name") as failure:
        copied(bucket, tmp_path / "in")

    assert failure.value.code == USAGE
    assert tree(tmp_path) == {}


def test_a_busy_store_is_asked_again_for_each(bucket: Bucket, way: Way, tmp_path: Path) -> None:
    """And for what was received only in part."""
    for n in range(5):
        bucket.put(f"store/data/{n}", os.urandom(1000))
    way.breaks("503", "GET", "data/", times=3)
    way.breaks("truncated", "GET", "data/3")

    assert {len(content) for content in tree(copied(bucket, tmp_path / "in")).values()} == {1000}


def test_small_files_come_together(
    bucket: Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each waits for the others: one after the other they would wait for ever."""
    for n in range(4):
        bucket.put(f"store/data/{n}", b"%d" % n)
    together = threading.Barrier(4, timeout=60)
    get = bucket.get_file

    def met(key: str, path: str) -> None:
        together.wait()
        get(key, path)

    monkeypatch.setattr(bucket, "get_file", met)

    assert tree(copied(bucket, tmp_path / "in")) == {str(n): b"%d" % n for n in range(4)}


def test_after_a_failure_no_other_file_is_begun(
    bucket: Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ten thousand files, each of them tried for a minute, would be hours."""
    for n in range(60):
        bucket.put(f"store/data/{n}", b"")
    begun: list[str] = []

    def fails(key: str, path: str) -> None:
        begun.append(key)
        raise Failure("gone", LOST)

    monkeypatch.setattr(bucket, "get_file", fails)

    with pytest.raises(Failure, match="gone"):
        copied(bucket, tmp_path / "in")

    assert len(begun) <= parallel.AT_ONCE


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


@pytest.mark.parametrize(
    ("path", "link"),
    [("job/out/model", "job"), ("data", "data"), ("usr/share/a/b", "usr/share/a")],
)
def test_a_mount_path_that_the_image_lacks_is_put_on_the_large_disk(
    tmp_path: Path, path: str, link: str
) -> None:
    root, disk = tmp_path / "root", tmp_path / "disk" / "wd"
    (root / "usr" / "share").mkdir(parents=True)
    disk.mkdir(parents=True)
    env = {"RUNSPEC_DISK": str(disk)}

    assert inputs.roomy(str(root / path), env) == str(root / path)
    (root / path).mkdir(parents=True, exist_ok=True)
    inputs.roomy(str(root / path / "more"), env)
    (root / path / "more").mkdir()

    assert (root / link).is_symlink()
    assert (root / path / "more").resolve().is_relative_to(disk)
    assert not (root / path / "more").is_symlink()


def test_a_mount_path_that_the_image_has_stays_in_place(tmp_path: Path) -> None:
    (tmp_path / "job").mkdir()

    inputs.roomy(str(tmp_path / "job"), {"RUNSPEC_DISK": str(tmp_path / "disk")})

    assert [p.name for p in tmp_path.iterdir()] == ["job"]


def test_a_shared_folder_that_is_mounted_in_its_place_stays(tmp_path: Path) -> None:
    """Two mounts of one volume are one folder, which cannot be removed."""
    shared = tmp_path / "shared"
    shared.mkdir()

    inputs.link(str(shared), str(shared))

    assert shared.is_dir()
    assert not shared.is_symlink()
