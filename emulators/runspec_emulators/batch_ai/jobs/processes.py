"""Processes of jobs: started on a node, and ended with all that they have started."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import IO, NamedTuple

from runspec_emulators.frame.processes import exit_code, kill_group, marked, send

MARK = "RUNSPEC_REHEARSAL_MARK"  # in the environment of every process of one run


class Wanted(NamedTuple):
    """One process to start."""

    command: str
    """For bash: "The command is executed in a bash subshell", SetupTask.commandLine."""
    env: Mapping[str, str]
    cwd: Path
    out: Path
    err: Path
    prefix: tuple[str, ...] = ()
    """Words before bash: a container's."""


class Process:
    """A started process, its output going to files."""

    def __init__(self, wanted: Wanted) -> None:
        self._lock = threading.Lock()
        self._over = False
        with wanted.out.open("wb") as out, wanted.err.open("wb") as err:
            self._process = spawned(wanted, out, err)

    def signal(self, number: int) -> None:
        """Send a signal to the process and its group. After the end, does nothing."""
        with self._lock:
            if not self._over:
                os.killpg(self._process.pid, number)

    def wait(self) -> int:
        """Wait for the end and give the exit code, as bash would: 128 + N after signal N."""
        os.waitid(os.P_PID, self._process.pid, os.WEXITED | os.WNOWAIT)
        with self._lock:
            self._over = True
            kill_group(self._process.pid)
            return exit_code(self._process.wait())


def spawned(wanted: Wanted, out: IO[bytes], err: IO[bytes]) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [*wanted.prefix, "bash", "-c", wanted.command],
        env=dict(wanted.env),
        cwd=wanted.cwd,
        stdin=subprocess.DEVNULL,
        stdout=out,
        stderr=err,
        start_new_session=True,
    )


def end_marked(mark: str) -> None:
    """Kill what has left the groups of its processes."""
    for pid in marked(f"{MARK}={mark}"):
        send(pid, signal.SIGKILL)
