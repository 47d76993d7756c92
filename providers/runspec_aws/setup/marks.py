"""Read the tags by which a setup knows what it has made; it deletes nothing else."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from runspec_aws.errors import got, translated
from runspec_aws.lookup import absent
from runspec_aws.setup import finders
from runspec_aws.setup.finders import MISSING, Place, read_tags
from runspec_jobs.provider import Request


def read_marks(place: Place, request: Request) -> dict[str, str] | None:
    """Return the tags of what *request* deletes, {} if it is gone, and None if it has none of its own."""
    reader = OWNERS.get(request.operation)
    return None if reader is None else read_tags(reader(place, request.params) or ())


def _log_group_tags(place: Place, params: Mapping[str, Any]) -> Any:
    group = finders.get_log_group(place.session, params["logGroupName"])
    if group is None:
        return {}
    arn = got(group, "arn").removesuffix(":*")
    ask = lambda: place.session.look("logs").list_tags_for_resource(resourceArn=arn)  # noqa: E731
    answer = absent(ask, f"the tags of {params['logGroupName']}", MISSING)
    return {} if answer is None else got(answer, "tags")


def _repository_tags(place: Place, params: Mapping[str, Any]) -> Any:
    repository = finders.get_repository(place.session, params["repositoryName"])
    if repository is None:
        return ()
    with translated("the tags of a repository"):
        answer = place.session.look("ecr").list_tags_for_resource(
            resourceArn=repository["repositoryArn"]
        )
    return got(answer, "tags")


def _of(operation: str, listed: str, asked: str, key: str) -> Callable[[Place, Any], Any]:
    """Return what reads the tags of a part of a network by its id."""

    def read(place: Place, params: Mapping[str, Any]) -> Any:
        ids = params[key] if isinstance(params[key], list) else [params[key]]
        look = getattr(place.session.look("ec2"), operation)
        answer = absent(lambda: look(**{asked: ids}), operation, MISSING)
        found = () if answer is None else got(answer, listed)
        return found[0].get("Tags", ()) if found else ()

    return read


def _of_iam(get: Callable[[Any, str], Any], key: str) -> Callable[[Place, Any], Any]:
    return lambda place, params: (get(place.session, params[key]) or {}).get("Tags", ())


OWNERS: Mapping[str, Callable[[Place, Mapping[str, Any]], Any]] = {
    "delete_bucket": lambda place, p: finders.read_bucket_tags(place.session, p["Bucket"]),
    "delete_log_group": _log_group_tags,
    "delete_role": _of_iam(finders.get_role, "RoleName"),
    "delete_role_policy": _of_iam(finders.get_role, "RoleName"),
    "detach_role_policy": _of_iam(finders.get_role, "RoleName"),
    "delete_instance_profile": _of_iam(finders.get_profile, "InstanceProfileName"),
    "remove_role_from_instance_profile": _of_iam(finders.get_profile, "InstanceProfileName"),
    "delete_repository": _repository_tags,
    "delete_security_group": _of(
        "describe_security_groups", "SecurityGroups", "GroupIds", "GroupId"
    ),
    "delete_vpc": _of("describe_vpcs", "Vpcs", "VpcIds", "VpcId"),
    "delete_internet_gateway": _of(
        "describe_internet_gateways", "InternetGateways", "InternetGatewayIds", "InternetGatewayId"
    ),
    "delete_route_table": _of(
        "describe_route_tables", "RouteTables", "RouteTableIds", "RouteTableId"
    ),
    "delete_subnet": _of("describe_subnets", "Subnets", "SubnetIds", "SubnetId"),
    "delete_vpc_endpoints": _of(
        "describe_vpc_endpoints", "VpcEndpoints", "VpcEndpointIds", "VpcEndpointIds"
    ),
}
