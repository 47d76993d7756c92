"""Writes files so that a crash leaves each either complete or absent; only their owner can read them."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import shlex
import stat
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO

from runspec_agent.base import file_lock
from runspec_jobs.errors import FileFailed
from runspec_jobs.provider import paths

PRIVATE_FILE = 0o600
PRIVATE_FOLDER = 0o700
READER_S = 10.0  # for a process to begin to read a pipe
UNFINISHED = ".rs-"  # how names of unfinished files begin
LINKS = 8  # the most links that are followed to an open file


CANNOT_SYNC = (errno.EINVAL, errno.EBADF, errno.ENOSYS, errno.EOPNOTSUPP)  # of folders: fsync(2)
MORE_ROOM = "free some space, or set RUNSPEC_HOME to a folder on another disk"

Waiting = Callable[[str], None]


def ignore_waiting(_: str) -> None:
    """Do nothing: the default for callers that do not report waiting."""


@contextlib.contextmanager
def translate_os_errors(path: Path, verb: str = "write") -> Iterator[None]:
    """Raise FileFailed, with a hint, in place of an OSError while *path* is written, or what *verb* says."""
    try:
        yield
    except OSError as exc:
        raise make_error(exc, path, verb) from exc


def make_error(exc: OSError, path: Path, verb: str) -> FileFailed:
    """Return the error for *exc*, which was raised when runspec tried to *verb* the file or folder *path*."""
    reason = (exc.strerror or str(exc)).lower()
    return FileFailed(f"cannot {verb} {path}: {reason}", suggest_way_out(exc.errno, path))


def suggest_way_out(number: int | None, path: Path) -> str | None:
    """Return what to do about the error *number* of *path*, or None if that is not known."""
    home = paths.find_home()
    is_own = path == home or home in path.parents
    match number:
        case errno.ENOSPC | errno.EDQUOT:
            return MORE_ROOM if is_own else "free some space on that disk"
        case errno.EACCES | errno.EROFS | errno.EPERM:
            if not is_own:
                return "name a folder that you may read and write"
            return f"set RUNSPEC_HOME to a folder that you may read and write, or {_repair(home)}"
        case errno.ENOTDIR | errno.EISDIR | errno.ELOOP | errno.ENAMETOOLONG if is_own:
            return "set RUNSPEC_HOME to another folder"
        case errno.EIO | errno.ESTALE | errno.ETIMEDOUT | errno.ENOTCONN:
            message = "the disk or its file server does not answer"
            return f"{message}; set RUNSPEC_HOME to a folder on another disk" if is_own else message
        case number if number in file_lock.NO_LOCKS:
            return "its file system has no locks: set RUNSPEC_HOME to a folder on a disk of this machine"
    return None


def _repair(home: Path) -> str:
    """Return the way to make the folder of the state usable again, as after a command that was run with sudo."""
    with contextlib.suppress(OSError):
        if home.stat().st_uid != os.geteuid():
            return f"make it yours: sudo chown -R {os.geteuid()} {shlex.quote(str(home))}"
    return f"look at who owns it: ls -ld {shlex.quote(str(home))}"


def make_folder(path: Path) -> None:
    """Make the folder *path* and its missing parents, which only this user can read."""
    if path.is_dir():
        return
    # Not `parents=True`: each new folder needs its own mode, and its parent has to be synced.
    make_folder(path.parent)
    with contextlib.suppress(FileExistsError):  # another process has made it since the check above
        os.mkdir(path, PRIVATE_FOLDER)
    sync_folder(path.parent)


def sync_folder(path: Path) -> None:
    """Write the directory *path* to disk, so that files made, renamed or removed in it stay so after a crash.

    Some network file systems cannot do that, and nothing is raised for them.
    """
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    except OSError as exc:
        if exc.errno not in CANNOT_SYNC:
            raise
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
def replace_atomically(path: Path, begins: str = UNFINISHED) -> Iterator[BinaryIO]:
    """Yield a new file to write, which replaces *path* atomically at the end. Until then its name *begins* so.

    It is for files that the user asked for by name. A link at *path*, which may come from a checkout, is replaced and
    not followed. The new file has a random name until then, as another process may write the same *path*.
    """
    temporary = path.with_name(f"{begins}{secrets.token_hex(8)}.part")
    try:
        with temporary.open("xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:  # also KeyboardInterrupt
        temporary.unlink(missing_ok=True)
        raise


@contextlib.contextmanager
def write_file(path: Path) -> Iterator[BinaryIO]:
    """Yield the file of `replace_atomically` to write to, or *path* itself where a file cannot take its place.

    That is a device, a pipe, or a link to an open file of this process, such as /dev/stdout.
    """
    special = open_special(path)
    if special is None:
        with replace_atomically(path) as file:
            yield file
    else:
        with special:
            yield special


def open_special(path: Path) -> BinaryIO | None:
    """Return *path* opened for writing if it is a device, a pipe or a link to an open file of this process.

    Other links are not followed: a link of a checkout may lead to a disk.
    """
    number = find_descriptor(path)
    if number is not None:
        return open(os.dup(number), "wb")  # it shares the position, and what was written stays
    try:
        mode = path.lstat().st_mode
    except OSError:
        return None
    if stat.S_ISCHR(mode) or stat.S_ISBLK(mode) or stat.S_ISFIFO(mode):
        return open(_open_special(path), "wb")
    return None


def _open_special(path: Path) -> int:
    """Open a device or a pipe. Raises OSError if nothing begins to read the pipe in READER_S seconds."""
    until = time.monotonic() + READER_S
    while True:
        try:
            # Without O_NONBLOCK, opening a pipe that nobody reads waits for ever: fifo(7).
            fd = os.open(path, os.O_WRONLY | os.O_NOCTTY | os.O_CLOEXEC | os.O_NONBLOCK)
        except OSError as exc:
            if exc.errno != errno.ENXIO:
                raise
            if time.monotonic() > until:
                raise OSError(errno.ENXIO, "no process reads this pipe", str(path)) from exc
            time.sleep(0.05)
        else:
            os.set_blocking(fd, True)
            return fd


def find_descriptor(path: Path) -> int | None:
    """Return the number of the open file of this process to which *path* leads, as /dev/stdout does, or None."""
    descriptors = Path(f"/proc/{os.getpid()}/fd")
    for _ in range(LINKS):
        try:
            if path.parent.resolve() == descriptors and path.name.isdecimal():
                return int(path.name)
            # One link at a time: /proc/PID/fd itself is made of links, which must not be followed further.
            path = path.parent / os.readlink(path)
        except (OSError, RuntimeError):  # it is no link, or leads to itself
            break
    return None


def overwrite(path: Path, data: bytes) -> None:
    """Write *data* over the content of *path* in place; *data* has the length of the file, and readers validate it."""
    fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        # In place, without a new file: the sequence number is locked by this very file.
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
def hold_lock(
    path: Path, holder: str, waiting: Waiting = ignore_waiting, *, shared: bool = False
) -> Iterator[None]:
    """Hold the lock *path*. The kernel releases it when the process ends, even after a crash.

    *waiting* is called once if another process holds the lock, with a message that names the process as *holder*.
    """
    with translate_os_errors(path):
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, PRIVATE_FILE)
    try:
        if not lock(fd, path, shared=shared, wait=False):
            waiting(f"waiting for {holder}")
            lock(fd, path, shared=shared)
        yield
    finally:
        os.close(fd)


def lock(fd: int, path: Path, *, shared: bool = False, wait: bool = True) -> bool:
    """Lock the open file *path*; return False if another process has locked it and *wait* is false.

    Raises FileFailed if that is not possible, for example on a file system without locks.
    """
    with translate_os_errors(path, "lock"):
        return file_lock.take(fd, shared, wait)
