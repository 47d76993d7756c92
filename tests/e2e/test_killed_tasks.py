"""Tasks that are killed with their agents, which count for `max_failed` when a command has looked."""

from __future__ import annotations

from typing import Any

import pytest

from tests.e2e.test_ends import (
    account as account,  # fixtures
    ended,
    on_aws as on_aws,
    on_azure as on_azure,
)
from tests.support.azure.emulated_account import blobs as blobs  # a fixture
from tests.support.slurm.project import Project, cluster as cluster, project as project

# On Slurm, the parent of an agent is the batch script.
MANY = """\
read -r _ _ _ batch _ <"/proc/$PPID/stat"
[ "$WHERE" = slurm ] || batch=$PPID
[ "${sweep.n}" -gt 1 ] || { sleep 4; kill -s KILL "$batch"; sleep 600; }
trap 'exit 1' TERM
while :; do sleep 0.2; done
"""


def check_killed(jobs: Any, provider: str) -> None:
    """Have two of seven tasks be killed, while one runs and others wait."""
    status = ended(
        jobs,
        {
            "apiVersion": "runspec/v1",
            "name": "job",
            "provider": provider,
            "run": MANY,
            "env": {"WHERE": provider},
            "sweep": {"n": "0..6"},
            "max_parallel": 3,
            "max_failed": 2,
        },
    )

    states = [node["state"] for node in status["nodes"]]
    assert states == ["failed"] * 2 + ["cancelled"] * 5
    assert (status["state"], status["exit_code"]) == ("failed", 137)
    assert "max_failed: 2: 2 tasks have failed, and 5 others were cancelled" in status["reason"]


@pytest.mark.slow
def test_killed_tasks_end_a_sweep_on_slurm(project: Project) -> None:
    check_killed(project, "slurm")


@pytest.mark.slow
@pytest.mark.parametrize("provider", ["aws-batch", "azure-batch"])
def test_killed_tasks_end_a_sweep_on_a_cloud(provider: str, request: pytest.FixtureRequest) -> None:
    fixture = "on_aws" if provider == "aws-batch" else "on_azure"
    check_killed(request.getfixturevalue(fixture), provider)
