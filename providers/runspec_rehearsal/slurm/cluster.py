"""A real Slurm on this machine: munged, slurmctld and a slurmd for each node, below a folder."""

from __future__ import annotations

import json
import os
import pwd
import random
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from runspec_rehearsal import inherited
from runspec_rehearsal.listening import HOST, Closing
from runspec_rehearsal.slurm import conf
from runspec_rehearsal.slurm.conf import Machine, Node, Partition, Places, Shape

UP_S = 30.0  # on a busy machine; it takes 2
PORTS = range(12000, 30000)  # below those that the system gives to whoever connects
PROGRAMS = {  # and the packages of Debian that have them
    "slurmctld": "slurmctld",
    "slurmd": "slurmd",
    "sinfo": "slurm-client",
    "munged": "munge",
}
PARTITIONS = (Partition("main"), Partition("spot"), Partition("short", minutes=1))
TERMINATED = 0.05  # s between looks


class NoSlurm(RuntimeError):
    """A program that a cluster needs is not installed; says which packages have it."""


class Failed(RuntimeError):
    """A cluster did not do what it was told; says what it logged."""


class Cluster(Closing):
    """Nodes "node1" ... of a Slurm of its own, ready when it is made. `close` ends every process.

    *folder* keeps its configuration and logs. Jobs run as whoever makes it. *more* are settings
    of slurm.conf. Raises NoSlurm and Failed.
    """

    def __init__(
        self,
        folder: Path,
        nodes: int = 4,
        shape: Shape | None = None,
        partitions: Sequence[Partition] = PARTITIONS,
        more: Mapping[str, str | int] | None = None,
    ) -> None:
        self.programs = found_programs()
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        near = Path(tempfile.mkdtemp(prefix="slurm-", dir="/tmp"))  # a short path
        self.places = Places(folder.resolve(), near)
        self.machine = this_machine()
        port, *ports = free_ports(nodes + 1)
        self.nodes = tuple(
            Node(f"node{i}", p, self.machine.address) for i, p in enumerate(ports, 1)
        )
        self.shape, self.partitions = shape or Shape(), tuple(partitions)
        self.port, self.more = port, dict(more or {})
        self._keeper = self._keep()
        try:
            self._configure()
            self._start()
        except BaseException:  # Ctrl-C too: nothing is left running
            self.close()
            raise

    @property
    def env(self) -> dict[str, str]:
        """The variables that lead Slurm's commands here."""
        return {"SLURM_CONF": str(self.places.slurm_conf)}

    def run(self, *argv: str, timeout_s: float = 30) -> str:
        """Give what a command of Slurm's says; raise Failed where it fails."""
        done = subprocess.run(
            argv,
            env={**inherited.variables(), **self.env},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
        )
        if done.returncode:
            raise Failed(f"{' '.join(argv)}: {done.stderr.strip()}")
        return done.stdout

    def states(self) -> dict[str, str]:
        """Give each node's state, as `sinfo` says it: "idle", "mixed", "down*", ..."""
        lines = self.run("sinfo", "--noheader", "--Node", "--format=%N %T").splitlines()
        return {name: state for name, _, state in (line.partition(" ") for line in lines)}

    def await_states(
        self,
        good: Callable[[str], bool] = "idle".__eq__,
        nodes: Iterable[str] = (),
        timeout_s: float = UP_S,
    ) -> None:
        """Wait until *nodes*, by default all, are in a good state; raise Failed with the reasons."""
        names = set(nodes) or {node.name for node in self.nodes}
        end = time.monotonic() + timeout_s
        states: Mapping[str, str] = {}
        while True:
            try:
                states = self.states()
            except (Failed, subprocess.TimeoutExpired):
                states = {}  # the controller is not there yet
            if all(good(states.get(name, "unknown")) for name in names):
                return
            self._check_alive()
            if time.monotonic() > end:
                raise Failed(f"nodes are {dict(states) or 'not known'}; {self._reasons()}")
            time.sleep(TERMINATED)

    def close(self) -> None:
        """End every process of the cluster. The folder stays."""
        keeper = self._keeper
        if keeper.poll() is None and keeper.stdin is not None and not keeper.stdin.closed:
            keeper.stdin.close()
            keeper.wait()
        for pipe in (keeper.stdin, keeper.stdout):
            if pipe is not None:
                pipe.close()
        shutil.rmtree(self.places.near, ignore_errors=True)  # where the keeper was killed

    def _keep(self) -> subprocess.Popen[bytes]:
        line = [sys.executable, "-IS", str(Path(__file__).with_name("keeper.py"))]
        return subprocess.Popen(
            [*line, str(self.places.near)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,  # Ctrl-C is for us: we end it
        )

    def _order(self, order: str, **given: Any) -> Any:
        keeper = self._keeper
        assert keeper.stdin is not None and keeper.stdout is not None, "BUG: it has pipes"
        try:
            keeper.stdin.write(json.dumps({"order": order, **given}).encode() + b"\n")
            keeper.stdin.flush()
            said = json.loads(keeper.stdout.readline() or b'{"error": "the keeper has ended"}')
        except (BrokenPipeError, ValueError) as exc:
            raise Failed("the keeper has ended") from exc
        if "error" in said:
            raise Failed(said["error"])
        return said["answer"]

    def _configure(self) -> None:
        places, user = self.places, pwd.getpwuid(os.geteuid()).pw_name
        near = [places.near / node.name for node in self.nodes]
        for made in (places.folder / "logs", places.folder / "state", *near):
            made.mkdir(exist_ok=True, mode=0o700)
        (places.near / "key").write_bytes(secrets.token_bytes(128))
        (places.near / "key").chmod(0o600)
        (places.folder / "gres.conf").write_text(conf.gres_conf(self.shape.gpus))
        (places.folder / "cgroup.conf").write_text(conf.CGROUP)
        places.slurm_conf.write_text(
            conf.slurm_conf(
                places,
                self.machine,
                user,
                self.port,
                self.nodes,
                self.partitions,
                self.shape,
                self.more,
            )
        )

    def _start(self) -> None:
        self._start_munged()
        self.start_controller("-c")
        for node in self.nodes:
            self.start_node(node.name)
        self.await_states()

    def _start_munged(self) -> None:
        near, log = self.places.near, self.places.log("munged")
        argv = f"--foreground --force --num-threads=4 --socket={self.places.munge}".split()
        argv += [f"--{what}-file={near / what}" for what in ("key", "pid", "seed")]
        self._spawn("munged", *argv, f"--log-file={log}")
        end = time.monotonic() + UP_S
        while not self.places.munge.exists():
            self._check_alive()
            if time.monotonic() > end:
                raise Failed(f"munged does not listen: {tail(log)}")
            time.sleep(0.01)

    def start_controller(self, *options: str) -> None:
        self._spawn("slurmctld", "-D", *options)

    def start_node(self, name: str) -> None:
        self._spawn("slurmd", "-D", "-N", name, known_as=name)

    def _spawn(self, program: str, *argv: str, known_as: str = "") -> None:
        name = known_as or program
        self._order(
            "start",
            name=name,
            argv=[self.programs[program], *argv],
            env={**inherited.variables(), "HOME": str(Path.home()), **self.env},
            log=str(self.places.folder / "logs" / f"{name}.out"),
        )

    def _check_alive(self) -> None:
        """Raise Failed where a daemon has ended that nobody ended."""
        ended = {name: code for name, code in self._order("look").items() if code is not None}
        for name, code in ended.items():
            if code != -signal.SIGKILL:
                said = tail(self.places.folder / "logs" / f"{name}.out")
                raise Failed(f"{name} has ended with {code}: {said or tail(self.places.log(name))}")

    def _reasons(self) -> str:
        try:
            why = self.run("sinfo", "-R", "--noheader", "--format=%n %E").strip()
        except (Failed, subprocess.TimeoutExpired) as exc:
            why = str(exc)
        return f"{why}\n{tail(self.places.log('slurmctld'))}"


def found_programs() -> dict[str, str]:
    """Give where each program is; raise NoSlurm for those that are not there."""
    # Daemons are in folders that an ordinary user's PATH may lack.
    path = f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/sbin"
    found = {name: shutil.which(name, path=path) for name in PROGRAMS}
    missing = [package for name, package in PROGRAMS.items() if not found[name]]
    if missing:
        raise NoSlurm(f"missing packages: {' '.join(missing)}")
    return {name: where for name, where in found.items() if where}


def free_ports(count: int) -> list[int]:
    """Give ports that nobody listens at. Somebody may be faster to take them."""
    found: list[int] = []
    for port in random.SystemRandom().sample(PORTS, len(PORTS)):
        with socket.socket() as one:
            one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                one.bind((HOST, port))
            except OSError:
                continue
        found.append(port)
        if len(found) == count:
            return found
    raise Failed(f"no {count} free ports in {PORTS}")


def this_machine(hosts: Path = Path("/etc/hosts")) -> Machine:
    """Say who this machine is: Slurm's daemons look their own name up where they are to listen.

    *hosts* is asked only: what a network says of the name may take long, and is no loopback address.
    """
    name = socket.gethostname()
    host = name.partition(".")[0]
    try:
        lines = [line.partition("#")[0].split() for line in hosts.read_text().splitlines()]
    except OSError:
        return Machine(host)
    found = [words[0] for words in lines if host in words[1:]]
    if found and found[0].startswith("127."):
        return Machine(host, found[0], bound=True)
    return Machine(host)


def tail(log: Path, lines: int = 8) -> str:
    try:
        return "\n".join(log.read_text(errors="replace").splitlines()[-lines:])
    except OSError:
        return ""
