"""Messages for errors of the file system. Standard library only."""

from __future__ import annotations

import errno
import re
from pathlib import Path

FULL = (errno.ENOSPC, errno.EDQUOT)
MORE_ROOM = "free some space, or set RUNSPEC_HOME to a folder on another disk"


def described(exc: OSError, place: Path) -> str:
    """Return the path and reason of *exc*; *place* is used if the error names no file.

    An error of a write to an open file names no file, and one that no system call raised has no errno, only a text.

    >>> described(OSError(28, "No space left on device"), Path("/runs/r-1"))
    '/runs/r-1: no space left on device'
    >>> described(OSError("it is odd"), Path("/runs/r-1"))
    '/runs/r-1: it is odd'
    """
    where = place if exc.filename is None else exc.filename
    return f"{where}: {(exc.strerror or str(exc) or type(exc).__name__).lower()}"


def way_out(exc: OSError) -> str | None:
    """Return a hint for *exc*, or None if there is none."""
    return MORE_ROOM if exc.errno in FULL else None


def of_copy(text: str, place: Path) -> OSError:
    """Return the OSError of which `shutil.copytree` kept only the *text*, when it copied to *place*.

    >>> of_copy("[Errno 28] No space left on device: '/a' -> '/b'", Path("/b"))
    OSError(28, "No space left on device: '/a' -> '/b'")
    """
    found = re.match(r"\[Errno (\d+)\] (.*)", text, re.DOTALL)
    number, why = (int(found[1]), found[2]) if found else (errno.EIO, text)
    return OSError(number, why, str(place))


def not_started(exc: OSError, place: Path) -> str:
    """Return why a node cannot start, in one line.

    >>> not_started(FileNotFoundError(2, "No such file or directory", "podman"), Path("/runs/r-1"))
    'cannot start: podman: no such file or directory'
    """
    hint = way_out(exc)
    return f"cannot start: {described(exc, place)}" + (f"; {hint}" if hint else "")
