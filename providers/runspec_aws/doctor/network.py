"""Check the network: subnets and their routes, security groups, offered instance types, file systems."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set as AbstractSet
from functools import partial
from typing import Any

from runspec_agent.base.light_typing import NamedTuple
from runspec_aws.errors import got
from runspec_aws.infrastructure import lustre
from runspec_aws.lookup import asked
from runspec_aws.options import AwsOptions
from runspec_aws.resources import gpu_types, known
from runspec_aws.session import Session
from runspec_jobs.provider import Finding

ALL_TRAFFIC = "-1"
ADD_WAY_OUT = "add a NAT gateway or VPC endpoints, or use other subnets for jobs of several nodes"
FOR_ANY_JOB = "add a NAT gateway or VPC endpoints, or use other subnets"
# What a route may lead to that may reach the internet, or not.
# https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_Route.html
OTHER_WAYS = ("TransitGatewayId", "NetworkInterfaceId", "InstanceId", "VpcPeeringConnectionId")

# The services that ECS machines need to reach, for images, logs and files.
ENDPOINTS = frozenset("ecr.api ecr.dkr ecs ecs-agent ecs-telemetry logs s3".split())


class NetworkNeeds(NamedTuple):
    """What one job needs of the network: whether it has *several_nodes*, and the instance types that it may get."""

    several_nodes: bool
    types: tuple[str, ...]


def findings(
    session: Session, options: AwsOptions, needs: NetworkNeeds | None = None
) -> Iterator[Finding]:
    """Yield findings for the job with *needs*; for any job, if they are not given."""
    if options.queue:  # the queue's own machines are already in a network
        yield from _file_systems(session, options, None)
        return
    if not options.subnets:
        yield Finding("the profile has no `subnets`", False, "add subnets: [subnet-...]")
        return
    finding, subnets = _subnets(session, options)
    yield finding
    if subnets:
        yield from ways_out(session, subnets, needs)
        zones = sorted({s["AvailabilityZone"] for s in subnets})
        yield from _offered(session, options, zones, needs.types if needs else ())
    yield from _groups(session, options, needs)
    yield from _file_systems(session, options, subnets[0]["VpcId"] if subnets else None)


def _subnets(session: Session, options: AwsOptions) -> tuple[Finding, list[dict[str, Any]]]:
    ids = list(options.subnets)
    finding, subnets = asked(
        lambda: got(session.look("ec2").describe_subnets(SubnetIds=ids), "Subnets"),
        f"subnets {', '.join(ids)}",
        "set existing subnets in the profile",
    )
    return finding, subnets or []


def ways_out(
    session: Session, subnets: Iterable[Mapping[str, Any]], needs: NetworkNeeds | None = None
) -> Iterator[Finding]:
    """Check NAT gateways and endpoints: nodes of a gang have no public address, and need one of them to pull images.

    https://docs.aws.amazon.com/batch/latest/userguide/multi-node-parallel-jobs.html
    """
    finding, tables = asked(
        lambda: got(session.look("ec2").describe_route_tables(), "RouteTables"),
        "route tables",
        "allow ec2:DescribeRouteTables for your login",
    )
    if tables is None:
        yield finding
        return
    endpoints = _list_endpoints(session)
    inner, to_s3 = _find_inner(session, endpoints), _find_tables_to_s3(session, endpoints)
    for subnet in subnets:
        name = subnet["SubnetId"]
        associated = [
            t for t in tables if any(a.get("SubnetId") == name for a in t.get("Associations", ()))
        ]
        main = [t for t in tables if any(a.get("Main") for a in t.get("Associations", ()))]
        associated = associated or [t for t in main if t["VpcId"] == subnet["VpcId"]]
        if subnet["VpcId"] in inner:
            yield Finding(
                f"{name} is in a network with VPC endpoints for all services that machines need",
                True,
            )
        elif _is_public(subnet, associated):
            has_s3 = all(t["RouteTableId"] in to_s3 for t in associated)
            yield _judge_public(name, needs, has_s3)
        elif not any(r.get("NatGatewayId") for t in associated for r in t.get("Routes", ())):
            if any(
                r.get(key) for t in associated for r in t.get("Routes", ()) for key in OTHER_WAYS
            ):
                message = (
                    f"{name} has a route of its own to other networks, which doctor cannot follow"
                )
                yield Finding(message, True, unknown=True)
                continue
            yield _judge_closed(name, has_addresses=bool(subnet.get("MapPublicIpOnLaunch")))
        else:
            yield Finding(f"{name} has a NAT gateway", True)


def _judge_closed(name: str, *, has_addresses: bool) -> Finding:
    """Return the finding about a subnet whose machines reach nothing, which stops jobs of one node, too."""
    lack = "no route to an internet gateway" if has_addresses else "gives no public addresses"
    join = ", and " if has_addresses else " and "
    message = f"{name} has no NAT gateway{join}{lack}: no machine there gets images or reaches S3"
    return Finding(message, False, FOR_ANY_JOB)


def _judge_public(name: str, needs: NetworkNeeds | None, has_s3: bool) -> Finding:
    """Return the finding about a subnet like those of a default VPC; *has_s3* is of one that `runspec setup` made."""
    stops = needs is not None and needs.several_nodes
    if stops and has_s3:
        # docs/unverified.md, aws-92
        what = f"{name} has an S3 endpoint and no NAT gateway: whether that is enough for several nodes is unknown"
        return Finding(what, True, ADD_WAY_OUT, unknown=True)
    message = f"{name} has no NAT gateway, and gives machines public addresses: enough for jobs of one node"
    what = f"{message}; those of several nodes need one, or VPC endpoints"
    return Finding(what, not stops, ADD_WAY_OUT)


def _is_public(subnet: Mapping[str, Any], tables: Iterable[Mapping[str, Any]]) -> bool:
    """Return whether machines get public addresses and a route to the internet, as in a default VPC, but no NAT.

    https://docs.aws.amazon.com/vpc/latest/userguide/default-vpc.html
    """
    routes = [route for table in tables for route in table.get("Routes", ())]
    gateways = [str(route.get("GatewayId") or "") for route in routes]
    nat = any(route.get("NatGatewayId") for route in routes)
    return (
        bool(subnet.get("MapPublicIpOnLaunch"))
        and not nat
        and any(g.startswith("igw-") for g in gateways)
    )


def _service(name: str, region: str) -> str:
    """Return the service of the endpoint *name*.

    >>> _service("com.amazonaws.eu-central-1.ecr.api", "eu-central-1")
    'ecr.api'
    >>> _service("cn.com.amazonaws.cn-north-1.ecr.api", "cn-north-1")
    'ecr.api'
    """
    return name.partition(f".{region}.")[2]


def _list_endpoints(session: Session) -> list[Mapping[str, Any]]:
    """Return the VPC endpoints; none if listing them is not permitted."""
    _, endpoints = asked(session.look("ec2").describe_vpc_endpoints, "endpoints", "")
    return list((endpoints or {}).get("VpcEndpoints", ()))


def _find_tables_to_s3(session: Session, endpoints: Iterable[Mapping[str, Any]]) -> set[str]:
    """Return the route tables that lead to S3 through a gateway endpoint.

    https://docs.aws.amazon.com/vpc/latest/privatelink/vpc-endpoints-s3.html
    """
    of_s3 = (e for e in endpoints if _service(e["ServiceName"], session.region) == "s3")
    return {table for endpoint in of_s3 for table in endpoint.get("RouteTableIds", ())}


def _find_inner(session: Session, endpoints: Iterable[Mapping[str, Any]]) -> set[str]:
    """Return the networks whose *endpoints* are sufficient for machines.

    https://docs.aws.amazon.com/AmazonECR/latest/userguide/vpc-endpoints.html

    https://docs.aws.amazon.com/AmazonECS/latest/developerguide/vpc-endpoints.html
    """
    there: dict[str, set[str]] = {}
    for endpoint in endpoints:
        service = _service(endpoint["ServiceName"], session.region)
        there.setdefault(endpoint["VpcId"], set()).add(service)
    return {network for network, services in there.items() if services >= ENDPOINTS}


def _groups(session: Session, options: AwsOptions, needs: NetworkNeeds | None) -> Iterator[Finding]:
    """Check security groups: nodes connect on any port, and EFA needs rules that name the group.

    https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/efa-start.html#efa-start-security
    """
    if not options.security_groups:
        yield Finding(
            "the profile has no `security_groups`", False, "add security_groups: [sg-...]"
        )
        return
    ids = list(options.security_groups)
    finding, groups = asked(
        lambda: got(session.look("ec2").describe_security_groups(GroupIds=ids), "SecurityGroups"),
        f"security groups {', '.join(ids)}",
        "set existing security groups in the profile",
    )
    yield finding
    if groups is None:
        return
    within = [g["GroupId"] for g in groups if _to_itself(g, "IpPermissions")]
    if not within:
        message = "no security group allows inbound traffic from itself: nodes of one job cannot reach each other"
        hint = f"allow all inbound traffic from {ids[0]} to itself"
        stops = options.efa or (needs is not None and needs.several_nodes)
        aside = f"only jobs of several nodes need it: {hint}"
        yield Finding(message if stops else f"{message}; {aside}", not stops, hint)
    elif options.efa and not any(_to_itself(g, "IpPermissionsEgress") for g in groups):
        message = "no security group allows outbound traffic to itself, which EFA needs"
        hint = f"allow all outbound traffic from {within[0]} to itself: 0.0.0.0/0 is not enough for EFA"
        yield Finding(message, False, hint)
    else:
        yield Finding(f"{within[0]} allows traffic between nodes of one job", True)


def _to_itself(group: Mapping[str, Any], key: str) -> bool:
    # A rule for TCP alone is not enough: EFA is another protocol, and MPI chooses its ports freely.
    rules = [rule for rule in group.get(key, ()) if rule["IpProtocol"] == ALL_TRAFFIC]
    pairs = [pair for rule in rules for pair in rule.get("UserIdGroupPairs", ())]
    return any(pair.get("GroupId") == group["GroupId"] for pair in pairs)


def _offered(
    session: Session, options: AwsOptions, zones: list[str], types: Sequence[str]
) -> Iterator[Finding]:
    """Check which instance types the zones of the subnets offer; a job with *types* needs one of them.

    https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_DescribeInstanceTypeOfferings.html
    """
    if options.fargate:
        return
    pages = session.look("ec2").get_paginator("describe_instance_type_offerings")
    only = [{"Name": "location", "Values": zones}]
    finding, offered = asked(
        lambda: [
            offer
            for page in pages.paginate(LocationType="availability-zone", Filters=only)
            for offer in got(page, "InstanceTypeOfferings")
        ],
        f"instance types offered in {', '.join(zones)}",
        "allow ec2:DescribeInstanceTypeOfferings for your login",
    )
    if offered is None:
        yield finding
        return
    offers = {(offer["InstanceType"], offer["Location"]) for offer in offered}
    if types and not any(
        name == kind or name.startswith(f"{kind}.") for name, _ in offers for kind in types
    ):
        hint = "use subnets of other zones, or set instance_types to offered ones"
        message = (
            f"not offered in {', '.join(zones)}: {', '.join(types)}, on which the job would run"
        )
        yield Finding(message, False, hint)
        return
    if types:
        yield Finding(f"{', '.join(zones)} offers machines for the job", True)
        return
    # Any type may be chosen then: what matters is which GPUs can be had at all.
    if not options.instance_types:
        yield _gpus_offered({name for name, _ in offers}, zones)
        return
    yield from _named_offered(options.instance_types, offers, zones)


def _named_offered(
    wanted: Sequence[str], offers: AbstractSet[tuple[str, str]], zones: Sequence[str]
) -> Iterator[Finding]:
    """Check that each of the instance types *wanted* is among *offers*, which are pairs of a type and a zone."""
    nowhere = [name for name in wanted if not any((name, zone) in offers for zone in zones)]
    # A type that one zone lacks is no mistake, but jobs wait longer for it.
    some = [name for name in wanted if name not in nowhere]
    some = [name for name in some if any((name, zone) not in offers for zone in zones)]
    where = ", ".join(zones)
    if nowhere:
        hint = "use subnets of other zones, or set instance_types to offered ones"
        yield Finding(f"not offered in {where}: {', '.join(nowhere)}", False, hint)
    if some:
        yield Finding(f"offered only in some of {where}: {', '.join(some)}", True)
    if not nowhere and not some:
        yield Finding(f"all {len(wanted)} instance types are offered in {where}", True)


def _gpus_offered(names: AbstractSet[str], zones: list[str]) -> Finding:
    """Return which GPUs the instance types *names* have, and which none of them has."""
    there = {machine.gpu for name in names if (machine := known(name)) and machine.gpu}
    lacking = [kind for kind in gpu_types() if kind not in there]
    with_gpus = ", ".join(sorted(there)) or "none"
    message = f"{len(names):,} instance types are offered in {', '.join(zones)}; GPUs: {with_gpus}"
    return Finding(f"{message}; not offered: {', '.join(lacking)}" if lacking else message, True)


def _file_systems(session: Session, options: AwsOptions, vpc: str | None) -> Iterator[Finding]:
    """Check the FSx file systems of the profile.

    https://docs.aws.amazon.com/fsx/latest/APIReference/API_DescribeFileSystems.html
    """
    for name, where in sorted(options.shared.items()):
        if not lustre.is_lustre(where):
            continue
        wanted = lustre.system(where)
        finding, answer = asked(
            partial(_systems, session, wanted.id),
            f"shared '{name}': FSx for Lustre {wanted.id}",
            "set an existing file system in the profile",
        )
        wrong = None if answer is None else _wrong(name, wanted, answer, vpc)
        # That the file system exists is worth no line of its own once something about it is wrong.
        yield wrong or finding


def _systems(session: Session, name: str) -> Any:
    return got(session.look("fsx").describe_file_systems(FileSystemIds=[name]), "FileSystems")


def _wrong(
    name: str, wanted: lustre.System, systems: Iterable[Mapping[str, Any]], vpc: str | None
) -> Finding | None:
    """Return a finding if the file system cannot be used as the profile asks, or None."""
    there = next(iter(systems), None)
    if there is None:
        return Finding(
            f"there is no file system {wanted.id}", False, "set an existing one in the profile"
        )
    mount = there.get("LustreConfiguration", {}).get("MountName")
    if there.get("FileSystemType") != "LUSTRE":
        message = f"{wanted.id} is of type {there.get('FileSystemType')} and not LUSTRE"
        return Finding(message, False, f"shared '{name}' must name a file system of type LUSTRE")
    if mount is not None and mount != wanted.mount:
        hint = f"write {name}: fsx:{wanted.id}:{mount}"
        return Finding(f"{wanted.id} has the mount name {mount}, not {wanted.mount}", False, hint)
    if vpc is not None and there.get("VpcId") not in (None, vpc):
        message = f"{wanted.id} is in {there['VpcId']}, and the machines are in {vpc}"
        return Finding(message, False, "use subnets of its VPC, unless the two VPCs are connected")
    return None
