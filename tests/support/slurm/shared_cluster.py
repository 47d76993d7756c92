"""A Slurm that the tests of a worker share: four nodes, up in less than a second, ended with the session.

Slow tests take the fixture `slurm` (import it from this module, or name the module in `pytest_plugins`), and
leave its nodes idle. Tests that stop daemons make a `Cluster` of their own. Each worker has one: a
cluster that workers share would wait for the slowest of them, and saves nothing.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from runspec_emulators.slurm import Cluster, Machines, Shape
from tests.support.requirements import need, need_root

PROGRAMS = ("slurmctld", "slurmd", "sinfo", "munged")
MACHINES = ("sshd", "ssh", "ip", "nsenter")


@pytest.fixture(scope="session")
def slurm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Give a cluster of node1 to node4, each with 2 processors, 2000 MB and 2 GPUs."""
    need(*PROGRAMS)
    with Cluster(tmp_path_factory.mktemp("slurm"), shape=Shape(gpus=2)) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def machines(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machines]:
    """Give a cluster of m1 to m4, with addresses, disks and sshds of their own. Its commands: `run`."""
    need(*PROGRAMS, *MACHINES)
    need_root()
    room = Shape(cpus=8, memory_mb=8000)
    with Machines(tmp_path_factory.mktemp("machines"), shape=room) as cluster:
        yield cluster
