"""Tests that start processes or listen say so: plain `pytest` leaves them out, and takes less than a minute.

An audit hook sees what an unmarked test starts, whichever library it is in, and fails the test.
https://docs.python.org/3/library/audit_events.html
"""

from __future__ import annotations

import socket
import sys
from pathlib import Path
from typing import Any

import pytest

STARTS = {"subprocess.Popen", "os.fork", "os.forkpty", "os.posix_spawn", "os.exec"}
MARKS = ("process", "slow")
# Fixtures of wider scope that start a server: whoever uses one has a process, even if another test started it.
SERVERS = {"account", "blobs", "checkout", "ids", "objects", "pool", "shared"}


class ProcessStarted(RuntimeError):
    """A test that is not marked has started a process, or listens on a port."""


class Guard:
    """Knows which test runs now, and whether it may start processes."""

    def __init__(self) -> None:
        self.refuses: str | None = None  # the id of a test that may not

    def hook(self, event: str, args: tuple[Any, ...]) -> None:
        if self.refuses is not None and (
            (event in STARTS and not _only_reads(event, args))
            or (event == "socket.bind" and _tcp(args[0]))
        ):
            test, self.refuses = (
                self.refuses,
                None,
            )  # whatever handles the error may start processes
            raise ProcessStarted(f"{test}: {event}: mark the test with @pytest.mark.process")


def _only_reads(event: str, args: tuple[Any, ...]) -> bool:
    """Return whether `plan` starts it: a shell that reads a script, or `true` in a namespace of its own."""
    if event not in ("subprocess.Popen", "os.posix_spawn"):
        return False
    words = list(args[1])
    return words == ["/bin/sh", "-n"] or (Path(words[0]).name, words[-1]) == ("unshare", "true")


def _tcp(bound: socket.socket) -> bool:
    return bound.type == socket.SOCK_STREAM


GUARD = Guard()


def install() -> None:
    """Have every start of a process seen, for as long as this interpreter lives."""
    sys.addaudithook(GUARD.hook)


def mark(item: pytest.Item) -> None:
    """Mark a test that uses the fixture of a server."""
    if SERVERS & set(getattr(item, "fixturenames", ())):
        item.add_marker(pytest.mark.process)


def begin(item: pytest.Item) -> None:
    """Let *item* start processes if it is marked, or if marked tests were chosen as well: any may come first then."""
    marked = any(item.get_closest_marker(name) for name in MARKS)
    plain = "not process" in item.config.option.markexpr
    GUARD.refuses = item.nodeid if plain and not marked else None


def end() -> None:
    """Refuse nothing between two tests."""
    GUARD.refuses = None
