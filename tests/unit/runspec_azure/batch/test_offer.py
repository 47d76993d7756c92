"""What a job on Azure Batch may cost is known before it is applied."""

from __future__ import annotations

from typing import Any

import pytest

from runspec_azure.batch import PROVIDER
from runspec_jobs.load import registry
from runspec_jobs.provider import Facts, SupportsOffer
from runspec_jobs.provider.machines import Offer
from tests.support.azure.specs import options, spec

EASTUS = "https://jobs.eastus.batch.azure.com"


def offered(cluster: dict[str, Any], **profile: Any) -> Offer:
    return PROVIDER.offer(spec(cluster=cluster), Facts(options(**{"batch_url": EASTUS, **profile})))


def priced(found: Offer) -> list[tuple[str, float | None]]:
    return [(one.machine.name, one.usd) for one in found.machines]


def test_the_provider_makes_an_offer() -> None:
    assert isinstance(registry.load("azure-batch"), SupportsOffer)


def test_a_pool_has_one_size_and_the_next_ones_are_alternatives() -> None:
    found = offered({"gpus": 1, "gpu_type": "A100"})

    assert priced(found) == [("Standard_NC24ads_A100_v4", 3.673)]
    assert [(m.machine.name, m.usd) for m in found.alternatives] == [
        ("Standard_NC48ads_A100_v4", 7.346)
    ]
    assert found.catalogue.startswith("on demand in eastus, 20")
    assert len(offered({"cpus": 2}).alternatives) == 2


@pytest.mark.parametrize(
    ("cluster", "attempts", "caveat"),
    [
        ({}, 2, ""),
        ({"nodes": {"min": 1, "max": 4}, "capacity": "spot"}, 4, ""),
        ({"capacity": "spot"}, None, "Azure Batch may preempt a task more often"),
    ],
)
def test_attempts_are_those_that_azure_batch_makes(
    cluster: dict[str, Any], attempts: int | None, caveat: str
) -> None:
    """A preempted task of another job than an elastic one is run again without a limit: docs/azure-batch.md."""
    launch = {"launch": "torchrun"} if "nodes" in cluster else {}
    wanted = spec(cluster=cluster, retry={"attempts": 2, "spot_attempts": 3}, **launch)
    found = PROVIDER.offer(wanted, Facts(options(batch_url=EASTUS)))

    assert (found.attempts, found.caveat) == (attempts, caveat)
    pool = PROVIDER.offer(wanted, Facts(options(batch_url=EASTUS, pool="mine")))
    assert (pool.attempts, pool.caveat) == (attempts, caveat)


def test_no_more_machines_run_than_the_pool_has() -> None:
    wanted = spec(sweep={"a": "1..9"})
    found = PROVIDER.offer(wanted, Facts(options(batch_url=EASTUS, max_nodes=4)))

    assert list(found.limits.values()) == [4]


def test_a_task_pays_its_share_of_a_machine_that_tasks_share() -> None:
    wanted = spec(sweep={"a": "1..9"})
    found = PROVIDER.offer(wanted, Facts(options(batch_url=EASTUS, tasks_per_node=4)))

    assert found.shares[found.machines[0].machine.name] == 0.25
    assert PROVIDER.offer(wanted, Facts(options(batch_url=EASTUS))).shares == {}


@pytest.mark.parametrize(("name", "usd"), [("standard_nc6s_v3", 3.06), ("Standard_New_v9", None)])
def test_a_size_of_the_profile_has_its_price_or_none(name: str, usd: float | None) -> None:
    (found,) = offered({}, vm_size=name).machines

    assert (found.machine.name.lower(), found.usd) == (name.lower(), usd)


def test_machines_that_are_not_known_have_a_reason() -> None:
    pool, none = offered({}, pool="mine"), offered({"cpus": 999})

    assert (priced(pool), pool.why) == ([], "the pool mine has machines of its own")
    assert (priced(none), none.why) == ([], "no machine of the catalogue is large enough")


def test_what_is_kept_has_a_price_and_so_has_the_gateway_of_machines_without_addresses() -> None:
    usual = offered({}, batch_url="https://jobs.westus.batch.azure.com").standing
    europe = "https://jobs.westeurope.batch.azure.com"
    without = offered({}, batch_url=europe, public_addresses=False).standing

    assert [(one.usd_hour, one.usd_gb_month) for one in usual] == [(None, 0.0208)]
    assert [(one.usd_hour, one.usd_gb_month) for one in without[1:]] == [(0.045, None)]
    assert "price of westus" in usual[0].what


@pytest.mark.parametrize("url", ["https://jobs.norwayeast.batch.azure.com", "https://batch.local"])
def test_a_region_without_prices_has_unknown_ones_and_no_price_of_another(url: str) -> None:
    found, named = (
        offered({}, batch_url=url),
        offered({}, batch_url=url, vm_size="Standard_D2ds_v5"),
    )

    assert found.machines
    prices = {one.usd for one in (*found.machines, *found.alternatives, *named.machines)}
    assert prices == {None}
    assert found.standing[0].usd_gb_month is None
    assert "0.0208 USD in westus" in found.standing[0].what
    assert found.catalogue.startswith("unknown ")
    assert "in the order of their prices in eastus, 20" in found.catalogue
