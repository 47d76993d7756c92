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
    ("fields", "most_nodes", "at_once"),
    [(SWEEP, 4, 9), ({"sweep": {"n": "1..99"}}, 4, 12), ({**SWEEP, "max_parallel": 4}, 2, 6)],
    ids=["fits", "more than the pool holds", "throttled"],
)
def test_machines_that_tasks_share_are_larger_and_fewer(
    fields: dict[str, Any], most_nodes: int, at_once: int
) -> None:
    cluster = {"cpus": 2, "memory": "3GiB", "disk": "10GiB"}

    made = decision(spec(cluster=cluster, **fields), tasks_per_node=3, max_nodes=4)

    asked = made.request
    assert (asked.cpus, asked.memory_gib, asked.disk_gib) == (6, 9, 30)
    assert (made.slots, made.most_nodes, made.nodes_at_once) == (3, most_nodes, at_once)


def test_a_pool_of_the_profile_decides_how_many_tasks_share_its_machines() -> None:
    made = decision(spec(**SWEEP, max_parallel=6), tasks_per_node=3, pool="mine")

    assert (made.slots, made.nodes_at_once) == (1, 6)


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
