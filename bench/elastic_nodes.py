"""Nodes of an elastic training, which a figure starts and kills: those of our agents, and those of bare torchruns."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from bench.installs import ROOT
from runspec_agent.base import limits
from runspec_agent.base.process import descendants
from runspec_agent.elastic.policy import Timing
from runspec_jobs.provider.payload import pack_agent

LEAST, MOST, BATCH = 1, 4, 60
SAVE_EVERY = 20  # steps between two saves
SECONDS = 0.002  # the time of each sample, so that a step of one node takes 0.12 s
TRAINING = ROOT / "specs" / "elastic"
SCRIPTS = ROOT / "bench" / "torch"
RUN = "r-1"
WAIT_S = 300.0


class Note(NamedTuple):
    """A process has done a step, and how many processes there were."""

    at: float
    step: int
    world: int


class Kind(Protocol):
    """How the nodes of a job are started."""

    def node(self, seat: int) -> tuple[list[str], Mapping[str, str]]: ...

    def is_settled(self, nodes: int) -> bool:
        """Return whether so many nodes have ended the work that they do once, after their first steps."""
        ...

    def close(self) -> None: ...


def host(seat: int) -> str:
    return f"127.0.0.{seat + 1}"


def training(notes: Path, out: str) -> list[str]:
    words = [str(SCRIPTS / "noted.py"), str(TRAINING), str(notes), "--out", out]
    words += ["--epochs", "1000", "--seconds", str(SECONDS), "--save-every", str(SAVE_EVERY)]
    return words


class Ours:
    """Agents of one run, which meet in a folder."""

    def __init__(self, folder: Path, notes: Path, torch: Path) -> None:
        self.folder, self.torch = folder, torch
        self._tries = 0
        (folder / "inside.pyz").write_bytes(pack_agent())
        run = folder / "store" / "runs" / RUN
        run.mkdir(parents=True)
        record: dict[str, Any] = {
            "run": RUN,
            "shape": "array",
            "launch": "torchrun",
            "nodes": MOST,
            "elastic": {"min": LEAST, "max": MOST},
            "slots": 1,
            "attempts": 1,
            "global_batch": BATCH,
            "argv": ["python", *training(notes, "${outputs.out}")],
            "outputs": [{"name": "out", "path": "/out", "sync_s": 5.0}],
            "sweep": [],
            "mounts": [],
            "requirements": [],
            "build_constraints": [],
        }
        (run / "record.json").write_text(json.dumps(record))

    def node(self, seat: int) -> tuple[list[str], Mapping[str, str]]:
        self._tries += 1
        below = self.folder / f"node-{self._tries}"
        below.mkdir()
        own = {
            "PATH": f"{self.torch}:{os.environ['PATH']}",
            "RUNSPEC_RUN": RUN,
            "RUNSPEC_JOB": "j",
            "RUNSPEC_STORE": f"file://{self.folder / 'store'}",
            "RUNSPEC_INDEX": str(seat),
            "RUNSPEC_ATTEMPT": str(self._tries),
            "RUNSPEC_HOST": host(seat),
            "RUNSPEC_BELOW": str(below),
            "RUNSPEC_GRACE_S": "30",
            "TMPDIR": str(below),
        }
        return [sys.executable, "-IS", str(self.folder / "inside.pyz"), "job"], own

    def is_settled(self, nodes: int) -> bool:
        return len(list(self.folder.glob("node-*/runspec-*/elastic/warm/forks"))) >= nodes

    def close(self) -> None: ...


class Bare:
    """torchruns that meet at a store outside of all nodes, with the patience that our own nodes have.

    https://docs.pytorch.org/docs/stable/elastic/run.html
    """

    def __init__(self, folder: Path, notes: Path, torch: Path) -> None:
        self.torch, self.words = torch, training(notes, str(folder / "out"))
        (folder / "out").mkdir()
        line = [str(torch / "python"), str(SCRIPTS / "store.py")]
        self.store = subprocess.Popen(line, stdout=subprocess.PIPE, text=True)
        assert self.store.stdout is not None, "BUG: it has a pipe"
        self.endpoint = f"127.0.0.1:{int(self.store.stdout.readline())}"

    def node(self, seat: int) -> tuple[list[str], Mapping[str, str]]:
        times = Timing.of(limits.ELASTIC_FOLDER_BEAT_S, limits.SIMULATED_GRACE_S)
        beats = round(times.lease_s / times.beat_s)
        conf = f"is_host=false,last_call_timeout={times.last_call_s:g}"
        conf += f",keep_alive_interval={times.beat_s:g},keep_alive_max_attempt={beats}"
        words = [str(self.torch / "torchrun"), f"--nnodes={LEAST}:{MOST}", "--nproc-per-node=1"]
        words += ["--max-restarts=1000", "--monitor-interval=0.2", "--rdzv-id=bare"]
        words += ["--rdzv-backend=c10d", f"--rdzv-endpoint={self.endpoint}"]
        words += [f"--rdzv-conf={conf}", f"--local-addr={host(seat)}", *self.words]
        own = {
            "PATH": f"{self.torch}:{os.environ['PATH']}",
            "RUNSPEC_GLOBAL_BATCH": str(BATCH),
            # Without it 2.13 hangs: https://github.com/pytorch/pytorch/issues/182221
            "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1",
            "GLOO_SOCKET_IFNAME": "lo",
        }
        return words, own

    def is_settled(self, nodes: int) -> bool:
        return True

    def close(self) -> None:
        self.store.kill()
        self.store.communicate()


class Job:
    """One training, whose nodes come and go."""

    def __init__(self, folder: Path, kind: Callable[[Path, Path, Path], Kind], torch: Path) -> None:
        self.folder, self.notes = folder, folder / "notes"
        self.notes.mkdir(parents=True)
        self.kind = kind(folder, self.notes, torch)
        self.nodes: dict[int, subprocess.Popen[bytes]] = {}
        self._log = (folder / "log").open("wb")

    def start(self, seat: int) -> None:
        argv, env = self.kind.node(seat)
        common = {"HOME": str(self.folder), "OMP_NUM_THREADS": "1"}
        self.nodes[seat] = subprocess.Popen(
            argv,
            env={**common, **env},
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=self._log,
            start_new_session=True,
        )

    def kill(self, seat: int) -> None:
        """Take the machine away with all that is on it."""
        child = self.nodes.pop(seat)
        for pid in [child.pid, *descendants(child.pid)]:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        child.wait()

    def tell(self, seat: int) -> None:
        """Tell a node to end, and do not wait for it."""
        self.nodes.pop(seat).terminate()

    def seen(self, since: float = 0.0) -> list[list[Note]]:
        """Give the notes of each process that did its first step after *since*."""
        found = []
        for path in self.notes.iterdir():
            lines = path.read_text().split("\n")[:-1]
            rows = [line.split() for line in lines if line[:1].isdigit()]
            if rows and float(rows[0][0]) > since:
                found.append([Note(float(at), int(step), int(n)) for at, step, n in rows])
        return found

    def parts(self, since: float) -> list[Mapping[str, float]]:
        """Give of each process that did its first step after *since* what it had done when before it; see noted.py."""
        found: list[Mapping[str, float]] = []
        for path in self.notes.iterdir():
            rows = [line.split() for line in path.read_text().split("\n")[:-1]]
            steps = [float(row[0]) for row in rows if row[0][:1].isdigit()]
            if steps and steps[0] > since:
                named = {row[0]: float(row[1]) for row in rows if row[0][:1].isalpha()}
                found.append({**named, "first step": steps[0]})
        return found

    def settle(self) -> None:
        end = time.monotonic() + WAIT_S
        while not self.kind.is_settled(len(self.nodes)) and time.monotonic() < end:
            time.sleep(0.05)

    def meet(self, world: int, since: float, steps: int = 1) -> list[list[Note]]:
        """Wait until *world* processes that began after *since* have done *steps* each; give their notes."""
        end = time.monotonic() + WAIT_S
        while True:
            found = [p for p in self.seen(since) if p[0].world == world and len(p) >= steps]
            if len(found) >= world:
                return found
            if time.monotonic() > end:
                raise RuntimeError((self.folder / "log").read_text(errors="replace")[-4000:])
            time.sleep(0.05)

    def close(self) -> None:
        for seat in list(self.nodes):
            self.kill(seat)
        self.kind.close()
        self._log.close()
