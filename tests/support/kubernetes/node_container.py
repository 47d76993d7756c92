"""A container as a process with a root, processes, a host name and a user of its own, as root alone can start it."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from runspec_emulators.frame.containers import seen
from runspec_emulators.frame.processes import inherited, send
from runspec_emulators.kubernetes.nodes.logs import Log
from runspec_namespaces import confined_commands

Object = dict[str, Any]
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"  # as most images have it
DEVICES = ("full", "null", "random", "tty", "urandom", "zero")
LOOK_S, READ_S = 0.01, 10.0
END_FILE = "/dev/termination-log"
OF_THE_MACHINE = {
    *(
        "/bin",
        "/dev",
        "/etc",
        "/lib",
        "/lib64",
        "/proc",
        "/root",
        "/run",
        "/sbin",
        "/sys",
        "/usr",
        "/var",
    ),
    "/tmp",
}
# All of a container ends with the node program.
ENDS = ("setpriv", "--pdeathsig", "KILL", "--")
ALONE = (*ENDS, "unshare", "--pid", "--uts", "--fork", "--kill-child", "--mount-proc", "--")
# The arguments: host name, folder, and the paths that can only be read, up to "--". Then the program, with its user.
BEGIN = """
echo "$1" >/proc/sys/kernel/hostname
mount --bind /run/hosts /etc/hosts
cd "$2" || exit 128
shift 2
while [ "$1" != -- ]; do
    mount -o remount,bind,ro "$1" || exit 128
    shift
done
shift
exec "$@"
"""


class Place:
    """The folders of a container: its root, and what is mounted there."""

    def __init__(self, folder: Path, address: str, host: str) -> None:
        self.folder, self.host = folder, host
        for name in ("root", "private", "dev", "run"):
            (folder / name).mkdir(parents=True)
        for name in DEVICES:
            (folder / "dev" / name).touch()
        (folder / "dev" / "shm").mkdir(mode=0o777)
        for name, target in (
            ("fd", "fd"),
            ("stdin", "fd/0"),
            ("stdout", "fd/1"),
            ("stderr", "fd/2"),
        ):
            (folder / "dev" / name).symlink_to(f"/proc/self/{target}")
        hosts = f"127.0.0.1 localhost\n::1 localhost ip6-localhost\n{address} {host}\n"
        (folder / "run" / "hosts").write_text(hosts)
        self.end_file = folder / "end"
        self.end_file.touch()
        self.end_file.chmod(0o666)

    def mounts(self, volumes: Mapping[str, Path], end_path: str) -> dict[str, str]:
        """Return what is mounted by its path: ours first, then *volumes*, the outer ones before those in them."""
        ours = {
            "/dev": self.folder / "dev",
            **{f"/dev/{name}": Path("/dev", name) for name in DEVICES},
            "/run": self.folder / "run",
        }
        # Images have most folders at their root empty, where this machine may have something.
        for top in {f"/{path.split('/')[1]}" for path in volumes} - OF_THE_MACHINE - {*volumes}:
            ours[top] = self.folder / "tops" / top[1:]
            ours[top].mkdir(parents=True)
        for path in sorted(volumes):
            ours[path] = volumes[path]
        ours[end_path] = self.end_file
        return {path: os.path.realpath(source) for path, source in ours.items()}


def user_words(pod: Object, container: Object) -> list[str]:
    """Return the words before a program that run it as the user and with the rights that the pod asks for."""
    wanted = {**pod["spec"].get("securityContext", {}), **container.get("securityContext", {})}
    words = []
    if (user := wanted.get("runAsUser", 0)) != 0:
        group = wanted.get("runAsGroup", 0)
        groups = [wanted["fsGroup"]] if "fsGroup" in wanted else []
        words += [f"--reuid={user}", f"--regid={group}"]
        words.append(f"--groups={','.join(map(str, groups))}" if groups else "--clear-groups")
    if wanted.get("allowPrivilegeEscalation") is False:
        words.append("--no-new-privs")
    if "ALL" in wanted.get("capabilities", {}).get("drop", ()):
        words += ["--inh-caps=-all", "--bounding-set=-all"]
    return ["setpriv", *words, "--"] if words else []


class Running:
    """A container that runs, or has ended: then *code* is its exit code, and *number* the signal that ended it."""

    def __init__(
        self,
        place: Place,
        log: Log,
        mounts: Mapping[str, str],
        read_only: Sequence[str],
        env: Mapping[str, str],
        folder: str,
        user: Sequence[str],
        words: Sequence[str],
    ) -> None:
        self.env, self.folder, self.user = env, folder, user
        root = place.folder / "root"
        for path in mounts.values():
            assert os.path.exists(path), f"BUG: {path} is not there"
        private = os.path.realpath(place.folder / "private")
        confined = confined_commands.confined_to([], Path(private), seen())._replace(
            writable=dict(mounts)
        )
        begin = ["/bin/sh", "-c", BEGIN, "sh", place.host, folder, *read_only, "--"]
        self.process = subprocess.Popen(
            [*confined_commands.words_before(root, confined), *ALONE, *begin, *user, *words],
            env=env,
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        assert self.process.stdout is not None, "BUG: it has a pipe"
        self.reader = threading.Thread(target=log.take, args=(self.process.stdout,), daemon=True)
        self.reader.start()
        while self.first() is None and self.process.poll() is None:
            time.sleep(LOOK_S)  # until there is a process that can be signaled and entered

    def wait(self) -> tuple[int, int]:
        """Wait for the end; return the exit code, and the signal that ended it or 0. Its log is whole then."""
        status = self.process.wait()
        self.reader.join(READ_S)
        return (status, 0) if status >= 0 else (128 - status, -status)

    def spawn(
        self, argv: Sequence[str], errors: int, stdin: int, stdout: int = subprocess.PIPE
    ) -> tuple[subprocess.Popen[bytes], str]:
        """Start a command in the container, as its user; the text is empty."""
        enter = ["nsenter", f"--target={self.first()}", "--mount", "--pid", "--uts", "--"]
        begin = ["/bin/sh", "-c", 'cd "$1" || exit 126; shift; exec "$@"', "sh", self.folder]
        process = subprocess.Popen(
            [*enter, *begin, *self.user, *argv],
            env=self.env,
            cwd="/",
            stdin=stdin,
            stdout=stdout,
            stderr=errors,
            start_new_session=True,
        )
        return process, ""

    def first(self) -> int | None:
        """Return the id of the first process of the container; None before it has begun and after it has ended."""
        pid = self.process.pid
        try:
            children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        except OSError:
            return None
        return int(children[0]) if children else None

    def signal(self, number: int) -> None:
        """Send a signal to the first process; when it ends, the kernel kills all others."""
        if (pid := self.first()) is not None:
            send(pid, number)

    def kill(self) -> None:
        self.signal(signal.SIGKILL)


def base_environment(host: str, address: tuple[str, int]) -> dict[str, str]:
    """Return the variables of every container, with which it finds the API server at *address*."""
    ways = {name: value for name, value in inherited().items() if name != "PATH"}
    server = {"KUBERNETES_SERVICE_HOST": address[0], "KUBERNETES_SERVICE_PORT": str(address[1])}
    return {**ways, "PATH": PATH, "HOSTNAME": host, "HOME": "/root", **server}
