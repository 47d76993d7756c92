"""Running containers for real: as a process of this machine, or by podman. Argv lists, no shell."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, NamedTuple, Protocol

from runspec_emulators.aws.settings import Settings
from runspec_emulators.frame.containers import env_options, own_env, rooted, run_podman
from runspec_emulators.frame.processes import exit_code, kill_group, marked, send

DRAIN_S = 5.0  # how long to wait for the last lines of a container that has ended
Emit = Callable[[int, str], None]
"""Takes one line of a container: milliseconds since 1970, and the text."""


class Wanted(NamedTuple):
    """One container to run."""

    name: str
    """Unique; every process of the container can be found by it."""
    image: str
    command: tuple[str, ...]
    env: Mapping[str, str]
    memory_mib: int
    shared_memory_mib: int
    user: str
    init: bool
    """Whether an init process forwards signals. LinuxParameters, initProcessEnabled."""


class End(NamedTuple):
    """The end of a container."""

    exit_code: int | None
    reason: str | None = None
    """The reason that ECS would report for the container, if any."""
    started: bool = True


OUT_OF_MEMORY = "OutOfMemoryError: Container killed due to memory usage"
"""https://docs.aws.amazon.com/AmazonECS/latest/developerguide/out-of-memory.html"""


class Running(Protocol):
    """One container that was started."""

    def stop(self, grace_s: float) -> None:
        """Send SIGTERM to its first process and, when it still runs after *grace_s*, SIGKILL.

        May be called more than once and after the end. Returns at once.
        https://docs.aws.amazon.com/batch/latest/userguide/job_timeouts.html
        """

    def kill(self) -> None:
        """End all its processes now."""


class CannotStart(Exception):
    """The container could not be started; the message is what ECS would say."""


@dataclass
class Container:
    """A started child process that is, or stands for, the first process of a container."""

    process: subprocess.Popen[bytes]
    end_all: Callable[[], None]
    told_by: Callable[[int], None]
    """Sends SIGTERM to the first process."""
    lock: threading.Lock = field(default_factory=threading.Lock)
    over: bool = False
    told: bool = False
    """Whether it was asked to end."""

    def stop(self, grace_s: float) -> None:
        with self.lock:
            self.told = True
            if not self.over:
                self.told_by(self.process.pid)
        timer = threading.Timer(grace_s, self.kill)
        timer.daemon = True
        timer.start()

    def kill(self) -> None:
        with self.lock:
            self.told = True
            if not self.over:
                self.end_all()

    def wait(self) -> int:
        """Wait for the first process, end all others, and give its exit code.

        It is reaped last: until then its number, which is that of its group, is not used again.
        """
        os.waitid(os.P_PID, self.process.pid, os.WEXITED | os.WNOWAIT)
        with self.lock:
            self.over = True
            self.end_all()
            return self.process.wait()


def start(wanted: Wanted, settings: Settings, emit: Emit, ended: Callable[[End], None]) -> Running:
    """Start a container; lines go to *emit* as they come, and then *ended* is called once.

    Raises CannotStart. Both callbacks are called in threads of their own.
    """
    kind = ENGINES[settings.engine]
    process = spawned(kind.command(wanted, settings))
    tell = tell_first if settings.engine == "process" and not wanted.init else tell_any
    container = Container(process, lambda: kind.end_all(wanted, settings, process.pid), tell)
    assert process.stdout is not None, "BUG: the output was not asked for"
    reader = threading.Thread(target=lines_to, args=(process.stdout, emit), daemon=True)
    reader.start()

    def waited() -> None:
        code = container.wait()
        reader.join(DRAIN_S)
        ended(kind.meaning(code, container.told, wanted, settings))

    threading.Thread(target=waited, daemon=True).start()
    return container


class Command(NamedTuple):
    """A command to execute."""

    argv: tuple[str, ...]
    env: Mapping[str, str]
    cwd: Path


def spawned(command: Command) -> subprocess.Popen[bytes]:
    try:
        return subprocess.Popen(
            command.argv,
            env=dict(command.env),
            cwd=command.cwd,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    except (OSError, ValueError) as exc:
        raise CannotStart(f"CannotStartContainerError: {exc}") from exc


def lines_to(stream: IO[bytes], emit: Emit) -> None:
    """Pass on the lines of *stream* as they arrive.

    The driver splits at newlines. An event has at least one character (PutLogEvents,
    InputLogEvent.message, min 1), so empty lines are not kept.
    """
    with stream:
        for line in stream:
            text = line.removesuffix(b"\n").decode(errors="replace")
            if text:
                emit(int(time.time() * 1000), text)


# As a process


def scratch(wanted: Wanted, settings: Settings) -> Path:
    folder = settings.folder / "containers" / wanted.name
    folder.mkdir(parents=True)
    return folder


def as_process(wanted: Wanted, settings: Settings) -> Command:
    """Run the command itself. The image is ignored, so its default command is not known."""
    if not wanted.command:
        raise CannotStart("CannotStartContainerError: No command specified")
    folder = scratch(wanted, settings)
    env = {"PATH": os.environ.get("PATH", os.defpath), "HOME": str(folder), **wanted.env}
    program = shutil.which(wanted.command[0], path=env["PATH"])
    if program is None:
        raise CannotStart(
            f'CannotStartContainerError: exec: "{wanted.command[0]}": '
            "executable file not found in $PATH"
        )
    before = rooted(folder.with_name(f"{wanted.name}.own"), folder) if settings.own_root else ()
    return Command((*before, program, *wanted.command[1:]), env, folder)


def end_processes(wanted: Wanted, _settings: Settings, pid: int) -> None:
    """End the group of a container's first process, and what has left the group."""
    kill_group(pid)
    for process in marked(wanted.name):
        send(process, signal.SIGKILL)


def catches_sigterm(pid: int) -> bool:
    """Return whether a process has a handler for SIGTERM. proc(5), SigCgt"""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False
    mask = int(status.partition("SigCgt:")[2].split()[0], 16)
    return bool(mask >> (signal.SIGTERM - 1) & 1)


def tell_first(pid: int) -> None:
    """Send SIGTERM as to process 1 of a container, where it has no effect without a handler.

    pid_namespaces(7): "Only signals for which the 'init' process has established a signal handler
    can be sent to the 'init' process by other members of the PID namespace", or by an ancestor's.
    """
    if catches_sigterm(pid):
        send(pid, signal.SIGTERM)


def tell_any(pid: int) -> None:
    send(pid, signal.SIGTERM)


def process_meaning(code: int, _told: bool, _wanted: Wanted, _settings: Settings) -> End:
    """Docker gives 128 + the number of the signal that ended a container's first process."""
    return End(exit_code(code))


# By podman

NOT_STARTED = 125  # podman-run(1), "Exit Status": the error is with podman itself
KILLED = 137  # by SIGKILL. State.OOMKilled is not set with runc and version 1 of cgroups


def as_podman(wanted: Wanted, settings: Settings) -> Command:
    folder = scratch(wanted, settings)
    argv = [*settings.podman, "run", "--name", wanted.name, "--network", "host"]
    argv += ["--memory", f"{wanted.memory_mib}m", "--memory-swap", f"{wanted.memory_mib}m"]
    if wanted.shared_memory_mib:
        argv += ["--shm-size", f"{wanted.shared_memory_mib}m"]
    if wanted.init:
        argv += ["--init"]
    if wanted.user:
        argv += ["--user", wanted.user]
    argv += env_options(folder.parent / f"{wanted.name}.env", wanted.env)
    argv += [wanted.image, *wanted.command]
    return Command(tuple(argv), own_env(wanted.env), folder)


def end_podman(wanted: Wanted, settings: Settings, pid: int) -> None:
    """Kill the container, but do not remove it: `podman_meaning` asks podman why it ended."""
    run_podman(settings.podman, "kill", wanted.name)
    kill_group(pid)


def podman_meaning(code: int, told: bool, wanted: Wanted, settings: Settings) -> End:
    """Remove a container, and return how it ended.

    podman says 125 where it, not the container, failed: nearly always there is no such image.
    https://docs.aws.amazon.com/AmazonECS/latest/developerguide/task_cannot_pull_image.html
    """
    run_podman(settings.podman, "rm", "--force", "--ignore", wanted.name)
    if code == NOT_STARTED:
        return End(None, f"CannotPullContainerError: pull image {wanted.image} has failed", False)
    code = exit_code(code)
    killed_by_none_of_us = code == KILLED and not told
    return End(code, OUT_OF_MEMORY if killed_by_none_of_us else None)


class Kind(NamedTuple):
    """One way to run containers."""

    command: Callable[[Wanted, Settings], Command]
    end_all: Callable[[Wanted, Settings, int], None]
    meaning: Callable[[int, bool, Wanted, Settings], End]


ENGINES = {
    "process": Kind(as_process, end_processes, process_meaning),
    "podman": Kind(as_podman, end_podman, podman_meaning),
}
