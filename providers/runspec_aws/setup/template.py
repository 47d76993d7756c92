"""A setup as a template of CloudFormation, for people who may not make roles themselves.

https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/aws-template-resource-type-ref.html
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from runspec_aws.setup.steps import MARK
from runspec_jobs.provider import Setup, Step
from runspec_jobs.provider.types import Exported

Params = Mapping[str, Any]
KEPT = {"DeletionPolicy": "Retain"}  # of what holds data
VERSION = "2010-09-09"
MAKER = "cloudformation"  # in the tag of a setup: no setup has made it, so none deletes it


def export(setup: Setup) -> Exported:
    """Return the template, and how to use it."""
    deploy = "aws cloudformation deploy --stack-name runspec --capabilities CAPABILITY_NAMED_IAM"
    region = setup.settings["region"]
    notes = (
        f"whoever may make roles runs: {deploy} --region {region} --template-file FILE",
        f"then: runspec setup aws-batch --set region={region} SETTINGS, which finds all of it and writes the profile",
    )
    return Exported({"setup.json": write_template(setup)}, notes)


def write_template(setup: Setup) -> str:
    """Return the template of everything that *setup* makes; its outputs are the settings of the profile."""
    resources: dict[str, Any] = {}
    by_params = {step.id: step for step in setup.steps}
    for step in setup.steps:
        if step.do.operation in RESOURCES:
            kind, read = RESOURCES[step.do.operation]
            properties = _refer(read(step.do.params))
            resource: dict[str, Any] = {"Type": kind, "Properties": properties}
            if step.do.operation in ("create_bucket", "create_log_group"):
                resource |= KEPT
            if step.do.operation == "create_route":  # a route needs the gateway in the network
                resource["DependsOn"] = name_resource("gateway-network")
            resources[name_resource(step.id)] = resource
        else:
            target, change = SETTINGS[step.do.operation]
            parent = resources[name_resource(find_parent(step, target, by_params))]
            parent["Properties"] |= _refer(change(step.do.params))
    template = {
        "AWSTemplateFormatVersion": VERSION,
        "Description": f"What jobs of runspec need: {setup.place}",
        "Resources": resources,
        "Outputs": {key: _write_output(key, value) for key, value in _list_outputs(setup)},
    }
    return json.dumps(template, indent=2) + "\n"


def name_resource(step: str) -> str:
    """Return the logical name of what a step makes: letters and digits alone.

    >>> name_resource("job-role")
    'JobRole'
    """
    return "".join(part.capitalize() for part in step.split("-"))


def find_parent(step: Step, target: str, steps: Mapping[str, Step]) -> str:
    """Return the step whose resource has the setting of *step*: the one of the same name, or the only one."""
    key, _, wanted = target.partition(" ")
    value = step.do.params[key]
    if isinstance(value, Mapping):
        return str(value["$ref"].partition(".")[0])
    found = [
        name
        for name, other in steps.items()
        if other.do.operation == wanted and other.do.params.get(key) == value
    ]
    return found[0]


def _refer(value: Any) -> Any:
    """Return *value* with references of CloudFormation in the place of those of a plan."""
    if isinstance(value, Mapping):
        if set(value) == {"$ref"}:
            step, _, field = value["$ref"].partition(".")
            name = name_resource(step)
            return {"Fn::GetAtt": [name, field]} if field == "GroupId" else {"Ref": name}
        return {key: _refer(item) for key, item in value.items()}
    return [_refer(item) for item in value] if isinstance(value, list | tuple) else value


def _list_outputs(setup: Setup) -> list[tuple[str, Any]]:
    return [(name_resource(key.replace("_", "-")), value) for key, value in setup.settings.items()]


def _write_output(key: str, value: Any) -> dict[str, Any]:
    what = {"Description": f"for the profile of runspec: {key}"}
    if isinstance(value, list | tuple):
        return {**what, "Value": {"Fn::Join": [",", _refer(value)]}}
    return {**what, "Value": _refer(value)}


def _tags(tags: Any) -> dict[str, Any]:
    rows = tags if isinstance(tags, list) else [{"Key": k, "Value": v} for k, v in tags.items()]
    return {"Tags": [{**row, "Value": MAKER} if row["Key"] == MARK else dict(row) for row in rows]}


def _network_tags(params: Params) -> dict[str, Any]:
    return _tags(params["TagSpecifications"][0]["Tags"])


def _bucket(params: Params) -> dict[str, Any]:
    tags = _tags(params["CreateBucketConfiguration"]["Tags"])
    return {"BucketName": params["Bucket"], **tags}


def _role(params: Params) -> dict[str, Any]:
    trust = json.loads(params["AssumeRolePolicyDocument"])
    name = {"RoleName": params["RoleName"]}
    return {**name, "AssumeRolePolicyDocument": trust, **_tags(params["Tags"])}


def _pick(*keys: str) -> Callable[[Params], dict[str, Any]]:
    """Return what takes the parameters *keys*, with the tags of a part of a network if there are any."""

    def read(params: Params) -> dict[str, Any]:
        tags = _network_tags(params) if "TagSpecifications" in params else {}
        return {**{key: params[key] for key in keys}, **tags}

    return read


def _group(params: Params) -> dict[str, Any]:
    picked = {"GroupName": params["GroupName"], "VpcId": params["VpcId"]}
    return {**picked, "GroupDescription": params["Description"], **_network_tags(params)}


def _rule(key: str) -> Callable[[Params], dict[str, Any]]:
    def read(params: Params) -> dict[str, Any]:
        (rule,) = params["IpPermissions"]
        group = params["GroupId"]
        return {"GroupId": group, "IpProtocol": rule["IpProtocol"], key: group}

    return read


# By operation: the type of its resource, and what makes its properties of the parameters.
RESOURCES: Mapping[str, tuple[str, Callable[[Params], dict[str, Any]]]] = {
    "create_bucket": ("AWS::S3::Bucket", _bucket),
    "create_log_group": (
        "AWS::Logs::LogGroup",
        lambda params: {"LogGroupName": params["logGroupName"], **_tags(params["tags"])},
    ),
    "create_role": ("AWS::IAM::Role", _role),
    # The type has no tags: https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/
    "create_instance_profile": (
        "AWS::IAM::InstanceProfile",
        lambda params: {"InstanceProfileName": params["InstanceProfileName"]},
    ),
    "create_vpc": ("AWS::EC2::VPC", _pick("CidrBlock")),
    "create_internet_gateway": ("AWS::EC2::InternetGateway", _pick()),
    "attach_internet_gateway": (
        "AWS::EC2::VPCGatewayAttachment",
        _pick("InternetGatewayId", "VpcId"),
    ),
    "create_route_table": ("AWS::EC2::RouteTable", _pick("VpcId")),
    "create_route": (
        "AWS::EC2::Route",
        _pick("RouteTableId", "GatewayId", "DestinationCidrBlock"),
    ),
    "create_subnet": ("AWS::EC2::Subnet", _pick("VpcId", "AvailabilityZone", "CidrBlock")),
    "associate_route_table": (
        "AWS::EC2::SubnetRouteTableAssociation",
        _pick("RouteTableId", "SubnetId"),
    ),
    "create_security_group": ("AWS::EC2::SecurityGroup", _group),
    "authorize_security_group_ingress": (
        "AWS::EC2::SecurityGroupIngress",
        _rule("SourceSecurityGroupId"),
    ),
    "authorize_security_group_egress": (
        "AWS::EC2::SecurityGroupEgress",
        _rule("DestinationSecurityGroupId"),
    ),
    "create_vpc_endpoint": (
        "AWS::EC2::VPCEndpoint",
        lambda params: {
            key: params[key] for key in ("VpcEndpointType", "VpcId", "ServiceName", "RouteTableIds")
        },
    ),
    "create_repository": (
        "AWS::ECR::Repository",
        lambda params: {"RepositoryName": params["repositoryName"], **_tags(params["tags"])},
    ),
}


def _lifecycle(params: Params) -> dict[str, Any]:
    (rule,) = params["LifecycleConfiguration"]["Rules"]
    abort = rule["AbortIncompleteMultipartUpload"]
    return {
        "LifecycleConfiguration": {
            "Rules": [
                {
                    "Id": rule["ID"],
                    "Status": rule["Status"],
                    "AbortIncompleteMultipartUpload": abort,
                }
            ]
        }
    }


def _encryption(params: Params) -> dict[str, Any]:
    (rule,) = params["ServerSideEncryptionConfiguration"]["Rules"]
    algorithm = {"ServerSideEncryptionByDefault": rule["ApplyServerSideEncryptionByDefault"]}
    return {"BucketEncryption": {"ServerSideEncryptionConfiguration": [algorithm]}}


def _own_rights(params: Params) -> dict[str, Any]:
    document = json.loads(params["PolicyDocument"])
    return {"Policies": [{"PolicyName": params["PolicyName"], "PolicyDocument": document}]}


# By operation: the parameter that names its resource with the operation that makes it, and the properties it adds.
SETTINGS: Mapping[str, tuple[str, Callable[[Params], dict[str, Any]]]] = {
    "put_public_access_block": (
        "Bucket create_bucket",
        lambda p: {"PublicAccessBlockConfiguration": p["PublicAccessBlockConfiguration"]},
    ),
    "put_bucket_encryption": ("Bucket create_bucket", _encryption),
    "put_bucket_lifecycle_configuration": ("Bucket create_bucket", _lifecycle),
    "put_role_policy": ("RoleName create_role", _own_rights),
    "attach_role_policy": (
        "RoleName create_role",
        lambda p: {"ManagedPolicyArns": [p["PolicyArn"]]},
    ),
    "add_role_to_instance_profile": (
        "InstanceProfileName create_instance_profile",
        lambda p: {"Roles": [{"$ref": "machine-role.RoleName"}]},
    ),
    # The endpoint of a template has all of its route tables at once.
    "modify_vpc_endpoint": ("VpcEndpointId create_vpc_endpoint", lambda _: {}),
    "modify_subnet_attribute": (
        "SubnetId create_subnet",
        lambda p: {"MapPublicIpOnLaunch": p["MapPublicIpOnLaunch"]["Value"]},
    ),
}
