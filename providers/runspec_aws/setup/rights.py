"""The permissions of whoever runs `runspec setup aws-batch`, with `--undo` and `--with-data`.

https://docs.aws.amazon.com/service-authorization/latest/reference/reference_policies_actions-resources-contextkeys.html
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from runspec_aws.naming import partition
from runspec_aws.policy import VERSION
from runspec_aws.setup.options import AwsSetup
from runspec_aws.setup.steps import MACHINE_POLICY, MARK, Names, plan
from runspec_jobs.provider import Request

ANY = "*"
# What stands for any account and any region until the statements are complete.
ACCOUNT, REGION = "000000000000", "xx-any-0"
# Actions whose names are not those of their operations, or that need others besides.
# https://docs.aws.amazon.com/AmazonS3/latest/userguide/using-with-s3-policy-actions.html
OTHERS: Mapping[str, tuple[str, ...]] = {
    "create_bucket": ("s3:CreateBucket", "s3:TagResource"),
    "put_public_access_block": ("s3:PutBucketPublicAccessBlock", "s3:GetBucketPublicAccessBlock"),
    "put_bucket_encryption": ("s3:PutEncryptionConfiguration", "s3:GetEncryptionConfiguration"),
    "put_bucket_lifecycle_configuration": (
        "s3:PutLifecycleConfiguration",
        "s3:GetLifecycleConfiguration",
    ),
    "create_role": ("iam:CreateRole", "iam:TagRole"),
    "create_instance_profile": ("iam:CreateInstanceProfile", "iam:TagInstanceProfile"),
    "create_log_group": ("logs:CreateLogGroup", "logs:TagResource"),
    "create_repository": ("ecr:CreateRepository", "ecr:TagResource"),
}
# Whatever is found, read or emptied.
BUCKET_READS = ("s3:GetBucketTagging", "s3:ListBucket", "s3:ListBucketVersions")
OBJECTS = ("s3:DeleteObject", "s3:DeleteObjectVersion")
ROLE_READS = ("iam:GetRole", "iam:GetRolePolicy", "iam:ListAttachedRolePolicies")
LOG_READS = ("logs:DeleteLogStream", "logs:DescribeLogStreams", "logs:ListTagsForResource")
REPOSITORY_READS = ("ecr:DescribeRepositories", "ecr:ListImages", "ecr:ListTagsForResource")
# These actions have no resource.
LOOKS = (
    "batch:DescribeComputeEnvironments",  # who uses what an undo deletes
    "batch:DescribeJobDefinitions",
    "ec2:DescribeAvailabilityZones",
    "ec2:DescribeInternetGateways",
    "ec2:DescribeRouteTables",
    "ec2:DescribeSecurityGroups",
    "ec2:DescribeSubnets",
    "ec2:DescribeVpcEndpoints",
    "ec2:DescribeVpcs",
    "logs:DescribeLogGroups",
    "servicequotas:GetServiceQuota",
)


ROUTE = "ec2:CreateRoute"  # changes a route table
# Actions that name two resources: the kind of the one that a setup has made, and that of the other one.
OF_PARTS: Mapping[str, tuple[str, str]] = {
    "ec2:AuthorizeSecurityGroupEgress": ("security-group", ""),
    "ec2:AuthorizeSecurityGroupIngress": ("security-group", ""),
    "ec2:ModifyVpcEndpoint": ("vpc-endpoint", "route-table"),
}


def make_policy(options: AwsSetup) -> dict[str, Any]:
    """Return the policy, for any account and, without a region, for any region. Nothing is asked."""
    region = options.region or REGION
    survey: dict[str, Any] = {
        "region": region,
        "account": ACCOUNT,
        "partition": partition(options.region or "").id,
        "quotas": {},
        "zones": ["a"],
    }
    if options.network == "default" or options.subnets:
        survey["network"] = {"vpc": ANY, "subnets": [ANY], "route_tables": [ANY]}
    names = Names(options, survey)
    steps = plan(options, survey, "").steps
    requests = [r for step in steps for r in (step.do, step.undo) if r is not None]
    text = json.dumps(_list_statements(requests, names))
    return {"Version": VERSION, "Statement": json.loads(re.sub(f"{ACCOUNT}|{REGION}", ANY, text))}


def _list_statements(requests: list[Request], names: Names) -> list[dict[str, Any]]:
    start = f"arn:{names.survey['partition']}"
    place = f"{names.region}:{ACCOUNT}"
    bucket, group = (
        f"{start}:s3:::{names.bucket}",
        f"{start}:logs:{place}:log-group:{names.log_group}",
    )
    roles = [names.arn("role", names.role(of)) for of in ("job", "execution", "machine")]
    profile = names.arn("instance-profile", names.role("machine"))
    actions = _group_actions(requests)
    found = [
        _make_statement("Look", LOOKS, [ANY]),
        _make_statement("Bucket", [*actions["s3"], *BUCKET_READS], [bucket]),
        _make_statement("Objects", OBJECTS, [f"{bucket}/*"]),
        _make_statement("Logs", [*actions["logs"], *LOG_READS], [group, f"{group}:*"]),
    ]
    managed = [a for a in actions["iam"] if a in ("iam:AttachRolePolicy", "iam:DetachRolePolicy")]
    of_profile = [a for a in actions["iam"] if "InstanceProfile" in a]
    of_roles = [a for a in actions["iam"] if a not in (*managed, *of_profile)]
    if of_roles:
        found.append(_make_statement("Roles", [*of_roles, *ROLE_READS], roles))
    if of_profile:
        policy = f"{start}:iam::aws:policy/{MACHINE_POLICY}"
        only = {"ArnEquals": {"iam:PolicyARN": policy}}
        found.append(_make_statement("MachineRights", managed, roles[2:], Condition=only))
        reads = ["iam:GetInstanceProfile"]
        found.append(_make_statement("InstanceProfile", [*of_profile, *reads], [profile]))
        china = ".cn" * (names.survey["partition"] == "aws-cn")
        to = {"StringEquals": {"iam:PassedToService": f"ec2.amazonaws.com{china}"}}
        found.append(_make_statement("MachineRole", ["iam:PassRole"], roles[2:], Condition=to))
    if actions["ec2"]:
        found += _list_network(actions["ec2"], names)
    if actions["ecr"]:
        repository = f"{start}:ecr:{place}:repository/{names.options.repository}"
        found.append(
            _make_statement("Repository", [*actions["ecr"], *REPOSITORY_READS], [repository])
        )
    return found


def _list_network(actions: Sequence[str], names: Names) -> Iterator[dict[str, Any]]:
    """Yield the statements for a network: only what a setup has marked is changed or deleted.

    Tags are given only while something is made; otherwise, a mark could be put on what somebody else has made.
    https://docs.aws.amazon.com/service-authorization/latest/reference/list_amazonec2.html
    https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/supported-iam-actions-tagging.html
    """
    here = {} if names.region == REGION else {"aws:RequestedRegion": names.region}
    marked = {"Null": {f"aws:ResourceTag/{MARK}": "false"}}
    only = {"Condition": {"StringEquals": here}} if here else {}
    only_marked = {"Condition": {**only.get("Condition", {}), **marked}}
    makes = [action for action in actions if action.startswith("ec2:Create") and action != ROUTE]
    changes = [action for action in actions if action not in (*makes, *OF_PARTS)]
    yield _make_statement("Network", makes, [ANY], **only)
    yield _make_statement("NetworkOfSetup", changes, [ANY], **only_marked)
    start = f"arn:{names.survey['partition']}:ec2:{names.region}:{ACCOUNT}"
    for action in [action for action in OF_PARTS if action in actions]:
        part, others = OF_PARTS[action]
        name = action.partition(":")[2]
        yield _make_statement(name, [action], [f"{start}:{part}/*"], **only_marked)
        if others:
            yield _make_statement(f"{name}With", [action], [f"{start}:{others}/*"], **only)
    made = sorted(action.partition(":")[2] for action in makes)
    tags = {"StringEquals": {**here, "ec2:CreateAction": made}}
    yield _make_statement("Tags", ["ec2:CreateTags"], [ANY], Condition=tags)


def _make_statement(
    name: str, actions: Iterable[str], resources: Iterable[str], **more: Any
) -> dict[str, Any]:
    listed = {"Action": sorted(set(actions)), "Resource": sorted(set(resources))}
    return {"Sid": name, "Effect": "Allow", **listed, **more}


def _group_actions(requests: Iterable[Request]) -> dict[str, list[str]]:
    """Return the actions of *requests*, by service."""
    grouped: dict[str, list[str]] = {service: [] for service in ("s3", "logs", "iam", "ec2", "ecr")}
    for request in requests:
        own = f"{request.service}:{name_operation(request.operation)}"
        grouped[request.service] += OTHERS.get(request.operation, (own,))
    return grouped


def name_operation(method: str) -> str:
    """Return the name of the operation that a method of the SDK calls, which is that of its action.

    >>> name_operation("create_vpc_endpoint")
    'CreateVpcEndpoint'
    """
    return "".join(word.capitalize() for word in method.split("_"))
