"""What a job on Batch AI may cost is known before it is applied, where its machines are still sold."""

from __future__ import annotations

from typing import Any

import pytest

from runspec_batchai import PROVIDER, resources
from runspec_jobs.load import registry
from runspec_jobs.provider import SupportsOffer
from runspec_jobs.provider.machines import ListedPrices, Offer
from tests.support.azure.batch_ai_specs import facts, spec

FILES = "what is kept in Azure Files"


def offered(needs: dict[str, Any], **settings: Any) -> Offer:
    of = spec(cluster=needs)
    return PROVIDER.offer(of, facts(of, **settings))


def priced(found: Offer) -> list[tuple[str, float | None]]:
    return [(one.machine.name, one.usd) for one in found.machines]


def standing(found: Offer) -> dict[str, float | None]:
    return {one.what: one.usd_hour for one in found.standing}


def test_the_provider_makes_an_offer() -> None:
    assert isinstance(registry.load("azure-batch-ai"), SupportsOffer)


@pytest.mark.parametrize(
    "needs,settings,machine",
    [
        ({"cpus": 4}, {}, ("STANDARD_D4_V3", 0.192)),
        ({"cpus": 4}, {"location": "westeurope"}, ("STANDARD_D4_V3", 0.24)),
        ({"gpus": 1}, {}, ("STANDARD_NC6", None)),  # not sold any more
        ({"gpus": 1}, {"vm_size": "standard_nc6s_v3"}, ("STANDARD_NC6S_V3", 3.06)),
        ({}, {"vm_size": "Standard_New_v9"}, ("Standard_New_v9", None)),
    ],
)
def test_a_machine_has_todays_price_of_its_region_or_none(
    needs: dict[str, Any], settings: dict[str, Any], machine: tuple[str, float | None]
) -> None:
    found = offered(needs, **settings)

    assert priced(found) == [machine]
    assert found.catalogue.startswith("virtual machines: on demand in ")


def test_the_cluster_limits_machines_and_the_toolkit_attempts() -> None:
    of = spec(sweep={"a": "1..9"}, retry={"attempts": 3}, timeout="1h")
    found = PROVIDER.offer(of, facts(of, max_nodes=3))
    once = PROVIDER.offer(of, facts(of, max_nodes=3, toolkit="tensorflow"))

    assert found.limits == {found.machines[0].machine.name: 3}
    assert (found.attempts, once.attempts) == (3, 1)


def test_a_region_without_prices_has_unknown_ones() -> None:
    found = offered({"cpus": 4}, location="norwayeast")

    assert priced(found) == [("STANDARD_D4_V3", None)]
    assert found.catalogue.startswith("virtual machines: unknown in norwayeast; ")


def test_machines_of_other_series_that_are_sold_are_alternatives() -> None:
    found = offered({"gpus": 1})

    assert [(one.machine.name, one.usd) for one in found.alternatives] == [
        ("STANDARD_NC6S_V3", 3.06)
    ]
    assert offered({"gpus": 1}, vm_size="STANDARD_NC6").alternatives == ()


def test_nodes_that_the_cluster_keeps_are_a_standing_cost() -> None:
    kept = "which the cluster keeps until `runspec destroy --shared`"

    stored, files = offered({"cpus": 4}).standing
    assert "(elsewhere 0.0208 USD in westus, 20" in stored.what
    assert (stored.usd_gb_month, files.what) == (None, FILES)
    found = standing(offered({"cpus": 4}, min_nodes=2, max_nodes=4))
    assert found[f"2 x STANDARD_D4_V3, {kept}"] == pytest.approx(0.384)
    found = standing(offered({"gpus": 1}, scale="manual", max_nodes=4))
    assert found[f"4 x STANDARD_NC6, {kept}"] is None


def test_standing_costs_use_the_prices_of_the_list() -> None:
    of = spec(cluster={"cpus": 4})
    listed = ListedPrices({"STANDARD_D4_V3": 3.0}, services={"blob storage": 0.5})

    nodes, stored, _ = PROVIDER.offer(of, facts(of, min_nodes=2, max_nodes=4), listed).standing

    assert (nodes.usd_hour, stored.usd_gb_month) == (6.0, 0.5)


def test_a_cluster_of_the_profile_has_machines_that_are_not_known() -> None:
    found = offered({}, cluster="theirs")

    assert (found.machines, found.why) == ((), "the cluster theirs has machines of its own")
    assert next(iter(standing(found))) == "nodes that the cluster theirs keeps"


def test_a_job_that_no_machine_holds_has_a_reason() -> None:
    found = offered({"cpus": 999})

    assert (found.machines, found.why) == ((), "no machine of Batch AI was large enough")


def test_only_series_of_batch_ai_are_chosen() -> None:
    """`vmSize` in the description of the API, and the quotas of its example ListUsages."""
    names = {machine.name for machine in resources.sizes().machines}

    assert "STANDARD_NC6" in names and "STANDARD_D2_V2" in names
    assert not {"STANDARD_A0", "STANDARD_DS2_V2", "STANDARD_GS1", "STANDARD_D2DS_V5"} & names
