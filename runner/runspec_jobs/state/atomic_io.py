"""Writing that survives a crash: every file is whole or not there, and only its owner reads it."""

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
    """Nobody is told of a wait."""


@contextlib.contextmanager
def told(path: Path) -> Iterator[None]:
    """Turn what the file system refuses below *path* into words."""
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
    """Make *path* and what is missing above it, for this user alone."""
    if path.is_dir():
        return
    make_folder(path.parent)
    with contextlib.suppress(FileExistsError):
        os.mkdir(path, PRIVATE_FOLDER)
    sync_folder(path.parent)


def sync_folder(path: Path) -> None:
    """Make names that were made, changed or removed in *path* last."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def write(path: Path, data: bytes) -> None:
    """Put *data* at *path*, all or nothing: a temporary name, fsync, then rename."""
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
    """Yield a file to write, which takes the place of *path* at the end, all or nothing.

    It is for what the user has a verb write. A link at *path*, which may have come with a checkout, is replaced and
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
    """Put *data* over the content of *path*, in place: for a file of one length that whoever reads it checks."""
    fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.pwrite(fd, data, 0)
        os.fsync(fd)
    finally:
        os.close(fd)


def write_all(fd: int, data: bytes) -> None:
    """Write all of *data*; the kernel may take it in parts."""
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


@contextlib.contextmanager
def locked(
    path: Path, what: str, waiting: Waiting = silent, *, shared: bool = False
) -> Iterator[None]:
    """Hold the lock *path*. The kernel frees it when the process ends, however it ends.

    *waiting* is told once when another process holds it; *what* says who that is.
    """
    how = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
    with told(path):
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
