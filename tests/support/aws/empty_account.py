"""An account of AWS in which nobody has made anything: moto's S3, EC2 and IAM, with AWS's own policies."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import boto3

from runspec_emulators.aws.region import KEYS, Objects

REGION = "eu-central-1"
# Without this, moto has no policy of AWS's own that could be attached.
# https://docs.getmoto.org/en/latest/docs/configuration/environment_variables.html
POLICIES = {"MOTO_IAM_LOAD_MANAGED_POLICIES": "true"}
# Python imports it first: moto has 1,582 of these policies, and parses all that it has at each reset, for a second.
FEWER_POLICIES = """\
import json
from moto.iam import models

policies = json.loads(models.aws_managed_policies_data)
kept = {name: policy for name, policy in policies.items() if policy["Path"] == "/service-role/"}
models.aws_managed_policies_data = json.dumps(kept)
"""


@contextmanager
def empty_account(folder: Path) -> Iterator[Objects]:
    # moto's CloudFormation imports its API Gateway, which wants this package for what no template here has.
    stubs = folder / "stubs"
    inner = stubs / "openapi_spec_validator" / "validation"
    inner.mkdir(parents=True)
    (inner.parent / "__init__.py").write_text("validate = print\n")
    (inner / "__init__.py").write_text("")
    (inner / "exceptions.py").write_text("OpenAPIValidationError = ValueError\n")
    (stubs / "sitecustomize.py").write_text(FEWER_POLICIES)
    account = Objects(folder / "moto", {**POLICIES, "PYTHONPATH": str(stubs)})
    yield account
    account.close()


def environment(account: Objects) -> dict[str, str]:
    """Return the variables with which a login reaches *account* and nothing else."""
    return {**KEYS, "AWS_ENDPOINT_URL": account.url, "AWS_REGION": REGION}


def reset(account: Objects) -> None:
    """Delete everything: https://docs.getmoto.org/en/latest/docs/server_mode.html#reset-api"""
    account.ask("POST", "/moto-api/reset")


def client(account: Objects, service: str) -> Any:
    keys = {name.lower(): value for name, value in KEYS.items()}
    return boto3.client(service, region_name=REGION, endpoint_url=account.url, **keys)


def list_things(account: Objects) -> list[str]:
    """Return what there is besides the default network, by kind and name, with the settings that a setup makes."""
    found = [*_list_storage(account), *_list_roles(account), *_list_network(account)]
    return sorted(found)


def _list_storage(account: Objects) -> Iterator[str]:
    s3, logs, ecr = (client(account, name) for name in ("s3", "logs", "ecr"))
    for bucket in s3.list_buckets()["Buckets"]:
        name = bucket["Name"]
        yield f"bucket {name}"
        for setting in ("public_access_block", "bucket_lifecycle_configuration"):
            try:
                answer = getattr(s3, f"get_{setting}")(Bucket=name)
            except s3.exceptions.ClientError:
                continue
            answer.pop("ResponseMetadata")
            yield f"{setting} {name} {json.dumps(answer, sort_keys=True)}"
    yield from (f"log group {g['logGroupName']}" for g in logs.describe_log_groups()["logGroups"])
    yield from (
        f"repository {r['repositoryName']}" for r in ecr.describe_repositories()["repositories"]
    )


def _list_roles(account: Objects) -> Iterator[str]:
    iam = client(account, "iam")
    for role in iam.list_roles()["Roles"]:
        name = role["RoleName"]
        own = iam.list_role_policies(RoleName=name)["PolicyNames"]
        attached = iam.list_attached_role_policies(RoleName=name)["AttachedPolicies"]
        yield f"role {name} {own} {[policy['PolicyName'] for policy in attached]}"
    for profile in iam.list_instance_profiles()["InstanceProfiles"]:
        roles = [role["RoleName"] for role in profile["Roles"]]
        yield f"instance profile {profile['InstanceProfileName']} {roles}"


def _list_network(account: Objects) -> Iterator[str]:
    ec2 = client(account, "ec2")
    for group in ec2.describe_security_groups()["SecurityGroups"]:
        if group["GroupName"] != "default":
            pairs = [len(rule["UserIdGroupPairs"]) for rule in _rules(group)]
            yield f"security group {group['GroupName']} {pairs}"
    endpoints = ec2.describe_vpc_endpoints()["VpcEndpoints"]
    yield from (f"endpoint {e['ServiceName']}" for e in endpoints if e["State"] != "deleted")
    own = [vpc for vpc in ec2.describe_vpcs()["Vpcs"] if not vpc["IsDefault"]]
    yield from (f"network {vpc['CidrBlock']}" for vpc in own)
    names = {vpc["VpcId"] for vpc in own}
    subnets = [s for s in ec2.describe_subnets()["Subnets"] if s["VpcId"] in names]
    yield from (f"subnet {s['CidrBlock']} {s['MapPublicIpOnLaunch']}" for s in subnets)
    gateways = ec2.describe_internet_gateways()["InternetGateways"]
    yield from (f"gateway {len(g['Attachments'])}" for g in gateways)


def _rules(group: Mapping[str, Any]) -> list[Any]:
    return [*group["IpPermissions"], *group["IpPermissionsEgress"]]
