"""A real Slurm on this machine: munged, slurmctld and a slurmd for each node, below a folder."""

from __future__ import annotations

import contextlib
import os
import pwd
import random
import secrets
import shlex
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from runspec_emulators.frame import containers
from runspec_emulators.frame.listening import HOST, Closing
from runspec_emulators.frame.processes import inherited
from runspec_emulators.slurm import conf
from runspec_emulators.slurm.conf import Machine, Node, Partition, Places, Shape
from runspec_emulators.slurm.daemons import LOOK_S, MARK, Daemons, Failed, tail

UP_S = 60.0  # the timeout on a busy machine; usually it takes 2 s
RUN_S = 90.0  # a command that needs a node may first wait for its whole ResumeTimeout
PORTS = range(12000, 30000)  # below the ports that the kernel gives to outgoing connections
PROGRAMS = {  # each program, and the package of Debian that has it
    "slurmctld": "slurmctld",
    "slurmd": "slurmd",
    "sinfo": "slurm-client",
    "scontrol": "slurm-client",
    "munged": "munge",
}
PARTITIONS = (Partition("main"), Partition("spot"), Partition("short", minutes=1))
# Slurm numbers the GPUs of a node across all types. Here the numbers of each type begin with 0, and a job that has a
# node for itself gets as many GPUs as the node has of one type.
NUMBERS = """\
if [ -n "$CUDA_VISIBLE_DEVICES" ]; then
    IFS=, found=
    for i in $CUDA_VISIBLE_DEVICES; do
        i=$((i %% %d))
        case ,$found, in *,$i,*) ;; *) found=$found${found:+,}$i ;; esac
    done
    echo "export CUDA_VISIBLE_DEVICES=$found"
fi"""
ADDRESS = """\
i=${{SLURMD_NODENAME#node}}
echo "export {name}=127.77.$((i / 250)).$((i % 250 + 1))"
"""
CONTROLLER, HEAD = "slurmctld", "head"
T = TypeVar("T")


# scancel's exit code for a job that is just ending, for which it prints nothing: ESLURM_ALREADY_DONE, in eight bits.
# https://github.com/SchedMD/slurm/blob/slurm-22-05-8-1/src/scancel/scancel.c
ENDING = 2021 % 256


class NoSlurm(RuntimeError):
    """A program that a cluster needs is not installed; the message names its package."""


def user_name(uid: int) -> str:
    """Return the name of a user. Raises Failed if it has none, as in many containers.

    Slurmctld refuses a SlurmUser that is a number without an entry in the passwd database.
    """
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError as exc:
        what = f"user {uid} has no entry in the passwd database, which Slurm needs; as root: "
        raise Failed(f"{what}echo me:x:{uid}:{uid}::/tmp:/bin/sh >>/etc/passwd") from exc


class Cluster(Closing):
    """Nodes "node1" ..., or of these names, of a Slurm of its own, ready when it is made.

    `close` ends every process.

    *folder* keeps its configuration and logs. Jobs run as whoever makes it. *more* are settings of
    slurm.conf. *prolog*: jobs have a way out of this machine as their maker has, and in the
    variable *address_in* a loopback address of the node's own. *confined_to*: of this machine,
    they can write to these folders alone. Raises NoSlurm and Failed.
    """

    state = "UNKNOWN"  # the state of the nodes in slurm.conf
    resting = "idle"  # the state that sinfo shows for a node without jobs

    def __init__(
        self,
        folder: Path,
        nodes: int | Sequence[str] = 4,
        shape: Shape | None = None,
        partitions: Sequence[Partition] = PARTITIONS,
        more: Mapping[str, str | int] | None = None,
        up_s: float = UP_S,
        *,
        prolog: bool = False,
        address_in: str = "",
        confined_to: Sequence[Path] | None = None,
    ) -> None:
        self.confined_to = confined_to
        self.programs = found_programs()
        self.user = user_name(os.geteuid())
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        near = Path(tempfile.mkdtemp(prefix="slurm-", dir="/tmp"))  # a short path
        self.places = Places(folder.resolve(), near)
        self.shape, self.partitions = shape or Shape(), tuple(partitions)
        names = [f"node{i + 1}" for i in range(nodes)] if isinstance(nodes, int) else list(nodes)
        self.machine, self.port, self.nodes = self._layout(names)
        self.more = dict(more or {})
        if prolog:
            self.more["TaskProlog"] = str(self._prolog(address_in))
        self.up_s = up_s
        self.daemons = Daemons(self.places.folder / "logs", near)
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

    def at(self, name: str) -> list[str]:
        """Return the words before a command that runs on a node: none, since all nodes are this machine."""
        return []

    def run(self, *argv: str, timeout_s: float = RUN_S, good: Sequence[int] = (0,)) -> str:
        """Run a command and return its output. Raise Failed if its exit code is not in *good*."""
        done = subprocess.run(
            [*self.at(HEAD), *argv],
            env={**inherited(), **self.env},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
        )
        if done.returncode not in good:
            raise Failed(f"{' '.join(argv)}: {done.stderr.strip()}")
        return done.stdout

    def cancel(self, *jobs: str) -> None:
        """End these jobs, or all of the user's; one may be ending by itself meanwhile."""
        self.run("scancel", *(jobs or (f"--user={self.user}",)), good=(0, ENDING))

    def states(self) -> dict[str, str]:
        """Return the state of each node as `sinfo` prints it: "idle", "mixed", "down*", ..."""
        lines = self.run("sinfo", "--noheader", "--Node", "--format=%N %T").splitlines()
        return {name: state for name, _, state in (line.partition(" ") for line in lines)}

    def await_states(
        self,
        good: Callable[[str], bool] | None = None,
        nodes: Iterable[str] = (),
        timeout_s: float | None = None,
    ) -> None:
        """Wait until *nodes*, by default all, are in a good state, by default at rest.

        Raise Failed with the reasons.
        """
        good = good or self.resting.__eq__
        names = set(nodes) or {node.name for node in self.nodes}

        def all_good(states: Mapping[str, str]) -> bool:
            return all(good(states.get(name, "unknown")) for name in names)

        self._await(self.states, all_good, timeout_s)

    def close(self) -> None:
        """End every process of the cluster. The folder stays."""
        self.daemons.close()
        # The keeper does this, unless it was killed.
        shutil.rmtree(self.places.near, ignore_errors=True)

    @contextlib.contextmanager
    def frozen(self) -> Iterator[None]:
        """Stop the controller during the with-statement. It takes connections, and lets them wait."""
        self.daemons.send(CONTROLLER, signal.SIGSTOP)
        try:
            yield
        finally:
            self.daemons.send(CONTROLLER, signal.SIGCONT)

    def listens(self) -> bool:
        """Return whether a controller listens; without one, commands wait for ten seconds. proc(5)"""
        done = subprocess.run([*self.at(HEAD), "cat", "/proc/net/tcp"], stdout=-1, check=True)
        lines = done.stdout.decode().splitlines()
        return any(
            line.split()[1].endswith(f":{self.port:04X}") for line in lines if " 0A " in line
        )

    def stop_controller(self, number: int = signal.SIGTERM) -> None:
        """End the controller: connections are refused. SIGKILL: what it has not saved is lost."""
        self.daemons.stop(CONTROLLER, number)

    def start_controller(self, *options: str) -> None:
        """Start the controller with the state that it saved; "-c": with none."""
        argv = [*self.at(HEAD), self.programs[CONTROLLER], "-D", *options]
        self.daemons.start(CONTROLLER, argv, self._own)

    def start_node(self, name: str) -> None:
        argv = [*self.at(name), *self._confined(name), self.programs["slurmd"], "-D", "-N", name]
        self.daemons.start(name, argv, {**self._own, MARK: name})

    def _confined(self, name: str) -> list[str]:
        if self.confined_to is None:
            return []
        folders = (self.places.folder, self.places.near)
        return containers.rootless(self.places.folder / "own" / name, *folders, *self.confined_to)

    def lose(self, name: str) -> None:
        """Have a node lose its power. The controller sees it later, or is told by `set_node`."""
        self.daemons.kill_node(name)

    def set_node(self, name: str, state: str, reason: str = "rehearsed") -> None:
        """Set a node's state: "DOWN", "DRAIN", "RESUME", ... scontrol(1)"""
        assignments = [f"NodeName={name}", f"State={state}"]
        self.run(
            "scontrol", "update", *assignments, *([f"Reason={reason}"] if state != "RESUME" else [])
        )

    def mend(self, *, cancel: bool = True) -> None:
        """Start what has ended and have every node back; *cancel*: and idle, without any job."""
        self._mend_controller()
        for name, code in self.daemons.codes().items():
            if code is not None and name in self.states():
                self.start_node(name)
        if cancel:
            self.cancel()
        for name, state in self.states().items():
            if state.startswith(("down", "drain", "fail")):
                with contextlib.suppress(Failed):  # it may have come back by itself meanwhile
                    self.set_node(name, "RESUME")
        usable = ("idle",) if cancel else ("idle", "mixed", "allocated")
        self.await_states(usable.__contains__)

    def _mend_controller(self) -> None:
        self.daemons.send(CONTROLLER, signal.SIGCONT)
        if self.daemons.codes()[CONTROLLER] is not None:
            self.start_controller()
        self._await(self.listens, bool)

    def _layout(self, names: Sequence[str]) -> tuple[Machine, int, tuple[Node, ...]]:
        """Return the machine of the controller, its port, and the nodes."""
        machine = this_machine()
        port, *ports = free_ports(len(names) + 1)
        nodes = (
            Node(name, own, machine.address, state=self.state)
            for name, own in zip(names, ports, strict=True)
        )
        return machine, port, tuple(nodes)

    def _configure(self) -> None:
        places = self.places
        near = [places.near / f"{node.name}{kind}" for node in self.nodes for kind in ("", ".tmp")]
        for made in (places.folder / "logs", places.folder / "state", *near):
            made.mkdir(exist_ok=True, mode=0o700)
        (places.near / "key").write_bytes(secrets.token_bytes(128))
        (places.near / "key").chmod(0o600)
        gpus = places.folder / "gpus"
        gpus.mkdir(exist_ok=True)
        for _, name in conf.devices(self.shape):  # slurmd takes device files only
            with contextlib.suppress(FileExistsError):
                (gpus / name).symlink_to(os.devnull)
        (places.folder / "gres.conf").write_text(conf.gres_conf(self.shape, gpus))
        (places.folder / "cgroup.conf").write_text(conf.CGROUP)
        places.slurm_conf.write_text(
            conf.slurm_conf(
                places,
                self.machine,
                self.user,
                self.port,
                self.nodes,
                self.partitions,
                self.shape,
                self.more,
            )
        )

    def _prolog(self, address_in: str) -> Path:
        """Make what Slurm runs before a task; what it prints is the task's environment, line by line.

        It runs before each step, too, whose variables stay as they are.

        https://slurm.schedmd.com/prolog_epilog.html
        """
        script = self.places.folder / "prolog"
        ways = {name: value for name, value in inherited().items() if name != "PATH"}
        lines = ["#!/bin/sh"]
        for name, value in ways.items():
            lines.append(f'[ "${{{name}+set}}" ] || echo {shlex.quote(f"export {name}={value}")}')
        if self.shape.gpu_types:
            lines.append(NUMBERS % self.shape.gpus)
        if address_in:
            lines.append(ADDRESS.format(name=address_in))
        script.write_text("\n".join(lines) + "\n")
        script.chmod(0o700)
        return script

    def _start(self) -> None:
        self._start_munged()
        self.start_controller("-c")
        self._await(self.listens, bool)
        self._start_nodes()
        self.await_states()

    def _start_nodes(self) -> None:
        for node in self.nodes:
            self.start_node(node.name)

    def _start_munged(self) -> None:
        near = self.places.near
        argv = f"--foreground --force --num-threads=4 --socket={self.places.munge}".split()
        argv += [f"--{what}-file={near / what}" for what in ("key", "pid", "seed")]
        argv.append(f"--log-file={self.places.log('munged')}")
        argv = [*self.at(HEAD), self.programs["munged"], *argv]
        self.daemons.start("munged", argv, inherited())
        self._await(self.places.munge.exists, bool)

    @property
    def _own(self) -> dict[str, str]:
        """The environment of daemons. Jobs have theirs from who submits them."""
        return {**inherited(), "HOME": str(Path.home()), **self.env}

    def _await(
        self, ask: Callable[[], T], good: Callable[[T], bool], timeout_s: float | None = None
    ) -> None:
        """Call *ask* until its answer is good; raise Failed with the last answer after a time."""
        end = time.monotonic() + (self.up_s if timeout_s is None else timeout_s)
        while True:
            answer: object
            try:
                answer = result = ask()
                if good(result):
                    return
            except (Failed, OSError, subprocess.SubprocessError) as exc:
                answer = exc
            self.daemons.check()
            if time.monotonic() > end:
                raise Failed(f"{answer}; {self._reasons()}")
            time.sleep(LOOK_S)

    def _reasons(self) -> str:
        try:
            why = self.run("sinfo", "-R", "--noheader", "--format=%n %E").strip()
        except (Failed, subprocess.TimeoutExpired) as exc:
            why = str(exc)
        return f"{why}\n{tail(self.places.log('slurmctld'))}"


def found_programs(programs: Mapping[str, str] = PROGRAMS) -> dict[str, str]:
    """Return the path of each program. Raise NoSlurm if any is not installed."""
    # Daemons are in folders that an ordinary user's PATH may lack.
    path = f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/sbin"
    paths = {name: shutil.which(name, path=path) for name in programs}
    missing = dict.fromkeys(package for name, package in programs.items() if not paths[name])
    if missing:
        raise NoSlurm(f"missing packages: {' '.join(missing)}")
    return {name: where for name, where in paths.items() if where}


def free_ports(count: int) -> list[int]:
    """Return free ports. Another program may take one of them before it is used."""
    ports: list[int] = []
    for port in random.SystemRandom().sample(PORTS, len(PORTS)):
        with socket.socket() as sock:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                sock.bind((HOST, port))
            except OSError:
                continue
        ports.append(port)
        if len(ports) == count:
            return ports
    raise Failed(f"no {count} free ports in {PORTS}")


def this_machine(hosts: Path = Path("/etc/hosts")) -> Machine:
    """Return the name and address of this machine: Slurm's daemons look up their own name to find where to listen.

    Only the file *hosts* is read: a query in the network may take long, and returns no loopback address.
    """
    name = socket.gethostname()
    host = name.partition(".")[0]
    try:
        lines = [line.partition("#")[0].split() for line in hosts.read_text().splitlines()]
    except OSError:
        return Machine(host)
    names = [fields[0] for fields in lines if host in fields[1:]]
    if names and names[0].startswith("127."):
        return Machine(host, names[0], bound=True)
    return Machine(host)
