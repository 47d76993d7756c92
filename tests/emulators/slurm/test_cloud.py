"""Nodes of a cloud are started for jobs, fail for want of capacity, are reclaimed, and go away."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from runspec_emulators.slurm import Cloud
from tests.emulators.slurm.hand import holders, job, said, submit, until
from tests.support.requirements import need
from tests.support.slurm.shared_cluster import PROGRAMS

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cloud]:
    need(*PROGRAMS)
    with Cloud(tmp_path_factory.mktemp("cloud"), idle_s=2) as cloud:
        yield cloud
    assert holders(cloud) == []  # those that slurmctld started, too


def test_nodes_start_for_a_job_and_go_away_after_it(cloud: Cloud) -> None:
    assert set(cloud.states().values()) == {"idle~"}

    told = cloud.run("srun", "--nodes=2", "sh", "-c", "echo $SLURMD_NODENAME")

    assert sorted(told.split()) == ["main-dy-m-1", "main-dy-m-2"]
    cloud.await_states(timeout_s=40)
    assert [one for one in holders(cloud) if b"slurmd\0-D" in command(one)] == []


def command(pid: int) -> bytes:
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            return file.read()
    except OSError:
        return b""


def test_a_node_without_capacity_is_down_and_says_why(cloud: Cloud) -> None:
    cloud.take_capacity(["spot-dy-m-1"])

    number = submit(cloud, "true", "--partition=spot", "--nodelist=spot-dy-m-1")
    until(lambda: cloud.states()["spot-dy-m-1"].startswith("down"))
    why = cloud.run("sinfo", "--list-reasons", "--noheader", "--format=%E %n")
    waits = job(cloud, number)
    cloud.mend()

    assert why.startswith("(Code:InsufficientInstanceCapacity)")
    assert waits == "PENDING"
    assert set(cloud.states().values()) == {"idle~"}


def test_a_reclaimed_node_takes_its_job_with_it(cloud: Cloud) -> None:
    node = "spot-dy-m-1"
    where = ["--partition=spot", f"--nodelist={node}"]
    cloud.run("srun", *where, "true")  # a batch job for a node that is up does not wait
    number = submit(cloud, "echo up; sleep 600", *where, "--requeue")
    until(lambda: said(cloud, number) == "up\n")

    cloud.reclaim(node)

    assert job(cloud, number) in {"PENDING", "REQUEUED", "CONFIGURING"}
    assert not [one for one in holders(cloud) if f"SLURMD_NODENAME={node}".encode() in around(one)]
    cloud.mend()


def around(pid: int) -> bytes:
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            return file.read()
    except OSError:
        return b""
