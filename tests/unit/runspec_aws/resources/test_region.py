"""Instance types in regions that the catalogue lacks: EC2 is asked, and nothing is guessed."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from botocore.exceptions import ClientError, EndpointConnectionError

from runspec_aws import client, discover
from runspec_aws.client import AwsClient
from runspec_aws.options import AwsOptions
from runspec_aws.policy import policy
from runspec_aws.provider import PROVIDER
from runspec_aws.timing import CLOCK, DEFAULT
from runspec_jobs.provider import Facts, Problem, RemoteError, Request
from tests.support.aws.specs import PROFILE, spec

NEW = ("mx-central-1", "us-gov-west-1", "cn-north-1", "ap-southeast-7", "eusc-de-east-1")
HERE = ("c7i.large", "c7i.xlarge", "m7i.large", "g6.xlarge")
REFUSAL = "Error executing request, Exception : Instance type can only be one of [m5.large, c7i, c7i.large]"


def facts(region: str, offered: tuple[str, ...] | None = HERE, **profile: Any) -> Facts:
    known = {**PROFILE, "instance_types": [], "region": region, **profile}
    survey = {} if offered is None else {"offered": list(offered)}
    return Facts(AwsOptions.model_validate(known), survey=survey)


def refused(given: Facts) -> list[Problem]:
    return [p for p in PROVIDER.check(spec(), given) if p.severity == "error"]


def types(given: Facts, **fields: Any) -> set[str]:
    steps = PROVIDER.plan(spec(**fields), "job-abcdef", given)
    return {
        name
        for step in steps
        for name in step.do.params.get("computeResources", {}).get("instanceTypes", ())
    }


@pytest.mark.parametrize("region", NEW)
def test_only_types_that_the_region_offers_are_planned(region: str) -> None:
    given = facts(region)

    assert types(given, cluster={"cpus": 2}) <= set(HERE)
    assert types(given, cluster={"gpus": 1}) == {"g6.xlarge"}
    assert PROVIDER.offer(spec(), given).machines[0].machine.name in HERE


@pytest.mark.parametrize("region", NEW)
def test_a_region_of_which_nothing_is_known_is_refused_with_the_setting_to_write(
    region: str,
) -> None:
    (problem,) = refused(facts(region, None))

    assert f"does not know which instance types {region} offers" in problem.what
    assert problem.hint and "set instance_types in the profile" in problem.hint


@pytest.mark.parametrize(("offered", "cpus"), [((), 1), (HERE, 64)])
def test_a_node_that_no_offered_type_holds_is_refused_without_a_word_of_gpus(
    offered: tuple[str, ...], cpus: int
) -> None:
    """It was told that the smallest machine has too few GPUs, of which it had none."""
    given = facts("cn-north-1", offered)

    (problem,) = [
        p for p in PROVIDER.check(spec(cluster={"cpus": cpus}), given) if p.severity == "error"
    ]

    assert problem.path == ("cluster",)
    assert "EC2 offers no instance type in cn-north-1 that runspec would choose" in problem.what
    assert problem.hint and "providers.aws-batch.instance_types" in problem.hint


@pytest.mark.parametrize(
    ("region", "profile"),
    [
        ("eu-central-1", {}),
        ("mx-central-1", {"instance_types": ["m7i.large"]}),
        ("mx-central-1", {"fargate": True, "execution_role": "arn:aws:iam::123456789012:role/x"}),
    ],
)
def test_ec2_is_not_asked_where_the_types_are_known(region: str, profile: dict[str, Any]) -> None:
    given = facts(region, None, **profile)

    assert PROVIDER.survey(spec(), given.options) == {}
    assert "does not know which" not in "".join(p.what for p in refused(given))


class Ec2:
    """Answers DescribeInstanceTypeOfferings in two pages, or with *error*."""

    def __init__(self, error: Exception | None = None) -> None:
        self.error = error

    def get_paginator(self, operation: str) -> Ec2:
        assert operation == "describe_instance_type_offerings"
        return self

    def paginate(self, **asked: Any) -> Iterator[dict[str, Any]]:
        assert asked == {"LocationType": "region"}
        if self.error:
            raise self.error
        for names in (("m7i.large", "none9.metal"), ("c7i.large",)):
            yield {"InstanceTypeOfferings": [{"InstanceType": name} for name in names]}


DENIED = ClientError({"Error": {"Code": "UnauthorizedOperation"}}, "DescribeInstanceTypeOfferings")


@pytest.mark.parametrize(
    ("error", "found"),
    [
        (None, {"offered": ["c7i.large", "m7i.large"]}),
        (DENIED, {}),
        (EndpointConnectionError(endpoint_url="https://ec2"), {}),
    ],
)
def test_ec2_is_asked_if_there_is_a_login(
    error: Exception | None, found: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    session = SimpleNamespace(new_client=lambda service, config: Ec2(error))
    monkeypatch.setattr(discover, "Session", lambda options: session)

    assert PROVIDER.survey(spec(), facts("mx-central-1").options) == found


def test_only_regions_without_catalogue_need_the_right_to_list_types() -> None:
    def allowed(region: str) -> bool:
        given = facts(region)
        steps = PROVIDER.plan(spec(), "job-abcdef", given)
        named = {one["Sid"]: one for one in policy(steps, given.options)["Statement"]}
        return "ec2:DescribeInstanceTypeOfferings" in named["LookAtMachines"]["Action"]

    assert (allowed("mx-central-1"), allowed("eu-central-1")) == (True, False)


@pytest.mark.parametrize(
    ("asked", "hint"),
    [
        (["c6a.large", "c7i.xlarge", "m5.large"], "set instance_types: [c7i.xlarge, m5.large]"),
        (["c6a.large"], "such as c7i.large, m5.large"),
    ],
)
def test_a_refusal_of_one_type_names_those_that_batch_takes(
    asked: list[str], hint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def create_compute_environment(**given: Any) -> None:
        response = {"Error": {"Code": "ClientException", "Message": REFUSAL}}
        raise ClientError(response, "CreateComputeEnvironment")

    batch = SimpleNamespace(create_compute_environment=create_compute_environment)
    session = SimpleNamespace(make=lambda service: batch, valid={}, clock=CLOCK, timing=DEFAULT)
    monkeypatch.setattr(client, "Session", lambda *given: session)
    one = AwsClient(facts("mx-central-1").options)
    resources = {"instanceTypes": asked}

    with pytest.raises(RemoteError) as told:
        one.send(Request("batch", "create_compute_environment", {"computeResources": resources}))

    assert told.value.hint and hint in told.value.hint
