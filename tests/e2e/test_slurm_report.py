"""Reports on a real Slurm: the rest of a sweep is stopped by who follows it, and sizes are compared."""

from __future__ import annotations

import pytest

from tests.support.slurm.project import Project, cluster as cluster, project as project  # fixtures

pytestmark = pytest.mark.slow
METRIC = {"name": "acc", "goal": "max", "pattern": "acc=(.*)"}


def test_the_rest_of_an_array_is_stopped_and_the_job_has_succeeded(project: Project) -> None:
    """One task waits until another is stopped, perhaps for ever; the best goes on to its end."""
    printed = project.folder / "printed"
    best = f"until [ -e {printed} ]; do sleep 0.1; done; echo acc=0.9; sleep 2"
    spec = project.write(
        f"[ $RUNSPEC_SWEEP_N = 0.9 ] || {{ echo acc=0.1; touch {printed}; sleep 600; }}; {best}",
        sweep={"list": {"n": ["0.1", "0.9", "0.2"], "x": ["a", "b", "c"]}},
        max_parallel=2,
        metric={**METRIC, "stop": {"above": 0.8}},
    )

    code, _, told = project.said("apply", spec)
    found = project.told("report", "job")

    assert (code, found["state"], found["stopped"]) == (0, "succeeded", [0, 2])
    assert "task 1 has acc 0.9: stopping the others" in told
    assert {row["task"]: row["state"] for row in found["tasks"]} == {
        0: "cancelled",
        1: "succeeded",
        2: "cancelled",
    }
    assert [row["value"] for row in found["tasks"]][:2] == [0.9, 0.1]


def test_a_job_is_compared_at_two_sizes(project: Project) -> None:
    spec = project.write(
        "[ $RUNSPEC_RANK != 0 ] || echo acc=$((RUNSPEC_NODES * 100))",
        scaling=[1, 2],
        metric=METRIC,
    )

    assert project.said("apply", spec)[0] == 0
    (series,) = project.told("report", "job")["series"]

    assert [(p["size"], p["throughput"], p["efficiency"]) for p in series["points"]] == [
        (1, 100, 1),
        (2, 200, 1),
    ]
    assert (series["baseline"]["provider"], series["fit"]["lost"]) == ("slurm", 0)
