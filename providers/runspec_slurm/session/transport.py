"""Running commands of a cluster: as processes of this machine, or by one SSH connection to a login node.

Every command is a fixed script with positional arguments, so that no text of a spec becomes shell code.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import shlex
import shutil
import signal
import stat
import subprocess
import tempfile
import threading
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import IO, NamedTuple, Protocol

from runspec_jobs.provider import Conflict, Unavailable, state_folder
from runspec_slurm.timing import DEFAULT, Timing

LOST = 255  # the exit code of ssh if it failed itself, and not the command: ssh(1), EXIT STATUS
# The output of the login itself, such as a banner of ~/.bashrc, comes before this line, that of the script after it.
BEGUN = b"runspec: begins here\n"
BEGIN = "echo 'runspec: begins here'\n"
# The path of a socket has 108 bytes at most, and ssh appends 17 to the name while it binds the socket.
SOCKET_BYTES = 85


# What a user may have set for logging in by hand, for example to attach to tmux, and would keep commands from running.
# Versions of ssh before 8.7 do not know all of these, and so have to ignore what they do not know.
PLAIN = {
    "IgnoreUnknown": "*",
    "RemoteCommand": "none",
    "StdinNull": "no",
    "ForkAfterAuthentication": "no",
    "SessionType": "default",
    "PermitLocalCommand": "no",
}


class Done(NamedTuple):
    """A command that has ended. *lost* means that it is unknown whether the command ran; *err* says why."""

    code: int
    out: bytes
    err: str
    lost: bool = False


class Transport(Protocol):
    """Runs scripts on the machine that has the cluster's commands."""

    @property
    def where(self) -> str:
        """Return the name of the machine, for messages."""

    @property
    def look_s(self) -> float:
        """Return for how many seconds the result of one look at the workspace is reused."""

    @property
    def near(self) -> bool:
        """Return whether the workspace is on this machine."""

    def run(
        self,
        script: str,
        args: Sequence[str] = (),
        content: Iterable[bytes] | None = None,
        timeout_s: float = DEFAULT.command_s,
    ) -> Done:
        """Run *script* with *args* as its positional arguments and *content* as its standard input.

        Raises Unavailable if the script certainly did not begin. An exception of *content* is passed on to the
        caller, after the command has been killed.
        """


class Here:
    """Runs scripts on this machine."""

    where = "this machine"
    timing = DEFAULT
    near = True

    def __init__(self, timing: Timing = DEFAULT) -> None:
        self.timing = timing

    @property
    def look_s(self) -> float:
        return self.timing.look_s

    def run(
        self,
        script: str,
        args: Sequence[str] = (),
        content: Iterable[bytes] | None = None,
        timeout_s: float = DEFAULT.command_s,
    ) -> Done:
        return carried_out(["/bin/sh", "-c", script, "sh", *args], content, timeout_s)


class Ssh:
    """Runs scripts on a login node, all by one connection, which later runspec commands use too."""

    near = False

    def __init__(
        self,
        host: str,
        options: Sequence[str],
        sockets: Path | None = None,
        timing: Timing = DEFAULT,
    ) -> None:
        self.where, self.timing = host, timing
        self.options = tuple(options)
        self._sockets = sockets

    @property
    def look_s(self) -> float:
        return self.timing.look_ssh_s

    def argv(self) -> list[str]:
        """Return the command line of ssh up to the host. The options of the profile come first, and so take effect.

        https://man.openbsd.org/ssh_config: the first value that is obtained is used.
        """
        own = {
            "BatchMode": "yes",
            "ControlMaster": "auto",
            "ControlPath": str(self._socket()),
            "ControlPersist": str(self.timing.persist_s),
            "ConnectTimeout": str(self.timing.connect_s),
            "ServerAliveInterval": "15",
            "ServerAliveCountMax": "4",
            "ForwardAgent": "no",
            "ForwardX11": "no",
            "ClearAllForwardings": "yes",
            "LogLevel": "ERROR",
            **PLAIN,
        }
        words = [word for name, value in own.items() for word in ("-o", f"{name}={value}")]
        given = [word for option in self.options for word in ("-o", option)]
        return ["ssh", *given, *words, "-T", "--", self.where]

    def run(
        self,
        script: str,
        args: Sequence[str] = (),
        content: Iterable[bytes] | None = None,
        timeout_s: float = DEFAULT.command_s,
    ) -> Done:
        if shutil.which("ssh") is None:
            raise Unavailable(
                "this machine has no ssh", "install the OpenSSH client, or remove option host"
            )
        line = remote(["/bin/sh", "-c", BEGIN + script, "sh", *args])
        done = carried_out([*self.argv(), line], content, timeout_s)
        _, begun, out = done.out.partition(BEGUN)
        if begun or done.lost:
            return done._replace(out=out, lost=done.lost or done.code == LOST)
        if done.code != LOST:
            way = "log in by hand and check that /bin/sh runs there, and no other program in its place"
            raise Unavailable(
                f"{self.where}: {_last(done.err) or 'the login runs no commands'}", way
            )
        if why := _never_begun(done.err):
            raise Unavailable(f"{self.where}: {_last(done.err) or why}", why)
        return done._replace(lost=True)

    def _socket(self) -> Path:
        """Return the path of the connection's socket, named by a hash, in a folder that only its owner can access."""
        words = "\0".join((self.where, *self.options))
        name = hashlib.sha256(words.encode()).hexdigest()[:16]
        for folder in (self._sockets, state_folder() / "ssh", _runtime()):
            if folder is not None and len(os.fsencode(folder / name)) <= SOCKET_BYTES:
                _own(folder)
                return folder / name
        raise Unavailable(
            "the path of the SSH connection's socket is too long",
            "set RUNSPEC_HOME to a short path",
        )


def remote(words: Sequence[str]) -> str:
    """Return *words* as a command line that any login shell understands, such as sh, csh or fish.

    In quotes, csh allows no newline and expands !, and fish reads two backslashes as one. So the line contains none
    of these, and printf produces them. https://pubs.opengroup.org/onlinepubs/9699919799/utilities/printf.html
    """
    line = "".join(f"\\0{ord(c):03o}" if c in "\n!'\\" else c for c in f"exec {shlex.join(words)}")
    return f"exec /bin/sh -c 'eval \"$(printf %b \"$1\")\"' sh '{line}'"


def transport(host: str | None, options: Sequence[str] = (), timing: Timing = DEFAULT) -> Transport:
    """Return the transport to a cluster on *host*, or on this machine if it is None."""
    return Here(timing) if host is None else Ssh(host, options, timing=timing)


def _runtime() -> Path:
    """Return a folder for sockets, for the case that the path of runspec's own folder is too long."""
    base = os.environ.get("XDG_RUNTIME_DIR") or tempfile.gettempdir()
    return Path(base) / f"runspec-ssh-{os.getuid()}"


def _own(folder: Path) -> None:
    """Make *folder*, or check that only its owner can access it: the socket gives access to the cluster."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o077:
        raise Unavailable(
            f"other users can access {folder}, or own it", f"run chmod 700 {folder}, or remove it"
        )


# Whole lines that ssh prints if the command certainly did not begin, and hints. Other lines may come from the login's
# own files, after which the command may have begun.
NEVER_BEGUN = tuple(
    (re.compile(said), way)
    for said, way in (
        (
            r"(\S+: )?Permission denied \([a-z0-9,-]+\)\.",
            "log in by hand once, and check that the key exists and that ssh-agent has it",
        ),
        (r"Host key verification failed\.", "log in by hand once, and verify the key of the host"),
        (
            r"@\s+WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED!\s+@",
            "the key of the host has changed: ask its administrators",
        ),
        (
            r"ssh: Could not resolve hostname .*",
            "check option host of the profile",
        ),
        (
            r"ssh: connect to host .*",
            "check that the host is up and that this machine may reach it, or repeat the command later",
        ),
        (
            r"Connection closed by UNKNOWN port \d+",
            "check that the jump host accepts your connection",
        ),
        (r"command-line:? line \d+: .*", "correct ssh_options in the profile"),
        (r"\S+: terminating, \d+ bad configuration options", "correct ~/.ssh/config"),
        (r"unknown option -- .*", "correct ssh_options in the profile"),
        (
            r"Received disconnect from .*: Too many authentication failures",
            "let ssh offer only the configured key: set ssh_options: [IdentitiesOnly=yes]",
        ),
    )
)


def _never_begun(err: str) -> str:
    lines = [line.strip() for line in err.splitlines()]
    return next((way for said, way in NEVER_BEGUN if any(map(said.fullmatch, lines))), "")


def _last(err: str) -> str:
    lines = [line.strip() for line in err.splitlines() if line.strip()]
    return lines[-1] if lines else ""


def carried_out(argv: Sequence[str], content: Iterable[bytes] | None, timeout_s: float) -> Done:
    """Run *argv* with *content* as its standard input.

    Standard error is a file, because a connection that ssh leaves open could keep a pipe open.
    """
    with tempfile.TemporaryFile() as err, _started(argv, err, content is not None) as process:
        feeder = None if content is None else _Feeder(process, content)
        with _ended_after(process, timeout_s) as late:
            assert process.stdout is not None, "BUG: stdout is a pipe"
            out = process.stdout.read()
            code = process.wait()
        if feeder is not None:
            feeder.join()
        err.seek(0)
        said = err.read(1 << 16).decode(errors="replace").strip()
    if late.is_set():
        return Done(code, out, f"no answer in {timeout_s:.0f} s", lost=True)
    if code < 0:
        return Done(code, out, said or f"killed by signal {-code}", lost=True)
    return Done(code, out, said)


@contextlib.contextmanager
def _started(argv: Sequence[str], err: IO[bytes], fed: bool) -> Iterator[subprocess.Popen[bytes]]:
    """Start *argv* in a process group of its own, so that all its processes can be killed."""
    stdin = subprocess.PIPE if fed else subprocess.DEVNULL
    try:
        process = subprocess.Popen(
            argv,
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=err,
            cwd="/",  # so that no file beside a job file configures the command
            start_new_session=True,
        )
    except OSError as exc:
        raise Unavailable(f"{argv[0]}: {(exc.strerror or str(exc)).lower()}") from exc
    try:
        yield process
    finally:
        _end(process)
        process.wait()
        for stream in (process.stdin, process.stdout):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.close()


@contextlib.contextmanager
def _ended_after(process: subprocess.Popen[bytes], timeout_s: float) -> Iterator[threading.Event]:
    """Kill *process* after *timeout_s*; the event is set if that happened."""
    late = threading.Event()

    def stop() -> None:
        late.set()
        _end(process)

    timer = threading.Timer(timeout_s, stop)
    timer.daemon = True
    timer.start()
    try:
        yield late
    finally:
        timer.cancel()


def _end(process: subprocess.Popen[bytes]) -> None:
    """Kill a command and its children, if it has not ended."""
    if process.poll() is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)


class _Feeder(threading.Thread):
    """Writes to a command while another thread reads from it."""

    def __init__(self, process: subprocess.Popen[bytes], content: Iterable[bytes]) -> None:
        super().__init__(daemon=True)
        self._process, self._content = process, content
        self._failed: BaseException | None = None
        self.start()

    def run(self) -> None:
        stdin = self._process.stdin
        assert stdin is not None, "BUG: stdin is a pipe"
        try:
            for block in self._content:
                stdin.write(block)
            stdin.close()
        except BrokenPipeError:  # the command has ended, and its exit code says why
            pass
        except BaseException as exc:  # noqa: BLE001 - this is a thread; join raises it in the caller
            self._failed = exc
            _end(self._process)

    def join(self, timeout: float | None = None) -> None:
        super().join(timeout)
        if isinstance(self._failed, OSError):
            raise Conflict(f"cannot read the data to send: {self._failed}") from self._failed
        if self._failed is not None:
            raise self._failed
