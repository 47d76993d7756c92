"""Nodes that come and go on a real Slurm: jobs of one array, which are one job to whoever applied it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.support.agent.elastic_nodes import accounted, fixed, sgd, stepped, went
from tests.support.agent.elastic_sgd import OWN
from tests.support.slurm.project import Project, cluster as cluster, project as project  # fixtures

pytestmark = pytest.mark.slow
STEPS = 1500


def elastic(project: Project, least: int, most: int) -> dict[str, Any]:
    """Give the fields of a training without any library, whose pace is in a file of the project."""
    argv = sgd(project.folder, STEPS, 0.05)
    project.profile(sbatch=["--exclusive"])  # one on each of four nodes
    return {
        "cluster": {"nodes": {"min": least, "max": most}},
        "outputs": [{"name": "out", "path": "/job/out", "sync": "1s"}, OWN],
        "retry": {"spot_attempts": 5},
        "command": argv,
    }


def members(project: Project, run: str) -> list[int]:
    """Give which nodes the generation has that runs, once it has done a step; none while one forms."""
    path = project.workspace / "runs" / run / "elastic" / "0" / "state"
    found = json.loads(path.read_text()) if path.exists() else {}
    if found.get("phase") != "running":
        return []
    if not stepped(project.status()["changes"], found["generation"]):
        return []
    return sorted(int(member[0].partition("-")[0]) for member in found["members"])


def generation(project: Project, run: str) -> int:
    path = project.workspace / "runs" / run / "elastic" / "0" / "state"
    found: int = json.loads(path.read_text())["generation"]
    return found


def job(project: Project, run: str) -> str:
    return (project.workspace / "runs" / run / "claim").read_text()


def test_a_job_goes_on_while_its_nodes_come_and_go(project: Project) -> None:
    """Of five, one waits for a place, one loses its power and comes back, and one makes room for the one that waits."""
    run = project.started(**elastic(project, 1, 5))
    project.until(lambda: members(project, run) == [0, 1, 2, 3])
    first = generation(project, run)
    (lost,) = project.jobs("%N", f"--name={run}", f"--jobs={job(project, run)}_1")
    project.cluster.lose(lost)
    project.cluster.set_node(lost, "DOWN", "its power is gone")
    project.until(lambda: members(project, run) == [0, 2, 3])
    project.cluster.mend(cancel=False)
    project.until(lambda: len(members(project, run)) == 4)
    project.cluster.run("scontrol", "requeue", f"{job(project, run)}_2")
    project.until(
        lambda: members(project, run) == [0, 1, 3, 4]
    )  # Slurm lets the other one wait a while
    (project.folder / "pace").write_text("0")
    found = project.until_over()

    assert (found["state"], found["exit_code"]) == ("succeeded", 0), project.log()
    assert [(n["task"], n["rank"]) for n in found["nodes"]] == [(0, rank) for rank in range(5)]
    (spare,) = [n for n in found["nodes"] if n["state"] != "succeeded"]
    assert (spare["state"], spare["reason"][:15]) == ("cancelled", "the job is over")
    told = project.told("report", "job")["changes"]
    assert told == found["changes"]
    accounted(told)
    assert went(told, "lost") == [(1, "it was silent")]
    assert went(told, "left") == [(2, "told to end")]
    came = sorted(who["node"] for one in told for who in one["came"])
    assert came == [0, 1, 1, 2, 3, 4]  # the one without power came back
    fetched = project.fetched()
    kept = json.loads(fetched["out/state.json"])
    for place in ("node-0/own", "node-3/own"):  # of two that stayed
        own = [int(line) for line in fetched[f"{place}/generations"].split()]
        assert own[0] <= first < own[-1] == generation(project, run)
    alone = fixed(project.folder, sgd(project.folder, STEPS, 0), {})
    assert kept["losses"] == pytest.approx(alone["losses"], abs=1e-4)
    assert kept["samples"] == alone["samples"]
    assert {line.partition("]")[0] for line in project.log().splitlines()} >= {"[node 0", "[node 1"}


def test_nodes_that_are_given_back_are_free_until_they_are_asked_for(project: Project) -> None:
    """Of five, one waits for a place: it waits no more, and of those that run, two leave and come back."""
    run = project.started(**elastic(project, 1, 5))
    (project.folder / "pace").write_text("0.5")
    project.until(lambda: members(project, run) == [0, 1, 2, 3])

    assert project.told("release", "job", "4")["size"]["asked"] == 4
    said = project.told("resize", "job", "2")["size"]
    project.until(lambda: members(project, run) == [0, 1])
    away = [{"task": 0, "node": node} for node in (2, 3, 4)]
    assert said == {"asked": 2, "present": 2, "released": away}
    states = project.jobs("%K %T", f"--name={run}", "--array")
    assert [state.split()[0] for state in states if state.endswith("RUNNING")] == ["0", "1"]
    project.told("resize", "job", "5")
    project.until(lambda: len(members(project, run)) == 4)
    (project.folder / "pace").write_text("0")
    found = project.until_over()

    assert (found["state"], found["exit_code"]) == ("succeeded", 0), project.log()
    accounted(found["changes"])
    assert went(found["changes"], "lost") == []
    sizes = [change["nodes"] for change in found["changes"]]
    # Two nodes may leave, or come back, in one change or in two.
    assert sizes[0] == sizes[-1] == 4 and min(sizes) == 2 and len(sizes) <= 5
    kept = json.loads(project.fetched()["out/state.json"])
    alone = fixed(project.folder, sgd(project.folder, STEPS, 0), {})
    assert kept["losses"] == pytest.approx(alone["losses"], abs=1e-9)
    assert project.jobs("%K", f"--name={run}", "--states=PENDING,RUNNING") == []
