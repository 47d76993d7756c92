"""Find what a setup makes by its name or its tags, before and after it is made, and refuse what is somebody else's.

A resource with a name of ours and without the tag of a setup belongs to somebody: it is a Conflict. A bucket or a log
group that exists is used as it is, because it may be shared.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from runspec_agent.base.light_typing import NamedTuple
from runspec_aws.errors import got
from runspec_aws.lookup import absent
from runspec_aws.session import Session
from runspec_aws.setup.steps import LIVING, MARK, Names, make_endpoint_service
from runspec_jobs.provider import Conflict, CredentialsError, NoAnswer, Response

MISSING = frozenset(
    "404 NoSuchBucket NoSuchEntity NoSuchEntityException ResourceNotFoundException NoSuchTagSet "
    "NoSuchPublicAccessBlockConfiguration ServerSideEncryptionConfigurationNotFoundError "
    "NoSuchLifecycleConfiguration RepositoryNotFoundException InvalidGroup.NotFound "
    "InvalidVpcID.NotFound InvalidSubnetID.NotFound InvalidRouteTableID.NotFound "
    "InvalidInternetGatewayID.NotFound InvalidVpcEndpointId.NotFound InvalidVpcEndpoint.NotFound "
    "InvalidAssociationID.NotFound InvalidRoute.NotFound Gateway.NotAttached".split()
)
Params = Mapping[str, Any]


class Place(NamedTuple):
    """Where a setup looks: the account, and the names of what it makes there."""

    session: Session
    names: Names


def find(place: Place, operation: str, params: Params) -> Response | None:
    """Return the answer that a step got or would have got, or None if its resource does not exist."""
    return FINDERS[operation](place, params)


def read_tags(tags: Any) -> dict[str, str]:
    """Return *tags* as a mapping: AWS has lists with `Key` and `Value`, or mappings."""
    return dict(tags) if isinstance(tags, Mapping) else {tag["Key"]: tag["Value"] for tag in tags}


def get_first(answer: Params, key: str) -> Any:
    """Return the only row of a list that was asked for by its name. Raises NoAnswer if the list is empty."""
    rows = got(answer, key)
    if not rows:
        raise NoAnswer(f"a reply has no {key}, and no error either")
    return rows[0]


def _refuse_unmarked(what: str, tags: Any) -> None:
    if MARK not in read_tags(tags or ()):
        message = f"{what} exists, and no runspec setup has made it"
        raise Conflict(message, "choose another name for all of it: --set name=NAME")


# S3


def find_bucket(place: Place, params: Params) -> Response | None:
    name, account = params["Bucket"], place.names.survey["account"]
    ask = lambda: place.session.look("s3").head_bucket(Bucket=name, ExpectedBucketOwner=account)  # noqa: E731
    hint = "choose another name: --set bucket=NAME"
    try:
        there = absent(ask, f"look for the bucket {name}", MISSING)
    except (
        CredentialsError
    ) as exc:  # S3 refuses to say anything of a bucket that belongs to another account
        message = f"the bucket {name} belongs to another account, or your login may not see it"
        raise Conflict(message, hint) from exc
    if there is None:
        return None
    # Botocore follows a redirect to another region.
    if there.get("BucketRegion", place.names.region) != place.names.region:
        raise Conflict(f"the bucket {name} is in another region: {there['BucketRegion']}", hint)
    return {"Bucket": name}


def read_bucket_tags(session: Session, name: str) -> dict[str, str]:
    answer = absent(
        lambda: session.look("s3").get_bucket_tagging(Bucket=name), f"the tags of {name}", MISSING
    )
    return {} if answer is None else read_tags(got(answer, "TagSet"))


def _of_bucket(call: str) -> Callable[[Place, Params], Response | None]:
    """Return what finds a setting of the bucket; those of a bucket that no setup made are left as they are."""

    def look(place: Place, params: Params) -> Response | None:
        name = params["Bucket"]
        if find_bucket(place, params) is None:
            return None
        ask = lambda: getattr(place.session.look("s3"), call)(Bucket=name)  # noqa: E731
        if absent(ask, f"{call} of {name}", MISSING) is not None:
            return {"Bucket": name}
        if MARK in read_bucket_tags(place.session, name):
            return None
        return {"Bucket": name, "left": True}

    return look


# IAM


def find_role(place: Place, params: Params) -> Response | None:
    role = get_role(place.session, params["RoleName"])
    if role is None:
        return None
    _refuse_unmarked(f"the role {params['RoleName']}", role.get("Tags"))
    trust = read_document(role["AssumeRolePolicyDocument"])
    if trust != json.loads(params["AssumeRolePolicyDocument"]):
        message = f"the role {params['RoleName']} may be taken by others than runspec needs"
        raise Conflict(message, "choose another name for all of it: --set name=NAME")
    return {"Arn": role["Arn"]}


def get_role(session: Session, name: str) -> Any:
    ask = lambda: session.look("iam").get_role(RoleName=name)  # noqa: E731
    answer = absent(ask, f"look for the role {name}", MISSING)
    return None if answer is None else got(answer, "Role")


def _find_rights(place: Place, params: Params) -> Response | None:
    """Rights that differ, such as those of an older version of runspec, are replaced."""
    of = {"RoleName": params["RoleName"], "PolicyName": params["PolicyName"]}
    ask = lambda: place.session.look("iam").get_role_policy(**of)  # noqa: E731
    answer = absent(ask, f"rights of {params['RoleName']}", MISSING)
    if answer is None:
        return None
    there = read_document(got(answer, "PolicyDocument"))
    return dict(of) if there == json.loads(params["PolicyDocument"]) else None


def read_document(document: Any) -> Any:
    """Return a policy of an answer, which the SDK parses; None for what is no JSON."""
    if not isinstance(document, str):
        return document
    try:
        return json.loads(document)
    except ValueError:
        return None


def _find_attached(place: Place, params: Params) -> Response | None:
    ask = lambda: place.session.look("iam").list_attached_role_policies(  # noqa: E731
        RoleName=params["RoleName"]
    )
    answer = absent(ask, f"rights of {params['RoleName']}", MISSING)
    attached = () if answer is None else got(answer, "AttachedPolicies")
    there = any(policy["PolicyArn"] == params["PolicyArn"] for policy in attached)
    return {"PolicyArn": params["PolicyArn"]} if there else None


def _find_profile(place: Place, params: Params) -> Response | None:
    profile = get_profile(place.session, params["InstanceProfileName"])
    if profile is None:
        return None
    tags = profile.get("Tags")
    if [role["RoleName"] for role in profile["Roles"]] == [place.names.role("machine")]:
        # One that a template made has no tags of its own, and a role that has.
        role = get_role(place.session, place.names.role("machine"))
        tags = tags or (role or {}).get("Tags")
    _refuse_unmarked(f"the instance profile {params['InstanceProfileName']}", tags)
    return {"Arn": profile["Arn"]}


def get_profile(session: Session, name: str) -> Any:
    ask = lambda: session.look("iam").get_instance_profile(InstanceProfileName=name)  # noqa: E731
    answer = absent(ask, f"look for the instance profile {name}", MISSING)
    return None if answer is None else got(answer, "InstanceProfile")


def _find_profile_role(place: Place, params: Params) -> Response | None:
    profile = get_profile(place.session, params["InstanceProfileName"])
    roles = () if profile is None else profile["Roles"]
    there = any(role["RoleName"] == params["RoleName"] for role in roles)
    return {"RoleName": params["RoleName"]} if there else None


# Logs and images


def _find_log_group(place: Place, params: Params) -> Response | None:
    name = params["logGroupName"]
    return {"logGroupName": name} if get_log_group(place.session, name) else None


def get_log_group(session: Session, name: str) -> Any:
    ask = lambda: session.look("logs").describe_log_groups(logGroupNamePrefix=name)  # noqa: E731
    answer = absent(ask, f"look for the log group {name}", MISSING)
    groups = () if answer is None else got(answer, "logGroups")
    return next((group for group in groups if group["logGroupName"] == name), None)


def _find_repository(place: Place, params: Params) -> Response | None:
    name = params["repositoryName"]
    repository = get_repository(place.session, name)
    return None if repository is None else {"repositoryUri": repository["repositoryUri"]}


def get_repository(session: Session, name: str) -> Any:
    ask = lambda: session.look("ecr").describe_repositories(repositoryNames=[name])  # noqa: E731
    answer = absent(ask, f"look for the repository {name}", MISSING)
    return None if answer is None else get_first(answer, "repositories")


# The network


def list_marked(
    place: Place, operation: str, key: str, params: Params, *filters: tuple[str, str]
) -> list[Any]:
    """Return what has the name of *params* and the tag of a setup."""
    tags = read_tags(params["TagSpecifications"][0]["Tags"])
    only = [{"Name": "tag:Name", "Values": [tags["Name"]]}, {"Name": "tag-key", "Values": [MARK]}]
    only += [{"Name": name, "Values": [value]} for name, value in filters]
    look = getattr(place.session.look("ec2"), operation)
    answer = absent(lambda: look(Filters=only), operation, MISSING)
    return list(() if answer is None else got(answer, key))


def _of_network(operation: str, key: str, id_: str) -> Callable[[Place, Params], Response | None]:
    def look(place: Place, params: Params) -> Response | None:
        found = list_marked(place, operation, key, params)
        return {id_: found[0][id_]} if found else None

    return look


def _of_part(part: str, kind: tuple[str, str]) -> Callable[[Place], Any]:
    """Return what describes the *part* of a network of a setup, or None."""

    def look(place: Place) -> Any:
        tags = [{"Key": "Name", "Value": f"{place.names.options.name}-{part}"}]
        found = list_marked(place, *kind, {"TagSpecifications": [{"Tags": tags}]})
        return found[0] if found else None

    return look


_vpc = _of_part("network", ("describe_vpcs", "Vpcs"))
_gateway = _of_part("gateway", ("describe_internet_gateways", "InternetGateways"))
_routes = _of_part("routes", ("describe_route_tables", "RouteTables"))


def _find_vpc_id(place: Place) -> Any:
    """Return the id of the network, which may not exist yet."""
    network = place.names.survey.get("network")
    return network["vpc"] if network else (_vpc(place) or {}).get("VpcId")


def _find_attachment(place: Place, _: Params) -> Response | None:
    gateway = _gateway(place)
    attached = gateway is not None and gateway["Attachments"]
    return {"InternetGatewayId": gateway["InternetGatewayId"]} if attached else None


def _find_route(place: Place, params: Params) -> Response | None:
    table = _routes(place)
    routes = () if table is None else table["Routes"]
    target = params["DestinationCidrBlock"]
    there = any(route.get("DestinationCidrBlock") == target for route in routes)
    return {"Return": True} if there else None


def _find_addresses(place: Place, params: Params) -> Response | None:
    subnet = _subnet_of(params)(place)
    there = subnet is not None and subnet["MapPublicIpOnLaunch"]
    return {"SubnetId": subnet["SubnetId"]} if there else None


def _subnet_of(params: Params) -> Callable[[Place], Any]:
    """The id of a subnet is unknown until it is made: the step that makes it has its name."""
    named = params["SubnetId"]
    if isinstance(named, Mapping):
        return _of_part(named["$ref"].partition(".")[0], ("describe_subnets", "Subnets"))

    def look(place: Place) -> Any:
        ask = lambda: place.session.look("ec2").describe_subnets(SubnetIds=[named])  # noqa: E731
        answer = absent(ask, "look for a subnet", MISSING)
        return None if answer is None else get_first(answer, "Subnets")

    return look


def _find_association(place: Place, params: Params) -> Response | None:
    subnet, table = _subnet_of(params)(place), _routes(place)
    associations = () if subnet is None or table is None else table["Associations"]
    for association in associations:
        if association.get("SubnetId") == subnet["SubnetId"]:
            return {"AssociationId": association["RouteTableAssociationId"]}
    return None


def _find_group(place: Place, _: Params) -> Response | None:
    group = get_group(place)
    if group is None:
        return None
    _refuse_unmarked(f"the security group {place.names.group}", group.get("Tags"))
    return {"GroupId": group["GroupId"]}


def get_group(place: Place) -> Any:
    """Return the security group of a setup, or None."""
    vpc = _find_vpc_id(place)
    if vpc is None:
        return None
    only = [
        {"Name": "group-name", "Values": [place.names.group]},
        {"Name": "vpc-id", "Values": [vpc]},
    ]
    ask = lambda: place.session.look("ec2").describe_security_groups(Filters=only)  # noqa: E731
    answer = absent(ask, f"look for the security group {place.names.group}", MISSING)
    groups = () if answer is None else got(answer, "SecurityGroups")
    return groups[0] if groups else None


def _within(key: str) -> Callable[[Place, Params], Response | None]:
    def look(place: Place, _: Params) -> Response | None:
        group = get_group(place)
        rules = () if group is None else group.get(key, ())
        pairs = [pair for rule in rules for pair in rule.get("UserIdGroupPairs", ())]
        there = any(pair.get("GroupId") == group["GroupId"] for pair in pairs)
        return {"Return": True} if there else None

    return look


def _find_endpoint(place: Place, _: Params) -> Response | None:
    endpoint = _get_endpoint(place)
    return None if endpoint is None else {"VpcEndpointId": endpoint["VpcEndpointId"]}


def _get_endpoint(place: Place) -> Any:
    """Return the gateway endpoint of S3 that a setup has made in the network; the survey knows those of others."""
    vpc = _find_vpc_id(place)
    if vpc is None:
        return None
    service = make_endpoint_service(place.names.region, place.names.survey["partition"])
    only = [
        {"Name": "vpc-id", "Values": [vpc]},
        {"Name": "service-name", "Values": [service]},
        {"Name": "vpc-endpoint-type", "Values": ["Gateway"]},
        {"Name": "tag-key", "Values": [MARK]},
    ]
    ask = lambda: place.session.look("ec2").describe_vpc_endpoints(Filters=only)  # noqa: E731
    answer = absent(ask, "look for the endpoint of S3", MISSING)
    endpoints = () if answer is None else got(answer, "VpcEndpoints")
    there = [e for e in endpoints if e.get("State", "").lower() in LIVING]
    return there[0] if there else None


def _find_endpoint_route(place: Place, params: Params) -> Response | None:
    (table,) = params["AddRouteTableIds"]
    if isinstance(table, Mapping):  # the id is unknown until it is made
        table = (_routes(place) or {}).get("RouteTableId")
    endpoint = _get_endpoint(place)
    if endpoint is None or table not in endpoint.get("RouteTableIds", ()):
        return None
    return {"VpcEndpointId": endpoint["VpcEndpointId"]}


FINDERS: Mapping[str, Callable[[Place, Params], Response | None]] = {
    "create_bucket": find_bucket,
    "put_public_access_block": _of_bucket("get_public_access_block"),
    "put_bucket_encryption": _of_bucket("get_bucket_encryption"),
    "put_bucket_lifecycle_configuration": _of_bucket("get_bucket_lifecycle_configuration"),
    "create_log_group": _find_log_group,
    "create_role": find_role,
    "put_role_policy": _find_rights,
    "attach_role_policy": _find_attached,
    "create_instance_profile": _find_profile,
    "add_role_to_instance_profile": _find_profile_role,
    "create_vpc": _of_network("describe_vpcs", "Vpcs", "VpcId"),
    "create_internet_gateway": _of_network(
        "describe_internet_gateways", "InternetGateways", "InternetGatewayId"
    ),
    "attach_internet_gateway": _find_attachment,
    "create_route_table": _of_network("describe_route_tables", "RouteTables", "RouteTableId"),
    "create_route": _find_route,
    "create_subnet": _of_network("describe_subnets", "Subnets", "SubnetId"),
    "modify_subnet_attribute": _find_addresses,
    "associate_route_table": _find_association,
    "create_security_group": _find_group,
    "authorize_security_group_ingress": _within("IpPermissions"),
    "authorize_security_group_egress": _within("IpPermissionsEgress"),
    "create_vpc_endpoint": _find_endpoint,
    "modify_vpc_endpoint": _find_endpoint_route,
    "create_repository": _find_repository,
}
