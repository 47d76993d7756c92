"""Nodes that come and go with the jobs, as ParallelCluster's do: on a real Slurm with power saving.

A batch job on nodes that are to start waits for half a minute more in Slurm 22.05, until its controller looks at it
again; so the jobs of these tests wait side by side.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from runspec_emulators.slurm import Cloud
from tests.support.requirements import need
from tests.support.saved_outputs import saved
from tests.support.slurm.project import Capture, Project, prepared
from tests.support.slurm.shared_cluster import PROGRAMS

pytestmark = pytest.mark.slow
LIMIT_S = 240.0
COLD_S = 60.0
COUNTS = """\
place="${outputs.out}/count"
count=$(cat "$place" 2>/dev/null || echo 0)
echo "try $RUNSPEC_ATTEMPT begins at $count on $SLURMD_NODENAME"
[ "$count" = 0 ] || exit 0
echo 7 >"$place"
exec sleep 600
"""


@pytest.fixture(scope="module")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cloud]:
    need(*PROGRAMS)
    with Cloud(tmp_path_factory.mktemp("cloud"), idle_s=2) as found:
        yield found


@pytest.fixture
def project(
    cloud: Cloud, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> Iterator[Project]:
    yield from prepared(cloud, tmp_path, monkeypatch, capsys, spot_partition="spot")


def test_the_life_of_jobs_on_nodes_that_come_and_go(project: Project, cloud: Cloud) -> None:
    """One outlives the scale-down around it; one finds no capacity, then is reclaimed, and goes on elsewhere."""
    cloud.take_capacity(["spot-dy-m-1"])
    stop = project.folder / "stop"
    long = f"echo ready; while [ ! -e {stop} ]; do sleep 0.1; done; echo $SLURMD_NODENAME"
    project.started(long, name="long")
    project.started("echo short on $SLURMD_NODENAME", name="short", cluster={"cpus": 2})
    spot = project.started(
        COUNTS,
        name="spot",
        cluster={"capacity": "spot"},
        outputs=[{"name": "out", "path": "/job/out", "sync": "1s"}],
        retry={"spot_attempts": 5},
    )
    waits = [project.status(name) for name in ("long", "short", "spot")]
    assert {one["state"] for one in waits} == {"waiting"}

    # Without capacity the node is down, and Slurm takes another one.
    outputs = project.workspace / "runs" / spot / "outputs"
    project.until(lambda: "count" in saved(outputs), LIMIT_S)
    assert project.jobs("%N", f"--name={spot}") == ["spot-dy-m-2"]
    assert cloud.states()["spot-dy-m-1"].startswith("down")
    cloud.give_capacity()
    cloud.reclaim("spot-dy-m-2")

    # Meanwhile the node of the short job goes away, and the long job does not see it.
    assert project.until_over("short", LIMIT_S)["state"] == "succeeded"
    (node,) = project.jobs("%N", f"--name={waits[0]['run']}")
    (other,) = {"main-dy-m-1", "main-dy-m-2"} - {node}
    project.until(lambda: cloud.states()[other] == "idle~", LIMIT_S)
    assert project.status("long")["state"] == "running"
    stop.touch()
    assert project.until_over("long", LIMIT_S)["state"] == "succeeded"
    assert project.log("long") == f"ready\n{node}\n"

    found = project.until_over("spot", LIMIT_S)
    tries = [line.split() for line in project.log("spot").splitlines() if line.startswith("try")]
    assert [" ".join(words[2:5]) for words in tries] == ["begins at 0", "begins at 7"]
    assert found["state"] == "succeeded"
    assert "its node was lost" in found["reason"]
    assert project.fetched("spot") == {"out/count": "7\n"}
    assert project.said("destroy", "spot")[0] == 0
    cloud.await_states(timeout_s=COLD_S)  # all are away again
