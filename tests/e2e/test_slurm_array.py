"""An array of a thousand tasks on a real Slurm: its bound, its states, its logs, and how long it takes."""

from __future__ import annotations

import time

import pytest

from tests.e2e.slurm import Project, cluster as cluster, project as project  # fixtures

pytestmark = pytest.mark.slow
COUNT, AT_ONCE = 1000, 6


def test_a_thousand_tasks_end_with_their_own_codes_and_logs(project: Project) -> None:
    """And never more of them run than the spec allows, though there is room for two more."""
    began = time.monotonic()
    found = project.ended(
        'echo "number $RUNSPEC_SWEEP_N"; [ "$RUNSPEC_SWEEP_N" != 777 ] || exit 9',
        sweep={"n": list(range(COUNT))},
        max_parallel=AT_ONCE,
    )
    print(time.monotonic() - began)
    assert 0, found["reason"]
