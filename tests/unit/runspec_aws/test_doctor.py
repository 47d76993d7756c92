"""What doctor says of a network and of the rights of a role, without an account."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from botocore.exceptions import ClientError

from runspec_aws import doctor, doctor_network
from runspec_aws.options import AwsOptions
from runspec_aws.policy import DOCTOR, policy
from runspec_aws.session import Session
from runspec_jobs.provider import Finding
from tests.support.aws.specs import PROFILE

INTERNET, NAT = {"GatewayId": "igw-1"}, {"NatGatewayId": "nat-1"}


def found_ways(public: bool, *routes: dict[str, str]) -> list[Finding]:
    ec2 = SimpleNamespace(
        describe_route_tables=lambda: {
            "RouteTables": [
                {"VpcId": "vpc-1", "Associations": [{"Main": True}], "Routes": list(routes)}
            ]
        },
        describe_vpc_endpoints=lambda: {"VpcEndpoints": []},
    )
    session: Any = SimpleNamespace(look=lambda service: ec2, region="eu-central-1")
    subnet = {"SubnetId": "subnet-1", "VpcId": "vpc-1", "MapPublicIpOnLaunch": public}
    return list(doctor_network.ways_out(session, [subnet]))


@pytest.mark.parametrize(
    ("public", "routes", "good", "what"),
    [
        (True, (INTERNET,), True, "enough for jobs of one node"),
        (False, (INTERNET,), False, "has no NAT gateway"),
        (True, (), False, "has no NAT gateway"),
        (False, (NAT,), True, "has a NAT gateway"),
        (True, (INTERNET, NAT), True, "has a NAT gateway"),
    ],
)
def test_a_default_vpc_is_enough_for_jobs_of_one_node(
    public: bool, routes: tuple[dict[str, str], ...], good: bool, what: str
) -> None:
    (found,) = found_ways(public, *routes)

    assert (found.ok, what in found.what) == (good, True)


class Iam:
    """Simulates the policies of a role that allows the actions *allowed*, or refuses to tell."""

    def __init__(self, *allowed: str, error: Exception | None = None) -> None:
        self.allowed, self.error = allowed, error

    def simulate_principal_policy(self, **asked: Any) -> dict[str, Any]:
        assert asked["PolicySourceArn"] == PROFILE["job_role"]
        assert all(arn.startswith("arn:aws:s3:::") for arn in asked["ResourceArns"])
        if self.error:
            raise self.error
        decision = {True: "allowed", False: "implicitDeny"}
        return {
            "EvaluationResults": [
                {"EvalActionName": name, "EvalDecision": decision[name in self.allowed]}
                for name in asked["ActionNames"]
            ]
        }


RIGHTS = (
    "s3:GetObject",
    "s3:AbortMultipartUpload",
    "s3:PutObject",
    "s3:DeleteObject",
    "s3:ListBucket",
)
DENIED = ClientError({"Error": {"Code": "AccessDenied"}}, "SimulatePrincipalPolicy")


@pytest.mark.parametrize(
    ("iam", "good", "what"),
    [
        (Iam(*RIGHTS), True, "job_role has the rights"),
        (Iam(), False, "job_role has no right to s3:AbortMultipartUpload, s3:DeleteObject"),
        (Iam(*RIGHTS[1:]), False, "job_role has no right to s3:GetObject"),
        (Iam(error=DENIED), True, "doctor cannot check the rights of job_role"),
    ],
)
def test_a_role_without_the_policy_is_no_good_role(iam: Iam, good: bool, what: str) -> None:
    session: Any = SimpleNamespace(look=lambda service: iam)

    found = doctor.rights(session, AwsOptions.model_validate(PROFILE))

    assert (found.ok, found.what.startswith(what)) == (good, True)


def test_the_policy_has_the_rights_of_doctor_in_a_statement_of_its_own() -> None:
    statements = policy((), AwsOptions.model_validate(PROFILE))["Statement"]

    (found,) = [one for one in statements if one["Sid"] == "Doctor"]
    assert found["Action"] == sorted(DOCTOR)
    assert all(name.split(":")[1].startswith(("Describe", "Get", "Simulate")) for name in DOCTOR)


class Account:
    """An account with one role and no queue."""

    def get_caller_identity(self) -> dict[str, Any]:
        return {"Arn": "arn:aws:iam::123456789012:user/me"}

    def head_bucket(self, **_: Any) -> dict[str, Any]:
        return {}

    def describe_job_queues(self, **_: Any) -> dict[str, Any]:
        return {"jobQueues": []}

    def get_role(self, **asked: Any) -> dict[str, Any]:
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
    }
    options = AwsOptions.model_validate(
        {"region": "us-east-1", "bucket": "bucket", "queue": "q", "files": "signed", **roles}
    )

    found = [(f.what, f.ok) for f in doctor.examine(options) if "role" in f.what]

    assert found == [("job_role job", True), ("execution_role gone: none", False)]
