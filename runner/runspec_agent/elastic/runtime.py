"""Run a generation of an elastic job on this node: the program itself, mpirun, or a torchrun that stays.

A runtime is started with the data of a generation, asked to stop, and polled; its methods never wait.
"""

import os
import signal
import time
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Sequence

from runspec_agent.base import files, process
from runspec_agent.base.job_env import LOST, STOPPED
from runspec_agent.base.process import Child
from runspec_agent.elastic import torch_rendezvous
from runspec_agent.elastic.torch_rendezvous import BACKEND, FOLDER, RUNNING, VIEW
from runspec_agent.elastic.warm import Warm
from runspec_agent.env import sockets

LATE_S = 15.0  # seconds for torchrun to notice that its workers have ended
LOOK_S = 0.05  # seconds between torchrun's checks of its workers
RESTARTS = (
    1000000  # the agent counts failures: the end of a generation is not a failure of torchrun
)
ENTRY = "[torchrun.handlers]\n{} = runspec_torchrun:creator\n".format(BACKEND)
METADATA = "Metadata-Version: 2.1\nName: runspec-torchrun\nVersion: 1\n"


class Turn(NamedTuple):
    """This node's part in one generation."""

    generation: int
    rank: int
    hosts: List[str]  # in the order of ranks
    port: int  # that was free on the first host


class Program:
    """A program that is started again for each generation: `launch: none`, and `mpi` with the agent's launcher.

    With *warm*, which *argv* then uses, it is started as a fork of a process that has imported what it imports.
    """

    def __init__(
        self, argv: List[str], cwd: Optional[str], grace_s: float, warm: Optional[Warm] = None
    ) -> None:
        self.argv, self.cwd, self.grace_s, self.warm = argv, cwd, grace_s, warm
        self.child: Optional[Child] = None

    def prepare(self, env: Mapping[str, str]) -> None:
        """Do what can be done before the first generation of this node."""

    def warm_up(self, names: Sequence[str], env: Mapping[str, str]) -> None:
        """Prepare later starts of the program, which imports the frameworks *names*."""
        if self.warm is not None:
            self.warm.start(names, self._worker_environment(env))

    def is_ready(self) -> bool:
        """Return whether the program can be started without waiting for imports, as far as that is possible."""
        return self.warm is None or self.warm.is_ready()

    def _worker_environment(self, env: Mapping[str, str]) -> Dict[str, str]:
        return dict(env)

    def _reap(self, child: Child) -> None:
        kept = None if self.warm is None else self.warm.child
        process.reap((child,) if kept is None else (child, kept))

    def start(self, turn: Turn, env: Mapping[str, str]) -> None:
        self.child = Child(self.argv, env, self.cwd)

    def stop(self) -> None:
        """Ask the program to end; it is killed when its grace period is over."""
        if self.child is not None:
            self.child.stop(self.grace_s)

    def send(self, number: int) -> None:
        if self.child is not None:
            self.child.send(number)

    def look(self) -> Optional[int]:
        """Return the exit code of a program that has ended since the last call, once; no process of it is left then."""
        if self.child is None:
            return None
        self._reap(self.child)
        self.child.tick()
        if not self.child.is_over():
            return None
        code, self.child = self.child.exit_code, None
        process.kill_rest(spared=0 if self.warm is None else self.warm.pid)
        return code

    def kill(self) -> None:
        if self.child is not None:
            self.child.kill()
        process.kill_rest()


class Torchrun(Program):
    """A torchrun that runs through all generations: it starts the workers of each, and stops them.

    *folder* is where the agent writes the generations for it; see `torch_rendezvous`. With a new torchrun for each
    generation, all nodes would wait while it imports torch, before its workers import torch too.
    """

    def __init__(
        self,
        argv: List[str],
        cwd: Optional[str],
        grace_s: float,
        folder: str,
        slots: int,
        warm: Optional[Warm] = None,
    ) -> None:
        super().__init__(argv, cwd, grace_s, warm)
        self.folder, self.slots = folder, slots
        self._turn: Optional[Turn] = None
        self._stop_at: Optional[float] = None  # when the workers were asked to stop
        _install(folder)

    def prepare(self, env: Mapping[str, str]) -> None:
        """Let torchrun import torch while this node waits, so that the other nodes need not wait for that."""
        if self.child is None:
            self.child = Child(self.argv, self._environment(env), self.cwd)

    def start(self, turn: Turn, env: Mapping[str, str]) -> None:
        self._turn, self._stop_at = turn, None
        own = {name: value for name, value in env.items() if name.startswith("RUNSPEC_")}
        if self.child is not None and self._has_ended(self.child):
            self.child = None
        if self.child is None:
            files.remove(os.path.join(self.folder, torch_rendezvous.STOPPED))
        self._write(
            RUNNING, turn, dict(own, PYTHONPATH=env.get("PYTHONPATH"), RUNSPEC_LAUNCH="torchrun")
        )
        if self.child is None:
            self.child = Child(self.argv, self._environment(env), self.cwd)

    def _has_ended(self, child: Child) -> bool:
        """Return whether torchrun has ended while it waited, for example by a signal that was passed on to it."""
        self._reap(child)
        return child.code is not None

    def is_ready(self) -> bool:
        if self.child is None or self._has_ended(self.child):
            return True
        waits = os.path.exists(os.path.join(self.folder, torch_rendezvous.STOPPED))
        return waits and super().is_ready()

    def _worker_environment(self, env: Mapping[str, str]) -> Dict[str, str]:
        """Return what torchrun gives its workers, but for what differs between generations."""
        found = self._environment(env)
        found.pop("PYTHONPATH")
        if env.get("PYTHONPATH"):
            found["PYTHONPATH"] = env["PYTHONPATH"]
        if self.slots > 1:
            found.setdefault("OMP_NUM_THREADS", "1")
        return found

    def _environment(self, env: Mapping[str, str]) -> Dict[str, str]:
        """Return the environment of torchrun: its Python finds the handler on PYTHONPATH."""
        path = [self.folder] + ([env["PYTHONPATH"]] if env.get("PYTHONPATH") else [])
        found = {"TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}  # see torchrun.env_for
        loopback = env["RUNSPEC_HOST"].startswith("127.")  # whether all nodes are on one machine
        found.update(sockets.variables(env["RUNSPEC_HOST"], loopback))
        found.update(env)
        found["PYTHONPATH"] = os.pathsep.join(path)
        found[FOLDER] = self.folder
        found["RUNSPEC_LAUNCH"] = "none"  # inside.sh starts no launcher
        return found

    def _write(self, phase: str, turn: Turn, env: Mapping[str, Optional[str]]) -> None:
        view: Dict[str, Any] = {
            "generation": turn.generation,
            "phase": phase,
            "rank": turn.rank,
            "nodes": len(turn.hosts),
            "slots": self.slots,
            "leader": turn.hosts[0],
            "port": turn.port,
            "env": env,
        }
        torch_rendezvous.write(os.path.join(self.folder, VIEW), view)

    def stop(self) -> None:
        """Stop the workers through torchrun with the grace period; torchrun's own default is 30 s."""
        if self.child is not None and self._turn is not None and self._stop_at is None:
            self._write("stopping", self._turn, {})
            self._stop_at = time.monotonic()

    def look(self) -> Optional[int]:
        if self.child is None or self._turn is None:
            return None
        stopped = torch_rendezvous.read(os.path.join(self.folder, torch_rendezvous.STOPPED))
        if stopped is not None and stopped["generation"] == self._turn.generation:
            told, self._turn = self._stop_at is not None, None
            if not stopped["met"]:
                return LOST
            return STOPPED if told else 1  # only torchrun knows the exit codes of its workers
        code = super().look()
        if code is None and self._stop_at is not None and stopped is None:
            code = STOPPED  # torchrun is starting: it has no workers, and reads that this generation is over
        if code is not None:
            self._turn = None
        elif self._stop_at is not None:
            self._hurry(time.monotonic() - self._stop_at, self.child)
        return code

    def _hurry(self, waited_s: float, child: Child) -> None:
        """Kill the workers when their grace period is over, and then torchrun (it is started again) if needed."""
        if waited_s > self.grace_s + LATE_S:
            child.kill()  # the next look takes its exit code, and kills what it leaves
        elif waited_s > self.grace_s:
            for worker in process.descendants(child.pid):
                try:
                    os.kill(worker, signal.SIGKILL)
                except OSError:  # it has already ended
                    pass


def _install(folder: str) -> None:
    """Install the handler as an entry point, where Python looks for installed packages.

    https://packaging.python.org/en/latest/specifications/entry-points/
    """
    known = os.path.join(folder, "runspec_torchrun-1.dist-info")
    os.mkdir(known)
    files.write(os.path.join(known, "entry_points.txt"), ENTRY.encode("ascii"))
    files.write(os.path.join(known, "METADATA"), METADATA.encode("ascii"))
    source = torch_rendezvous.__loader__.get_data(torch_rendezvous.__file__)  # type: ignore[union-attr] # as every importer of the agent has
    files.write(os.path.join(folder, "runspec_torchrun.py"), source)


def torchrun_words(run: str, bounds: Mapping[str, int], slots: int, host: str) -> List[str]:
    """Return the torchrun command up to the program.

    https://docs.pytorch.org/docs/stable/elastic/run.html
    """
    return [
        "torchrun",
        "--no-python",
        "--nnodes={}:{}".format(bounds["min"], bounds["max"]),
        "--nproc-per-node={}".format(slots),
        "--rdzv-backend={}".format(BACKEND),
        "--rdzv-endpoint=none",
        "--rdzv-id={}".format(run),
        "--max-restarts={}".format(RESTARTS),
        "--monitor-interval={:g}".format(LOOK_S),
        "--local-addr={}".format(host),
    ]
