"""Two folders that become equal through the store, at a small price, whatever goes wrong meanwhile."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from runspec_agent.base import files
from runspec_agent.base.job_env import read
from runspec_agent.rendezvous.shared_directory import Rendezvous
from runspec_agent.store.base import Bucket
from runspec_agent.transfer.store_mirror import Mirror
from tests.support.agent.breakable_stores import Way

pytestmark = pytest.mark.process

AT = "runs/r/meet/0/"


@pytest.fixture
def two(bucket: Bucket, tmp_path: Path) -> Iterator[list[Mirror]]:
    """Mirrors of two nodes; threads only once a test starts them."""
    found = []
    for rank in range(2):
        folder = tmp_path / str(rank)
        folder.mkdir()
        found.append(Mirror(bucket, str(folder), AT))
    yield found
    for mirror in found:
        mirror.over.set()


def write(mirror: Mirror, name: str, content: bytes) -> None:
    path = Path(mirror.folder, name)
    path.parent.mkdir(exist_ok=True)
    files.write(str(path), content)


def found(mirror: Mirror, name: str) -> bytes | None:
    return files.read(os.path.join(mirror.folder, name))


def tree(mirror: Mirror) -> dict[str, bytes]:
    folder = Path(mirror.folder)
    return {str(f.relative_to(folder)): f.read_bytes() for f in folder.rglob("*") if f.is_file()}


def test_two_folders_become_equal(two: list[Mirror]) -> None:
    """By themselves, in both directions, and again after a change."""
    for mirror in two:
        mirror.start()
    write(two[0], "1/rank-0.json", b"{}")
    write(two[1], "1/rank-1.json", b"{1}")
    write(two[1], "1/out-0", b"one")
    until = time.monotonic() + 60
    while len(tree(two[0])) < 3 or tree(two[0]) != tree(two[1]):
        assert time.monotonic() < until
        time.sleep(0.01)

    write(two[1], "1/out-0", b"one two")
    while found(two[0], "1/out-0") != b"one two":
        assert time.monotonic() < until
        time.sleep(0.01)


def test_nodes_meet_through_the_mirror(two: list[Mirror]) -> None:
    """Each finds the other's seat, and hears it breathe."""
    env = {"RUNSPEC_NODES": "2", "RUNSPEC_LAUNCH": "mpi", "RUNSPEC_LEASE_S": "0.1"}
    meetings = [
        Rendezvous(
            read({**env, "RUNSPEC_RANK": str(n), "RUNSPEC_HOST": f"h{n}", "RUNSPEC_MEET": m.folder})
        )
        for n, m in enumerate(two)
    ]
    for meeting in meetings:
        meeting.join()
    for mirror in [*two, *two]:
        mirror.synchronize()

    assert [len(meeting.seats()) for meeting in meetings] == [2, 2]
    assert not meetings[0].gone(1)
    before = found(two[0], "1/alive-1")
    time.sleep(0.05)
    meetings[1].beat()
    for mirror in (two[1], two[0]):
        mirror.synchronize()
    assert found(two[0], "1/alive-1") != before


def test_a_heartbeat_is_not_fetched(two: list[Mirror], way: Way) -> None:
    """Its version in the list says that it beats: one PUT and no GET, however many listen."""
    for beat in (b"1", b"2", b"3"):
        write(two[0], "1/alive-0", beat)
        two[0].push()
        two[1].pull()

    assert way.count("GET", "alive-") == 0
    assert way.count("PUT", "alive-") == 3
    assert found(two[1], "1/alive-0") is not None


def test_an_unchanged_mirror_sends_one_list_request(two: list[Mirror], way: Way) -> None:
    """Whatever there is."""
    for n in range(5):
        write(two[0], f"1/ask-{n}", b"x")
    for mirror in [*two, *two]:
        mirror.synchronize()
    way.calls.clear()

    for mirror in two:
        mirror.synchronize()

    assert [(call.method, call.lists) for call in way.calls] == [("GET", True)] * 2


def test_pulled_files_are_not_pushed_back(two: list[Mirror], way: Way) -> None:
    """It belongs to another."""
    write(two[0], "1/out-0", b"one")
    two[0].synchronize()
    two[1].synchronize()
    write(two[0], "1/out-0", b"two")
    two[1].synchronize()
    two[0].synchronize()
    two[1].synchronize()

    assert (found(two[0], "1/out-0"), found(two[1], "1/out-0")) == (b"two", b"two")
    assert way.count("PUT") == 2


def test_unfinished_files_are_not_mirrored(two: list[Mirror]) -> None:
    """Files are whole, or not there."""
    write(two[0], "1/rank-0.json.7.1.part", b"{")

    two[0].synchronize()
    two[1].synchronize()

    assert tree(two[1]) == {}


def test_the_last_line_comes_before_the_end(
    two: list[Mirror], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who reads that a program is done reads its output for the last time."""
    write(two[0], "1/out-1", b"first line\n")
    for mirror in two:
        mirror.synchronize()
    write(two[0], "1/out-1", b"first line\nlast line\n")
    write(two[0], "1/done-1.json", b"{}")
    write(two[0], "1/end-0.json", b"{}")
    order: list[str] = []
    real = files.write

    def note(path: str, content: bytes) -> None:
        order.append(os.path.basename(path))
        real(path, content)

    two[0].push()
    monkeypatch.setattr(files, "write", note)
    two[1].pull()

    assert order == ["out-1", "done-1.json", "end-0.json"]


def test_files_are_pushed_in_their_order(two: list[Mirror], way: Way) -> None:
    """The end of a program comes after its output in the store, too."""
    for name in ("done-1.json", "end-0.json", "err-1", "out-1"):
        write(two[0], "1/" + name, b"x")

    two[0].push()

    puts = [call.path.rpartition("/")[2] for call in way.calls if call.method == "PUT"]
    assert puts == ["err-1", "out-1", "done-1.json", "end-0.json"]


def test_finish_pushes_the_last_files(two: list[Mirror]) -> None:
    """Written after the last pass, and before the end."""
    two[0].start()
    write(two[0], "1/end-0.json", b"{}")

    two[0].finish()
    two[1].synchronize()

    assert tree(two[1]) == {"1/end-0.json": b"{}"}
    assert not two[0].is_alive()


@pytest.mark.parametrize("kind", ["403", "reset before", "503", "truncated"])
def test_a_store_that_fails_meanwhile_is_survived(two: list[Mirror], way: Way, kind: str) -> None:
    """What could not be said is said later."""
    for mirror in two:
        mirror.start()
    way.breaks(kind, times=3)
    write(two[0], "1/rank-0.json", b"{}")

    until = time.monotonic() + 60
    while tree(two[1]) != {"1/rank-0.json": b"{}"}:
        assert time.monotonic() < until
        time.sleep(0.01)

    assert two[0].is_alive() and two[1].is_alive()


def test_a_file_that_goes_meanwhile_is_survived(
    two: list[Mirror], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A dead mirror would be a dead node to the others."""
    write(two[0], "1/a", b"a")
    write(two[0], "1/b", b"b")
    real = os.walk
    monkeypatch.setattr(os, "walk", lambda top: [*real(top), (two[0].folder, [], ["gone"])])

    two[0].synchronize()
    monkeypatch.undo()

    assert sorted(two[0].pushed) == ["1/a", "1/b"]


def test_a_disk_that_fails_meanwhile_is_survived(
    two: list[Mirror], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What could not be written is fetched again."""
    write(two[0], "1/a", b"a")
    two[0].synchronize()

    def full(path: str, content: bytes) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(files, "write", full)
        two[1].synchronize()
    assert tree(two[1]) == {}

    two[1].synchronize()
    assert tree(two[1]) == {"1/a": b"a"}


def test_nobody_else_may_read_it(two: list[Mirror]) -> None:
    """Requests are run as commands, and the token is in there."""
    write(two[0], "1/rank-0.json", b"{}")
    two[0].synchronize()
    two[1].synchronize()

    assert Path(two[1].folder, "1").stat().st_mode & 0o077 == 0
    assert Path(two[1].folder, "1/rank-0.json").stat().st_mode & 0o077 == 0
