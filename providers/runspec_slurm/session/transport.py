"""Running commands of a cluster: as processes of this machine, or by one SSH connection to a login node.

Every command is a fixed script with positional arguments, so that no text of a spec becomes shell code.
"""

from __future__ import annotations

import hashlib
import os
import shlex
import shutil
import stat
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Protocol

from runspec_jobs.provider import Unavailable, state_folder
from runspec_slurm.session.process import LOST, Done, never_begun, run_process
from runspec_slurm.session.shared_shell import LOOP, SharedShell, shared_shell
from runspec_slurm.timing import DEFAULT, Timing

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
        return self.carry_out(["/bin/sh", "-c", script, "sh", *args], content, timeout_s)

    def carry_out(
        self, words: Sequence[str], content: Iterable[bytes] | None, timeout_s: float
    ) -> Done:
        return run_process(words, content, timeout_s)


class Ssh:
    """Runs scripts on a login node, by one connection, which later runspec commands use too, and in one shell."""

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
        settings = {
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
        arguments = [word for name, value in settings.items() for word in ("-o", f"{name}={value}")]
        given = [word for option in self.options for word in ("-o", option)]
        return ["ssh", *given, *arguments, "-T", "--", self.where]

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
        argv = ["/bin/sh", "-c", BEGIN + script, "sh", *args]
        try:
            return self._begun(self.carry_out(argv, content, timeout_s))
        except Unavailable:  # the shared shell may use the only session that the server allows
            if not self.shell().give_up() or isinstance(content, Iterator):
                raise
        return self._begun(self.carry_out(argv, content, timeout_s))

    def carry_out(
        self, words: Sequence[str], content: Iterable[bytes] | None, timeout_s: float
    ) -> Done:
        """Run *words* in the shared shell, or by a login of their own if *content* is a stream or they have to."""
        if not isinstance(content, Iterator):
            line = f"exec {shlex.join(words)}"
            done = self.shell().run(line, b"".join(content or ()), timeout_s)
            if done is not None:
                return done
        return run_process([*self.argv(), remote(words)], content, timeout_s)

    def shell(self) -> SharedShell:
        """Return the login shell that commands of this process share."""
        begin = ["/bin/sh", "-c", LOOP, "sh"]
        return shared_shell(self.argv(), lambda key: remote([*begin, key]), self.timing)

    def _begun(self, done: Done) -> Done:
        """Return *done* without what the login printed. Raise Unavailable if the script certainly did not begin."""
        _, begun, out = done.out.partition(BEGUN)
        if begun or done.lost:
            return done._replace(out=out, lost=done.lost or done.code == LOST)
        if done.code != LOST:
            hint = "log in by hand and check that /bin/sh runs there, and no other program in its place"
            raise Unavailable(
                f"{self.where}: {_last(done.err) or 'the login runs no commands'}", hint
            )
        if why := never_begun(done.err):
            raise Unavailable(f"{self.where}: {_last(done.err) or why}", why)
        return done._replace(lost=True)

    def _socket(self) -> Path:
        """Return the path of the connection's socket, named by a hash, in a folder that only its owner can access."""
        identity = "\0".join((self.where, *self.options))
        name = hashlib.sha256(identity.encode()).hexdigest()[:16]
        for folder in (self._sockets, state_folder() / "ssh", _runtime()):
            if folder is not None and len(os.fsencode(folder / name)) <= SOCKET_BYTES:
                _own(folder)
                return folder / name
        raise Unavailable(
            "the path of the SSH connection's socket is too long",
            "set RUNSPEC_HOME to a short path",
        )


def remote(argv: Sequence[str]) -> str:
    """Return *argv* as a command line that any login shell understands, such as sh, csh or fish.

    In quotes, csh allows no newline and expands !, and fish reads two backslashes as one. So the line contains none
    of these, and printf produces them. https://pubs.opengroup.org/onlinepubs/9699919799/utilities/printf.html
    """
    line = "".join(f"\\0{ord(c):03o}" if c in "\n!'\\" else c for c in f"exec {shlex.join(argv)}")
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
    info = folder.lstat()
    if not stat.S_ISDIR(info.st_mode) or info.st_uid != os.getuid() or info.st_mode & 0o077:
        raise Unavailable(
            f"other users can access {folder}, or own it", f"run chmod 700 {folder}, or remove it"
        )


def _last(err: str) -> str:
    lines = [line.strip() for line in err.splitlines() if line.strip()]
    return lines[-1] if lines else ""
