"""Reading a folder as it was at one moment, whatever is written to it meanwhile."""

from __future__ import annotations

import errno
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from runspec_agent.base import files
from runspec_agent.base.job_env import Failure
from runspec_agent.store.base import Opened
from runspec_agent.store.manifest import Entry
from runspec_agent.transfer import snapshot as module
from runspec_agent.transfer.folder_walk import Seen, Wanted, look
from runspec_agent.transfer.snapshot import Restless, Snapshot, Unsettled


class Sent:
    """Where contents go: *meanwhile* happens before each of them."""

    def __init__(self) -> None:
        self.contents: list[bytes] = []
        self.meanwhile: Callable[[], object] = lambda: None

    def __call__(self, opened: Opened, size: int, digest: str) -> str:
        self.meanwhile()
        with opened() as stream:
            content = stream.read()
        if len(content) != size:
            raise Failure("the file changed while it was read")
        self.contents.append(content)
        return str(len(self.contents) - 1)


@pytest.fixture
def sent() -> Sent:
    return Sent()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    found = tmp_path / "out"
    found.mkdir()
    for name in ("a", "b"):
        put(found / name, "old")
    return found


@pytest.fixture(autouse=True, params=["read at once", "streamed"])
def small(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Say whether files are read at once, or as large ones are."""
    monkeypatch.setattr(module, "CLOCK_TICK_S", 0.0)
    if request.param == "streamed":
        monkeypatch.setattr(module, "SMALL_BYTES", -1)
    return bool(request.param == "read at once")


_times = iter(range(1, 1_000_000))


def put(path: Path, text: str) -> None:
    """Write a file whose time is that of no other write."""
    path.write_text(text)
    os.utime(path, (next(_times), 1_000_000_000 + next(_times)))


def contents(taken: dict[str, Entry], sent: Sent) -> dict[str, str]:
    return {name: sent.contents[int(entry.object)].decode() for name, entry in taken.items()}


def test_unchanged_files_are_not_read_again(folder: Path, sent: Sent) -> None:
    shot = Snapshot(str(folder), sent)

    first = shot.taken({})
    put(folder / "b", "new")
    second = shot.taken({})

    assert contents(first, sent) == {"a": "old", "b": "old"}
    assert contents(second, sent) == {"a": "old", "b": "new"}
    assert len(sent.contents) == 3


@pytest.mark.parametrize("at", range(4))
def test_two_files_are_of_one_moment(folder: Path, sent: Sent, at: int) -> None:
    """Whenever a program writes both, neither is saved beside the other's past."""
    count = iter(range(100))

    def both() -> None:
        if next(count) == at:
            for name in ("a", "b"):
                put(folder / name, "new")

    sent.meanwhile = both
    shot = Snapshot(str(folder), sent)

    first = contents(shot.taken({}), sent)
    second = contents(shot.taken({}), sent)

    assert set(first.values()) in ({"old"}, {"new"})
    assert second == ({"a": "new", "b": "new"} if at < len(sent.contents) else first)


def test_a_file_that_changes_while_it_is_read_is_read_again(
    folder: Path, sent: Sent, monkeypatch: pytest.MonkeyPatch, small: bool
) -> None:
    """Its content of one moment counts."""
    done: list[Any] = []

    def change() -> None:
        if not done:
            done.append(1)
            put(folder / "a", "longer")

    real = module.settled

    def ticked(files: Any) -> Any:
        found = real(files)
        change()
        return found

    monkeypatch.setattr(module, "settled", ticked)

    assert contents(Snapshot(str(folder), sent).taken({}), sent) == {"a": "longer", "b": "old"}


def test_files_that_come_and_go_meanwhile(folder: Path, sent: Sent) -> None:
    """What a program replaces is there once, never both or neither."""
    (folder / "step-1").write_text("1")
    count = iter(range(100))

    def step() -> None:
        number = next(count)
        if number < 3:
            (folder / f"step-{number + 1}").rename(folder / f"step-{number + 2}")

    sent.meanwhile = step

    taken = Snapshot(str(folder), sent).taken({})

    assert len([name for name in taken if name.startswith("step-")]) == 1


def test_a_log_that_grows_all_the_time_is_saved_with_the_rest(folder: Path, sent: Sent) -> None:
    """Small files are read at once, so that there is a moment for them."""
    over = threading.Event()

    def grow() -> None:
        while not over.wait(0.02):
            for name in ("log", "events"):
                with (folder / name).open("a") as log:
                    log.write("line\n")

    thread = threading.Thread(target=grow)
    thread.start()
    try:
        time.sleep(0.1)
        for _ in range(5):
            sent.meanwhile = lambda: time.sleep(0.03)
            found = _patient(lambda: Snapshot(str(folder), sent).taken({}))
            assert {"a", "b", "log", "events"} == found.keys()
    finally:
        over.set()
        thread.join()


def _patient(take: Callable[[], dict[str, Entry]]) -> dict[str, Entry]:
    for _ in range(50):
        try:
            return take()
        except Restless:
            time.sleep(0.05)
    raise AssertionError("there was no moment")


def test_files_that_change_all_the_time_are_not_saved(
    folder: Path, sent: Sent, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files of a checkpoint, too large for a copy, that are written faster than they can be read."""
    monkeypatch.setattr(module, "SMALL_BYTES", -1)
    monkeypatch.setattr(module, "COPIED_BYTES", -1)
    sent.meanwhile = lambda: put(folder / "b", "new")

    with pytest.raises(Restless, match="change faster than they can be saved, for example b"):
        Snapshot(str(folder), sent).taken({})


def test_copies_are_gone_afterwards(
    folder: Path, sent: Sent, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "tmp").mkdir()
    monkeypatch.setenv("RUNSPEC_SCRATCH", str(tmp_path / "tmp"))
    monkeypatch.setattr(module, "SMALL_BYTES", -1)
    once = iter([1])

    def change() -> None:
        for _ in once:
            put(folder / "a", "2")

    sent.meanwhile = change

    assert contents(Snapshot(str(folder), sent).taken({}), sent) == {"a": "2", "b": "old"}
    assert list((tmp_path / "tmp").iterdir()) == []


def test_a_snapshot_waits_until_files_have_settled(
    folder: Path, sent: Sent, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "a").write_text("new")
    waited: list[float] = []

    def wait(seconds: float) -> bool:
        waited.append(seconds)
        os.utime(folder / "a", (1, 1))
        return False

    Snapshot(str(folder), sent).settle(wait, 0.5, time.monotonic() + 60)

    assert len(waited) == 1 and 0 < waited[0] <= 0.5


@pytest.mark.parametrize("ahead_s", [3600, -3600])
def test_a_file_of_another_clock_is_not_waited_for(
    folder: Path, sent: Sent, ahead_s: float
) -> None:
    now = time.time() + ahead_s
    os.utime(folder / "a", (now, now))

    Snapshot(str(folder), sent).settle(
        lambda seconds: pytest.fail("it waited"), 1.0, time.monotonic() + 60
    )


@pytest.mark.parametrize("change", ["cut", "new", "gone"])
def test_a_file_written_after_settling_is_left_for_the_next_save(
    folder: Path, sent: Sent, change: str
) -> None:
    """A program cuts its checkpoint to nothing, which has the old time for a moment, before it writes it anew."""
    shot = Snapshot(str(folder), sent)
    shot.settle(lambda seconds: False, 1.0, time.monotonic() + 60)
    found = (folder / "a").stat()
    if change == "cut":
        (folder / "a").write_text("")
        os.utime(folder / "a", ns=(found.st_atime_ns, found.st_mtime_ns))
    elif change == "new":
        put(folder / "c", "new")
    else:
        (folder / "a").unlink()

    with pytest.raises(Unsettled):
        shot.taken({})

    assert shot.taken({}).keys() == ({"a", "b"} | ({"c"} if change == "new" else set())) - (
        {"a"} if change == "gone" else set()
    )


def test_a_program_that_writes_all_the_time_is_saved_after_a_while(
    folder: Path, sent: Sent
) -> None:
    shot = Snapshot(str(folder), sent)
    shot.settle(lambda seconds: False, 1.0, time.monotonic() - 1)
    put(folder / "c", "new")

    assert shot.taken({}).keys() == {"a", "b", "c"}


@pytest.mark.parametrize(
    ("patterns", "named"),
    [({}, True), ({"include": ["a"]}, True), ({"exclude": [".runspec"]}, False)],
)
def test_a_folder_of_our_name_is_lost_unless_it_is_left_out(
    folder: Path, sent: Sent, patterns: dict[str, Any], named: bool
) -> None:
    (folder / ".runspec").mkdir()
    (folder / ".runspec/a").write_text("x")
    shot = Snapshot(str(folder), sent)
    shot.wanted = Wanted.of(patterns)

    assert "a" in shot.taken({})
    assert shot.wrong() == []
    assert [*shot.shape.lost] == [".runspec"] * named
    assert [*shot.shape.folders] == []


def test_a_folder_that_became_a_file_is_told(sent: Sent, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("precious")
    shot = Snapshot(str(tmp_path / "file"), sent)
    assert shot.taken({}) == {}
    assert shot.wrong() == [f"{tmp_path / 'file'}: Not a directory"]


def test_a_link_of_our_name_to_a_folder_is_lost_and_its_folder_is_not(folder: Path) -> None:
    (folder / "c").mkdir()
    (folder / ".runspec").symlink_to("c")

    found = look(os.path.realpath(folder))

    assert ([*found.shape.links], [*found.shape.lost], found.hidden) == ([], [".runspec"], {})
    assert [*found.shape.folders] == ["c"]


def test_two_writes_in_one_tick_of_the_clock_are_both_seen(
    folder: Path, sent: Sent, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file is left alone until its time says something."""
    monkeypatch.setattr(module, "CLOCK_TICK_S", 0.2)
    began = time.time()
    os.utime(folder / "a", (began, began))

    Snapshot(str(folder), sent).taken({})

    assert time.time() - began >= 0.2


# Disks that fail


def failing(monkeypatch: pytest.MonkeyPatch, name: str, path: Path, number: int) -> None:
    """Have a function of `os` fail for *path*."""
    real = getattr(os, name)

    def function(at: Any, *words: Any, **more: Any) -> Any:
        if str(at) == str(path):
            raise OSError(number, os.strerror(number), str(at))
        return real(at, *words, **more)

    monkeypatch.setattr(os, name, function)


@pytest.mark.parametrize("number", [errno.EIO, errno.EACCES, errno.ESTALE])
@pytest.mark.parametrize("name", ["scandir", "stat"])
def test_an_unreadable_file_does_not_count_as_deleted(
    folder: Path, sent: Sent, monkeypatch: pytest.MonkeyPatch, name: str, number: int
) -> None:
    """It may have been saved: then that save counts. What never was is named, and the rest is saved."""
    (folder / "deep").mkdir()
    put(folder / "deep" / "c", "old")
    shot = Snapshot(str(folder), sent)
    first = shot.taken({})
    failing(monkeypatch, name, folder / "deep" / ("" if name == "scandir" else "c"), number)
    place = "deep" if name == "scandir" else "deep/c"

    with pytest.raises(Failure, match=f"^{place}: {os.strerror(number)}"):
        shot.taken(first)

    fresh = Snapshot(str(folder), sent)
    assert fresh.taken({}).keys() == {"a", "b"}
    assert fresh.wrong() == [f"{place}: {os.strerror(number)}"]


def test_a_folder_that_is_gone_is_no_empty_save(folder: Path, sent: Sent, tmp_path: Path) -> None:
    """Nor is one that leads elsewhere by now; where nothing was saved, there is nothing."""
    shot = Snapshot(str(folder), sent)
    first = shot.taken({})
    folder.rename(tmp_path / "away")

    with pytest.raises(Failure, match="it does not exist any more"):
        shot.taken(first)
    assert (shot.taken({}), shot.wrong()) == ({}, [])

    folder.symlink_to(tmp_path / "away")
    with pytest.raises(Failure, match="a link to another place"):
        shot.taken(first)


def test_a_file_of_the_save_before_that_cannot_be_read_is_in_no_lesser_save(
    folder: Path, sent: Sent, monkeypatch: pytest.MonkeyPatch
) -> None:
    shot = Snapshot(str(folder), sent)
    first = shot.taken({})
    put(folder / "a", "new")
    real = open

    def refusing(path: Any, *words: Any) -> Any:
        if path == str(folder / "a"):
            raise OSError(errno.EIO, "Input/output error")
        return real(path, *words)

    monkeypatch.setattr(module, "open", refusing, raising=False)
    monkeypatch.setattr(module, "file_digest", lambda path: refusing(path) and (0, ""))

    with pytest.raises(Failure, match=r"^a: Input/output error"):
        shot.taken(first)


def test_without_room_for_copies_files_are_streamed(
    folder: Path, sent: Sent, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A folder for what is for now cannot be made, or is full."""
    monkeypatch.setattr(module, "SMALL_BYTES", -1)

    def refused(prefix: str) -> str:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(files, "fresh_folder", refused)
    once = iter([1])

    def change() -> None:
        for _ in once:
            put(folder / "a", "2")

    sent.meanwhile = change

    assert contents(Snapshot(str(folder), sent).taken({}), sent) == {"a": "2", "b": "old"}


def test_no_more_than_so_much_is_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small files that there is no room for are streamed; large ones are copied to the disk."""
    monkeypatch.setattr(module, "SMALL_BYTES", 4 << 20)
    seen = {f"{n}": Seen(f"{n}", (4 << 20, 0, None)) for n in range(40)}
    seen["large"] = Seen("large", (5 << 20, 0, None))

    assert len(module.fitting(seen, list(seen), 0)) == 16
    assert set(module.fitting(seen, list(seen), 5 << 20)) == {*map(str, range(16)), "large"}
