"""Ask IAM whether the caller and the roles of a job have the rights that its plan needs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from runspec_aws.errors import got
from runspec_aws.lookup import DOCTOR_RIGHTS, asked
from runspec_aws.options import AwsOptions
from runspec_aws.policy import EXECUTION, OWN_ROLE, PRICES_SID, job_policy, policy
from runspec_aws.session import Session
from runspec_jobs.provider import Finding, Step

Statement = Mapping[str, Any]
LINKED_ROLE = "AWSServiceRoleForBatch"
# Some actions of AmazonEC2ContainerServiceforEC2Role, without which a machine never joins its cluster.
# https://docs.aws.amazon.com/AmazonECS/latest/developerguide/instance_IAM_role.html
JOINING = (
    "ecs:DiscoverPollEndpoint",
    "ecs:Poll",
    "ecs:RegisterContainerInstance",
    "ecs:SubmitContainerStateChange",
    "ecs:SubmitTaskStateChange",
)
LOGGING = ("logs:CreateLogStream", "logs:PutLogEvents")


def caller(
    session: Session, who: str, steps: Sequence[Step], options: AwsOptions
) -> Iterator[Finding]:
    """Check the rights of the login *who* to carry out *steps*."""
    if who.endswith(":root"):
        yield Finding("the login is the root user, which has all rights", True)
        return
    principal = _principal(session, who)
    if principal is None:
        yield _unknown("the login", "IAM simulates users and roles alone")
        return
    statements = [s for s in policy(steps, options)["Statement"] if s["Sid"] != PRICES_SID]
    linked = [s for s in statements if s["Sid"] == OWN_ROLE]
    if linked and _has_linked_role(session):
        statements = [s for s in statements if s["Sid"] != OWN_ROLE]
    add = "add the statements that `runspec policy` prints to the login"
    yield _check(session, "the login", principal, statements, add)


def _principal(session: Session, who: str) -> str | None:
    """Return the ARN of the user or role behind *who*; None if there is none that IAM could simulate.

    The ARN of a session has no path of its role, which `GetRole` tells.

    https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_identifiers.html#identifiers-arns
    """
    kind, *names = who.split(":", 5)[-1].split("/")
    if kind in ("user", "role"):
        return who
    if kind != "assumed-role":
        return None
    _, role = asked(
        lambda: got(session.look("iam").get_role(RoleName=names[0]), "Role")["Arn"], "", ""
    )
    return str(role) if role else None


def _has_linked_role(session: Session) -> bool:
    look = session.look("iam").get_role
    return asked(lambda: look(RoleName=LINKED_ROLE), "", "")[1] is not None


def roles(session: Session, steps: Sequence[Step], options: AwsOptions) -> Iterator[Finding]:
    """Check the rights of the roles that the job of *steps* uses."""
    statements = job_policy(steps, options)["Statement"]
    executing = [s for s in statements if s["Sid"].startswith(EXECUTION)]
    own = [s for s in statements if s not in executing and s["Sid"] != "LogGroup"]
    if options.job_role and own:
        yield job_role(session, options, own)
    if options.execution_role:
        executing += [s for s in statements if s["Sid"] == "LogGroup"]
        yield _check(
            session,
            "execution_role",
            options.execution_role,
            executing,
            "add the statements Execution... of `runspec policy --job` to the role",
        )
    if options.instance_role and not options.queue and not options.fargate:
        yield from _instance_role(session, options)


def job_role(
    session: Session, options: AwsOptions, statements: Sequence[Statement] | None = None
) -> Finding:
    """Check the rights of the job's role: those of any job, if *statements* are not given."""
    needed = job_policy((), options)["Statement"] if statements is None else statements
    add = "add the policy that `runspec policy --job` prints to the role"
    return _check(session, "job_role", str(options.job_role), needed, add)


def _instance_role(session: Session, options: AwsOptions) -> Iterator[Finding]:
    """Check the role in the instance profile: without these rights, a machine starts and no job ever runs on it."""
    name = str(options.instance_role).rpartition("/")[2]
    look = session.look("iam").get_instance_profile
    _, profile = asked(lambda: got(look(InstanceProfileName=name), "InstanceProfile"), "", "")
    if profile is None:
        return  # that it cannot be found is a finding of its own
    inside = profile.get("Roles") or ()
    if not inside:
        yield Finding(f"instance_role {name} has no role in it", False, _attach(name))
        return
    actions = (*JOINING, *(() if options.execution_role else LOGGING))
    needed = [{"Sid": "Machines", "Action": list(actions), "Resource": ["*"]}]
    yield _check(session, "instance_role", str(inside[0]["Arn"]), needed, _attach(name))


def _attach(name: str) -> str:
    return f"attach the policy AmazonEC2ContainerServiceforEC2Role to the role of {name}"


def _check(
    session: Session, name: str, arn: str, statements: Iterable[Statement], hint: str
) -> Finding:
    """Return whether the policies of *arn* permit *statements*.

    https://docs.aws.amazon.com/IAM/latest/APIReference/API_SimulatePrincipalPolicy.html
    """
    lacking: list[str] = []
    account = arn.split(":")[4]
    for statement in statements:
        finding, denied = asked(partial(_denied, session, arn, account, statement), "", "")
        if denied is None:
            return _unknown(name, finding.what.removeprefix(": ").partition("\n")[0])
        lacking += denied
    if lacking:
        return Finding(f"{name} has no right to {', '.join(sorted(set(lacking)))}", False, hint)
    return Finding(f"{name} has all rights that the job needs of it", True)


def _unknown(name: str, why: str) -> Finding:
    return Finding(
        f"doctor cannot check the rights of {name}: {why}", True, DOCTOR_RIGHTS, unknown=True
    )


def _denied(session: Session, arn: str, account: str, statement: Statement) -> list[str]:
    """Return the actions of *statement* that the policies of *arn* do not permit.

    A policy names an account where `runspec policy` has `*`, and a right may depend on conditions.
    """
    conditions = statement.get("Condition", {}).values()
    entries = [
        {"ContextKeyName": key, "ContextKeyValues": [value], "ContextKeyType": "string"}
        for condition in conditions
        for key, value in condition.items()
    ]
    pages = session.look("iam").get_paginator("simulate_principal_policy")
    results: list[Mapping[str, Any]] = []
    for page in pages.paginate(
        PolicySourceArn=arn,
        ActionNames=list(statement["Action"]),
        ResourceArns=[_in_account(resource, account) for resource in statement["Resource"]],
        **({"ContextEntries": entries} if entries else {}),
    ):
        results += got(page, "EvaluationResults")
    return [got(r, "EvalActionName") for r in results if got(r, "EvalDecision") != "allowed"]


def _in_account(arn: str, account: str) -> str:
    """Return *arn* with *account* in place of any account.

    >>> _in_account("arn:aws:batch:us-east-1:*:job/*", "210987654321")
    'arn:aws:batch:us-east-1:210987654321:job/*'
    """
    parts = arn.split(":", 5)
    if len(parts) == 6 and parts[4] == "*":
        parts[4] = account
    return ":".join(parts)
