"""Processes of this machine: their identities, and ending all that belong to a run."""

from __future__ import annotations

import ctypes
import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from runspec_agent.base import file_lock
from runspec_agent.base.light_typing import Any

FORMAT = "runspec.local/v1"  # of the files in a run's folder: job.json and started.json contain it
PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36  # prctl(2)
SUPERVISOR = (
    b"runspec_local.supervisor.reaper"  # in the command line of a supervisor and its parent
)
KILL_PAUSE_S = 0.02

_libc: Any = ctypes.CDLL(None)


def boot_id() -> str:
    """Return the id of this boot of the machine: proc(5)."""
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def start_ticks(pid: int) -> int | None:
    """Return when *pid* was started, in ticks since boot, or None if it is not alive.

    A process id may be reused, but never with the same start time. Field 22 of /proc/PID/stat: proc(5).
    """
    fields = _stat(pid)
    return None if fields is None else int(fields[19])


def parent(pid: int) -> int | None:
    """Return the parent of *pid*, or None if it is not alive. Field 4 of /proc/PID/stat: proc(5)."""
    fields = _stat(pid)
    return None if fields is None else int(fields[1])


def _stat(pid: int) -> list[bytes] | None:
    """Return the fields from the third on: the second is the name, which may contain spaces."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:  # the process has ended
        return None
    fields = stat.rpartition(b")")[2].split()
    return None if fields[0] in (b"Z", b"X") else fields


def alive(who: dict[str, Any]) -> bool:
    """Return whether the process with this `identity` still runs."""
    return bool(who["boot"] == boot_id() and start_ticks(who["pid"]) == who["ticks"])


def supervisor_in(folder: Path) -> dict[str, Any] | None:
    """Return the identity of the live supervisor of the run in *folder*, by its command line, or None.

    Its parent has the same command line, and leads the session of both.
    """
    for pid, argv in _command_lines():
        if argv[-1:] == [os.fsencode(folder)] and SUPERVISOR in b" ".join(argv):
            fields = _stat(pid)
            if fields is not None and int(fields[3]) != pid:
                return {"pid": pid, "ticks": int(fields[19]), "boot": boot_id()}
    return None


def supervised() -> set[Path]:
    """Return the folders of all runs that have a live supervisor or its parent, by their command lines."""
    commands = (argv for _, argv in _command_lines() if SUPERVISOR in b" ".join(argv))
    return {Path(os.fsdecode(argv[-1])) for argv in commands if argv[-1].startswith(b"/")}


def _command_lines() -> Iterator[tuple[int, list[bytes]]]:
    """Yield the command lines of other processes of this user: anybody may start one that looks like a supervisor."""
    for name in os.listdir("/proc"):
        if name.isdecimal() and int(name) != os.getpid():
            try:
                line = Path("/proc", name, "cmdline").read_bytes()
                is_ours = os.stat(f"/proc/{name}").st_uid == os.geteuid()
            except OSError:  # the process has ended since /proc was listed
                continue
            if line and is_ours:
                yield int(name), line.rstrip(b"\0").split(b"\0")


def identity() -> dict[str, Any]:
    """Return the identity of this process, which no other process ever has."""
    return {"pid": os.getpid(), "ticks": start_ticks(os.getpid()), "boot": boot_id()}


def locked(lock: int) -> bool:
    """Lock an open file; return False if another process has locked it."""
    return file_lock.take(lock, wait=False)


def die_with_parent() -> None:
    """Have the kernel send SIGTERM to this process when its parent ends. Called after fork."""
    _libc.prctl(PR_SET_PDEATHSIG, signal.SIGTERM)


def adopt_orphans() -> None:
    """Become the parent of every descendant whose parent ends."""
    _libc.prctl(PR_SET_CHILD_SUBREAPER, 1)


def has_children() -> bool:
    """Return whether any child of this process is alive, and reap those that have ended."""
    try:
        while os.waitpid(-1, os.WNOHANG) != (0, 0):
            pass
    except ChildProcessError:  # ECHILD: all children have been reaped
        return False
    return True


def adopted() -> Iterator[int]:
    """Yield the children of this process that are alive, and reap those that have ended."""
    if not has_children():
        return
    pid = os.getpid()
    for entry in os.scandir("/proc"):
        if entry.name.isdecimal() and parent(int(entry.name)) == pid:
            yield int(entry.name)


def members(group: int) -> Iterator[int]:
    """Yield the processes of a process group that are alive, except its leader. Field 5 of /proc/PID/stat."""
    for entry in os.scandir("/proc"):
        if entry.name.isdecimal() and int(entry.name) != group:
            fields = _stat(int(entry.name))
            if fields is not None and int(fields[2]) == group:
                yield int(entry.name)


def nobody() -> Iterator[int]:
    """Yield no process."""
    return iter(())


def belonging(run: str) -> Iterator[int]:
    """Yield the processes whose environment names *run*, except this one."""
    mark = f"RUNSPEC_RUN={run}".encode()
    for entry in os.scandir("/proc"):
        if entry.name.isdecimal() and int(entry.name) != os.getpid():
            try:
                environment = Path(entry.path, "environ").read_bytes()
            except OSError:  # the process has ended, or belongs to another user
                continue
            if mark in environment.split(b"\0"):
                yield int(entry.name)


def end_all(run: str | None, grace_s: float, others: Callable[[], Iterator[int]] = nobody) -> None:
    """End all processes of *run*, if there is one, and *others*: SIGTERM first, SIGKILL after *grace_s* seconds."""
    end = time.monotonic() + grace_s
    asked: set[int] = set()
    while pids := {*(belonging(run) if run is not None else ()), *others()}:
        number = signal.SIGKILL if time.monotonic() > end else signal.SIGTERM
        for pid in pids if number is signal.SIGKILL else pids - asked:
            try:
                os.kill(pid, number)
            except ProcessLookupError:  # it has ended since it was listed
                continue
        asked |= pids
        time.sleep(KILL_PAUSE_S)
