"""What only a folder of a shared file system has to promise as a store; the rest it has in common with the others."""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest

from runspec_agent.base import files
from runspec_agent.base.failure import UNSAVED_CODE, NoSpace
from runspec_agent.base.job_env import USAGE, Failure
from runspec_agent.store import base
from runspec_agent.store.base import Bucket
from runspec_agent.store.folder import FolderBucket


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "shared é"


@pytest.fixture
def store(root: Path, monkeypatch: pytest.MonkeyPatch) -> Bucket:
    monkeypatch.setenv("RUNSPEC_STORE", f"file://{root}")
    return base.connect()


def put(bucket: Bucket, key: str, content: bytes, digest: str = "") -> None:
    found = digest or hashlib.sha256(content).hexdigest()
    bucket.put_file(key, lambda: BytesIO(content), len(content), found)


def names(root: Path) -> list[str]:
    return sorted(str(path.relative_to(root)) for path in root.rglob("*") if path.is_file())


def test_the_scheme_says_that_it_is_a_folder(store: Bucket) -> None:
    assert type(store) is FolderBucket


@pytest.mark.parametrize("path", ["", "relative/x", "~/x"])
def test_a_folder_has_a_whole_path(path: str) -> None:
    with pytest.raises(Failure, match="RUNSPEC_STORE") as failure:
        FolderBucket({"RUNSPEC_STORE": f"file://{path}"})

    assert failure.value.code == USAGE


@pytest.mark.parametrize(
    "key",
    [
        "../a",
        "a/../../b",
        "a//b",
        "/etc/x",
        "a/./b",
        "a/",
        "",
        "a\0b",
        "x/.rs-0123456789abcdef.part",
    ],
)
def test_no_key_leads_out_or_is_a_name_of_ours(store: Bucket, root: Path, key: str) -> None:
    """Whatever is done with it."""
    root.mkdir()
    (root.parent / "a").write_bytes(b"outside")
    for do in (
        store.get,
        store.opened,
        lambda k: store.put(k, b""),
        lambda k: store.claim(k, b"x"),
    ):
        with pytest.raises(Failure) as failure:
            do(key)
        assert failure.value.code == USAGE
    with pytest.raises(Failure):
        put(store, key, b"x")

    assert names(root.parent) == ["a"]


@pytest.mark.parametrize("prefix", ["../", "a/../../", "/"])
def test_no_list_leads_out(store: Bucket, root: Path, prefix: str) -> None:
    root.mkdir()
    (root.parent / "a").write_bytes(b"outside")

    with pytest.raises(Failure):
        list(store.listing(prefix))


def test_a_list_does_not_follow_links(store: Bucket, root: Path) -> None:
    """A program may have put one there."""
    store.put("in/a", b"")
    (root / "in/out").symlink_to(root.parent)
    (root / "in/file").symlink_to("a")

    assert [found.key for found in store.listing("")] == ["in/a"]


def test_only_the_user_can_read(store: Bucket, root: Path) -> None:
    """Whatever the umask lets others do."""
    before = os.umask(0)
    try:
        store.put("a/b/c", b"")
        store.claim("a/d/e", b"x")
        put(store, "f/g", b"x")
    finally:
        os.umask(before)

    assert {stat.S_IMODE(p.stat().st_mode) for p in [root, *root.rglob("*")] if p.is_dir()} == {
        0o700
    }
    assert {stat.S_IMODE(p.stat().st_mode) for p in root.rglob("*") if p.is_file()} == {0o600}


def test_a_list_is_in_the_order_of_keys(store: Bucket) -> None:
    """As those of object stores: by bytes, so that a-b comes before a/b, and that before a0."""
    keys = ["a-b", "a/b", "a/c/d", "a0", "é", "日"]
    for key in reversed(keys):
        store.put(key, b"")

    assert [found.key for found in store.listing("")] == keys
    assert [found.key for found in store.listing("a")] == keys[:4]
    assert [found.key for found in store.listing("a/")] == keys[1:3]
    assert list(store.listing("nothing/here/")) == []


def test_an_unfinished_object_is_neither_listed_nor_read(store: Bucket, root: Path) -> None:
    """Neither in a list, nor to be read; and NFS's own names are in no list."""
    seen: list[Any] = []

    class Slow(BytesIO):
        def read(self, size: int | None = -1) -> bytes:
            seen.append(([found.key for found in store.listing("")], store.get("in/a")))
            return super().read(size)

    (root / "in").mkdir(parents=True)
    (root / "in/.nfs000000000012345600000001").touch()
    store.put_file("in/a", lambda: Slow(b"x"), 1, hashlib.sha256(b"x").hexdigest())

    assert seen == [([], None)]
    assert [found.key for found in store.listing("")] == ["in/a"]


@pytest.mark.parametrize(("size", "digest"), [(5, "0" * 64), (6, "")])
def test_a_file_that_changed_leaves_nothing(
    store: Bucket, root: Path, size: int, digest: str
) -> None:
    """And what was there before stays."""
    put(store, "a", b"before")

    with pytest.raises(Failure, match="changed while it was read"):
        store.put_file("a", lambda: BytesIO(b"after"), size, digest)

    assert (names(root), store.get("a")) == (["a"], b"before")


def test_a_full_disk_leaves_nothing(
    store: Bucket, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And is told as what it is."""
    put(store, "a", b"before")

    def full(_: int) -> None:
        raise OSError(errno.EDQUOT, "Disk quota exceeded")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(NoSpace, match="the store refuses a: Disk quota exceeded") as failure:
        put(store, "a", b"after")

    assert failure.value.code == UNSAVED_CODE
    assert (names(root), store.get("a")) == (["a"], b"before")


def test_a_file_can_take_the_place_of_a_folder(store: Bucket) -> None:
    """And the reverse: of the two, one can be kept, and it is the newer."""
    put(store, "out/a", b"1")
    put(store, "out/a/b", b"2")
    assert [found.key for found in store.listing("")] == ["out/a/b"]

    put(store, "out/a", b"3")

    assert store.get("out/a") == b"3"
    assert store.get("out/a/b") is None


def test_a_record_does_not_take_the_place_of_a_folder(store: Bucket) -> None:
    """Only what users write changes so."""
    store.put("runs/r/ends/0", b"")

    with pytest.raises(Failure):
        store.put("runs/r/ends", b"")
    with pytest.raises(Failure):
        store.put("runs/r/ends/0/1", b"")

    assert store.get("runs/r/ends/0") == b""


@pytest.mark.parametrize("error", [errno.EEXIST, errno.EIO])
def test_a_claim_whose_reply_is_lost_is_known_again(
    store: Bucket, monkeypatch: pytest.MonkeyPatch, error: int
) -> None:
    """NFS makes the link, and then finds it there."""
    real = os.link

    def lost(source: str, target: str) -> None:
        real(source, target)
        raise OSError(error, os.strerror(error))

    monkeypatch.setattr(os, "link", lost)

    assert store.claim("claim", b"mine") == b"mine"
    monkeypatch.setattr(os, "link", real)
    assert store.claim("claim", b"other") == b"mine"


def test_a_file_system_without_links_is_one_clear_line(
    store: Bucket, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without them there would be two winners."""

    def none(source: str, target: str) -> None:
        raise PermissionError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "link", none)

    with pytest.raises(Failure, match="has no hard links") as failure:
        store.claim("claim", b"x")

    assert (failure.value.code, names(root)) == (USAGE, [])


def test_a_stale_file_handle_is_read_again(store: Bucket, monkeypatch: pytest.MonkeyPatch) -> None:
    """NFS calls the old one stale."""
    store.put("a", b"x")
    real, left = files.read, [1, 1]

    def stale(path: str) -> bytes | None:
        if left:
            left.pop()
            raise OSError(errno.ESTALE, "Stale file handle")
        return real(path)

    monkeypatch.setattr(files, "read", stale)

    assert store.get("a") == b"x"


def test_a_stream_stays_with_the_file_that_it_began_with(store: Bucket) -> None:
    put(store, "a", b"first")

    with store.opened("a") as body:
        put(store, "a", b"other")

        assert (body.size, body.read(2), body.read(), body.read()) == (5, b"fi", b"rst", b"")


def test_a_folder_that_another_thread_makes_meanwhile_is_not_taken_for_a_file(
    store: Bucket, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both have seen that it is not there; files of one output are saved at once."""
    there = os.path.lexists

    def lexists(path: str) -> bool:
        os.makedirs(path, exist_ok=True)
        return there(path)

    monkeypatch.setattr(os.path, "lexists", lexists)

    put(store, "deep/er/b", b"x")

    assert names(root) == ["deep/er/b"]


def test_a_file_where_a_folder_is_to_be_goes_once(
    store: Bucket, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another thread, that saves another file of the folder, has just taken it away."""
    put(store, "deep", b"x")
    remove = os.unlink

    def unlink(path: str) -> None:
        remove(path)
        remove(path)

    monkeypatch.setattr(os, "unlink", unlink)

    put(store, "deep/b", b"x")

    assert names(root) == ["deep/b"]


@pytest.mark.parametrize("what", ["get", "opened", "fetch"])
def test_a_pipe_in_the_place_of_an_object_is_not_waited_for(
    store: Bucket, root: Path, what: str
) -> None:
    store.put("runs/a", b"a")
    (root / "runs/a").unlink()
    os.mkfifo(root / "runs/a")

    with pytest.raises(Failure, match="the store refuses runs/a: it is not a file"):
        getattr(store, what)("runs/a")
