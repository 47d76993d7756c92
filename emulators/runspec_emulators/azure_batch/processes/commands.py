"""One command of a task: its files are fetched, a process runs, and all that it left is ended."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import threading
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from runspec_emulators.azure_batch.processes import containers, transfers
from runspec_emulators.azure_batch.processes.transfers import TransferError
from runspec_emulators.azure_batch.settings import Settings
from runspec_emulators.frame.containers import own_env, rooted, rootless
from runspec_emulators.frame.processes import exit_code, inherited, kill_group, marked, send

GONE_S = 5.0  # how long to wait for what was killed


@dataclass(frozen=True)
class Ended:
    """The end of a command."""

    exit_code: int | None = None
    failure: dict[str, Any] | None = None
    """TaskFailureInformation."""

    @property
    def failed(self) -> bool:
        return self.failure is not None or self.exit_code != 0

    def execution_info(self) -> dict[str, Any]:
        """Return the members of execution information that the end sets."""
        info: dict[str, Any] = {}
        if self.exit_code is not None:
            info["exitCode"] = self.exit_code
        if self.failure is not None:
            info["failureInfo"] = self.failure
        return info


def failure(code: str, message: str, category: str = "UserError", **details: Any) -> dict[str, Any]:
    """Return a TaskFailureInformation.

    https://learn.microsoft.com/en-us/rest/api/batchservice/batch-status-and-error-codes
    """
    more = [{"name": k, "value": str(v)} for k, v in details.items()]
    return {"category": category.lower(), "code": code, "message": message, "details": more}


def ended_with(code: int) -> Ended:
    if code == 0:
        return Ended(0)
    text = "The task exited with an exit code representing a failure"
    details = {"Message": "The task process exited with an unexpected exit code"}
    details |= {"AdditionalErrorCode": "FailureExitCode"}
    return Ended(code, failure("FailureExitCode", text, **details))


def folders(folder: Path) -> dict[str, str]:
    """Return the variables that say where a task's files are."""
    return {"AZ_BATCH_TASK_DIR": str(folder), "AZ_BATCH_TASK_WORKING_DIR": str(folder / "wd")}


@dataclass
class Command:
    """One command in a task's folder; `kill` may be called from any thread, at any time."""

    folder: Path
    env: Mapping[str, str]
    container: containers.Container | None = None
    """The container that the command runs in, if any."""
    append: bool = False
    """Whether output is appended to that of an earlier command."""
    root: Path | None = None
    """The folder that keeps the root of the container, where that is a process."""
    killed: bool = False
    process: subprocess.Popen[bytes] | None = None
    remove: Callable[[], None] | None = None
    """Ends the container, where there is one."""
    name: str | None = None
    """The container that further commands go into, where there is one."""
    lock: threading.Lock = field(default_factory=threading.Lock)

    def run(self, settings: Settings, line: str, files: Sequence[Mapping[str, Any]] = ()) -> Ended:
        """Fetch resource files into the working directory, run the line, and wait for its end."""
        end = self.fetch(files, self.folder / "wd")
        return end or self.execute(settings, line)

    def fetch(self, files: Sequence[Mapping[str, Any]], into: Path) -> Ended | None:
        """Bring resource files; give how the task ends if one cannot be brought."""
        into.mkdir(parents=True, exist_ok=True)
        (self.folder / "wd").mkdir(parents=True, exist_ok=True)
        for file in files:
            try:
                transfers.fetch(file, into, self.env)
            except TransferError as exc:
                return Ended(None, failure(exc.code, exc.message, **exc.details))
        return None

    def execute(self, settings: Settings, line: str, leave: bool = False) -> Ended:
        """Run a line and wait for its end. What it started goes with it, unless *leave* is true.

        A program that cannot be started: "CommandProgramNotFound: The specified command program is
        not found", of which the service also says an exit code is not there.
        """
        if self.container is not None and settings.engine == "podman":
            why = containers.not_pulled(settings, self.container)
            if why is not None:
                text = "One or more container images specified are invalid"
                return Ended(None, failure("ContainerInvalidImage", text, Message=why))
        try:
            argv = split_command(line)
            process = self._spawn(settings, argv, leave)
        except (OSError, ValueError, IndexError) as exc:
            code = (
                "CommandProgramNotFound"
                if isinstance(exc, FileNotFoundError)
                else "CommandLaunchFailed"
            )
            return Ended(
                None, failure(code, "The specified command program is not found", Message=exc)
            )
        if process is None:
            return Ended(None)
        status = process.wait()
        if not leave:
            self.end_all()
        return ended_with(exit_code(status))

    def _spawn(
        self, settings: Settings, argv: list[str], leave: bool
    ) -> subprocess.Popen[bytes] | None:
        env = inherited()
        env |= {"HOME": str(self.folder / "wd"), **settings.machine_env, **self.env}
        if settings.link_local:
            env.pop(transfers.MACHINE, None)
        if self.container is not None and settings.engine == "podman":
            argv = self._contained(settings, argv, leave)
            env = own_env({**settings.machine_env, **self.env})
        program = shutil.which(argv[0], path=env.get("PATH", os.defpath))
        program = program or str(self.folder / "wd" / argv[0])
        if not os.access(program, os.X_OK) and settings.own_root:
            raise FileNotFoundError(program)
        before = self._root() if settings.own_root and settings.engine == "process" else []
        with self.lock:
            if self.killed:
                return None
            out, err = self.folder / "stdout.txt", self.folder / "stderr.txt"
            for file in () if self.append else (out, err):
                file.write_bytes(b"")
            # What an earlier command left in the background writes there, too.
            with out.open("ab") as to_out, err.open("ab") as to_err:
                self.process = subprocess.Popen(
                    [*before, program, *argv[1:]],
                    env=env,
                    cwd=self.folder / "wd",
                    stdin=subprocess.DEVNULL,
                    stdout=to_out,
                    stderr=to_err,
                    start_new_session=True,
                )
            return self.process

    def _root(self) -> list[str]:
        """Return the words that give a command its root: that of a container, which stays, or of its machine."""
        node = Path(self.env["AZ_BATCH_NODE_ROOT_DIR"])
        if self.container is None:
            return rootless(node / "own", node)
        if self.root is None:
            self.root = node / f"own-{uuid.uuid4().hex}"
        return rooted(self.root, node)

    def _contained(self, settings: Settings, argv: list[str], leave: bool) -> list[str]:
        """Return the command of a container. An image has a PATH and a home of its own."""
        assert self.container is not None, "BUG: there is no container"
        if self.name is None:
            name = f"batch-{uuid.uuid4().hex}"
            self.remove = partial(containers.removed, settings, name)
            env = {**settings.machine_env, **self.env}
            if not leave:
                return containers.wrapped(settings, self.container, argv, env, self.folder, name)
            containers.begun(settings, self.container, env, self.folder, name)
            self.name = name
        return containers.inside(settings, self.container, argv, self.folder, self.name)

    def kill(self) -> None:
        """End all its processes now, and start none any more."""
        with self.lock:
            self.killed = True
        self.end_all()

    def end_all(self) -> None:
        """End the process group, and what has left it: its environment names the folder. proc(5)

        It looks until none is left: one may have been forked while it looked.
        """
        if self.remove is not None:
            self.remove()
        process = self.process
        if process is not None and process.returncode is None:
            kill_group(process.pid)
        end = time.monotonic() + GONE_S
        mark = f"AZ_BATCH_TASK_DIR={self.folder}\0"
        while (pids := list(marked(mark))) and time.monotonic() < end:
            for pid in pids:
                send(pid, signal.SIGKILL)
            time.sleep(0.002)


# A command line as the node agent reads it: no shell, so quotes group words and nothing expands.
#
# "The command line does not run under a shell, and therefore cannot take advantage of shell features such as
# environment variable expansion". How Linux nodes split the line is not documented. The documentation has lines such as
# `/bin/sh -c "printenv NAME"` and `/bin/bash -c 'set -e; ...'`, so the line is split here as POSIX shells split words:
# by single quotes, double quotes and backslashes.
# https://learn.microsoft.com/en-us/azure/batch/batch-compute-node-environment-variables


def split_command(line: str) -> list[str]:
    """Return the words of a command line; raise ValueError where a quote is left open.

    >>> split_command('/bin/sh -c "echo $HOME"')
    ['/bin/sh', '-c', 'echo $HOME']
    """
    return shlex.split(line, comments=False, posix=True)
