"""The parent of a supervisor: it ends what a killed supervisor leaves behind. Standard library only.

The kernel tells a direct child that its parent has died (PR_SET_PDEATHSIG), and nobody else: what a shell or a daemon
of the job had started would go on. Processes that lose their parent become children of the nearest subreaper above
them, which outlives the supervisor: PR_SET_CHILD_SUBREAPER, prctl(2).
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from runspec_local.session import container_engine
from runspec_local.supervisor import process
from runspec_local.supervisor.supervisor import KILL_S, supervise

WISH_PAUSE_S = 0.2  # between two looks for a cancel


def main() -> None:
    """Run the supervisor of the run in a folder as a child, and wait for its end."""
    folder = Path(sys.argv[1])
    process.adopt_orphans()
    lock = _lock(folder)
    process.locked(lock)  # for life; it is free where another supervisor was the first, too
    supervisor = os.fork()
    if supervisor == 0:
        os.close(lock)
        supervise(folder)
        sys.exit()
    null = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1):  # whoever waits for an answer is to see that the supervisor has gone
        os.dup2(null, fd)
    status = _ended(supervisor)
    if _claimed(folder, supervisor):
        job = _job(folder)  # which a destroy on a full disk may take away while we wait
        if job is not None and (status or _is_unwanted(folder, job)):
            _end(job, process.adopted)
    sys.exit(os.waitstatus_to_exitcode(status))


def _is_unwanted(folder: Path, job: Mapping[str, Any]) -> bool:
    """Wait as long as processes are left of a run that has ended; return True once it is cancelled or destroyed.

    A process that left its session and emptied its environment is known to this process alone, as its child. Of a
    container engine these are its own daemons.
    """
    while job["engine"] == "process" and process.has_children():
        if (folder / "cancel").exists() or not folder.exists():
            return True
        time.sleep(WISH_PAUSE_S)
    return False


def _ended(supervisor: int) -> int:
    """Wait for the end of *supervisor*, and take in what other processes of the run leave."""
    while True:
        pid, status = os.wait()
        if pid == supervisor:
            return status


def _claimed(folder: Path, supervisor: int) -> bool:
    """Say whether *supervisor* is the one that has claimed the run in *folder*: there may have been two."""
    try:
        return bool(json.loads((folder / "started.json").read_bytes())["pid"] == supervisor)
    except FileNotFoundError:
        return False


def _lock(folder: Path) -> int:
    return os.open(folder / "reaper.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)


def settle(folder: Path) -> None:
    """Wait until the parent of the supervisor has ended what was left of the run in *folder*, if it lives."""
    job = _job(folder)
    if job is None:
        return
    try:
        lock = _lock(folder)
    except FileNotFoundError:
        return
    try:
        until = time.monotonic() + job["grace_s"] + KILL_S
        while not process.locked(lock) and time.monotonic() < until:
            time.sleep(process.KILL_PAUSE_S)
    finally:
        os.close(lock)


def end(folder: Path) -> None:
    """End all that is left of the run in *folder*, whose supervisor is dead, as far as its environment shows it."""
    job = _job(folder)
    if job is not None:
        _end(job, process.nobody)


def _job(folder: Path) -> dict[str, Any] | None:
    """Return what the run in *folder* was started with, or None where it was taken away."""
    try:
        found: dict[str, Any] = json.loads((folder / "job.json").read_bytes())
    except FileNotFoundError:
        return None
    return found


def _end(job: Mapping[str, Any], others: Callable[[], Iterator[int]]) -> None:
    """End all that is left of a run, and *others*, where they are the run's.

    Only the parent of a supervisor may give `process.adopted`: the children of any other process are its own.
    """
    if job["engine"] != "process":
        with contextlib.suppress(OSError):
            for container in container_engine.containers_of(job["engine"], job["run"]):
                container_engine.remove_container(job["engine"], container)
        process.end_all(job["run"], job["grace_s"])  # an engine's own daemons are not the run's
        return
    process.end_all(job["run"], job["grace_s"], others)
