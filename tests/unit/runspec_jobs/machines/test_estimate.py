"""What a job may cost: prices, the most that its attempts come to, and what is not known."""

from __future__ import annotations

from typing import Any

import pytest

from runspec_ec2 import ec2_catalogue
from runspec_jobs.machines.choice import ChosenMachine, MachineRequest, choose
from runspec_jobs.machines.estimate import Offer, StandingCost, Work, alternatives, estimate
from runspec_jobs.machines.exposure import compute_exposure
from runspec_jobs.machines.machine import make_unknown

WORK = Work(nodes=2, tasks=10, parallel=4, timeout_s=1800, attempts=3)


def machine(name: str, usd: float | None) -> ChosenMachine:
    return ChosenMachine(make_unknown(name), usd, "somewhere", "it is there")


def test_the_bound_counts_the_dearest_machine_for_all_attempts_of_all_nodes() -> None:
    found = estimate(Offer((machine("small", 1.0), machine("large", 1.5))), WORK, "cloud", {})

    assert (found.least_usd_hour, found.most_usd_hour) == (2 * 4 * 1.0, 2 * 4 * 1.5)
    assert found.bound_usd == pytest.approx(1.5 * 0.5 * 3 * 2 * 10)
    assert found.unbounded == ""


def test_an_unknown_price_is_no_price_of_zero() -> None:
    found = estimate(Offer((machine("small", 1.0), machine("new", None))), WORK, "cloud", {})

    assert (found.least_usd_hour, found.most_usd_hour, found.bound_usd) == (8.0, None, None)
    assert found.unbounded == "the price of new is unknown"


def test_nodes_that_share_machines_need_fewer_of_them_at_least() -> None:
    """Four of the 8 nodes at once fit on a large machine. The most counts one machine for each: jobs may end apart."""
    machines = (machine("large", 8.0), machine("small", 3.0))
    offer = Offer(machines, shares={"large": 0.25, "small": 0.6})
    found = estimate(offer, WORK._replace(nodes=1, parallel=8), "cloud", {})

    assert found.fewest == 2
    assert (found.least_usd_hour, found.most_usd_hour) == (2 * 8.0, 8 * 8.0)
    assert found.bound_usd == pytest.approx(8.0 * 0.5 * 3 * 10)


def test_no_more_machines_run_at_once_than_the_provider_has_room_for() -> None:
    machines = (machine("large", 8.0), machine("small", 3.0))
    offer = Offer(machines, limits={"large": 2, "small": 6}, shares={"large": 0.5})
    found = estimate(offer, WORK._replace(nodes=1, parallel=8), "cloud", {})

    assert (found.fewest, found.at_once) == (2, 2)
    assert (found.least_usd_hour, found.most_usd_hour) == (2 * 8.0, 6 * 3.0)


def test_the_provider_may_count_attempts_in_its_own_way() -> None:
    offer = Offer((machine("a", 1.0),), attempts=2, caveat="there may be more")
    found = estimate(offer, WORK, "cloud", {})

    assert found.bound_usd == pytest.approx(0.5 * 2 * 2 * 10)
    assert (found.work.attempts, found.caveat) == (2, "there may be more")


@pytest.mark.parametrize(
    ("changed", "attempts", "caveat"),
    [
        ({}, 3, "more if a machine fails"),
        ({"spot_attempts": 1}, 3, ""),
        ({"spot": True}, 7, ""),
        ({"elastic": True}, 7, ""),
    ],
)
def test_attempts_of_reclaimed_machines_count_where_machines_are_reclaimed(
    changed: dict[str, Any], attempts: int, caveat: str
) -> None:
    work = WORK._replace(**{"attempts": 3, "spot_attempts": 5, **changed})
    found = estimate(Offer((machine("a", 1.0),)), work, "cloud", {})

    assert (found.work.attempts, found.caveat) == (attempts, caveat)
    assert found.bound_usd == pytest.approx(0.5 * attempts * 2 * 10)


def test_an_elastic_job_may_run_on_fewer_machines() -> None:
    work = WORK._replace(nodes=4, parallel=1, least_nodes=1)
    found = estimate(Offer((machine("a", 1.5),)), work, "cloud", {})

    assert (found.fewest, found.least_usd_hour, found.most_usd_hour) == (1, 1.5, 6.0)


def test_several_jobs_have_a_limit_together_only_if_all_have_one() -> None:
    offer = Offer((machine("a", 1.0),))
    one, other = estimate(offer, WORK, "c", {}), estimate(offer, WORK._replace(nodes=1), "c", {})
    endless = estimate(offer, WORK._replace(timeout_s=None), "c", {})

    assert compute_exposure([one, other])[:2] == (45.0, "")
    assert compute_exposure([one, endless])[:2] == (None, "the spec has no timeout")


def test_what_stays_beside_a_job_is_part_of_what_it_may_cost() -> None:
    offer = Offer((machine("a", 1.0),), standing=(StandingCost("a store", 0.5, hours=10.0),))

    found = compute_exposure([estimate(offer, WORK, "c", {})])

    assert (found.usd, found.standing_usd) == (35.0, 5.0)


def test_a_job_without_a_timeout_has_no_bound() -> None:
    found = estimate(Offer((machine("a", 1.0),)), WORK._replace(timeout_s=None), "cloud", {})

    assert (found.most_usd_hour, found.bound_usd) == (8.0, None)
    assert found.unbounded == "the spec has no timeout"


def test_the_profile_replaces_prices_of_machines_and_gives_those_of_providers() -> None:
    own = {"new": 3.0, "slurm": 0.5}

    found = estimate(Offer((machine("new", None),)), WORK, "cloud", own)
    cluster = estimate(Offer((), why="it is a cluster"), WORK, "slurm", own)

    assert [(one.name, one.usd_hour) for one in found.machines] == [("new", 3.0)]
    assert found.machines[0].why == "the profile's price"
    assert cluster.most_usd_hour == 2 * 4 * 0.5


def test_alternatives_are_the_cheapest_of_other_families() -> None:
    request = MachineRequest(gpus=1, region="us-east-1")
    chosen = choose(request, ec2_catalogue())
    others = alternatives(request, ec2_catalogue(), chosen)

    assert len({one.machine.family for one in others}) == len(others) == 2
    assert not {one.machine.family for one in others} & {one.machine.family for one in chosen}
    assert all(one.usd is not None and one.usd >= (chosen[0].usd or 0) for one in others)
    assert all((one.machine.gpus or 0) <= 2 for one in others)
