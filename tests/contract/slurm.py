"""Where Slurm, and ParallelCluster on top of it, are tried by the contract: a real Slurm of this machine for both."""

from __future__ import annotations

import atexit
import contextlib
import os
import shlex
import shutil
import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import pytest

from runspec_emulators.slurm import Cluster, Partition
from runspec_jobs.load import registry
from runspec_jobs.provider import Client, Facts, Request, Response
from runspec_jobs.testing import Strike, World
from runspec_parallelcluster.client import ParallelClusterClient
from runspec_slurm import timing
from runspec_slurm.client import SlurmClient
from runspec_slurm.session.shared_shell import close_shells
from runspec_slurm.store.workspace import WorkspaceStore
from tests.support.requirements import need
from tests.support.slurm import fake_pcluster
from tests.support.slurm.shared_cluster import PROGRAMS


class Fault(NamedTuple):
    """A program that goes wrong by a piece of shell, in which REAL runs it; it belongs to these *operations*."""

    program: str
    operations: tuple[str, ...]
    text: str


LOST = "Batch job submission failed: Socket timed out on send/recv operation"
LOST_REPLY = Fault(
    "sbatch", ("sbatch",), f'REAL "$@" >/dev/null; echo "sbatch: error: {LOST}" >&2; exit 1'
)
SBATCH = {
    "the reply of sbatch is lost": LOST_REPLY,
    "sbatch is killed when it has submitted": LOST_REPLY._replace(
        text='REAL "$@" >/dev/null; kill -9 $PPID'
    ),
    "sbatch is killed before it has submitted": LOST_REPLY._replace(text="kill -9 $PPID"),
}
# What becomes of a call that makes something, of the stand-in or of the real sbatch. What only looks goes on.
PCLUSTER = {
    "the reply of pcluster is lost": Fault(
        "pcluster",
        ("create_cluster", "update_cluster", "delete_cluster"),
        'case $1 in describe-*) exec REAL "$@" ;; esac\n'
        'REAL "$@" >/dev/null; echo "Read timeout"; exit 1',
    ),
    "the reply of sbatch is lost": LOST_REPLY,
}


CHANGING = ("sbatch", "scancel", "scontrol")  # the programs of Slurm that change something
DOWN = "slurm_load_jobs error: Unable to contact slurm controller (connect failure)"
SQUEUE_DOWN = Fault("squeue", (), f'echo "{DOWN}" >&2; exit 1')
SSH_DOWN = Fault(
    "ssh", (), 'echo "ssh: connect to host x port 22: Connection refused" >&2; exit 255'
)


@dataclass
class SlurmWorld(World):
    """A real Slurm, one for all tests of this worker: up from the first connect on.

    *behind* are programs that stand in for the way to it: see tests/support/slurm/fake_pcluster.py.
    """

    breaks: Mapping[str, Fault] = field(default_factory=lambda: SBATCH)
    behind: bool = False

    cluster: ClassVar[Cluster | None] = None
    patch: ClassVar[pytest.MonkeyPatch]

    def connect(self, facts: Facts) -> Client:
        if SlurmWorld.cluster is None:
            need(*PROGRAMS)
            queues = [Partition(name) for name in ("main", "ondemand", "spot")]
            # Each node has a loopback address of its own: nobody else reaches what a job serves there.
            SlurmWorld.cluster = Cluster(
                self.folder.parent / "slurm",
                partitions=queues,
                prolog=True,
                address_in="RUNSPEC_HOST",
            )
            atexit.register(SlurmWorld.cluster.close)
        for name, value in SlurmWorld.cluster.env.items():
            SlurmWorld.patch.setenv(name, value)
        # From now on: what only plans gives the plans of another process, where nothing was replaced.
        quick = timing.Timing(settle_s=0.5, notes_s=0.5)
        SlurmWorld.patch.setattr(timing, "DEFAULT", quick)
        self._record()
        if self.behind:
            need("node")
            programs = str(fake_pcluster.install(self.folder / "programs"))
            if programs not in (path := os.environ["PATH"]):
                SlurmWorld.patch.setenv("PATH", f"{programs}:{path}")
        return super().connect(facts)

    def _record(self) -> None:
        """Have the programs that change something note that they were called."""
        programs, log = self.folder / "recorded", shlex.quote(str(self.folder / "called"))
        if programs.exists():
            return
        programs.mkdir()
        for name in CHANGING:
            real = shutil.which(name)
            noted = f'case " $* " in *" show "*) ;; *) echo "{name} $*" >>{log} ;; esac'
            (programs / name).write_text(f'#!/bin/sh\n{noted}\nexec {real} "$@"\n')
            (programs / name).chmod(0o755)
        SlurmWorld.patch.setenv("PATH", f"{programs}:{os.environ['PATH']}")

    def changes(self, run: str) -> Sequence[str]:
        """Give the calls of programs, and the files of the run that clients write."""
        called, own = self.folder / "called", self.folder / "workspace" / "runs" / run
        files = [name for name in ("last", "missing", "stop") if (own / name).exists()]
        claim = [path.read_text() for path in own.glob("claim")]
        return [*(called.read_text().splitlines() if called.exists() else ()), *files, *claim]

    def plain(self, client: Client, run: str) -> Mapping[str, bytes]:
        store, base = self._shelf(client), f"runs/{run}/outputs/"
        keys = [e.key for e in store.listing(base.rstrip("/")) if "/.runspec/" not in e.key]
        return {key[len(base) :]: store.read(key) or b"" for key in keys}

    def discard(self, client: Client, run: str, keys: Collection[str]) -> None:
        for key in keys:
            self._shelf(client).remove(f"runs/{run}/outputs/{key}")

    @staticmethod
    def _shelf(client: Client) -> WorkspaceStore:
        if isinstance(client, ParallelClusterClient):
            return client.slurm().store
        assert isinstance(client, SlurmClient)
        return client.store

    def faults(self) -> Mapping[str, Strike]:
        return {name: partial(struck, self.folder, fault) for name, fault in self.breaks.items()}

    def outage(self) -> AbstractContextManager[None]:
        return broken(self.folder, SSH_DOWN if self.behind else SQUEUE_DOWN)

    def reaches(self, fault: str, request: Request) -> bool:
        return request.operation in self.breaks[fault].operations


def struck(folder: Path, fault: Fault, send: Callable[[], Response]) -> Response:
    """Have what a call runs go wrong by *fault*."""
    with broken(folder, fault):
        return send()


@contextlib.contextmanager
def broken(folder: Path, fault: Fault) -> Iterator[None]:
    """Have a program go wrong by *fault*, also behind a login: a shell that commands share has the PATH from before."""
    real = shutil.which(fault.program)
    assert real is not None
    place = folder / "bin" / fault.program
    place.parent.mkdir(exist_ok=True)
    place.write_text(f"#!/bin/sh\n{fault.text.replace('REAL', real)}\n")
    place.chmod(0o755)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", f"{place.parent}:{os.environ['PATH']}")
        close_shells()
        yield
    close_shells()


def world(name: str, folder: Path, monkeypatch: pytest.MonkeyPatch, **how: Any) -> SlurmWorld:
    """Give the world of a provider; whoever only plans has no cluster to ask, and looks for none by DNS."""
    SlurmWorld.patch = monkeypatch
    monkeypatch.setenv("SLURM_CONF", os.devnull)
    monkeypatch.setattr(timing, "DEFAULT", timing.Timing(notes_s=0.5))
    options = {
        "workspace": str(folder / "workspace"),
        "python": sys.executable,
        "environment": "clean",
        "grace": "1s",
        "shared": {"all": "/data"},
        **how.pop("options", {}),
    }
    return SlurmWorld(registry.load(name), folder, options=options, limit_s=120.0, **how)


def slurm(folder: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    """A cluster of this machine."""
    return world("slurm", folder, monkeypatch)


def parallelcluster(folder: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    """A cluster that is up as soon as it is asked for, with the Slurm of this machine."""
    options = {
        "region": "us-east-1",
        "cluster": "training",
        "subnets": ["subnet-0123456789abcdef0"],
        "key_pair": "my-key",
    }
    how: dict[str, Any] = {"options": options, "breaks": PCLUSTER, "behind": True}
    return world("parallelcluster", folder, monkeypatch, **how)
