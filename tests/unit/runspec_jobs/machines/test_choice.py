"""The rule of choice: the cheapest machine that holds a node, and others of its kind for capacity."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from runspec_ec2 import ec2_catalogue
from runspec_jobs.machines.choice import (
    CAPACITY,
    GPU_MULTIPLE,
    MOST,
    PER_FAMILY,
    MachineRequest,
    choose,
    list_holding,
    order_price,
    price,
)
from runspec_jobs.machines.machine import Catalogue, Machine

HERE = "us-east-1"


def machine(name: str, usd: str = "", **own: object) -> Machine:
    known = {
        "family": name.partition(".")[0],
        "architecture": "x86_64",
        "cpus": 4,
        "memory_gib": 16.0,
        "gpus": 0.0,
        "gpu": None,
        "gpu_gib": None,
        "disk_gib": 0,
        "network_gbps": None,
        "fabric": 0,
        "prices": (usd,),
    }
    return Machine(name, **{**known, **own})  # type: ignore[arg-type]  # a test names the fields


def names(request: MachineRequest, *machines: Machine, **how: object) -> list[str]:
    found = choose(request._replace(region=HERE), Catalogue("1", (HERE,), machines), **how)  # type: ignore[arg-type]  # as in choose
    return [one.machine.name for one in found]


def gpu(name: str, usd: str, count: float, kind: str = "T4", gib: float = 16) -> Machine:
    return machine(name, usd, gpus=count, gpu=kind, gpu_gib=gib)


def test_the_cheapest_machine_that_is_large_enough_is_first() -> None:
    large, small, cheap = machine("a.x", "2"), machine("b.x", "0.5", cpus=2), machine("c.x", "1.5")

    assert names(MachineRequest(cpus=4), large, small, cheap) == ["c.x", "a.x"]


def test_memory_is_compared_with_what_jobs_can_use() -> None:
    exact, more = machine("a.x", "1"), machine("b.x", "1.5", memory_gib=32.0)

    found = names(MachineRequest(memory_gib=16), exact, more, usable_gib=lambda m: m.memory_gib - 1)

    assert found == ["b.x"]


def test_others_cost_at_most_twice_as_much_as_the_first() -> None:
    assert CAPACITY == 2.0
    assert names(
        MachineRequest(), machine("a.x", "1"), machine("b.x", "2"), machine("c.x", "2.01")
    ) == ["a.x", "b.x"]


def test_others_have_the_same_gpus_with_no_less_memory() -> None:
    first, other = gpu("a.x", "1", 1, "A100", 80), gpu("b.x", "1.2", 1, "L4", 24)
    less, more = gpu("c.x", "1.5", 1, "A100", 40), gpu("d.x", "1.9", 1, "A100", 80)

    assert names(MachineRequest(gpus=1), first, other, less, more) == ["a.x", "d.x"]


def test_a_machine_never_has_more_than_twice_the_gpus_that_are_asked_for() -> None:
    assert GPU_MULTIPLE == 2
    eight, two = gpu("a.x", "1", 8), gpu("b.x", "9", 2)

    assert names(MachineRequest(gpus=1), eight, two) == ["b.x"]
    assert names(MachineRequest(gpus=4), eight, two) == ["a.x"]
    assert names(MachineRequest(gpus=1, gpu_type="T4"), eight) == []
    assert names(MachineRequest(gpus=1, together=4), eight) == ["a.x"]  # four nodes share it


def test_a_part_of_a_gpu_is_no_gpu() -> None:
    assert names(MachineRequest(gpus=1), gpu("a.x", "1", 0.5), gpu("b.x", "9", 1)) == ["b.x"]


def test_without_gpus_no_machine_has_some() -> None:
    assert names(MachineRequest(), gpu("a.x", "1", 0.5), gpu("b.x", "1", 1)) == []


def test_a_type_of_gpu_alone_asks_for_one() -> None:
    assert names(MachineRequest(gpu_type="t4"), gpu("a.x", "1", 1), machine("b.x", "1")) == ["a.x"]


@pytest.mark.parametrize("trait", ["burstable", "metal", "accelerator", "confidential", "old"])
def test_no_job_gets_such_a_machine_unasked(trait: str) -> None:
    odd = machine("a.x", "1", traits=frozenset({trait}))

    assert names(MachineRequest(), odd, machine("b.x", "3")) == ["b.x"]


def test_an_old_machine_may_have_the_gpu_that_is_named() -> None:
    old = gpu("a.x", "1", 1)._replace(traits=frozenset({"old"}))

    assert names(MachineRequest(gpus=1), old) == []
    assert names(MachineRequest(gpus=1, gpu_type="T4"), old) == ["a.x"]


def test_other_chips_than_gpus_are_for_jobs_that_name_them() -> None:
    chips = gpu("a.x", "1", 1)._replace(gpu="Trainium", traits=frozenset({"accelerator"}))

    assert names(MachineRequest(gpus=1), chips) == []
    assert names(MachineRequest(gpus=1, gpu_type="T4"), chips) == []
    assert names(MachineRequest(gpus=1, gpu_type="trainium"), chips) == ["a.x"]


def test_spot_needs_machines_that_are_sold_as_spot() -> None:
    firm = machine("a.x", "1", traits=frozenset({"no-spot"}))

    assert names(MachineRequest(), firm) == ["a.x"]
    assert names(MachineRequest(spot=True), firm) == []


def test_adapters_disks_and_architecture_are_kept() -> None:
    plain = machine("a.x", "1")
    rich = machine("b.x", "9", fabric=1, disk_gib=100)
    arm = machine("c.x", "1", architecture="arm64")

    assert names(MachineRequest(fabric=True), plain, rich, arm) == ["b.x"]
    assert names(MachineRequest(disk_gib=100), plain, rich, arm) == ["b.x"]
    assert names(MachineRequest(architecture="arm64"), plain, rich, arm) == ["c.x"]


@pytest.mark.parametrize("unknown", ["cpus", "memory_gib", "gpus", "architecture"])
def test_a_machine_of_unknown_size_is_not_chosen(unknown: str) -> None:
    odd = machine("a.x", "1", **{unknown: None})

    assert names(MachineRequest(memory_gib=1), odd) == []


def test_drivers_decide_too() -> None:
    old, new = gpu("a.x", "1", 1, "K80"), gpu("b.x", "3", 1)

    assert names(MachineRequest(gpus=1), old, new, runs=lambda m: m.gpu != "K80") == ["b.x"]


def test_a_machine_without_a_price_comes_last_and_says_so() -> None:
    catalogue = Catalogue("1", (HERE,), (machine("a.x"), machine("b.x", "3")))
    alone = Catalogue("1", (HERE,), (machine("b.x", cpus=8), machine("a.x")))

    assert [m.machine.name for m in choose(MachineRequest(region=HERE), catalogue)] == ["b.x"]
    found = choose(MachineRequest(region=HERE), alone)
    assert [(m.machine.name, m.usd, m.why) for m in found] == [
        ("a.x", None, "price unknown, the smallest that is large enough")
    ]


def test_for_one_price_the_newer_and_larger_machine_is_first() -> None:
    old, new = machine("a.x", "1"), machine("b.x", "1")
    small, large = machine("m7.x", "1", cpus=4), machine("m7.y", "1", cpus=8)
    numbered = Catalogue("1", (HERE,), (old, new), generation={old: 5, new: 6}.__getitem__)

    found = choose(MachineRequest(region=HERE), numbered)

    assert [one.machine.name for one in found] == ["b.x", "a.x"]
    assert names(MachineRequest(), small, large) == ["m7.y", "m7.x"]


def test_machines_that_a_region_lacks_are_not_chosen() -> None:
    both = machine("a.x", prices=("1", ""))
    catalogue = Catalogue("1", ("here", "there"), (both,))

    assert [m.usd for m in choose(MachineRequest(region="here"), catalogue)] == [1.0]
    assert choose(MachineRequest(region="there"), catalogue) == ()


@pytest.mark.parametrize("region", ["mars", None])
def test_where_prices_are_unknown_those_of_another_region_give_the_order_and_no_price(
    region: str | None,
) -> None:
    dear, late = machine("a.x", prices=("3", "3")), machine("b.x", prices=("", "2"))
    catalogue = Catalogue("1", ("here", "there"), (dear, late))

    found = choose(MachineRequest(region=region), catalogue)

    assert [(one.machine.name, one.usd, one.region) for one in found] == [
        ("b.x", None, "there"),
        ("a.x", None, "here"),
    ]
    assert found[0].why == "the cheapest that is large enough, by prices of there"
    assert order_price(late, catalogue, "here") == (None, "here")
    assert price(dear, catalogue, "here") == 3.0


REQUESTS = st.builds(
    MachineRequest,
    cpus=st.sampled_from([1, 2, 3, 8, 48, 96, 191]),
    memory_gib=st.sampled_from([0, 1, 4, 15, 16, 100, 700, 3000]),
    gpus=st.sampled_from([0, 0, 0, 1, 2, 3, 4, 8]),
    gpu_type=st.sampled_from([None, None, None, "T4", "l4", "A100", "H100"]),
    fabric=st.booleans(),
    architecture=st.sampled_from(["x86_64", "x86_64", "arm64"]),
    spot=st.booleans(),
    together=st.sampled_from([1, 1, 4]),
    region=st.sampled_from([None, HERE, "eu-west-1", "il-central-1", "mars"]),
)


@given(REQUESTS)
def test_the_rule_holds_for_every_request(request: MachineRequest) -> None:
    """The first is the cheapest of those that hold the request, and the others keep all limits."""
    catalogue = ec2_catalogue()
    found = choose(request, catalogue)

    fit = [
        m
        for m in list_holding(request, catalogue)
        if m.gpus is not None and m.gpus <= GPU_MULTIPLE * max(1, request.gpus) * request.together
    ]
    assert bool(found) == bool(fit)
    assert [one.machine for one in found] == [one.machine for one in choose(request, catalogue)]
    for one in found:
        assert one.machine in fit
        assert one.why
    ordered = [order_price(one.machine, catalogue, request.region)[0] for one in found]
    prices = [p for m in fit if (p := order_price(m, catalogue, request.region)[0]) is not None]
    if found and prices:
        assert ordered[0] == min(prices)
        assert all(usd is not None and usd <= CAPACITY * min(prices) for usd in ordered)
    assert all(one.usd == price(one.machine, catalogue, request.region) for one in found)
    assert len(found) <= MOST
    families = [one.machine.family for one in found]
    assert all(families.count(family) <= PER_FAMILY for family in families)
