"""Machines that are reserved, on a real Slurm: jobs that name the pool draw on them, and no others do."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.slurm.project import Project, cluster as cluster, project as project  # fixtures

pytestmark = pytest.mark.slow
SAY = "echo on $SLURMD_NODENAME of ${SLURM_JOB_RESERVATION:-none}"
POOL = {"capacity": "pool:night"}


@pytest.fixture
def reserved(project: Project) -> Iterator[Project]:
    """Give a project whose pool `night` is a reservation of node4."""
    words = "reservationname=night starttime=now duration=60 nodes=node4"
    project.cluster.run("scontrol", "create", *words.split(), f"users={project.cluster.user}")
    project.profile(pools={"night": {"sbatch": ["--reservation=night"]}})
    yield project
    project.cluster.cancel()
    project.until(lambda: project.alive() == [])
    project.cluster.run("scontrol", "delete", "reservationname=night")


def test_a_job_draws_on_its_pool_and_gives_back_what_it_had(reserved: Project) -> None:
    for name in ("first", "second"):
        found = reserved.ended(SAY, name=name, cluster=POOL)

        assert (found["state"], reserved.log(name)) == ("succeeded", "on node4 of night\n")


def test_a_job_without_a_pool_does_not_use_reserved_nodes(reserved: Project) -> None:
    """Four nodes are there, and one of them is reserved."""
    reserved.started("sleep 600", name="wide", cluster={"nodes": 4})
    reserved.until(lambda: "reserved" in reserved.status("wide")["reason"].lower())
    found = reserved.ended(SAY, cluster=POOL)

    assert (found["state"], reserved.log()) == ("succeeded", "on node4 of night\n")
    assert reserved.status("wide")["state"] == "waiting"
