"""Writes files so that a crash leaves each either complete or absent; only their owner can read them."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO

from runspec_jobs.errors import Unavailable

PRIVATE_FILE = 0o600
PRIVATE_FOLDER = 0o700


Waiting = Callable[[str], None]


def silent(_: str) -> None:
    """Do nothing: the default for callers that do not report waiting."""


@contextlib.contextmanager
def translate_os_errors(path: Path) -> Iterator[None]:
    """Raise Unavailable, with a hint, in place of an OSError while *path* is written."""
    try:
        yield
    except OSError as exc:
        reason = (exc.strerror or str(exc)).lower()
        raise Unavailable(f"cannot write {path}: {reason}", _way_out(exc.errno)) from exc


def _way_out(number: int | None) -> str | None:
    match number:
        case errno.ENOSPC | errno.EDQUOT:
            return "free some space, or set RUNSPEC_HOME to a folder on another disk"
        case errno.EACCES | errno.EROFS | errno.EPERM:
            return "set RUNSPEC_HOME to a folder that you may write"
    return None


def make_folder(path: Path) -> None:
    """Make the folder *path* and its missing parents, which only this user can read."""
    if path.is_dir():
        return
    make_folder(path.parent)
    with contextlib.suppress(FileExistsError):
        os.mkdir(path, PRIVATE_FOLDER)
    sync_folder(path.parent)


def sync_folder(path: Path) -> None:
    """Write the directory *path* to disk, so that files made, renamed or removed in it stay so after a crash."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def write(path: Path, data: bytes) -> None:
    """Replace the file *path* by *data* atomically: write to a temporary name, fsync, then rename."""
    temporary = path.with_name(f".{path.name}.new")
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, PRIVATE_FILE)
    try:
        write_all(fd, data)
        os.fsync(fd)
    finally:
        os.close(fd)
    os.replace(temporary, path)
    sync_folder(path.parent)


@contextlib.contextmanager
def replaced(path: Path) -> Iterator[BinaryIO]:
    """Yield a new file to write, which replaces *path* atomically at the end.

    It is for files that the user asked for by name. A link at *path*, which may come from a checkout, is replaced and
    not followed.
    """
    temporary = path.with_name(f".{path.name}.new")
    temporary.unlink(missing_ok=True)
    with temporary.open("xb") as file:
        yield file
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, path)


def overwrite(path: Path, data: bytes) -> None:
    """Write *data* over the content of *path* in place; *data* has the length of the file, and readers validate it."""
    fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.pwrite(fd, data, 0)
        os.fsync(fd)
    finally:
        os.close(fd)


def write_all(fd: int, data: bytes) -> None:
    """Write all of *data*; one call of `os.write` may write only a part."""
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


@contextlib.contextmanager
def locked(
    path: Path, what: str, waiting: Waiting = silent, *, shared: bool = False
) -> Iterator[None]:
    """Hold the lock *path*. The kernel releases it when the process ends, even after a crash.

    *waiting* is called once if another process holds the lock, with a message that names the process as *what*.
    """
    how = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
    with translate_os_errors(path):
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, PRIVATE_FILE)
    try:
        try:
            fcntl.flock(fd, how | fcntl.LOCK_NB)
        except BlockingIOError:
            waiting(f"waiting for {what}")
            fcntl.flock(fd, how)
        yield
    finally:
        os.close(fd)
