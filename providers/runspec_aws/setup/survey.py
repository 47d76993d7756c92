"""What a setup is told and what it finds in an account: the region, the default network, and quotas."""

from __future__ import annotations

import os
from functools import partial
from typing import Any

import boto3

from runspec_aws.errors import got, translated
from runspec_aws.naming import partition
from runspec_aws.session import Session
from runspec_aws.setup.finders import get_first, read_tags
from runspec_aws.setup.options import QUOTAS, AwsSetup
from runspec_aws.setup.steps import LIVING, MARK, make_endpoint_service
from runspec_jobs.provider import RunspecError, UsageError

ZONES = 3  # of a network of one's own: more machines can be had in several


def survey(options: AwsSetup) -> dict[str, Any]:
    """Return the account, the region, the network that is there, and quotas."""
    region = options.region or _find_region(options)
    session = open_session(options, region, "any")
    with translated("the identity of the caller"):
        who = session.look("sts").get_caller_identity()
    found: dict[str, Any] = {
        "region": region,
        "account": got(who, "Account"),
        "partition": partition(region).id,
        "quotas": _read_quotas(session),
    }
    if options.subnets:
        return found | {"network": _find_network_of(session, options.subnets)}
    default = None if options.network == "own" else _find_default(session)
    if default is None and options.network == "default":
        hint = "make one (aws ec2 create-default-vpc), or a network of its own: --set network=own"
        raise UsageError(f"{region} has no default network (VPC) with subnets", hint)
    return found | ({"network": default} if default else {"zones": _list_zones(session)})


def open_session(options: AwsSetup, region: str, bucket: str) -> Session:
    return Session(options.model_copy(update={"region": region, "bucket": bucket}))


def _find_region(options: AwsSetup) -> str:
    """Return the region of the environment or of ~/.aws/config; boto3 alone does not read AWS_REGION.

    https://docs.aws.amazon.com/sdkref/latest/guide/feature-region.html
    """
    with translated("the credentials"):
        session = boto3.Session(profile_name=options.account_profile)
    region = os.environ.get("AWS_REGION") or session.region_name
    if not region:
        hint = "name it: --set region=eu-central-1"
        raise UsageError(
            "no region: neither the profile nor AWS_REGION nor ~/.aws/config has one", hint
        )
    return str(region)


def _find_default(session: Session) -> dict[str, Any] | None:
    """https://docs.aws.amazon.com/vpc/latest/userguide/default-vpc.html"""
    ec2 = session.look("ec2")
    only = [{"Name": "is-default", "Values": ["true"]}]
    with translated("describe_vpcs"):
        vpcs = got(ec2.describe_vpcs(Filters=only), "Vpcs")
    if not vpcs:
        return None
    of_default = [
        {"Name": "vpc-id", "Values": [vpcs[0]["VpcId"]]},
        {"Name": "default-for-az", "Values": ["true"]},
    ]
    with translated("describe_subnets"):
        subnets = got(ec2.describe_subnets(Filters=of_default), "Subnets")
    return _describe(session, vpcs[0]["VpcId"], subnets) if subnets else None


def _find_network_of(session: Session, names: tuple[str, ...]) -> dict[str, Any]:
    with translated("describe_subnets"):
        answer = session.look("ec2").describe_subnets(SubnetIds=list(names))
    vpc = get_first(answer, "Subnets")["VpcId"]
    return _describe(session, vpc, got(answer, "Subnets"))


def _describe(session: Session, vpc: str, subnets: Any) -> dict[str, Any]:
    """Return a network with the route tables of its subnets, or the main one where they have none of their own."""
    of_vpc = [{"Name": "vpc-id", "Values": [vpc]}]
    with translated("describe_route_tables"):
        answer = session.look("ec2").describe_route_tables(Filters=of_vpc)
    names = {subnet["SubnetId"] for subnet in subnets}
    tables: set[str] = set()
    placed: set[str] = set()
    main = None
    for table in got(answer, "RouteTables"):
        for association in table.get("Associations", ()):
            main = table["RouteTableId"] if association.get("Main") else main
            if association.get("SubnetId") in names:
                tables.add(table["RouteTableId"])
                placed.add(association["SubnetId"])
    if main and names - placed:
        tables.add(main)
    tables -= _list_with_route(session, vpc)
    return {"vpc": vpc, "subnets": sorted(names), "route_tables": sorted(tables)}


def _list_with_route(session: Session, vpc: str) -> set[str]:
    """Return the route tables with a gateway endpoint of S3 that no setup has made, which is used as it is.

    A route table can have only one route to a service.
    https://docs.aws.amazon.com/vpc/latest/privatelink/gateway-endpoints.html#gateway-endpoint-routing
    """
    service = make_endpoint_service(session.region, partition(session.region).id)
    only = [
        {"Name": "vpc-id", "Values": [vpc]},
        {"Name": "service-name", "Values": [service]},
        {"Name": "vpc-endpoint-type", "Values": ["Gateway"]},
    ]
    with translated("describe_vpc_endpoints"):
        answer = session.look("ec2").describe_vpc_endpoints(Filters=only)
    return {
        table
        for endpoint in got(answer, "VpcEndpoints")
        if endpoint.get("State", "").lower() in LIVING
        and MARK not in read_tags(endpoint.get("Tags", ()))
        for table in endpoint.get("RouteTableIds", ())
    }


def _list_zones(session: Session) -> list[str]:
    only = [{"Name": "opt-in-status", "Values": ["opt-in-not-required"]}]
    with translated("describe_availability_zones"):
        answer = session.look("ec2").describe_availability_zones(Filters=only)
    return sorted(zone["ZoneName"] for zone in got(answer, "AvailabilityZones"))[:ZONES]


def _read_quotas(session: Session) -> dict[str, int | None]:
    """Return the quotas in vCPUs by what they are for; None for those that cannot be read."""
    quotas: dict[str, int | None] = {}
    for what, code in QUOTAS.items():
        ask = partial(
            session.look("service-quotas").get_service_quota, ServiceCode="ec2", QuotaCode=code
        )
        quotas[what] = None
        try:
            with translated(f"the quota {code}"):
                quotas[what] = int(got(got(ask(), "Quota"), "Value"))
        except RunspecError:  # a login may set up an account without the right to read quotas
            continue
    return quotas
