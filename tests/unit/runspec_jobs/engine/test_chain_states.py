"""How the jobs of a chain are, and whether one that others need has ended as they need."""

from __future__ import annotations

from pathlib import Path

import pytest

from runspec_jobs.engine.chain import job_states
from runspec_jobs.engine.source_runs import meets
from runspec_jobs.provider import State, Status
from runspec_jobs.spec.needs import Condition
from runspec_jobs.state.chain_record import ChainRecord


def test_a_job_without_a_run_is_not_started_and_names_what_it_needs(tmp_path: Path) -> None:
    chain = ChainRecord("all", tmp_path / "all.yaml", {"first": {}, "last": {"first": "succeeded"}})

    states = [job_states.read_state(chain, job, None) for job in chain.needs]

    assert [(one.job, one.state, one.reason) for one in states] == [
        ("first", job_states.NOT_STARTED, ""),
        ("last", job_states.NOT_STARTED, "needs first"),
    ]


@pytest.mark.parametrize(
    ("condition", "met"),
    [
        (Condition.SUCCEEDED, {State.SUCCEEDED}),
        (Condition.FAILED, {State.FAILED}),
        (Condition.ENDED, {State.SUCCEEDED, State.FAILED, State.CANCELLED}),
    ],
)
def test_a_condition_is_met_by_its_ends_alone(condition: Condition, met: set[State]) -> None:
    assert {state for state in State if meets(condition, Status(state, ""))} == met
