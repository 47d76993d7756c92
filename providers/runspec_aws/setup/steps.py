"""The steps of a setup: each is one request of the SDK, word for word."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from runspec_aws import timing
from runspec_aws.options import AwsOptions
from runspec_aws.policy import VERSION, job_policy, list_own_rights
from runspec_aws.setup.options import OWN_GROUP, QUOTAS, AwsSetup
from runspec_jobs.provider import Request, Scope, Setup, Step

MARK = "runspec:setup"  # the tag of everything that a setup makes, with the name of the setup
# https://docs.aws.amazon.com/batch/latest/userguide/instance_IAM_role.html
MACHINE_POLICY = "service-role/AmazonEC2ContainerServiceforEC2Role"
UNFINISHED_DAYS = 7
# States of an endpoint that has its routes, or will have them; in the service's models their case differs.
LIVING = ("pending", "available")
NETWORK = "10.60.0.0/16"
ALL_TRAFFIC = "-1"


@dataclass(frozen=True)
class Names:
    """The names of what a setup makes or uses. Roles belong to the account, so their names have the region."""

    options: AwsSetup
    survey: Mapping[str, Any]

    @property
    def region(self) -> str:
        return str(self.survey["region"])

    @property
    def bucket(self) -> str:
        return self.options.bucket or f"{self.options.name}-{self.survey['account']}-{self.region}"

    @property
    def log_group(self) -> str:
        is_set = "log_group" in self.options.model_fields_set
        return self.options.log_group if is_set else OWN_GROUP

    @property
    def group(self) -> str:
        """The name of the security group."""
        return self.options.name

    def role(self, of: str) -> str:
        return f"{self.options.name}-{of}-{self.region}"

    def arn(self, kind: str, name: str) -> str:
        return f"arn:{self.survey['partition']}:iam::{self.survey['account']}:{kind}/{name}"

    @property
    def image(self) -> str:
        """The image that jobs have unless their spec names one: no private one, or one of the new repository."""
        if self.options.repository is None:
            return self.options.image
        domain = f"{self.survey['account']}.dkr.ecr.{self.region}.amazonaws.com"
        return f"{domain}{'.cn' * (self.survey['partition'] == 'aws-cn')}/{self.options.repository}"


def plan(options: AwsSetup, survey: Mapping[str, Any], setup: str) -> Setup:
    """Return the setup of an account, without what *options* name already, except for a bucket."""
    names = Names(options, survey)
    machines = () if options.queue else _list_machine_steps(names, setup)
    steps = (
        *_list_bucket_steps(names, setup),
        *_list_log_steps(names, setup),
        *_list_role_steps(names, setup),
        *machines,
        *_list_repository_steps(names, setup),
    )
    return Setup(
        f"account {survey['account']}, {names.region}",
        steps,
        _make_settings(names, {step.id for step in steps}),
        tuple(_list_costs(names)),
        tuple(_list_notes(survey)),
        {
            "bucket": Request("s3", "empty_bucket", {"Bucket": names.bucket}),
            "log-group": Request("logs", "empty_log_group", {"logGroupName": names.log_group}),
        },
    )


def _make(
    id: str,  # noqa: A002 - the field of a step
    title: str,
    service: str,
    operation: str,
    params: Mapping[str, Any],
    undo: Request | None = None,
) -> Step:
    return Step(
        id,
        title,
        Scope.SITE,
        Request(service, operation, dict(params)),
        undo,
        settle_s=timing.DEFAULT.settle_s,
    )


def make_tags(setup: str, **more: str) -> list[dict[str, str]]:
    return [{"Key": key, "Value": value} for key, value in {**more, MARK: setup}.items()]


def _list_bucket_steps(names: Names, setup: str) -> Iterator[Step]:
    """https://docs.aws.amazon.com/AmazonS3/latest/API/API_CreateBucket.html"""
    where = {"Bucket": names.bucket}
    # us-east-1 is no constraint: it is where buckets without one are.
    constraint = {} if names.region == "us-east-1" else {"LocationConstraint": names.region}
    configuration = {**constraint, "Tags": make_tags(setup)}
    yield _make(
        "bucket",
        f"bucket {names.bucket}, for what jobs read and write",
        "s3",
        "create_bucket",
        {**where, "CreateBucketConfiguration": configuration},
        Request("s3", "delete_bucket", where),
    )
    blocks = ("BlockPublicAcls", "IgnorePublicAcls", "BlockPublicPolicy", "RestrictPublicBuckets")
    yield _make(
        "bucket-access",
        f"{names.bucket}: no public access",
        "s3",
        "put_public_access_block",
        {**where, "PublicAccessBlockConfiguration": dict.fromkeys(blocks, True)},
    )
    rule = {"ApplyServerSideEncryptionByDefault": {"SSEAlgorithm": "AES256"}}
    yield _make(
        "bucket-encryption",
        f"{names.bucket}: objects are encrypted",
        "s3",
        "put_bucket_encryption",
        {**where, "ServerSideEncryptionConfiguration": {"Rules": [rule]}},
    )
    abort = {
        "ID": "runspec-unfinished",
        "Status": "Enabled",
        "Filter": {"Prefix": ""},
        "AbortIncompleteMultipartUpload": {"DaysAfterInitiation": UNFINISHED_DAYS},
    }
    yield _make(
        "bucket-lifecycle",
        f"{names.bucket}: unfinished uploads end after {UNFINISHED_DAYS} days",
        "s3",
        "put_bucket_lifecycle_configuration",
        {**where, "LifecycleConfiguration": {"Rules": [abort]}},
    )


def _list_log_steps(names: Names, setup: str) -> Iterator[Step]:
    group = {"logGroupName": names.log_group}
    yield _make(
        "log-group",
        f"log group {names.log_group}",
        "logs",
        "create_log_group",
        {**group, "tags": {MARK: setup}},
        Request("logs", "delete_log_group", group),
    )


def _list_role_steps(names: Names, setup: str) -> Iterator[Step]:
    rights, of_execution = list_rights(names)
    if names.options.job_role is None:
        yield from _list_role(names, setup, "job", "of jobs, for the bucket", "ecs-tasks", rights)
    if names.options.execution_role is None:
        what = "that pulls images and writes logs"
        yield from _list_role(names, setup, "execution", what, "ecs-tasks", of_execution)


def list_rights(names: Names) -> tuple[list[Any], list[Any]]:
    """Return the statements of `runspec policy --job` for the role of jobs, and those for the execution role."""
    filled = AwsOptions(
        region=names.region,
        bucket=names.bucket,
        prefix=names.options.prefix,
        log_group=names.log_group,
        job_role=names.options.job_role or names.arn("role", names.role("job")),
        execution_role=names.arn("role", names.role("execution")),
        kms_key=names.options.kms_key,
    )
    container = {"containerProperties": {"image": names.image}}
    job = Step("job", "", Scope.RUN, Request("batch", "register_job_definition", container))
    statements = job_policy([job], filled)["Statement"]
    # The role that writes logs makes their group.
    of_execution = [s for s in statements if s["Sid"].startswith(("Execution", "LogGroup"))]
    own = list_own_rights(filled)
    return [s for s in statements if s not in of_execution], [*of_execution, *own]


def _list_role(
    names: Names, setup: str, of: str, what: str, service: str, statements: Sequence[Any]
) -> Iterator[Step]:
    role, policy = {"RoleName": names.role(of)}, {"PolicyName": "runspec"}
    document = {"Version": VERSION, "Statement": list(statements)}
    yield _make_role(names, setup, of, what, service)
    yield _make(
        f"{of}-rights",
        f"rights of {names.role(of)}: {', '.join(_list_actions(statements))}",
        "iam",
        "put_role_policy",
        {**role, **policy, "PolicyDocument": write_document(document)},
        Request("iam", "delete_role_policy", {**role, **policy}),
    )


def _list_actions(statements: Sequence[Any]) -> list[str]:
    return sorted({action for statement in statements for action in statement["Action"]})


def write_document(document: Mapping[str, Any]) -> str:
    return json.dumps(document, sort_keys=True)


def make_trust(service: str, partition: str) -> dict[str, Any]:
    """Return who may take a role: https://docs.aws.amazon.com/batch/latest/userguide/execution-IAM-role.html"""
    china = ".cn" * (partition == "aws-cn" and service == "ec2")
    allow = {
        "Effect": "Allow",
        "Principal": {"Service": f"{service}.amazonaws.com{china}"},
        "Action": "sts:AssumeRole",
    }
    return {"Version": VERSION, "Statement": [allow]}


def _make_role(names: Names, setup: str, of: str, what: str, service: str) -> Step:
    role = {"RoleName": names.role(of)}
    trust = write_document(make_trust(service, names.survey["partition"]))
    params = {**role, "AssumeRolePolicyDocument": trust, "Tags": make_tags(setup)}
    undo = Request("iam", "delete_role", role)
    return _make(f"{of}-role", f"role {names.role(of)} {what}", "iam", "create_role", params, undo)


def _list_machine_steps(names: Names, setup: str) -> Iterator[Step]:
    if names.options.instance_role is None:
        yield from _list_profile_steps(names, setup)
    if "network" not in names.survey:
        yield from _list_network_steps(names, setup)
    if not names.options.security_groups:
        yield from _list_group_steps(names, setup)
    yield from _list_endpoint_steps(names, setup)


def _list_profile_steps(names: Names, setup: str) -> Iterator[Step]:
    """https://docs.aws.amazon.com/batch/latest/userguide/instance_IAM_role.html"""
    name = names.role("machine")
    role, profile = {"RoleName": name}, {"InstanceProfileName": name}
    yield _make_role(names, setup, "machine", "of machines", "ec2")
    arn = f"arn:{names.survey['partition']}:iam::aws:policy/{MACHINE_POLICY}"
    managed = {**role, "PolicyArn": arn}
    yield _make(
        "machine-rights",
        f"rights of {name}: {MACHINE_POLICY.rpartition('/')[2]}",
        "iam",
        "attach_role_policy",
        managed,
        Request("iam", "detach_role_policy", managed),
    )
    yield _make(
        "machine-profile",
        f"instance profile {name}",
        "iam",
        "create_instance_profile",
        {**profile, "Tags": make_tags(setup)},
        Request("iam", "delete_instance_profile", profile),
    )
    yield _make(
        "machine-profile-role",
        f"instance profile {name}: its role",
        "iam",
        "add_role_to_instance_profile",
        {**profile, **role},
        Request("iam", "remove_role_from_instance_profile", {**profile, **role}),
    )


def make_tag_specifications(names: Names, setup: str, kind: str, part: str) -> dict[str, Any]:
    tags = make_tags(setup, Name=f"{names.options.name}-{part}")
    return {"TagSpecifications": [{"ResourceType": kind, "Tags": tags}]}


def _get_vpc(names: Names) -> Any:
    network = names.survey.get("network")
    return network["vpc"] if network else {"$ref": "network.VpcId"}


def _list_network_steps(names: Names, setup: str) -> Iterator[Step]:
    """A network with a public subnet in each zone: https://docs.aws.amazon.com/vpc/latest/userguide/."""
    vpc = {"VpcId": {"$ref": "network.VpcId"}}
    gateway = {"InternetGatewayId": {"$ref": "gateway.InternetGatewayId"}}
    table = {"RouteTableId": {"$ref": "routes.RouteTableId"}}

    def make(id: str, title: str, operation: str, kind: str, **params: Any) -> Step:  # noqa: A002
        marked = {**params, **make_tag_specifications(names, setup, kind, id)}
        return _make(id, title, "ec2", operation, marked, UNDO[id.partition("-")[0]])

    yield make("network", f"network (VPC) {NETWORK}", "create_vpc", "vpc", CidrBlock=NETWORK)
    yield make("gateway", "internet gateway", "create_internet_gateway", "internet-gateway")
    yield _make(
        "gateway-network",
        "internet gateway of the network",
        "ec2",
        "attach_internet_gateway",
        {**gateway, **vpc},
        Request("ec2", "detach_internet_gateway", {**gateway, **vpc}),
    )
    yield make("routes", "route table", "create_route_table", "route-table", **vpc)
    yield _make(
        "route",
        "route to the internet",
        "ec2",
        "create_route",
        {**table, "GatewayId": gateway["InternetGatewayId"], "DestinationCidrBlock": "0.0.0.0/0"},
    )
    for number, zone in enumerate(names.survey["zones"]):
        id_, block = f"subnet-{number}", f"10.60.{16 * number}.0/20"
        tags = make_tag_specifications(names, setup, "subnet", id_)
        params = {**vpc, "AvailabilityZone": zone, "CidrBlock": block, **tags}
        yield from _list_subnet_steps(number, params, table)


def _list_subnet_steps(
    number: int, params: Mapping[str, Any], table: Mapping[str, Any]
) -> Iterator[Step]:
    """Make a subnet by *params*, whose machines get public addresses, with the routes of *table*."""
    zone = params["AvailabilityZone"]
    subnet = {"SubnetId": {"$ref": f"subnet-{number}.SubnetId"}}
    yield _make(
        f"subnet-{number}",
        f"subnet {params['CidrBlock']} in {zone}",
        "ec2",
        "create_subnet",
        params,
        Request("ec2", "delete_subnet", subnet),
    )
    yield _make(
        f"addresses-{number}",
        f"public addresses for machines in {zone}",
        "ec2",
        "modify_subnet_attribute",
        {**subnet, "MapPublicIpOnLaunch": {"Value": True}},
    )
    placed = {"AssociationId": {"$ref": f"placed-{number}.AssociationId"}}
    yield _make(
        f"placed-{number}",
        f"routes of the subnet in {zone}",
        "ec2",
        "associate_route_table",
        {**table, **subnet},
        Request("ec2", "disassociate_route_table", placed),
    )


UNDO: Mapping[str, Request] = {
    "network": Request("ec2", "delete_vpc", {"VpcId": {"$ref": "network.VpcId"}}),
    "gateway": Request(
        "ec2",
        "delete_internet_gateway",
        {"InternetGatewayId": {"$ref": "gateway.InternetGatewayId"}},
    ),
    "routes": Request(
        "ec2", "delete_route_table", {"RouteTableId": {"$ref": "routes.RouteTableId"}}
    ),
}


def _list_group_steps(names: Names, setup: str) -> Iterator[Step]:
    """Machines of one job reach each other, also by EFA, which needs both directions.

    https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/efa-start.html#efa-start-security
    """
    group = {"GroupId": {"$ref": "group.GroupId"}}
    tags = {"ResourceType": "security-group", "Tags": make_tags(setup)}
    yield _make(
        "group",
        f"security group {names.group}",
        "ec2",
        "create_security_group",
        {
            "GroupName": names.group,
            "Description": "Machines of runspec jobs",
            "VpcId": _get_vpc(names),
            "TagSpecifications": [tags],
        },
        Request("ec2", "delete_security_group", group),
    )
    within = {"IpProtocol": ALL_TRAFFIC, "UserIdGroupPairs": [group]}
    for way, what in (("ingress", "nodes of one job reach each other"), ("egress", "by EFA, too")):
        yield _make(
            f"group-{way}",
            f"security group {names.group}: {what}",
            "ec2",
            f"authorize_security_group_{way}",
            {**group, "IpPermissions": [within]},
        )


def make_endpoint_service(region: str, partition: str) -> str:
    """Return the name of S3 for endpoints of a region."""
    return f"{'cn.' * (partition == 'aws-cn')}com.amazonaws.{region}.s3"


def _list_endpoint_steps(names: Names, setup: str) -> Iterator[Step]:
    """Nodes of one job have no public address, and reach S3 through a gateway endpoint, which costs nothing.

    One of an older setup may lack a route table of the subnets.
    https://docs.aws.amazon.com/vpc/latest/privatelink/vpc-endpoints-s3.html
    """
    network = names.survey.get("network")
    tables = network["route_tables"] if network else [{"$ref": "routes.RouteTableId"}]
    if not tables:  # each has a route by somebody else's endpoint
        return
    endpoint = {"$ref": "endpoint.VpcEndpointId"}
    yield _make(
        "endpoint",
        "gateway endpoint of S3, for jobs of several nodes",
        "ec2",
        "create_vpc_endpoint",
        {
            "VpcEndpointType": "Gateway",
            "VpcId": _get_vpc(names),
            "ServiceName": make_endpoint_service(names.region, names.survey["partition"]),
            "RouteTableIds": tables,
            **make_tag_specifications(names, setup, "vpc-endpoint", "s3"),
        },
        Request("ec2", "delete_vpc_endpoints", {"VpcEndpointIds": [endpoint]}),
    )
    for number, table in enumerate(tables):
        yield _make(
            f"endpoint-route-{number}",
            f"gateway endpoint of S3: a route in {table if network else 'the route table'}",
            "ec2",
            "modify_vpc_endpoint",
            {"VpcEndpointId": endpoint, "AddRouteTableIds": [table]},
        )


def _list_repository_steps(names: Names, setup: str) -> Iterator[Step]:
    if names.options.repository is None:
        return
    name = {"repositoryName": names.options.repository}
    yield _make(
        "repository",
        f"repository {names.options.repository} of images",
        "ecr",
        "create_repository",
        {**name, "tags": make_tags(setup)},
        Request("ecr", "delete_repository", name),
    )


def _make_settings(names: Names, made: set[str]) -> dict[str, Any]:
    """Return the settings of the profile. Those that it has already are left as they are."""
    settings: dict[str, Any] = {"region": names.region}
    if names.options.account_profile:
        settings["account_profile"] = names.options.account_profile
    settings["bucket"] = names.bucket
    if names.log_group != AwsOptions.model_fields["log_group"].default:
        settings["log_group"] = names.log_group
    for key, step in (("job_role", "job"), ("execution_role", "execution")):
        settings[key] = getattr(names.options, key) or names.arn("role", names.role(step))
    if names.options.queue:
        return settings | {"queue": names.options.queue}
    role = names.arn("instance-profile", names.role("machine"))
    settings["instance_role"] = names.options.instance_role or role
    network = names.survey.get("network")
    own = [{"$ref": f"{step}.SubnetId"} for step in sorted(made) if step.startswith("subnet-")]
    settings["subnets"] = network["subnets"] if network else own
    groups = list(names.options.security_groups)
    settings["security_groups"] = groups or [{"$ref": "group.GroupId"}]
    return settings


def _list_costs(names: Names) -> Iterator[str]:
    yield "nothing of this costs money by itself: what jobs store in the bucket and in the log group does, by its size"
    if names.options.repository:
        yield "so do the images in the repository"


def _list_notes(survey: Mapping[str, Any]) -> Iterator[str]:
    """Yield what to ask AWS for where a quota is 0.

    https://docs.aws.amazon.com/servicequotas/latest/userguide/request-quota-increase.html
    """
    region = survey["region"]
    for what, value in survey["quotas"].items():
        if value == 0:
            ask = f"aws service-quotas request-service-quota-increase --service-code ec2 --quota-code {QUOTAS[what]}"
            more = f"{ask} --desired-value VCPUS --region {region}"
            yield f"the quota of {what} is 0 vCPUs; to have such machines, ask for more: {more}"
    if all(value is None for value in survey["quotas"].values()):
        yield "the quotas of machines cannot be read: see Service Quotas in the console of AWS"
