"""Doctor says whether one job will run on AWS Batch: rights of login and roles, and the quota of its machines."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterator, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import botocore.session
import pytest
from botocore.exceptions import ClientError
from botocore.validate import ParamValidator

from runspec_aws import PROVIDER
from runspec_aws.decision import decide
from runspec_aws.doctor import findings, rights as checks
from runspec_aws.options import AwsOptions
from runspec_aws.policy import DOCTOR, doctor_policy, job_policy, policy
from runspec_jobs.provider import Facts, Finding, Step
from tests.support.aws.specs import PROFILE, spec

USER = "arn:aws:iam::210987654321:user/me"
JOB, EXECUTION = "arn:aws:iam::210987654321:role/job", "arn:aws:iam::210987654321:role/execution"
MACHINE = "arn:aws:iam::210987654321:role/machine"
OPTIONS = AwsOptions.model_validate({**PROFILE, "job_role": JOB, "execution_role": EXECUTION})
DENIED = ClientError({"Error": {"Code": "AccessDenied", "Message": "not you"}}, "GetRole")
NONE = ClientError({"Error": {"Code": "NoSuchEntity", "Message": "none"}}, "GetRole")
MODEL = botocore.session.get_session().get_service_model("iam")


def is_allowed(policies: Sequence[Mapping[str, Any]], action: str, arn: str, keys: Any) -> bool:
    """Return whether a statement of *policies* allows *action* on *arn*, whose parts may be wildcards."""
    return any(
        fnmatch.fnmatchcase(action, allowed)
        and fnmatch.fnmatchcase(arn, on)
        and all(
            key in keys and any(fnmatch.fnmatchcase(given, value) for given in keys[key])
            for condition in statement.get("Condition", {}).values()
            for key, value in condition.items()
        )
        for policy_ in policies
        for statement in policy_["Statement"]
        for allowed in statement["Action"]
        for on in statement["Resource"]
    )


class Iam:
    """IAM with the policies of principals; requests must be as the SDK's model describes them.

    https://docs.aws.amazon.com/IAM/latest/APIReference/API_SimulatePrincipalPolicy.html: an assumed role cannot be
    simulated, and the results come in pages.
    """

    def __init__(self, policies: Mapping[str, Sequence[Mapping[str, Any]]], **roles: Any) -> None:
        self.policies, self.roles, self.refuses = policies, roles, False

    def get_role(self, RoleName: str) -> dict[str, Any]:  # noqa: N803 - the SDK's name
        if RoleName not in self.roles:
            raise NONE
        return {"Role": {"Arn": self.roles[RoleName]}}

    def get_instance_profile(self, InstanceProfileName: str) -> dict[str, Any]:  # noqa: N803
        return {
            "InstanceProfile": {"Roles": [{"Arn": MACHINE}] if MACHINE in self.policies else []}
        }

    def get_paginator(self, operation: str) -> Any:
        assert operation == "simulate_principal_policy"
        return SimpleNamespace(paginate=self.simulate)

    def simulate(self, **asked: Any) -> Iterator[dict[str, Any]]:
        shape = MODEL.operation_model("SimulatePrincipalPolicy").input_shape
        assert not ParamValidator().validate(asked, shape).has_errors()
        if self.refuses:
            raise DENIED
        arn = asked["PolicySourceArn"]
        assert ":assumed-role/" not in arn
        keys = {e["ContextKeyName"]: e["ContextKeyValues"] for e in asked.get("ContextEntries", ())}
        for action in asked["ActionNames"]:
            allowed = all(
                is_allowed(self.policies.get(arn, ()), action, resource, keys)
                for resource in asked["ResourceArns"]
            )
            decision = "allowed" if allowed else "implicitDeny"
            yield {"EvaluationResults": [{"EvalActionName": action, "EvalDecision": decision}]}


def in_account(policy_: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a policy as an administrator may write it, with the account in place of any."""
    rows = [
        {**s, "Resource": [r.replace(":*:", ":210987654321:", 1) for r in s["Resource"]]}
        for s in policy_["Statement"]
    ]
    return {"Statement": rows}


def steps(**fields: Any) -> Sequence[Step]:
    return PROVIDER.plan(spec(**fields), "run-1", Facts(OPTIONS))


def session(iam: Any, **services: Any) -> Any:
    return SimpleNamespace(look=lambda service: {"iam": iam, **services}[service])


def without(policy_: Mapping[str, Any], action: str) -> Mapping[str, Any]:
    rows = [{**s, "Action": [a for a in s["Action"] if a != action]} for s in policy_["Statement"]]
    return {"Statement": rows}


def caller(iam: Iam, who: str = USER) -> Finding:
    (found,) = checks.caller(session(iam), who, steps(), OPTIONS)
    return found


def test_a_login_with_what_policy_prints_has_the_rights() -> None:
    rights = in_account(policy(steps(), OPTIONS))

    assert caller(Iam({USER: [rights]})) == Finding(
        "the login has all rights that the job needs of it", True
    )


@pytest.mark.parametrize("action", ["batch:SubmitJob", "iam:PassRole", "s3:PutObject"])
def test_a_login_without_a_right_is_told_which(action: str) -> None:
    rights = without(in_account(policy(steps(), OPTIONS)), action)

    found = caller(Iam({USER: [rights]}))

    assert (found.ok, found.what) == (False, f"the login has no right to {action}")
    assert found.hint == "add the statements that `runspec policy` prints to the login"


def test_rights_that_only_prices_need_stop_no_job() -> None:
    rights = without(in_account(policy(steps(), OPTIONS)), "pricing:GetProducts")

    assert caller(Iam({USER: [rights]})).ok


@pytest.mark.parametrize("there", [True, False])
def test_the_right_to_make_the_service_linked_role_is_needed_until_it_exists(there: bool) -> None:
    rights = without(in_account(policy(steps(), OPTIONS)), "iam:CreateServiceLinkedRole")
    roles = {checks.LINKED_ROLE: "arn"} if there else {}

    assert caller(Iam({USER: [rights]}, **roles)).ok is there


def test_a_session_has_the_rights_of_its_role_whose_path_it_lacks() -> None:
    role = "arn:aws:iam::210987654321:role/aws-reserved/admin"
    iam = Iam({role: [in_account(policy(steps(), OPTIONS))]}, admin=role)

    found = caller(iam, "arn:aws:sts::210987654321:assumed-role/admin/me@example.org")

    assert (found.ok, found.unknown) == (True, False)


@pytest.mark.parametrize(
    "who",
    [
        "arn:aws:sts::210987654321:assumed-role/gone/me",
        "arn:aws:sts::210987654321:federated-user/me",
    ],
)
def test_a_login_that_iam_cannot_simulate_is_unknown(who: str) -> None:
    found = caller(Iam({}), who)

    assert (found.ok, found.unknown) == (True, True)


def test_rights_that_iam_does_not_tell_are_unknown_and_not_good() -> None:
    iam = Iam({})
    iam.refuses = True

    found = caller(iam)

    assert (found.ok, found.unknown) == (True, True)
    assert found.what == "doctor cannot check the rights of the login: not you"
    assert found.hint == "runspec policy --doctor prints the rights that this check needs"


def roles(iam: Iam, **fields: Any) -> dict[str, Finding]:
    found = checks.roles(session(iam), steps(**fields), OPTIONS)
    return {finding.what.partition(" ")[0]: finding for finding in found}


def split(**fields: Any) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """Return the policies of the job's role and of the execution role."""
    rows = in_account(job_policy(steps(**fields), OPTIONS))["Statement"]
    executing = [s for s in rows if s["Sid"].startswith("Execution")]
    return {"Statement": [s for s in rows if s not in executing]}, {"Statement": executing}


ECS = {
    "Statement": [
        {"Action": ["ecs:*"], "Resource": ["*"]},
    ]
}


def test_roles_with_their_policies_have_the_rights() -> None:
    job, executing = split()

    found = roles(Iam({JOB: [job], EXECUTION: [executing], MACHINE: [ECS]}))

    assert [f.ok for f in found.values()] == [True, True, True]
    assert set(found) == {"job_role", "execution_role", "instance_role"}


def test_roles_without_any_policy_are_told_each_with_what_it_lacks() -> None:
    found = roles(Iam({MACHINE: []}))

    assert [f.ok for f in found.values()] == [False, False, False]
    assert "s3:GetObject" in found["job_role"].what
    assert "logs:PutLogEvents" in found["execution_role"].what
    assert "ecs:RegisterContainerInstance" in found["instance_role"].what


def test_an_instance_profile_without_a_role_is_told() -> None:
    found = roles(Iam({}))["instance_role"]

    assert (found.ok, found.what) == (False, "instance_role r has no role in it")


def test_the_execution_role_needs_the_registry_only_if_the_image_is_private() -> None:
    image = "210987654321.dkr.ecr.eu-central-1.amazonaws.com/train:1"
    job, executing = split()
    iam = Iam({JOB: [job], EXECUTION: [executing], MACHINE: [ECS]})

    assert roles(iam)["execution_role"].ok
    found = roles(iam, container={"image": image})["execution_role"]
    assert "ecr:BatchGetImage" in found.what


class Quotas:
    """Service Quotas with one value for each code, or a refusal."""

    def __init__(self, values: Mapping[str, float]) -> None:
        self.values = values

    def get_service_quota(self, ServiceCode: str, QuotaCode: str) -> dict[str, Any]:  # noqa: N803
        if QuotaCode not in self.values:
            raise DENIED
        return {"Quota": {"Value": self.values[QuotaCode]}}


def quota(values: Mapping[str, float], types: Sequence[str] = (), **cluster: Any) -> Finding:
    options = OPTIONS.model_copy(update={"instance_types": tuple(types)})
    decision = decide(spec(cluster=cluster), options)
    quotas: Any = {"service-quotas": Quotas(values)}
    return findings.check_quota(session(None, **quotas), decision)


def test_a_quota_of_zero_stops_a_job_on_gpus_and_names_the_request() -> None:
    found = quota({"L-DB2E81BA": 0.0, "L-1216C47A": 100.0}, gpus=1)

    assert not found.ok
    assert "on-demand GPU (G and VT) vCPUs at once is 0, and a task needs 4" in found.what
    assert found.hint is not None
    assert "--quota-code L-DB2E81BA --desired-value 4" in found.hint


def test_the_quota_of_gpus_is_no_matter_for_a_job_without() -> None:
    assert quota({"L-DB2E81BA": 0.0, "L-1216C47A": 100.0}).ok


def test_a_gang_needs_the_machines_of_all_its_nodes_at_once() -> None:
    values = {"L-1216C47A": 16.0}

    assert quota(values, cpus=8, nodes=2).ok
    assert not quota(values, cpus=8, nodes=4).ok


def test_either_quota_is_enough_if_spot_may_be_replaced() -> None:
    values = {"L-34B43A08": 0.0, "L-1216C47A": 16.0}

    assert quota(values, capacity="spot-then-on-demand").ok
    assert not quota(values, capacity="spot").ok


def test_machines_of_a_family_that_hold_no_node_need_no_quota() -> None:
    values = {"L-1216C47A": 8.0}

    found = quota(values, ["m7i"], cpus=64)

    assert (found.ok, found.unknown) == (False, False)
    assert "and a task needs 64" in found.what


def test_machines_whose_quota_is_not_known_may_run_the_job() -> None:
    found = quota({"L-1216C47A": 8.0}, ["m7i", "x2idn"], cpus=16)

    assert (found.ok, found.unknown) == (True, True)


def test_a_quota_that_cannot_be_read_is_unknown() -> None:
    found = quota({}, gpus=1)

    assert (found.ok, found.unknown) == (True, True)


def test_doctor_has_rights_of_its_own_that_apply_does_not_need() -> None:
    rows = doctor_policy(OPTIONS)["Statement"]

    assert rows[0]["Action"] == sorted(DOCTOR)
    assert all(name.split(":")[1].startswith(("Describe", "Get", "Simulate")) for name in DOCTOR)
    assert "Doctor" not in [row["Sid"] for row in policy(steps(), OPTIONS)["Statement"]]
