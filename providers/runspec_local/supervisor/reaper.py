"""The parent of a supervisor, which ends the processes that a job or a killed supervisor leaves. Standard library only.

The kernel signals only direct children when their parent dies (PR_SET_PDEATHSIG), so processes that a shell or daemon
of the job had started would continue. Processes that lose their parent become children of the nearest subreaper above
them, which is this process: PR_SET_CHILD_SUBREAPER, prctl(2).
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import select
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from runspec_agent.base import limits
from runspec_agent.base.light_typing import Any
from runspec_local.session import container_engine
from runspec_local.supervisor import process
from runspec_local.supervisor.device_leases import DeviceLeases
from runspec_local.supervisor.supervision import KILL_S, supervise


def main() -> None:
    """Run the supervisor of the run in a folder as a child, and wait for its end."""
    gc.freeze()  # what was imported is no garbage
    gc.enable()
    folder = Path(sys.argv[1])
    process.adopt_orphans()
    select.select([0], [], [])  # until the client has written all files of the run, or has ended
    lock = _lock(folder)
    process.locked(
        lock
    )  # until this process ends; another supervisor may have claimed the run first
    job = _job(folder)
    leases = DeviceLeases(job or {})  # kept open, so that they end after what has them
    read, claimed = os.pipe()
    supervisor = os.fork()
    if supervisor == 0:
        os.close(lock)
        os.close(read)
        supervise(folder, leases, claimed)
        sys.exit()
    os.close(claimed)
    null = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1):  # a client that waits for an answer sees that the supervisor has ended
        os.dup2(null, fd)
    status = _ended(supervisor)
    if job is not None and (bool(os.read(read, 1)) or _claimed(folder, supervisor)):
        if status:
            _end(job, process.adopted)
        elif job["engine"] == "process":
            # What the program has left, as on every service. An engine's children are its own daemons, and a shell
            # that somebody has opened in the run is no child of this process.
            process.end_all(None, job["grace_s"], process.adopted)
    sys.exit(os.waitstatus_to_exitcode(status))


def _ended(supervisor: int) -> int:
    """Wait for the end of *supervisor*, and reap the other processes of the run meanwhile."""
    while True:
        pid, status = os.wait()
        if pid == supervisor:
            return status


def _claimed(folder: Path, supervisor: int) -> bool:
    """Return whether *supervisor*, which was killed before it could say so, had claimed the run in *folder*.

    Two supervisors may have been started for it.
    """
    try:
        return bool(json.loads((folder / "started.json").read_bytes())["pid"] == supervisor)
    except (OSError, ValueError, LookupError, TypeError):
        # No file, or an incomplete one: no supervisor has claimed the run.
        return False


def _lock(folder: Path) -> int:
    return os.open(folder / "reaper.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)


def settle(folder: Path) -> None:
    """Wait until the supervisor's parent, if it lives, has ended the remaining processes of the run in *folder*."""
    grace_s = (_job(folder) or {}).get("grace_s", limits.UNKNOWN_GRACE_S)
    try:
        lock = _lock(folder)
    except OSError:  # the run was deleted, or its disk has no locks
        return
    try:
        until = time.monotonic() + grace_s + KILL_S
        while not process.locked(lock) and time.monotonic() < until:
            time.sleep(process.KILL_PAUSE_S)
    finally:
        os.close(lock)


def end(folder: Path) -> None:
    """End the processes of the run in *folder*, whose supervisor is dead, as their environment shows."""
    job = _job(folder)
    if job is not None:
        _end(job, process.nobody)


def _job(folder: Path) -> dict[str, Any] | None:
    """Return the parameters of the run in *folder*, or None if they were deleted or damaged."""
    try:
        job = json.loads((folder / "job.json").read_bytes())
    except (OSError, ValueError):
        return None
    return job if isinstance(job, dict) and {"run", "engine", "grace_s"} <= job.keys() else None


def _end(job: Mapping[str, Any], others: Callable[[], Iterator[int]]) -> None:
    """End all remaining processes of a run, and *others* if they belong to the run.

    Only the parent of a supervisor may pass `process.adopted`: the children of any other process are its own.
    """
    if job["engine"] != "process":
        with contextlib.suppress(OSError):
            for container in container_engine.containers_of(job["engine"], job["run"]):
                container_engine.remove_container(job["engine"], container)
        process.end_all(
            job["run"], job["grace_s"]
        )  # an engine's own daemons do not belong to the run
        return
    process.end_all(job["run"], job["grace_s"], others)
