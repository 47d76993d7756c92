"""What the file system refuses, in words: what, where, and what to do. Standard library only."""

from __future__ import annotations

import errno
import re
from pathlib import Path

FULL = (errno.ENOSPC, errno.EDQUOT)
MORE_ROOM = "free some space, or set RUNSPEC_HOME to a folder on another disk"


def described(exc: OSError, place: Path) -> str:
    """Return where *exc* was and why; *place* stands for a file that the system does not name.

    A write to an open file names none, and an error that is no system call's has no errno, only its text.

    >>> described(OSError(28, "No space left on device"), Path("/runs/r-1"))
    '/runs/r-1: no space left on device'
    >>> described(OSError("it is odd"), Path("/runs/r-1"))
    '/runs/r-1: it is odd'
    """
    where = place if exc.filename is None else exc.filename
    return f"{where}: {(exc.strerror or str(exc) or type(exc).__name__).lower()}"


def way_out(exc: OSError) -> str | None:
    """Return what the user may do about *exc*, where that is known."""
    return MORE_ROOM if exc.errno in FULL else None


def of_copy(text: str, place: Path) -> OSError:
    """Return the error of which `shutil.copytree` has kept the *text* alone, while it made *place*.

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
