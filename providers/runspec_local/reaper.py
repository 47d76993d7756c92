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
from collections.abc import Callable, Iterator
from pathlib import Path

from runspec_local import engine, process
from runspec_local.supervisor import KILL_S, supervise


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
    if status and _claimed(folder, supervisor):
        end(folder, process.adopted)
    sys.exit(os.waitstatus_to_exitcode(status))


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
    try:
        job = json.loads((folder / "job.json").read_bytes())
        lock = _lock(folder)
    except FileNotFoundError:
        return
    try:
        until = time.monotonic() + job["grace_s"] + KILL_S
        while not process.locked(lock) and time.monotonic() < until:
            time.sleep(process.KILL_PAUSE_S)
    finally:
        os.close(lock)


def end(folder: Path, others: Callable[[], Iterator[int]] = process.nobody) -> None:
    """End all that is left of the run in *folder*, whose supervisor is dead, and *others*, where they are the run's.

    Only the parent of a supervisor may give `process.adopted`: the children of any other process are its own.
    """
    try:
        job = json.loads((folder / "job.json").read_bytes())
    except FileNotFoundError:
        return
    if job["engine"] != "process":
        with contextlib.suppress(OSError):
            for container in engine.containers_of(job["engine"], job["run"]):
                engine.remove_container(job["engine"], container)
        process.end_all(job["run"], job["grace_s"])  # an engine's own daemons are not the run's
        return
    process.end_all(job["run"], job["grace_s"], others)
