"""Messages for errors of the file system. Standard library only."""

from __future__ import annotations

import contextlib
import errno
import os
import re
from pathlib import Path

from runspec_agent.base.failure import is_no_space

LEAST_BYTES = 64 << 10  # a disk with less is full
MORE_ROOM = "free some space, or set RUNSPEC_HOME to a folder on another disk"


def described(exc: OSError, path: Path) -> str:
    """Return the path and reason of *exc*; *path* is used if the error names no file.

    An error of a write to an open file names no file, and one that no system call raised has no errno, only a text.

    >>> described(OSError(28, "No space left on device"), Path("/runs/r-1"))
    '/runs/r-1: no space left on device'
    >>> described(OSError("it is odd"), Path("/runs/r-1"))
    '/runs/r-1: it is odd'
    """
    where = path if exc.filename is None else exc.filename
    return f"{where}: {(exc.strerror or str(exc) or type(exc).__name__).lower()}"


def way_out(exc: OSError) -> str | None:
    """Return a hint for *exc*, or None if there is none."""
    return MORE_ROOM if is_no_space(exc) else None


def full_disk(folder: Path) -> str:
    """Return a message if the disk of *folder* has no room for what a run writes, or an empty string."""
    # The folder may not exist yet, and the caller has an error of its own.
    with contextlib.suppress(OSError):
        disk = os.statvfs(folder)
        if disk.f_bavail * disk.f_frsize < LEAST_BYTES:
            return with_way_out(OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)), folder)
    return ""


def of_copy(text: str, path: Path) -> OSError:
    """Return the OSError of which `shutil.copytree` kept only the *text*, when it copied to *path*.

    >>> of_copy("[Errno 28] No space left on device: '/a' -> '/b'", Path("/b"))
    OSError(28, "No space left on device: '/a' -> '/b'")
    """
    match = re.match(r"\[Errno (\d+)\] (.*)", text, re.DOTALL)
    number, why = (int(match[1]), match[2]) if match else (errno.EIO, text)
    return OSError(number, why, str(path))


def not_started(exc: OSError, path: Path) -> str:
    """Return why a node cannot start, in one line.

    >>> not_started(FileNotFoundError(2, "No such file or directory", "podman"), Path("/runs/r-1"))
    'cannot start: podman: no such file or directory'
    """
    return f"cannot start: {with_way_out(exc, path)}"


def with_way_out(exc: OSError, path: Path) -> str:
    """Return the path and reason of *exc* and what to do about it, in one line; *path* is as in `described`."""
    hint = way_out(exc)
    return described(exc, path) + (f"; {hint}" if hint else "")
