"""A child process of the supervisor, which ends with it."""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

from runspec_agent.base.light_typing import Any, BinaryIO
from runspec_local.supervisor.process import die_with_parent, members
from runspec_namespaces import mount_namespace

SAMPLE_S = 1.0  # before the first sample: a shorter job costs nothing
SAMPLER = "runspec-usage"  # at most 15 bytes: proc_pid_comm(5)
FDS = 4096
LET_GO_S = 10.0  # for an engine to remove its container


class Child:
    def __init__(self, process: subprocess.Popen[bytes], pidfd: int) -> None:
        self.process, self.pidfd = process, pidfd
        self.asked = False  # whether it was asked to end
        self.watched = False  # whether the supervisor is woken when it ends

    @property
    def ended(self) -> bool:
        """Return whether it has ended; after SIGTERM, whether all of its group have.

        A shell ends at SIGTERM while a program of its script saves.
        """
        return self.exited and not (self.asked and any(members(self.process.pid)))

    @property
    def exited(self) -> bool:
        """Return whether the process itself has ended. Its process id is not reused before `reap`."""
        return self.code is not None

    @property
    def code(self) -> int | None:
        """Return its exit code without reaping it, or the number of the signal that ended it; None while it runs."""
        if self.process.returncode is not None:
            return self.process.returncode
        how = os.WEXITED | os.WNOHANG | os.WNOWAIT
        end = os.waitid(os.P_PID, self.process.pid, how)
        return None if end is None else end.si_status

    def send(self, number: int) -> None:
        """Signal its process group, unless it was reaped: its process id may belong to another process."""
        if self.process.returncode is None:
            self.asked = self.asked or number == signal.SIGTERM
            try:
                os.killpg(self.process.pid, number)
            except ProcessLookupError:  # the group has ended, and is reaped by the loop
                pass

    def let_go(self) -> None:
        """Close its standard input, so that it ends; a signal would make an engine print an error to the log."""
        assert self.process.stdin is not None, "BUG: it has no input"
        self.process.stdin.close()
        # An engine that hangs: its container is removed by name.
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(LET_GO_S)
        self.reap()

    def reap(self) -> int:
        """Kill the rest of its group, and return its exit code. Call it once, when the process has ended."""
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
    namespace: Sequence[str] = (),
) -> Child:
    """Start *argv* as the leader of its own process group.

    With *namespace*, it has a mount namespace whose root also has these folders of *cwd*: see `mount_namespace`.
    """
    answer, writer = os.pipe2(os.O_CLOEXEC)
    with open(answer, "rb") as answers:
        try:
            with open(writer, "wb"):
                process = subprocess.Popen(
                    argv,
                    env=env,
                    cwd=cwd,
                    stdin=stdin,
                    stdout=log,
                    stderr=log,
                    start_new_session=True,
                    preexec_fn=partial(_prepare, cwd, namespace, writer),  # noqa: PLW1509 - the supervisor has one thread
                )
        except subprocess.SubprocessError as exc:
            raise OSError(errno.EPERM, answers.read().decode(), "mount namespace") from exc
    return Child(process, os.pidfd_open(process.pid))


def _prepare(cwd: Path, namespace: Sequence[str], writer: int) -> None:
    """Prepare the child process after the fork. Write what goes wrong to *writer*: Popen does not keep the message."""
    if namespace:
        try:
            mount_namespace.enter(cwd, namespace)
        except OSError as exc:
            text = f"{exc.filename}: {exc.strerror}; {mount_namespace.TURN_OFF}"
            os.write(writer, text.encode())
            raise
    die_with_parent()  # last, because a process that gets other rights forgets it: prctl(2)


def start_sampler(folder: Path, job: Mapping[str, Any]) -> int | None:
    """Fork the process that samples what the nodes of the run in *folder* use, and return its id, or None.

    It runs the agent of the run. Nodes of elastic jobs sample themselves. Called before a node is started.
    """
    if "elastic" in job:
        return None
    try:
        pid = os.fork()
    except OSError:  # too many processes: a job can do without the record of its usage
        return None
    if pid == 0:
        try:
            _sample(folder)
        finally:
            os._exit(0)
    return pid


def end_sampler(pid: int | None) -> None:
    """End the sampler and wait for it, so that it writes nothing afterwards."""
    if pid is not None:
        with contextlib.suppress(ProcessLookupError, ChildProcessError):
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


def _sample(folder: Path) -> None:
    os.closerange(3, FDS)  # locks end with the supervisor
    die_with_parent()
    with contextlib.suppress(OSError):  # its name in lists of processes
        Path("/proc/self/comm").write_text(SAMPLER)
    time.sleep(SAMPLE_S)
    sys.argv = ["usage", "usage", str(folder)]
    import runpy  # for this process alone

    runpy.run_path(str(folder / "runspec_inside.pyz"), run_name="__main__")
