"""A process of the supervisor's, which ends with it."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from runspec_local.supervisor.process import die_with_parent

LET_GO_S = 10.0  # for an engine to take its container away


@dataclass
class Child:
    process: subprocess.Popen[bytes]
    pidfd: int

    @property
    def ended(self) -> bool:
        """Say whether it has ended. Its number is nobody else's until `reap`."""
        how = os.WEXITED | os.WNOHANG | os.WNOWAIT
        return (
            self.process.returncode is not None
            or os.waitid(os.P_PID, self.process.pid, how) is not None
        )

    def send(self, number: int) -> None:
        """Signal its process group, or nobody when it was reaped: its number may be another's."""
        if self.process.returncode is None:
            try:
                os.killpg(self.process.pid, number)
            except ProcessLookupError:
                pass

    def let_go(self) -> None:
        """End what waits for its input. A signal to an engine that is about to end is a complaint in the log."""
        assert self.process.stdin is not None, "BUG: it has no input"
        self.process.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(LET_GO_S)
        self.reap()

    def reap(self) -> int:
        """End what is left of its group, and give its exit code. Once, when it has ended."""
        self.send(signal.SIGKILL)
        code = self.process.wait()
        os.close(self.pidfd)
        return code


def start_child(
    argv: Sequence[str],
    env: Mapping[str, str],
    cwd: Path,
    log: BinaryIO,
    stdin: int = subprocess.DEVNULL,
) -> Child:
    """Start *argv* as the leader of its own process group."""
    process = subprocess.Popen(
        argv,
        env=env,
        cwd=cwd,
        stdin=stdin,
        stdout=log,
        stderr=log,
        start_new_session=True,
        preexec_fn=die_with_parent,  # noqa: PLW1509 - the supervisor has one thread
    )
    return Child(process, os.pidfd_open(process.pid))
