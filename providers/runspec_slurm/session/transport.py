"""How commands come to a cluster: as processes of this machine, or by one SSH connection to a login node.

Every command is a fixed piece of shell with positional arguments: nothing of a spec is ever a part of one.
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
from runspec_slurm import timing

LOST = 255  # what ssh ends with when it, and not the command, has failed: ssh(1), EXIT STATUS
# What a login prints by itself (a banner of ~/.bashrc) comes before this, and what was asked for after it.
BEGUN = b"runspec: begins here\n"
BEGIN = "echo 'runspec: begins here'\n"
# A socket's path has 108 bytes at most, and ssh puts 17 more behind the name while it binds it.
SOCKET_BYTES = 85


class Done(NamedTuple):
    """A command that has ended. *lost* says that nobody knows whether it ran; then *why* says more."""

    code: int
    out: bytes
    err: str
    lost: bool = False


class Transport(Protocol):
    """Runs a piece of shell where the cluster's commands are."""

    @property
    def where(self) -> str:
        """Return the place in the user's words."""

    @property
    def look_s(self) -> float:
        """Return how long one look at the workspace is good for, in seconds."""

    @property
    def near(self) -> bool:
        """Return whether the files there are files of this machine."""

    def run(
        self,
        script: str,
        args: Sequence[str] = (),
        content: Iterable[bytes] | None = None,
        timeout_s: float = timing.COMMAND_S,
    ) -> Done:
        """Run *script* with *args* as its positional arguments and *content* as its standard input.

        Raises Unavailable when it surely did not begin. What *content* raises goes on to the caller,
        after the command has been ended.
        """


class Here:
    """Commands of this machine."""

    where = "this machine"
    look_s = timing.LOOK_S
    near = True

    def run(
        self,
        script: str,
        args: Sequence[str] = (),
        content: Iterable[bytes] | None = None,
        timeout_s: float = timing.COMMAND_S,
    ) -> Done:
        return carried_out(["/bin/sh", "-c", script, "sh", *args], content, timeout_s)


class Ssh:
    """Commands of a login node. All of them share one connection, also with later commands of runspec."""

    look_s = timing.LOOK_SSH_S
    near = False

    def __init__(self, host: str, options: Sequence[str], sockets: Path | None = None) -> None:
        self.where = host
        self.options = tuple(options)
        self._sockets = sockets

    def argv(self) -> list[str]:
        """Return the command line of ssh up to the host. What the profile says comes first, and so counts.

        https://man.openbsd.org/ssh_config: the first value that is obtained is used.
        """
        own = {
            "BatchMode": "yes",
            "ControlMaster": "auto",
            "ControlPath": str(self._socket()),
            "ControlPersist": str(timing.PERSIST_S),
            "ConnectTimeout": str(timing.CONNECT_S),
            "ServerAliveInterval": "15",
            "ServerAliveCountMax": "4",
            "ForwardAgent": "no",
            "ForwardX11": "no",
            "ClearAllForwardings": "yes",
            "LogLevel": "ERROR",
        }
        words = [word for name, value in own.items() for word in ("-o", f"{name}={value}")]
        given = [word for option in self.options for word in ("-o", option)]
        return ["ssh", *given, *words, "-T", "--", self.where]

    def run(
        self,
        script: str,
        args: Sequence[str] = (),
        content: Iterable[bytes] | None = None,
        timeout_s: float = timing.COMMAND_S,
    ) -> Done:
        if shutil.which("ssh") is None:
            raise Unavailable("there is no ssh here", "install OpenSSH's client, or leave host out")
        line = remote(["/bin/sh", "-c", BEGIN + script, "sh", *args])
        done = carried_out([*self.argv(), line], content, timeout_s)
        _, begun, out = done.out.partition(BEGUN)
        if begun or done.lost:
            return done._replace(out=out, lost=done.lost or done.code == LOST)
        if done.code != LOST:
            way = "log in by hand once, and run /bin/sh there: does something else run instead?"
            raise Unavailable(f"{self.where}: {_last(done.err) or 'no command runs there'}", way)
        if why := _never_begun(done.err):
            raise Unavailable(f"{self.where}: {_last(done.err) or why}", why)
        return done._replace(lost=True)

    def _socket(self) -> Path:
        """Return where the connection waits: a folder that is its owner's alone, by what the connection is."""
        words = "\0".join((self.where, *self.options))
        name = hashlib.sha256(words.encode()).hexdigest()[:16]
        for folder in (self._sockets, state_folder() / "ssh", _runtime()):
            if folder is not None and len(os.fsencode(folder / name)) <= SOCKET_BYTES:
                _own(folder)
                return folder / name
        raise Unavailable("no folder for the SSH connection has a short name", "set RUNSPEC_HOME")


def remote(words: Sequence[str]) -> str:
    """Return *words* as a line that the shell of every login takes, whichever it is: sh, csh and fish among them.

    In quotes, csh has no end of a line and takes ! for what was said before; fish takes two backslashes for one. So
    the line has none of these: printf makes them anew. https://pubs.opengroup.org/onlinepubs/9699919799/utilities/printf.html
    """
    line = "".join(f"\\0{ord(c):03o}" if c in "\n!'\\" else c for c in f"exec {shlex.join(words)}")
    return f"exec /bin/sh -c 'eval \"$(printf %b \"$1\")\"' sh '{line}'"


def transport(host: str | None, options: Sequence[str] = ()) -> Transport:
    """Return the way to a cluster: *host* None is this machine."""
    return Here() if host is None else Ssh(host, options)


def _runtime() -> Path:
    """Return the folder for sockets where the folder of runspec has a name that is too long."""
    base = os.environ.get("XDG_RUNTIME_DIR") or tempfile.gettempdir()
    return Path(base) / f"runspec-ssh-{os.getuid()}"


def _own(folder: Path) -> None:
    """Make *folder*, or see that nobody else can have made it: whoever has the socket has the cluster."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o077:
        raise Unavailable(f"{folder} is not yours alone", f"chmod 700 {folder}, or remove it")


# Whole lines of ssh's own when the command surely did not begin, and what to do. What a login's own files say on their
# way is no such line: the command may have begun after it.
NEVER_BEGUN = tuple(
    (re.compile(said), way)
    for said, way in (
        (
            r"(\S+: )?Permission denied \([a-z0-9,-]+\)\.",
            "log in by hand once: is the key there, and does ssh-agent have it?",
        ),
        (r"Host key verification failed\.", "log in by hand once, and compare the host's key"),
        (
            r"@\s+WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED!\s+@",
            "its key is another: ask whoever runs it",
        ),
        (
            r"ssh: Could not resolve hostname .*",
            "is the name right? it is option host of the profile",
        ),
        (
            r"ssh: connect to host .*",
            "is it up, and may this machine reach it? it may pass by itself",
        ),
        (r"Connection closed by UNKNOWN port \d+", "does the jump host let you through?"),
        (r"command-line:? line \d+: .*", "see ssh_options in the profile"),
        (r"\S+: terminating, \d+ bad configuration options", "see ~/.ssh/config"),
        (r"unknown option -- .*", "see ssh_options in the profile"),
        (
            r"Received disconnect from .*: Too many authentication failures",
            "name one key: ssh_options: [IdentitiesOnly=yes]",
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

    Its errors go to a file: a connection that ssh leaves open may hold on to a pipe.
    """
    with tempfile.TemporaryFile() as err, _started(argv, err, content is not None) as process:
        feeder = None if content is None else _Feeder(process, content)
        with _ended_after(process, timeout_s) as late:
            assert process.stdout is not None, "BUG: it was asked for"
            out = process.stdout.read()
            code = process.wait()
        if feeder is not None:
            feeder.join()
        err.seek(0)
        said = err.read(1 << 16).decode(errors="replace").strip()
    if late.is_set():
        return Done(code, out, f"no answer in {timeout_s:.0f} s", lost=True)
    if code < 0:
        return Done(code, out, said or f"ended by signal {-code}", lost=True)
    return Done(code, out, said)


@contextlib.contextmanager
def _started(argv: Sequence[str], err: IO[bytes], fed: bool) -> Iterator[subprocess.Popen[bytes]]:
    """Start *argv* in a group of its own, so that all of it can be ended."""
    stdin = subprocess.PIPE if fed else subprocess.DEVNULL
    try:
        process = subprocess.Popen(
            argv,
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=err,
            cwd="/",  # nothing in the folder of a job file is a setting of what is started
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
    """End *process* when it has taken *timeout_s*; the event says that it was so."""
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
    """End a command with all that it has started, if it has not ended."""
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
        assert stdin is not None, "BUG: it was asked for"
        try:
            for block in self._content:
                stdin.write(block)
            stdin.close()
        except BrokenPipeError:  # it has ended, and its code says why
            pass
        except BaseException as exc:  # noqa: BLE001 - this is a thread: join raises it in the caller
            self._failed = exc
            _end(self._process)

    def join(self, timeout: float | None = None) -> None:
        super().join(timeout)
        if isinstance(self._failed, OSError):
            raise Conflict(f"what was to be sent cannot be read: {self._failed}") from self._failed
        if self._failed is not None:
            raise self._failed
