"""How Azure Batch runs a spec is decided once, from the spec and the facts."""

from __future__ import annotations

from dataclasses import FrozenInstanceError
from typing import Any

import pytest

from runspec_azure.batch.decision import decide
from runspec_jobs.provider import Facts
from tests.support.azure.specs import decision, options, spec

ELASTIC = {"cluster": {"nodes": {"min": 1, "max": 4}}, "launch": "torchrun"}
SWEEP = {"sweep": {"n": "1..9"}}


@pytest.mark.parametrize(
    ("fields", "tasks", "nodes", "connected", "most_nodes"),
    [
        pytest.param({}, 1, 1, False, 16, id="one task"),
        pytest.param(SWEEP, 9, 1, False, 16, id="collection"),
        pytest.param({**SWEEP, "max_parallel": 3}, 9, 1, False, 3, id="throttled collection"),
        pytest.param({"cluster": {"nodes": 3}}, 1, 3, True, 15, id="multi-instance"),
        pytest.param(ELASTIC, 4, 1, True, 16, id="elastic"),
        pytest.param({**ELASTIC, **SWEEP}, 36, 1, True, 16, id="elastic collection"),
    ],
)
def test_the_kind_of_job_decides_tasks_and_the_nodes_of_its_pool(
    fields: dict[str, Any], tasks: int, nodes: int, connected: bool, most_nodes: int
) -> None:
    made = decision(spec(**fields))

    assert (made.tasks, made.nodes, made.connected) == (tasks, nodes, connected)
    assert (made.most_nodes, made.nodes_at_once) == (most_nodes, min(most_nodes, tasks * nodes))


@pytest.mark.parametrize(
    ("profile", "complete"), [({"pool": "mine"}, True), ({}, False)], ids=["own pool", "validate"]
)
def test_no_machines_are_chosen_for_a_pool_of_the_profile_or_by_validate(
    profile: dict[str, Any], complete: bool
) -> None:
    assert decide(spec(), Facts(options(**profile), complete=complete)).machines == ()


def test_a_decision_cannot_be_changed() -> None:
    with pytest.raises(FrozenInstanceError):
        decision(spec()).nodes = 2  # type: ignore[misc]
