"""Clusters are made once, found by name and tag, updated without a loss where that can be, and deleted whole."""

from __future__ import annotations

from typing import Any

import pytest

from runspec_jobs.provider import Conflict, RemoteError, Request, Step
from runspec_parallelcluster import PROVIDER
from runspec_parallelcluster.lookup import Clusters
from runspec_parallelcluster.session.pcluster import NotThere, StopFirst
from runspec_slurm import timing
from tests.support.slurm.parallelcluster_specs import RUN, Pcluster, facts, spec, up


class Clock:
    """A clock that goes on only while somebody sleeps."""

    def __init__(self) -> None:
        self.now = 0.0

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    def read(self) -> float:
        return self.now


@pytest.fixture
def pcluster() -> Pcluster:
    return Pcluster()


@pytest.fixture
def made(pcluster: Pcluster) -> Clusters:
    clock = Clock()
    return Clusters(pcluster, lambda line: None, clock=timing.Clock(clock.read, clock.sleep))


def steps(**settings: Any) -> dict[str, Step]:
    of = spec()
    named = {"cluster": "training", **settings}
    return {step.id: step for step in PROVIDER.plan(of, RUN, facts(of, **named))}


def other(step: Step, **more: Any) -> Request:
    return Request(step.do.service, step.do.operation, {**step.do.params, **more})


def test_there_is_nothing_before_it_is_made(made: Clusters) -> None:
    assert made.find(steps()["cluster"]) is None


def test_find_returns_the_cluster_that_was_made(pcluster: Pcluster, made: Clusters) -> None:
    plan = steps()

    answer = made.create(plan["cluster"].do.params)

    assert made.find(plan["cluster"]) == answer == {"cluster": "training"}
    assert made.find(plan["update"]) == answer  # it is as wanted: nothing is left to update
    assert pcluster.changes() == [("create-cluster", "training")]


def test_a_cluster_of_ours_that_is_another_is_found_and_needs_an_update(made: Clusters) -> None:
    made.create(steps(max_count=4)["cluster"].do.params)
    wanted = steps(max_count=8)

    assert made.find(wanted["cluster"]) == {"cluster": "training"}
    assert made.find(wanted["update"]) is None
    made.update(wanted["update"].do.params)
    assert made.find(wanted["update"]) == {"cluster": "training"}


def test_a_cluster_that_runspec_did_not_make_is_not_touched(
    pcluster: Pcluster, made: Clusters
) -> None:
    pcluster.there["training"] = up()

    with pytest.raises(Conflict, match="did not make") as caught:
        made.find(steps()["cluster"])

    assert caught.value.hint and "manage: false" in caught.value.hint


@pytest.mark.parametrize("status", ["DELETE_IN_PROGRESS", "DELETE_COMPLETE"])
def test_a_cluster_that_goes_is_none(pcluster: Pcluster, made: Clusters, status: str) -> None:
    pcluster.there["training"] = up(clusterStatus=status)

    assert made.find(steps()["cluster"]) is None


def test_making_is_waited_for(pcluster: Pcluster, made: Clusters) -> None:
    going: list[dict[str, Any]] = [{"clusterStatus": "CREATE_IN_PROGRESS"}] * 3
    pcluster.later["training"] = [*going, {"clusterStatus": "CREATE_COMPLETE"}]

    made.create(steps()["cluster"].do.params)

    assert pcluster.later["training"] == []
    assert made.settled(steps()["cluster"].do)


def test_a_cluster_that_is_being_made_cannot_be_used_yet(
    pcluster: Pcluster, made: Clusters
) -> None:
    pcluster.there["training"] = up(clusterStatus="CREATE_IN_PROGRESS")

    assert not made.settled(steps()["cluster"].do)


def test_a_cluster_that_could_not_be_made_says_why(pcluster: Pcluster, made: Clusters) -> None:
    failures = [{"failureCode": "AMI_VERSION_MISMATCH", "failureReason": "the AMI is of 3.15"}]
    pcluster.there["training"] = up(clusterStatus="CREATE_FAILED", failures=failures)

    with pytest.raises(RemoteError, match=r"AMI_VERSION_MISMATCH: the AMI is of 3\.15") as caught:
        made.settled(steps()["cluster"].do)

    assert caught.value.hint and "destroy --shared" in caught.value.hint


def test_a_fleet_is_not_stopped_unless_the_plan_says_so(pcluster: Pcluster, made: Clusters) -> None:
    made.create(steps(max_count=8)["cluster"].do.params)
    pcluster.refuse["update-cluster"] = [StopFirst("All compute nodes must be stopped")]

    with pytest.raises(StopFirst):
        made.update(steps(max_count=4)["update"].do.params)

    assert all(call[0] != "update-compute-fleet" for call in pcluster.calls)


def test_a_fleet_is_stopped_where_it_must_be_and_started_again(
    pcluster: Pcluster, made: Clusters
) -> None:
    made.create(steps(max_count=8)["cluster"].do.params)
    pcluster.refuse["update-cluster"] = [StopFirst("All compute nodes must be stopped")]
    stopping: list[dict[str, Any]] = [
        {"computeFleetStatus": word} for word in ("STOP_REQUESTED", "STOPPING", "STOPPED")
    ]
    pcluster.later["training"] = stopping
    step = steps(max_count=4, update="stop")["update"]

    made.update(step.do.params)

    assert pcluster.changes()[1:] == [
        ("update-cluster", "training"),
        ("update-compute-fleet", "training", "--status", "STOP_REQUESTED"),
        ("update-cluster", "training"),
    ]
    assert not made.settled(step.do)  # it asks for the start, and looks again
    assert pcluster.changes()[-1] == (
        "update-compute-fleet", "training", "--status", "START_REQUESTED",
    )  # fmt: skip
    pcluster.there["training"]["computeFleetStatus"] = "RUNNING"
    assert made.settled(step.do)


def test_a_fleet_that_does_not_stop_is_not_waited_for_for_ever(
    pcluster: Pcluster, made: Clusters
) -> None:
    made.create(steps(max_count=8)["cluster"].do.params)
    pcluster.refuse["update-cluster"] = [StopFirst("All compute nodes must be stopped")]

    with pytest.raises(RemoteError, match="have not stopped in 30 minutes"):
        made.update(steps(max_count=4, update="stop")["update"].do.params)


def test_deleting_waits_until_it_is_gone(pcluster: Pcluster, made: Clusters) -> None:
    made.create(steps()["cluster"].do.params)

    made.delete("training")

    assert pcluster.there == {}
    made.delete("training")  # content when there is none
    assert pcluster.changes().count(("delete-cluster", "training")) == 1


def test_a_cluster_that_cannot_be_deleted_is_an_error(
    pcluster: Pcluster, made: Clusters, monkeypatch: pytest.MonkeyPatch
) -> None:
    made.create(steps()["cluster"].do.params)
    monkeypatch.setattr(pcluster, "there", dict(pcluster.there))
    stays = Pcluster()
    stays.there["training"] = up(clusterStatus="DELETE_FAILED")
    made.cli = stays
    stays.refuse["delete-cluster"] = [NotThere("gone meanwhile")]

    made.delete("training")  # gone between the look and the call
    stays.run = lambda operation, *rest, **more: up(clusterStatus="DELETE_FAILED")  # type: ignore[method-assign]
    with pytest.raises(RemoteError, match="cannot be deleted"):
        made.delete("training")


@pytest.mark.parametrize(
    "head,address",
    [
        ({"publicIpAddress": "192.0.2.7", "privateIpAddress": "10.0.0.7"}, "192.0.2.7"),
        ({"privateIpAddress": "10.0.0.7"}, "10.0.0.7"),
    ],
)
def test_the_head_node_is_reached_at_its_public_address_if_it_has_one(
    pcluster: Pcluster, made: Clusters, head: dict[str, str], address: str
) -> None:
    pcluster.there["training"] = up(headNode=head)

    assert made.head("training") == {"cluster": "training", "host": address}


def test_while_the_head_node_has_no_address_the_same_call_may_do_later(
    pcluster: Pcluster, made: Clusters
) -> None:
    pcluster.there["training"] = up(headNode=None)

    with pytest.raises(RemoteError) as caught:
        made.head("training")

    assert caught.value.transient
    assert made.find(steps()["head"]) is None


def test_looks_are_not_closer_than_they_must(pcluster: Pcluster) -> None:
    clock = Clock()
    slow = Clusters(pcluster, lambda line: None, clock=timing.Clock(clock.read, clock.sleep))
    pcluster.there["training"] = up(clusterStatus="CREATE_IN_PROGRESS")

    for _ in range(3):
        slow.settled(steps()["cluster"].do)

    assert clock.now == 2 * slow.timing.poll_s
