"""What a job on Kubernetes costs, by the prices of the profile."""

from __future__ import annotations

import pytest

from runspec_jobs.machines.estimate import Estimate, Work, estimate
from runspec_kubernetes.provider import PROVIDER
from tests.unit.runspec_kubernetes.plans import STORE, make_facts, make_spec

WORK = Work(nodes=2, tasks=1, parallel=1, timeout_s=3600, attempts=1)


def cost_of(
    capacity: str, prices: dict[str, float], of_profile: dict[str, float] | None = None
) -> Estimate:
    spec = make_spec(cluster={"nodes": 2, "capacity": capacity})
    facts = make_facts(spec, {**STORE, "cloud": "gke", **prices})
    return estimate(PROVIDER.offer(spec, facts), WORK, "kubernetes", of_profile or {})


@pytest.mark.parametrize(
    "capacity,usd",
    [("on-demand", 4.0), ("spot", 1.5), ("spot-then-on-demand", 4.0), ("pool:night", 4.0)],
)
def test_a_node_costs_what_the_profile_says(capacity: str, usd: float) -> None:
    found = cost_of(capacity, {"price": 4.0, "spot_price": 1.5})

    assert found.most_usd_hour == 2 * usd
    assert found.bound_usd == 2 * usd * 5  # lost nodes begin other attempts


@pytest.mark.parametrize(
    "capacity,prices,key",
    [
        ("on-demand", {"spot_price": 1.0}, "price: USD"),
        ("spot", {"price": 1.0}, "spot_price: USD"),
        ("spot-then-on-demand", {"price": 1.0}, "price: USD, spot_price: USD"),
    ],
)
def test_an_unknown_price_names_the_setting(
    capacity: str, prices: dict[str, float], key: str
) -> None:
    found = cost_of(capacity, prices)

    assert found.bound_usd is None
    assert found.unbounded == (
        "the price of a node hour is unknown: set providers: {kubernetes: {"
        + key
        + "}} in the profile"
    )


def test_the_price_of_a_provider_in_the_profile_counts_too() -> None:
    assert cost_of("on-demand", {}, {"kubernetes": 3.0}).most_usd_hour == 6.0


def test_gpus_of_a_node_are_named() -> None:
    spec = make_spec(cluster={"gpus": 8, "gpu_type": "A100"})
    facts = make_facts(spec, {**STORE, "gpu_types": {"A100": {"a": "b"}}, "price": 30.0})

    (machine,) = estimate(PROVIDER.offer(spec, facts), WORK, "kubernetes", {}).machines

    assert (machine.name, machine.gpus) == ("a node of kubernetes", "8 A100")
