"""The price of a task on Fargate, computed by hand from the prices of its parts."""

from __future__ import annotations

from typing import Any

import pytest

from runspec_aws.options import AwsOptions
from runspec_aws.provider import PROVIDER
from runspec_aws.resources import price_fargate
from runspec_jobs.machines.estimate import Work, estimate
from runspec_jobs.provider import Facts
from runspec_jobs.provider.machines import Offer
from tests.support.aws.specs import PROFILE, spec


def offered(cluster: dict[str, Any], **profile: Any) -> Offer:
    options = AwsOptions.model_validate({"region": "us-east-1", "fargate": True, **profile})
    return PROVIDER.offer(spec(cluster=cluster), Facts(options))


@pytest.mark.parametrize(
    ("cluster", "name", "usd"),
    [
        # 0.25 x 0.04048 + 0.5 x 0.004445
        ({}, "Fargate with 0.25 vCPUs and 0.5 GB", 0.0123425),
        # 1 x 0.04048 + 3 x 0.004445
        ({"cpus": 1, "memory": "3GiB"}, "Fargate with 1 vCPU and 3 GB", 0.053815),
        # 16 x 0.04048 + 120 x 0.004445 + (100 - 20) x 0.000111
        (
            {"cpus": 16, "memory": "120GiB", "disk": "100GiB"},
            "Fargate with 16 vCPUs and 120 GB",
            1.18996,
        ),
    ],
)
def test_a_size_costs_its_vcpus_memory_and_disk(
    cluster: dict[str, Any], name: str, usd: float
) -> None:
    found = offered(cluster)
    (size,) = found.machines

    assert size.machine.name == name
    assert size.usd == pytest.approx(usd, abs=1e-9)
    assert (size.region, found.catalogue) == ("us-east-1", "on demand in us-east-1, 2026-08-12")


def test_a_public_address_costs_half_a_cent_an_hour_and_replaces_the_nat_gateway() -> None:
    without, with_one = offered({}), offered({}, public_ip=True)

    assert (with_one.machines[0].usd or 0) - (without.machines[0].usd or 0) == pytest.approx(0.005)
    gateways = [one.usd_hour for one in without.standing if "NAT" in one.what]
    assert gateways == [0.045]
    assert not [one for one in with_one.standing if "NAT" in one.what]


@pytest.mark.parametrize(("asked", "given"), [(False, "DISABLED"), (True, "ENABLED")])
def test_a_task_has_a_public_address_where_the_profile_asks_for_one(
    asked: bool, given: str
) -> None:
    options = AwsOptions.model_validate({**PROFILE, "fargate": True, "public_ip": asked})

    steps = {step.id: step for step in PROVIDER.plan(spec(), "job-abc123", Facts(options))}

    container = steps["definition"].do.params["containerProperties"]
    assert container["networkConfiguration"] == {"assignPublicIp": given}


@pytest.mark.parametrize(("cluster", "given"), [({}, None), ({"disk": "100GiB"}, 100)])
def test_a_task_has_the_disk_that_the_spec_asks_for(
    cluster: dict[str, Any], given: int | None
) -> None:
    """https://docs.aws.amazon.com/batch/latest/APIReference/API_EphemeralStorage.html"""
    options = AwsOptions.model_validate({**PROFILE, "fargate": True})

    steps = {step.id: step for step in PROVIDER.plan(spec(cluster=cluster), "a-b1", Facts(options))}

    container = steps["definition"].do.params["containerProperties"]
    assert container.get("ephemeralStorage", {}).get("sizeInGiB") == given


def test_a_region_has_its_own_prices() -> None:
    # 0.25 x 0.04656 + 0.5 x 0.00511
    (size,) = offered({}, region="eu-west-2").machines

    assert size.usd == pytest.approx(0.014195)
    assert size.region == "eu-west-2"


def test_the_bound_of_a_job_on_fargate_is_known_on_spot_as_well() -> None:
    work = Work(nodes=1, tasks=10, parallel=4, timeout_s=7200, attempts=5, spot=True)
    found = estimate(offered({"capacity": "spot"}), work, "aws-batch", {})

    # 2 hours x 5 attempts x 10 tasks
    assert found.bound_usd == pytest.approx(0.0123425 * 100)
    assert found.most_usd_hour == pytest.approx(0.0123425 * 4)


def test_the_size_of_a_job_in_an_existing_queue_is_known_as_well() -> None:
    assert offered({}, queue="theirs").machines[0].usd == pytest.approx(0.0123425)


def test_a_node_that_no_size_holds_has_no_price() -> None:
    found = offered({"cpus": 64})

    assert (found.machines, found.why) == ((), "no size of Fargate is large enough")


def test_one_unknown_part_makes_the_price_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    from runspec_aws import resources
    from runspec_jobs.provider.machines import ListedPrices, ServicePrice

    def known(item: str, region: str | None, listed: ListedPrices) -> ServicePrice:
        usd = None if item == "fargate memory" else 1.0
        return ServicePrice(item, "us-east-1", usd, "hour", "2026-08-12", "https://example.org")

    monkeypatch.setattr(resources, "aws_price", known)

    assert price_fargate(1, 2048, 20, AwsOptions())[0] is None
