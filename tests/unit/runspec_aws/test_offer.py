"""What a job may cost on AWS Batch: the machines of its plan, and their prices."""

from __future__ import annotations

from typing import Any

import pytest

from runspec_aws.decision import decide
from runspec_aws.options import AwsOptions
from runspec_aws.provider import PROVIDER
from runspec_jobs.provider import Facts, Spec
from runspec_jobs.provider.machines import Offer
from tests.support.aws.specs import spec


def offered(wanted: Spec, **profile: Any) -> tuple[Offer, tuple[str, ...]]:
    options = AwsOptions.model_validate({"region": "us-east-1", **profile})
    return PROVIDER.offer(wanted, Facts(options)), decide(wanted, options).instance_types


@pytest.mark.parametrize(
    "cluster,profile",
    [
        ({}, {}),
        ({"gpus": 1}, {}),
        ({"gpus": 8, "nodes": 4}, {}),
        ({"nodes": 2}, {}),
        ({"cpus": 4, "capacity": "spot"}, {}),
        ({"gpus": 1}, {"instance_types": ["g5.xlarge", "p9.large"]}),
    ],
)
def test_the_machines_with_prices_are_those_of_the_plan(
    cluster: dict[str, Any], profile: dict[str, Any]
) -> None:
    offer, types = offered(spec(cluster=cluster), **profile)

    assert types
    assert tuple(one.machine.name for one in offer.machines) == types


def test_a_type_that_the_catalogue_does_not_have_has_no_price() -> None:
    offer, _ = offered(spec(cluster={}), instance_types=["m7i.large", "p9.large"])

    assert [one.usd for one in offer.machines] == [pytest.approx(0.1008), None]


def test_a_family_of_the_profile_has_the_prices_of_its_machines_that_hold_a_node() -> None:
    offer, _ = offered(spec(cluster={"cpus": 16}), instance_types=["c5"])

    assert [(one.machine.name, one.usd) for one in offer.machines][:2] == [
        ("c5.4xlarge", 0.68),
        ("c5.9xlarge", 1.53),
    ]
    assert {one.machine.family for one in offer.machines} == {"c5"}


def test_machines_that_others_choose_are_not_known() -> None:
    queue, _ = offered(spec(cluster={}), queue="theirs")

    assert (queue.machines, queue.why) == ((), "the queue theirs chooses the machines")


@pytest.mark.parametrize(
    "fields,profile,machine,most",
    [
        (
            {"sweep": {"a": "1..8"}, "cluster": {"gpus": 1, "gpu_type": "A100"}},
            {},
            "p4d.24xlarge",
            3,
        ),
        ({"sweep": {"a": "1..9"}, "cluster": {"cpus": 2}}, {"max_vcpus": 7}, "m5a.large", 4),
        (
            {"sweep": {"a": "1..9"}, "cluster": {"cpus": 2, "capacity": "spot-then-on-demand"}},
            {"max_vcpus": 8},
            "m5a.large",
            8,
        ),
        ({"cluster": {"nodes": 4, "gpus": 8, "gpu_type": "H100"}}, {}, "p5.48xlarge", 4),
    ],
)
def test_no_more_machines_run_than_max_vcpus_and_one_more_in_each_environment(
    fields: dict[str, Any], profile: dict[str, Any], machine: str, most: int
) -> None:
    offer, _ = offered(spec(**fields), **profile)

    assert offer.machines[0].machine.name == machine
    assert offer.limits[machine] == most


def test_fargate_keeps_to_max_vcpus() -> None:
    offer, _ = offered(spec(cluster={"cpus": 4}), fargate=True, max_vcpus=30)

    assert list(offer.limits.values()) == [7]


@pytest.mark.parametrize(
    ("capacity", "attempts", "most", "caveat"),
    [
        ("spot", 9, 10, ""),
        ("spot-then-on-demand", 2, 10, ""),
        ("on-demand", 9, 9, "more if a machine fails"),
        ("on-demand", 1, 1, "more if a machine fails"),
    ],
)
def test_attempts_are_ten_at_most_and_those_of_spot_machines_count_on_spot_machines(
    capacity: str, attempts: int, most: int, caveat: str
) -> None:
    retry = {"attempts": attempts, "spot_attempts": 9}
    offer, _ = offered(spec(retry=retry, cluster={"capacity": capacity}))

    assert (offer.attempts, offer.caveat) == (most, caveat)


def environment(kind: str, *types: str) -> dict[str, Any]:
    return {"name": kind.lower(), "type": kind, "max_vcpus": 256, "instance_types": list(types)}


@pytest.mark.parametrize(
    "cluster,environments,profile,names",
    [
        ({"gpus": 1}, [environment("EC2", "g5.xlarge", "c6i.large")], {}, ["g5.xlarge"]),
        (
            {},
            [environment("SPOT", "c6i.large"), environment("EC2", "m5.large", "c6i.large")],
            {},
            ["c6i.large", "m5.large"],
        ),
        (
            {"nodes": 2},
            [environment("EC2", "c6i.large", "m5.large"), environment("SPOT", "t3.large")],
            {"instance_types": ["m5.large"]},
            ["m5.large"],
        ),
        ({}, [environment("EC2", "optimal")], {}, []),  # AWS chooses the families
        ({}, [environment("EC2", "c6i.large"), environment("EC2", "p9.large")], {}, []),
        ({}, [environment("EC2")], {}, []),
        ({}, [environment("FARGATE")], {}, []),
    ],
)
def test_a_queue_that_was_asked_has_the_machines_of_its_environments(
    cluster: dict[str, Any],
    environments: list[dict[str, Any]],
    profile: dict[str, Any],
    names: list[str],
) -> None:
    settings = {"region": "us-east-1", "queue": "theirs", **profile}
    options = AwsOptions.model_validate(settings)
    facts = Facts(options, survey={"environments": environments})

    found = PROVIDER.offer(spec(cluster=cluster), facts)

    assert [one.machine.name for one in found.machines] == names
    assert all(one.usd and one.why == "the queue theirs has it" for one in found.machines)
    assert found.why == ("" if names else "the queue theirs chooses the machines")


def test_stored_data_has_a_price_for_a_gb_and_month() -> None:
    here, _ = offered(spec(cluster={}))
    there, _ = offered(spec(cluster={}), region="eu-west-2")

    assert [one.usd_gb_month for one in here.standing] == [0.023, 0.03, None]
    assert [one.usd_gb_month for one in there.standing] == [0.024, 0.0315, None]
    assert here.standing[0].what == "what is kept in S3 (price of us-east-1, 2026-08-12)"
    assert "0.5 USD for each GB" in here.standing[1].what


@pytest.mark.parametrize(
    ("profile", "usd"),
    [({}, [0.045]), ({"fargate": True}, [0.045]), ({"fargate": True, "public_ip": True}, [])],
)
def test_a_nat_gateway_costs_money_unless_tasks_have_addresses(
    profile: dict[str, Any], usd: list[float]
) -> None:
    found, _ = offered(spec(cluster={}), **profile)

    assert [one.usd_hour for one in found.standing if "NAT gateway" in one.what] == usd


def test_a_region_without_prices_has_unknown_ones_and_no_price_of_another() -> None:
    here, _ = offered(spec(cluster={"gpus": 1}))
    offer, _ = offered(spec(cluster={"gpus": 1}), region="mx-central-1", instance_types=[])
    named, _ = offered(spec(cluster={}), region="mx-central-1", instance_types=["g5.xlarge"])

    assert offer.machines[0].machine == here.machines[0].machine
    assert {one.usd for one in (*offer.machines, *offer.alternatives, *named.machines)} == {None}
    assert {(one.usd_hour, one.usd_gb_month) for one in offer.standing} == {(None, None)}
    unknown = "elsewhere 0.023 USD in us-east-1, 2026-08-12"
    assert offer.standing[0].what == f"what is kept in S3 ({unknown})"
    assert offer.catalogue.startswith(
        "unknown in mx-central-1; machines are in the order of their prices in us-east-1, "
    )


def test_a_capacity_block_is_paid_in_advance() -> None:
    reserved = {"reservation": "cr-0123456789abcdef0", "instance_types": ["p5.48xlarge"]}
    offer, _ = offered(spec(cluster={}), capacity_block=True, **reserved)

    assert offer.machines == ()
    assert offer.why == "the Capacity Block cr-0123456789abcdef0 was paid in advance"
