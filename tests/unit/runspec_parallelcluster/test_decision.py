"""The queues of a cluster and of a job are decided once, from the spec and the settings."""

from __future__ import annotations

from dataclasses import FrozenInstanceError
from typing import Any

import pytest

from runspec_parallelcluster.decision import decide
from tests.support.slurm.parallelcluster_specs import options, spec

SMALL, LARGE = {"instance_types": ["c6a.large"]}, {"instance_types": ["c6a.8xlarge"]}


@pytest.mark.parametrize(
    ("cluster", "settings", "queues", "submitted"),
    [
        ({}, {}, ["ondemand"], ("ondemand",)),
        ({"capacity": "spot"}, {}, ["spot"], ("spot",)),
        ({"capacity": "spot-then-on-demand"}, {}, ["spot", "ondemand"], ("spot", "ondemand")),
        ({"cpus": 16}, {"queues": {"s": SMALL, "l": LARGE}}, ["s", "l"], ("l",)),
        ({"cpus": 64}, {"queues": {"s": SMALL, "l": LARGE}}, ["s", "l"], ()),
        ({"cpus": 64}, {"queues": {"s": SMALL, "l": LARGE}, "queue": "s"}, ["s", "l"], ("s",)),
        ({}, {"manage": False, "cluster": "theirs"}, [], ()),
    ],
)
def test_the_capacity_and_the_size_of_a_node_decide_the_queues_of_a_job(
    cluster: dict[str, Any],
    settings: dict[str, Any],
    queues: list[str],
    submitted: tuple[str, ...],
) -> None:
    made = decide(spec(cluster=cluster), options(**settings))

    assert (list(made.queues), tuple(made.job_queues)) == (queues, submitted)


def test_the_rule_chooses_machines_only_for_queues_without_instance_types() -> None:
    made = decide(spec(), options(queues={"named": SMALL, "open": {}}))

    assert [choice.is_by_rule for choice in made.queues.values()] == [False, True]
    assert made.queues["named"].candidates == ()
    first = made.queues["open"].candidates[0].machine.name
    assert made.queues["open"].queue.instance_types[0] == first


def test_a_decision_cannot_be_changed() -> None:
    with pytest.raises(FrozenInstanceError):
        decide(spec(), options()).nodes = 2  # type: ignore[misc]
