"""Conditional writes, by which nodes that come and go agree: of those who saw the same, one writes."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from runspec_agent.base.job_env import LOST, USAGE, Failure
from runspec_agent.store.base import Bucket, connect
from runspec_agent.store.folder import FolderBucket
from runspec_agent.store.s3 import S3Bucket
from tests.support.agent.breakable_stores import OBJECTS, Way

pytestmark = pytest.mark.process

# Every writer counts up until so many of its own writes have won.
COUNTING = """
import json, sys
from runspec_agent.store.base import connect
bucket = connect()
won = 0
while won < int(sys.argv[2]):
    content, version = bucket.fetch("count")
    number = json.loads(content)[0] + 1
    won += bucket.swap("count", json.dumps([number, sys.argv[1], won]).encode(), version) is not None
"""


def count(bucket: Bucket, name: str, times: int) -> None:
    won = 0
    while won < times:
        found = bucket.fetch("count")
        assert found is not None
        number = json.loads(found[0])[0] + 1
        new = json.dumps([number, name, won]).encode()
        won += bucket.swap("count", new, found[1]) is not None


def started(*words: object) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", COUNTING, *map(str, words)])


@pytest.fixture
def shared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bucket:
    monkeypatch.setenv("RUNSPEC_STORE", f"file://{tmp_path}/shared")
    return connect()


def store_of(bucket: Any) -> Any:
    """Give what the requests of *bucket* go through, of one that has any."""
    return bucket.store


def test_a_missing_object_has_no_version(bucket: Bucket) -> None:
    assert bucket.fetch("a") is None


def test_a_swap_with_the_current_version_writes(bucket: Bucket) -> None:
    """Each write gives the version that the next one needs, and that a reader sees."""
    first = bucket.swap("a/b", b"1", None)
    assert bucket.fetch("a/b") == (b"1", first)

    second = bucket.swap("a/b", b"2", first)

    assert second not in (None, first)
    assert bucket.fetch("a/b") == (b"2", second)
    assert bucket.get("a/b") == b"2"


def test_a_swap_with_another_version_does_not_write(bucket: Bucket) -> None:
    """Nothing, an older version, or one that is gone."""
    first = bucket.swap("a", b"1", None)
    assert bucket.swap("a", b"2", None) is None
    second = bucket.swap("a", b"2", first)

    assert bucket.swap("a", b"3", first) is None
    assert bucket.swap("other", b"3", first) is None

    assert bucket.fetch("a") == (b"2", second)
    assert bucket.fetch("other") is None


def test_one_of_many_simultaneous_swaps_writes(bucket: Bucket) -> None:
    """Each write that won counted one up, and no other did."""
    bucket.swap("count", b"[0]", None)
    threads = [threading.Thread(target=count, args=(bucket, str(n), 5)) for n in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    found = bucket.get("count")
    assert found is not None and json.loads(found)[0] == 30


def test_one_of_many_simultaneous_first_swaps_writes(bucket: Bucket) -> None:
    gate = threading.Barrier(6)
    won: list[str] = []

    def run(name: str) -> None:
        gate.wait()
        if bucket.swap("new", name.encode(), None) is not None:
            won.append(name)

    threads = [threading.Thread(target=run, args=(str(n),)) for n in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert [bucket.get("new")] == [name.encode() for name in won]


# What gets lost


@pytest.mark.parametrize("new", [True, False], ids=["new", "old"])
def test_a_write_whose_reply_is_lost_is_known_again(bucket: Bucket, way: Way, new: bool) -> None:
    """The second try is refused, since the first one changed the version."""
    version = None if new else bucket.swap("a", b"1", None)
    way.breaks("reset after", "PUT", "/a")

    found = bucket.swap("a", b"2", version)

    assert found is not None
    assert bucket.fetch("a") == (b"2", found)
    assert bucket.swap("a", b"3", found) is not None


def test_a_lost_swap_that_was_overwritten_counts_as_failed(
    bucket: Bucket, way: Way, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether it was there in between, nobody can say any more; who writes next has seen it."""
    assert isinstance(bucket, S3Bucket)
    way.breaks("reset after", "PUT", "/a")
    send = store_of(bucket).send_once
    sent: list[object] = []

    def once(ask: Any) -> Any:
        sent.append(ask)
        if len(sent) == 2:
            other = connect()
            seen = other.fetch("a")
            assert seen is not None and seen[0] == b"mine"
            assert other.swap("a", b"theirs", seen[1]) is not None
        return send(ask)

    monkeypatch.setattr(store_of(bucket), "send_once", once)

    assert bucket.swap("a", b"mine", None) is None

    assert bucket.get("a") == b"theirs"


@OBJECTS
@pytest.mark.parametrize("status", ["404", "409", "412"])
def test_a_refusal_writes_nothing(bucket: Bucket, way: Way, status: str) -> None:
    """Deleted meanwhile, another write under way, or another version; the same write may win the next time."""
    version = bucket.swap("a", b"1", None)
    way.breaks(status, "PUT", "/a")

    assert bucket.swap("a", b"2", version) is None

    assert bucket.swap("a", b"2", version) is not None


@OBJECTS
@pytest.mark.parametrize("status", ["400", "404"])
def test_any_other_refusal_is_a_failure(bucket: Bucket, way: Way, status: str) -> None:
    """Where nothing was there, 404 says that there is no such bucket."""
    way.breaks(status, "PUT", "/a")

    with pytest.raises(Failure):
        bucket.swap("a", b"1", None)


@OBJECTS
@pytest.mark.parametrize("fault", ["503", "reset before", "reset after"])
def test_a_hastened_store_sends_each_request_once(bucket: Bucket, way: Way, fault: str) -> None:
    """A beat is soon followed by the next; to wait for this one would be to miss that."""
    bucket.hasten(2.0)
    way.breaks(fault)

    with pytest.raises(Failure) as failure:
        bucket.swap("a", b"1", None)

    assert failure.value.code == LOST
    assert len(way.calls) == 1
    assert store_of(bucket).timeout_s == 2.0


# Folders


def test_one_of_many_processes_that_swap_writes(shared: Bucket) -> None:
    shared.swap("count", b"[0]", None)
    writers = [started(n, 25) for n in range(4)]

    assert [writer.wait() for writer in writers] == [0] * 4

    found = shared.get("count")
    assert found is not None and json.loads(found)[0] == 100


def test_a_process_killed_during_a_swap_leaves_no_lock(shared: Bucket) -> None:
    """Nor half a file."""
    shared.swap("count", b"[0]", None)
    for _ in range(3):
        writer = started("killed", 1000000)
        while True:
            before = shared.get("count")
            if before is not None and json.loads(before)[0] % 20 == 19:
                break
        os.kill(writer.pid, signal.SIGKILL)
        writer.wait()

        count(shared, "we", 20)


def test_a_lock_that_is_held_is_no_longer_waited_for_than_that(
    shared: Bucket, tmp_path: Path
) -> None:
    """As by a process that has been stopped in the middle of it."""
    version = shared.swap("a", b"1", None)
    shared.hasten(0.05)
    (lock,) = (tmp_path / "shared").glob(".rs-*.lock")
    with lock.open() as held:
        fcntl.flock(held, fcntl.LOCK_EX)

        with pytest.raises(Failure, match="holds the lock") as failure:
            shared.swap("a", b"2", version)

    assert failure.value.code == LOST
    assert shared.swap("a", b"2", version) is not None


def test_a_file_system_without_locks_is_said(
    shared: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", refuse)

    with pytest.raises(Failure, match="no locks") as failure:
        shared.swap("a", b"1", None)

    assert failure.value.code == USAGE


def test_a_store_without_locks_swaps_manifests_by_comparison(
    shared: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Many clusters have a file system without locks, where jobs could always save."""

    def refuse(*_: object) -> None:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))

    monkeypatch.setattr(fcntl, "flock", refuse)
    key = "runs/r/outputs/o/0/0/.runspec/manifest.json"

    first = shared.swap(key, b"1", None)

    assert first is not None and shared.swap(key, b"2", None) is None
    assert shared.swap(key, b"2", first) is not None
    assert shared.get(key) == b"2"


def test_a_hastened_store_does_not_sync_to_disk(
    shared: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that is busy with what a program saves would make its node seem gone."""
    synced: list[int] = []
    monkeypatch.setattr(os, "fsync", synced.append)
    version = shared.swap("a", b"1", None)
    assert len(synced) == 1

    shared.hasten(1.0)
    shared.swap("a", b"2", version)
    shared.put("b", b"1")

    assert len(synced) == 1


def test_a_lock_is_no_key(shared: Bucket, tmp_path: Path) -> None:
    """It is in no list, and nobody can write to it."""
    shared.swap("x/a", b"1", None)
    (lock,) = (tmp_path / "shared" / "x").glob(".rs-*")

    assert [found.key for found in shared.listing("")] == ["x/a"]
    assert isinstance(shared, FolderBucket)
    with pytest.raises(Failure, match="reserved"):
        shared.put(f"x/{lock.name}", b"")
