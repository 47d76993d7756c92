"""One container: a process with its variables, mounts and log, or a container of podman."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

import runspec_namespaces
from runspec_emulators.frame.containers import env_options, own_env, run_podman, seen
from runspec_emulators.frame.processes import exit_code, inherited, kill_group, marked, send
from runspec_emulators.kubernetes.nodes import pod_root
from runspec_emulators.kubernetes.nodes.logs import Log
from runspec_emulators.kubernetes.settings import Settings
from runspec_namespaces import confined_commands

GONE_S = 5.0
MARK = "POD_SANDBOX_ID"
"""The variable by which all processes of a pod are found, wherever they have gone."""
# The exit code of StartError, with which containerd reports a command that cannot be started.
NOT_STARTED = 128


class NotStarted(Exception):
    """The command of a container cannot be started; the message says why."""


@dataclass(frozen=True)
class Launch:
    """What a container is started with."""

    name: str
    image: str
    argv: Sequence[str]
    env: Mapping[str, str]
    cwd: str
    mounts: Sequence[tuple[Path, str]]
    """Folders or files of this machine, and where the container has them."""
    read_only: frozenset[str] = frozenset()
    """Those of them that it cannot write to."""


@dataclass
class Container:
    """A container of a pod below *folder*; `kill` may be called from any thread."""

    settings: Settings
    folder: Path
    sandbox: str
    launch: Launch
    log: Log
    process: subprocess.Popen[bytes] | None = None
    killed: bool = False
    podman_name: str = ""
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _reader: threading.Thread | None = None

    def start(self) -> None:
        """Start it; raise NotStarted."""
        with self._lock:
            if self.killed:
                raise NotStarted("the pod was deleted")
            try:
                self.process, failed = self.spawn(self.launch.argv, subprocess.STDOUT)
            except OSError as exc:
                raise NotStarted(_why(self.launch.argv, exc)) from exc
            assert self.process.stdout is not None, "BUG: its output is a pipe"
            source = self.process.stdout
            self._reader = threading.Thread(target=self._read, args=(source,), daemon=True)
            self._reader.start()
        if failed:
            self.process.wait()
            raise NotStarted(f'exec: "{self.launch.argv[0]}": {failed}')

    def _read(self, source: IO[bytes]) -> None:
        with source:
            self.log.take(source)  # type: ignore[arg-type]  # a pipe is a BinaryIO

    def spawn(
        self,
        argv: Sequence[str],
        errors: int = subprocess.PIPE,
        stdin: int = subprocess.DEVNULL,
        stdout: int = subprocess.PIPE,
    ) -> tuple[subprocess.Popen[bytes], str]:
        """Start a command in the container; return its process, and why it failed to start, if it did."""
        env = {"HOME": str(self._home()), **self.environment()}
        if self.settings.engine == "podman":
            line, env = (
                self._podman(argv, stdin),
                own_env({**self.settings.machine_env, **self.launch.env}),
            )
            return _popen(line, env, self.folder, stdin, stdout, errors), ""
        if not self.settings.own_root:
            line, env, cwd = self._replaced(argv, env)
            return _popen(line, env, cwd, stdin, stdout, errors), ""
        reader, writer = os.pipe()
        try:
            line = self._rooted(argv, writer)
            process = _popen(line, env, self.folder, stdin, stdout, errors, (writer,))
        finally:
            os.close(writer)
        with open(reader, "rb") as said:
            return process, said.read().decode(errors="replace")

    def environment(self) -> dict[str, str]:
        return {**inherited(), **self.settings.machine_env, **self.launch.env, MARK: self.sandbox}

    def _home(self) -> Path:
        home = self.folder / "home"
        home.mkdir(parents=True, exist_ok=True)
        return home

    def _rooted(self, argv: Sequence[str], writer: int) -> list[str]:
        """Return the command that gives *argv* the root of the container."""
        root = self.folder / "root"
        root.mkdir(parents=True, exist_ok=True)
        sources = [source for source, _ in self.launch.mounts]
        writable = [self._home(), *(s if s.is_dir() else s.parent for s in sources)]
        confinement = confined_commands.confined_to(writable, self.folder, seen())
        given = {
            "sources": str(Path(runspec_namespaces.__path__[0]).parent),
            "root": os.path.realpath(root),
            "confinement": confinement,
            "mounts": [(os.path.realpath(source), target) for source, target in self.launch.mounts],
            "read_only": [*self.launch.read_only],
            "cwd": self.launch.cwd,
            "argv": [*argv],
            "failed": writer,
        }
        file = self.folder / f"start-{uuid.uuid4().hex}.json"
        file.touch(0o600)
        file.write_text(json.dumps(given))
        python = Path(os.path.realpath(pod_root.__file__))
        return [sys.executable, "-IS", str(python), str(file)]

    def _replaced(
        self, argv: Sequence[str], env: Mapping[str, str]
    ) -> tuple[list[str], dict[str, str], Path]:
        """Return the words and variables with real paths in the place of mounts, and the working directory."""
        paths = sorted(self.launch.mounts, key=lambda m: -len(m[1]))

        def replace(text: str) -> str:
            for source, target in paths:
                text = text.replace(target, str(source))
            return text

        cwd = replace(self.launch.cwd)
        if cwd == self.launch.cwd:
            cwd = str(self.folder / "root") + cwd
        Path(cwd).mkdir(parents=True, exist_ok=True)
        return [replace(w) for w in argv], {k: replace(v) for k, v in env.items()}, Path(cwd)

    def _podman(self, argv: Sequence[str], stdin: int) -> list[str]:
        podman, more = self.settings.podman, ["--interactive"] if stdin == subprocess.PIPE else []
        if self.podman_name:
            return [*podman, "exec", *more, self.podman_name, *argv]
        self.podman_name = f"pod-{uuid.uuid4().hex}"
        env = {**self.settings.machine_env, **self.launch.env}
        line = [*podman, "run", "--rm", "--name", self.podman_name, "--network", "host"]
        line += env_options(self.folder / f"{self.podman_name}.env", env)
        for source, target in self.launch.mounts:
            mode = ":ro" if target in self.launch.read_only else ""
            line += ["--volume", f"{source}:{target}{mode}"]
        if self.launch.cwd != "/":
            line += ["--workdir", self.launch.cwd]
        if argv:
            line += ["--entrypoint", json.dumps([*argv])]
        return [*line, self.launch.image]

    def wait(self) -> int:
        """Return its exit code, when all that it started has ended: 128 + the signal, if one ended it."""
        assert self.process is not None, "BUG: it was started"
        status = self.process.wait()
        self.end_all()
        if self._reader is not None:
            self._reader.join(GONE_S)
        self.log.end()
        return exit_code(status)

    def terminate(self) -> None:
        """Ask it to end: SIGTERM to its first process."""
        with self._lock:
            process = self.process
            if process is None:
                self.killed = True
            elif process.returncode is None:
                send(process.pid, signal.SIGTERM)

    def kill(self) -> None:
        """End all its processes now, and start none any more."""
        with self._lock:
            self.killed = True
        self.end_all()

    def end_all(self) -> None:
        if self.podman_name:
            run_podman(
                self.settings.podman, "rm", "--force", "--ignore", "--time", "0", self.podman_name
            )
        process = self.process
        if process is not None and process.returncode is None:
            kill_group(process.pid)
        # Processes that have left the group are found by the variable, again and again: some may fork
        # while they are looked for.
        end = time.monotonic() + GONE_S
        mark = f"{MARK}={self.sandbox}\0"
        while (pids := [*marked(mark)]) and time.monotonic() < end:
            for pid in pids:
                send(pid, signal.SIGKILL)
            time.sleep(0.002)


def _popen(
    line: Sequence[str],
    env: Mapping[str, str],
    cwd: Path,
    stdin: int,
    stdout: int,
    errors: int,
    kept: tuple[int, ...] = (),
) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [*line],
        env=dict(env),
        cwd=cwd,
        stdin=stdin,
        stdout=stdout,
        stderr=errors,
        start_new_session=True,
        pass_fds=kept,
    )


def _why(argv: Sequence[str], exc: OSError) -> str:
    """Return what a container runtime says of a command that it cannot start."""
    program = argv[0] if argv else ""
    what = (
        "executable file not found in $PATH" if isinstance(exc, FileNotFoundError) else exc.strerror
    )
    return f'failed to create containerd task: OCI runtime create failed: exec: "{program}": {what}'
