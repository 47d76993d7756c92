"""Locks where a file system has no flock: as safe as with it, or an error that says so."""

from __future__ import annotations

import errno
import fcntl
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from runspec_agent.base import file_lock
from tests.support.root import ROOT

HOLDER = """
import errno, fcntl, sys, time
def lacking(*_):
    raise OSError(errno.ENOSYS, "Function not implemented")
fcntl.flock = lacking
from runspec_agent.base import file_lock
file = open(sys.argv[1], "r+")
assert file_lock.take(file.fileno(), wait=False)
print("held", flush=True)
time.sleep(600)
"""


@pytest.fixture(params=["flock", "ENOSYS", "EOPNOTSUPP", "EINVAL"])
def flock(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Have flock(2) refuse with the error of that name, as a file system that lacks it does."""
    name: str = request.param

    def refuse(*_: object) -> None:
        raise OSError(getattr(errno, name), "refused")

    if name != "flock":
        monkeypatch.setattr(fcntl, "flock", refuse)
    return name


@pytest.fixture
def handles(tmp_path: Path) -> Iterator[list[int]]:
    """Yield three open files of one lock, as three processes have them."""
    opened = [os.open(tmp_path / "lock", os.O_RDWR | os.O_CREAT) for _ in range(3)]
    yield opened
    for handle in opened:
        os.close(handle)


def test_take_excludes_others_until_it_is_free(flock: str, handles: list[int]) -> None:
    first, second, _ = handles

    assert file_lock.take(first)
    assert not file_lock.take(second, wait=False)
    file_lock.free(first)
    assert file_lock.take(second, wait=False)


def test_shared_locks_exclude_only_an_exclusive_one(flock: str, handles: list[int]) -> None:
    first, second, third = handles

    assert file_lock.take(first, shared=True)
    assert file_lock.take(second, shared=True, wait=False)
    assert not file_lock.take(third, wait=False)


def test_a_lock_ends_when_its_file_is_closed_and_not_with_another_file(
    flock: str, tmp_path: Path, handles: list[int]
) -> None:
    """The classic record locks of fcntl(2) are lost when a process closes any file of that name."""
    first, second, _ = handles
    held = os.dup(first)
    assert file_lock.take(first)

    os.close(os.open(tmp_path / "lock", os.O_RDONLY))
    os.close(held)

    assert not file_lock.take(second, wait=False)


def test_take_of_a_folder_says_that_there_are_no_locks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.ENOSYS, "refused")

    monkeypatch.setattr(fcntl, "flock", refuse)
    folder = os.open(tmp_path, os.O_RDONLY)
    try:
        with pytest.raises(OSError) as refused:  # noqa: PT011 - its number is checked
            file_lock.take(folder)
    finally:
        os.close(folder)

    assert refused.value.errno in file_lock.NO_LOCKS


@pytest.mark.process
def test_a_lock_without_flock_ends_with_its_killed_holder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "lock"
    path.touch()

    def refuse(*_: object) -> None:
        raise OSError(errno.ENOSYS, "refused")

    monkeypatch.setattr(fcntl, "flock", refuse)
    line = [sys.executable, "-c", HOLDER, str(path)]
    env = {**os.environ, "PYTHONPATH": str(ROOT / "runner")}
    with (
        path.open("r+") as own,
        subprocess.Popen(line, stdout=subprocess.PIPE, text=True, env=env) as holder,
    ):
        assert holder.stdout and holder.stdout.readline() == "held\n"
        assert not file_lock.take(own.fileno(), wait=False)

        holder.send_signal(signal.SIGKILL)

        assert file_lock.take(own.fileno())
