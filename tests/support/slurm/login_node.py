"""A login node: an sshd of the test's own, on a port of its own, with keys of its own."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.support.requirements import need

UP_S = 60.0
SEPARATED = Path("/run/sshd")  # where sshd of Debian wants an empty folder when it is root


@dataclass
class Login:
    """An sshd that takes one key; its log tells each connection."""

    folder: Path
    port: int
    process: subprocess.Popen[bytes]

    @property
    def options(self) -> tuple[str, ...]:
        """Give what `ssh -o` is told to come here."""
        return (
            f"Port={self.port}",
            f"IdentityFile={self.folder / 'key'}",
            "IdentitiesOnly=yes",
            f"UserKnownHostsFile={self.folder / 'known'}",
            "StrictHostKeyChecking=yes",
        )

    @property
    def connections(self) -> int:
        """Give how often somebody has logged in."""
        return (self.folder / "log").read_text().count("Accepted publickey")

    @property
    def shells(self) -> int:
        """Give how many login shells there have been: sshd starts one for each command."""
        return (self.folder / "log").read_text().count("Starting session: ")

    def drop(self) -> None:
        """End all connections that there are, as a network does: sshd itself stays."""
        for child in self.sessions():
            with contextlib.suppress(ProcessLookupError):
                os.kill(child, 9)

    def sessions(self) -> list[int]:
        """Give the processes of the connections that there are."""
        return children(self.process.pid)


def children(pid: int) -> list[int]:
    found = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [int(word) for word in found]


@contextlib.contextmanager
def login(
    folder: Path, env: tuple[str, ...] = (), *, says: str = "", takes_s: float = 0.0
) -> Iterator[Login]:
    """Start an sshd below *folder*. *env* are variables of those who log in, NAME=value.

    *says* is what a login prints before anything is done, as a careless ~/.bashrc has it, and *takes_s* how long it
    takes.
    """
    need("sshd", "ssh", "ssh-keygen")
    for name in ("host", "key"):
        words = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "", "-f", str(folder / name)]
        subprocess.run(words, check=True)
    shutil.copy(folder / "key.pub", folder / "authorized")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    public = " ".join((folder / "host.pub").read_text().split()[:2])
    (folder / "known").write_text(f"[127.0.0.1]:{port} {public}\n")
    begins = (f"echo '{says}'; " if says else "") + (f"sleep {takes_s}; " if takes_s else "")
    lines = [
        f"Port {port}",
        "ListenAddress 127.0.0.1",
        f"HostKey {folder / 'host'}",
        f"AuthorizedKeysFile {folder / 'authorized'}",
        f"PidFile {folder / 'pid'}",
        "PermitRootLogin yes",
        "PasswordAuthentication no",
        "KbdInteractiveAuthentication no",
        "UsePAM no",
        "StrictModes no",
        "LogLevel VERBOSE",
        # A home of its own: what stands in somebody's ~/.bashrc may take long, or wait for a lock.
        f"SetEnv {' '.join((f'HOME={folder}', *env))}",
        f'ForceCommand {begins}eval "$SSH_ORIGINAL_COMMAND"' if begins else "",
    ]
    (folder / "config").write_text("\n".join(lines) + "\n")
    if os.geteuid() == 0:
        # It stays: another sshd, of a test beside this one, refuses each connection without it.
        SEPARATED.mkdir(mode=0o755, exist_ok=True)
    program = shutil.which("sshd", path=f"{os.environ['PATH']}:/usr/sbin:/sbin")
    assert program is not None
    with (folder / "log").open("wb") as log:
        argv = [program, "-D", "-e", "-f", str(folder / "config")]
        process = subprocess.Popen(argv, stderr=log, start_new_session=True)
    found = Login(folder, port, process)
    try:
        _await(found)
        yield found
    finally:
        found.drop()
        process.kill()
        process.wait()


def _await(found: Login) -> None:
    end = time.monotonic() + UP_S
    while True:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", found.port), 1):
            return
        assert found.process.poll() is None, (found.folder / "log").read_text()
        assert time.monotonic() < end, "sshd does not listen"
        time.sleep(0.02)
