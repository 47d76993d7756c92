"""Processes of this machine: who they are, and ending all that belong to a run."""

from __future__ import annotations

import ctypes
import fcntl
import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

FORMAT = "runspec.local/v1"  # of all that lies in a run's folder: job.json and started.json have it
PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36  # prctl(2)
KILL_PAUSE_S = 0.02

_libc: Any = ctypes.CDLL(None)


def boot_id() -> str:
    """Give what tells this start of the machine from the one before. proc(5)"""
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def start_ticks(pid: int) -> int | None:
    """Give when *pid* was started, in ticks since boot, or None when it is not alive.

    A number may be given to another process later; the number and this together are not.
    Field 22 of /proc/PID/stat. proc(5)
    """
    fields = _stat(pid)
    return None if fields is None else int(fields[19])


def parent(pid: int) -> int | None:
    """Give the parent of *pid*, or None when it is not alive. Field 4 of /proc/PID/stat. proc(5)"""
    fields = _stat(pid)
    return None if fields is None else int(fields[1])


def _stat(pid: int) -> list[bytes] | None:
    """Give the fields from the third on: the second is the name, which may hold spaces."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return None
    fields = stat.rpartition(b")")[2].split()
    return None if fields[0] in (b"Z", b"X") else fields


def alive(who: dict[str, Any]) -> bool:
    """Say whether the process that `identity` described still runs."""
    return bool(who["boot"] == boot_id() and start_ticks(who["pid"]) == who["ticks"])


def identity() -> dict[str, Any]:
    """Describe this process, so that it can be told from any other for ever."""
    return {"pid": os.getpid(), "ticks": start_ticks(os.getpid()), "boot": boot_id()}


def locked(lock: int) -> bool:
    """Take the lock of an open file, or say that another process has it."""
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def die_with_parent() -> None:
    """Have the kernel send SIGTERM to this process when its parent ends. Called after fork."""
    _libc.prctl(PR_SET_PDEATHSIG, signal.SIGTERM)


def adopt_orphans() -> None:
    """Have every descendant of this process that loses its parent become a child of this one."""
    _libc.prctl(PR_SET_CHILD_SUBREAPER, 1)


def has_children() -> bool:
    """Say whether any child of this process is alive, and forget those that have ended."""
    try:
        while os.waitpid(-1, os.WNOHANG) != (0, 0):
            pass
    except ChildProcessError:
        return False
    return True


def adopted() -> Iterator[int]:
    """Give the children of this process that are alive, and forget those that have ended."""
    if not has_children():
        return
    own = os.getpid()
    for entry in os.scandir("/proc"):
        if entry.name.isdecimal() and parent(int(entry.name)) == own:
            yield int(entry.name)


def nobody() -> Iterator[int]:
    """Give no process."""
    return iter(())


def belonging(run: str) -> Iterator[int]:
    """Give the processes whose environment says that they belong to *run*, but not this one."""
    mark = f"RUNSPEC_RUN={run}".encode()
    for entry in os.scandir("/proc"):
        if entry.name.isdecimal() and int(entry.name) != os.getpid():
            try:
                environment = Path(entry.path, "environ").read_bytes()
            except OSError:
                continue
            if mark in environment.split(b"\0"):
                yield int(entry.name)


def end_all(run: str, grace_s: float, others: Callable[[], Iterator[int]] = nobody) -> None:
    """End every process that belongs to *run*, and *others*: asked first, ended after *grace_s* seconds."""
    end = time.monotonic() + grace_s
    asked: set[int] = set()
    while pids := {*belonging(run), *others()}:
        number = signal.SIGKILL if time.monotonic() > end else signal.SIGTERM
        for pid in pids if number is signal.SIGKILL else pids - asked:
            try:
                os.kill(pid, number)
            except ProcessLookupError:
                continue
        asked |= pids
        time.sleep(KILL_PAUSE_S)
