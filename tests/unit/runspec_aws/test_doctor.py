"""What doctor says of a network and of roles, without an account."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest
from botocore.exceptions import ClientError

from runspec_aws import doctor
from runspec_aws.doctor import network
from runspec_aws.options import AwsOptions
from runspec_aws.session import Session
from runspec_jobs.provider import Finding

INTERNET, NAT = {"GatewayId": "igw-1"}, {"NatGatewayId": "nat-1"}


def found_ways(
    public: bool,
    *routes: dict[str, str],
    needs: network.NetworkNeeds | None = None,
    endpoints: Sequence[dict[str, Any]] = (),
) -> list[Finding]:
    ec2 = SimpleNamespace(
        describe_route_tables=lambda: {
            "RouteTables": [
                {
                    "RouteTableId": "rtb-1",
                    "VpcId": "vpc-1",
                    "Associations": [{"Main": True}],
                    "Routes": list(routes),
                }
            ]
        },
        describe_vpc_endpoints=lambda: {"VpcEndpoints": list(endpoints)},
    )
    session: Any = SimpleNamespace(look=lambda service: ec2, region="eu-central-1")
    subnet = {"SubnetId": "subnet-1", "VpcId": "vpc-1", "MapPublicIpOnLaunch": public}
    return list(network.ways_out(session, [subnet], needs))


@pytest.mark.parametrize(
    ("public", "routes", "good", "what"),
    [
        (True, (INTERNET,), True, "enough for jobs of one node"),
        (False, (INTERNET,), False, "no NAT gateway and gives no public addresses: no machine"),
        (True, (), False, "no NAT gateway, and no route to an internet gateway: no machine"),
        (False, (NAT,), True, "has a NAT gateway"),
        (True, (INTERNET, NAT), True, "has a NAT gateway"),
    ],
)
def test_a_default_vpc_is_enough_for_jobs_of_one_node(
    public: bool, routes: tuple[dict[str, str], ...], good: bool, what: str
) -> None:
    (found,) = found_ways(public, *routes)

    assert (found.ok, what in found.what) == (good, True)


@pytest.mark.parametrize(("several_nodes", "good"), [(False, True), (True, False)])
def test_a_default_vpc_stops_a_job_of_several_nodes_alone(several_nodes: bool, good: bool) -> None:
    needs = network.NetworkNeeds(several_nodes, ("c6a.large",))

    (found,) = found_ways(True, INTERNET, needs=needs)

    assert found.ok is good


@pytest.mark.parametrize(
    ("service", "table", "unknown"),
    [("s3", "rtb-1", True), ("s3", "rtb-2", False), ("dynamodb", "rtb-1", False)],
)
def test_a_network_of_setup_is_not_said_to_stop_a_job_of_several_nodes(
    service: str, table: str, unknown: bool
) -> None:
    endpoint = {
        "VpcId": "vpc-1",
        "ServiceName": f"com.amazonaws.eu-central-1.{service}",
        "RouteTableIds": [table],
    }
    needs = network.NetworkNeeds(True, ("c6a.large",))

    (found,) = found_ways(True, INTERNET, needs=needs, endpoints=[endpoint])

    assert (found.ok, found.unknown) == (unknown, unknown)


def test_a_route_to_another_network_is_unknown_and_not_wrong() -> None:
    (found,) = found_ways(False, {"TransitGatewayId": "tgw-1"})

    assert (found.ok, found.unknown) == (True, True)


class Account:
    """An account with one role and no queue."""

    def get_caller_identity(self) -> dict[str, Any]:
        return {"Arn": "arn:aws:iam::123456789012:user/me"}

    def head_bucket(self, **_: Any) -> dict[str, Any]:
        return {}

    def describe_job_queues(self, **_: Any) -> dict[str, Any]:
        return {"jobQueues": []}

    def get_role(self, **asked: Any) -> dict[str, Any]:
        if asked["RoleName"] == "hidden":
            raise ClientError({"Error": {"Code": "AccessDenied", "Message": "not you"}}, "GetRole")
        if asked["RoleName"] != "job":
            raise ClientError({"Error": {"Code": "NoSuchEntity", "Message": "none"}}, "GetRole")
        return {"Role": {}}


def test_each_role_of_the_profile_is_looked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    account = Account()
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "a")
    monkeypatch.setattr(Session, "on_amazon_s3", True)
    monkeypatch.setattr(Session, "look", lambda session, service: account)
    roles = {
        "job_role": "arn:aws:iam::123456789012:role/path/job",
        "execution_role": "arn:aws:iam::123456789012:role/gone",
        "service_role": "arn:aws:iam::123456789012:role/hidden",
    }
    options = AwsOptions.model_validate(
        {"region": "us-east-1", "bucket": "bucket", "queue": "q", "files": "signed", **roles}
    )

    found = [(f.what, f.ok, f.unknown) for f in doctor.examine(options) if "role" in f.what]

    assert found == [
        ("job_role job", True, False),
        ("execution_role gone: none", False, False),
        ("service_role hidden: not you", True, True),  # what doctor may not see stops no job
    ]
