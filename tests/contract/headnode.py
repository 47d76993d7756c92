"""Where ParallelCluster is tried by the contract: a Slurm of this machine behind programs that stand in."""

from __future__ import annotations

import atexit
import os
import shutil
import sys
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import ClassVar

import pytest

from runspec import registry
from runspec.provider import Answer, Client, Facts
from runspec.testing import Strike, World
from runspec_rehearsal.slurm import Cluster, Partition
from tests import pcluster
from tests.needs import need
from tests.slurm import PROGRAMS


class ParallelClusterWorld(World):
    """A Slurm of this machine behind a `pcluster` and an `ssh` that stand in: see tests/pcluster.py."""

    cluster: ClassVar[Cluster | None] = None
    patch: ClassVar[pytest.MonkeyPatch]

    def connect(self, facts: Facts) -> Client:
        if ParallelClusterWorld.cluster is None:
            need(*PROGRAMS, "node")
            queues = [Partition(name) for name in ("ondemand", "spot")]
            place = self.folder.parent / "parallelcluster"
            ParallelClusterWorld.cluster = Cluster(place, partitions=queues)
            atexit.register(ParallelClusterWorld.cluster.close)
        for name, value in ParallelClusterWorld.cluster.env.items():
            ParallelClusterWorld.patch.setenv(name, value)
        programs = pcluster.install(self.folder / "programs")
        path = os.environ["PATH"]
        if str(programs) not in path:
            ParallelClusterWorld.patch.setenv("PATH", f"{programs}:{path}")
        return super().connect(facts)

    def faults(self) -> Mapping[str, Strike]:
        return {kind: partial(struck_pcluster, self.folder, text) for kind, text in CALLS.items()}


SBATCH = (
    'REAL "$@" >/dev/null; echo "sbatch: error: Batch job submission failed: Socket timed out on '
    'send/recv operation" >&2; exit 1'
)
# What becomes of a call that makes something, of the stand-in or of the real sbatch.
CALLS = {
    "the reply of pcluster is lost": (
        "pcluster",
        'REAL "$@" >/dev/null; echo "Read timeout"; exit 1',
    ),
    "the reply of sbatch is lost": ("sbatch", SBATCH),
}


def struck_pcluster(folder: Path, of: tuple[str, str], send: Callable[[], Answer]) -> Answer:
    """Have the next call of a program that makes something go wrong; what only looks goes on."""
    program, text = of
    real = shutil.which(program)
    assert real is not None
    place = folder / "bin" / program
    place.parent.mkdir(exist_ok=True)
    looks = f'case $1 in describe-*) exec {real} "$@" ;; esac\n'
    place.write_text(f"#!/bin/sh\n{looks}{text.replace('REAL', real)}\n")
    place.chmod(0o755)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", f"{place.parent}:{os.environ['PATH']}")
        return send()


def parallelcluster(folder: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    """A cluster that is up as soon as it is asked for, with the Slurm of this machine."""
    ParallelClusterWorld.patch = monkeypatch
    monkeypatch.delenv("SLURM_CONF", raising=False)
    monkeypatch.setattr("runspec_slurm.pace.NOTES_S", 0.5)
    return ParallelClusterWorld(
        registry.load("parallelcluster"),
        folder,
        options={
            "region": "us-east-1",
            "cluster": "training",
            "subnets": ["subnet-0123456789abcdef0"],
            "key_pair": "my-key",
            "workspace": str(folder / "workspace"),
            "python": sys.executable,
            "environment": "clean",
            "grace": "1s",
            "shared": {"all": "/data"},
        },
        limit_s=120.0,
    )
