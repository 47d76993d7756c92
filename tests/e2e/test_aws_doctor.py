"""What the doctor says of an account of AWS, rehearsed."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest

from runspec_aws.doctor.network import ENDPOINTS
from runspec_emulators.aws.region import Region
from runspec_jobs.cli.app import run
from tests.support.aws.emulated_account import (
    ACCOUNT,
    REGION,
    Capture,
    profile,
    write,
)

pytestmark = pytest.mark.slow


@pytest.fixture
def network(region: Region) -> dict[str, str]:
    """Give a VPC with a subnet and a group that lets nobody in."""
    ec2 = boto3.client("ec2", region_name=REGION)
    vpc = ec2.create_vpc(CidrBlock="10.0.0.0/16")["Vpc"]["VpcId"]
    made = ec2.create_subnet(VpcId=vpc, CidrBlock="10.0.1.0/24", AvailabilityZone=f"{REGION}a")
    group = ec2.create_security_group(GroupName=f"g-{vpc}", Description="g", VpcId=vpc)["GroupId"]
    return {"vpc": vpc, "subnet": made["Subnet"]["SubnetId"], "group": group}


def doctor(folder: Path, network: dict[str, str], capsys: Capture, **more: Any) -> list[str]:
    """Give what doctor says of the network, a line each."""
    subnets, groups = [network["subnet"]], [network["group"]]
    profile(folder, **{"subnets": subnets, "security_groups": groups, **more})
    capsys.readouterr()
    run(["doctor", "aws-batch"])
    return capsys.readouterr().out.splitlines()


def test_doctor_says_what_is_there_and_what_is_missing(
    region: Region, tmp_path: Path, capsys: Capture
) -> None:
    image = f"{ACCOUNT}.dkr.ecr.{REGION}.amazonaws.com/train:1"
    profile(tmp_path, bucket="no-such-bucket", queue="no-such-queue", image=image)

    assert run(["doctor", "aws-batch"]) == 69

    told = capsys.readouterr().out
    assert "BAD aws-batch: there is no queue no-such-queue" in told
    assert re.search(r"BAD aws-batch: .*bucket no-such-bucket", told)
    assert re.search(r"BAD aws-batch: .*repository", told)
    assert re.search(r"BAD aws-batch: .*role", told, re.IGNORECASE)


def test_doctor_says_what_is_behind_a_queue(
    region: Region, tmp_path: Path, capsys: Capture
) -> None:
    run(["apply", write("echo", cluster={"capacity": "spot-then-on-demand"})])
    queue = boto3.client("batch", region_name=REGION).describe_job_queues()["jobQueues"][0]
    profile(tmp_path, queue=queue["jobQueueName"])
    capsys.readouterr()

    run(["doctor", "aws-batch"])

    told = capsys.readouterr().out
    assert f"ok  aws-batch: queue {queue['jobQueueName']}: SPOT, then EC2" in told


def test_doctor_looks_at_the_network_that_nodes_need(
    region: Region, tmp_path: Path, capsys: Capture
) -> None:
    ec2 = boto3.client("ec2", region_name=REGION)
    vpc = ec2.create_vpc(CidrBlock="10.0.0.0/16")["Vpc"]["VpcId"]
    subnet = ec2.create_subnet(VpcId=vpc, CidrBlock="10.0.1.0/24")["Subnet"]["SubnetId"]
    profile(tmp_path, subnets=[subnet])

    run(["doctor", "aws-batch"])
    without = capsys.readouterr().out
    address = ec2.allocate_address(Domain="vpc")["AllocationId"]
    gateway = ec2.create_nat_gateway(SubnetId=subnet, AllocationId=address)["NatGateway"]
    table = ec2.create_route_table(VpcId=vpc)["RouteTable"]["RouteTableId"]
    ec2.create_route(
        RouteTableId=table,
        DestinationCidrBlock="0.0.0.0/0",
        NatGatewayId=gateway["NatGatewayId"],
    )
    ec2.associate_route_table(RouteTableId=table, SubnetId=subnet)
    run(["doctor", "aws-batch"])

    assert f"BAD aws-batch: {subnet} has no NAT gateway" in without
    assert f"ok  aws-batch: {subnet} has a NAT gateway" in capsys.readouterr().out


@pytest.mark.parametrize("missing", [None, "s3"])
def test_endpoints_are_a_way_out_where_none_is_missing(
    region: Region, tmp_path: Path, capsys: Capture, missing: str | None
) -> None:
    ec2 = boto3.client("ec2", region_name=REGION)
    vpc = ec2.create_vpc(CidrBlock="10.0.0.0/16")["Vpc"]["VpcId"]
    subnet = ec2.create_subnet(VpcId=vpc, CidrBlock="10.0.1.0/24")["Subnet"]["SubnetId"]
    profile(tmp_path, subnets=[subnet])
    for service in ENDPOINTS - {missing}:
        name = f"com.amazonaws.{REGION}.{service}"
        ec2.create_vpc_endpoint(VpcId=vpc, ServiceName=name, VpcEndpointType="Interface")

    run(["doctor", "aws-batch"])

    told = capsys.readouterr().out
    ok = f"ok  aws-batch: {subnet} is in a network with VPC endpoints for all services that machines need"
    assert (ok in told) is (missing is None)
    assert (f"BAD aws-batch: {subnet} has no NAT gateway" in told) is (missing is not None)


ALL = {"IpProtocol": "-1"}


def test_doctor_says_whether_nodes_reach_each_other(
    tmp_path: Path, network: dict[str, str], capsys: Capture
) -> None:
    ec2, group = boto3.client("ec2", region_name=REGION), network["group"]
    itself = [{**ALL, "UserIdGroupPairs": [{"GroupId": group}]}]

    closed = doctor(tmp_path, network, capsys)
    ec2.authorize_security_group_ingress(GroupId=group, IpPermissions=itself)
    inward = doctor(tmp_path, network, capsys)
    adapters = doctor(tmp_path, network, capsys, efa=True)
    ec2.authorize_security_group_egress(GroupId=group, IpPermissions=itself)
    both = doctor(tmp_path, network, capsys, efa=True)

    assert any(
        line.startswith("ok  aws-batch: no security group allows inbound traffic")
        for line in closed
    )
    good = f"ok  aws-batch: {group} allows traffic between nodes of one job"
    assert good in inward
    assert any("which EFA needs" in line for line in adapters)
    assert good in both


def test_doctor_says_which_machines_are_not_offered_where_the_subnets_are(
    tmp_path: Path, network: dict[str, str], capsys: Capture
) -> None:
    there = doctor(tmp_path, network, capsys, instance_types=["m6i.large", "c6i.large"])
    missing = doctor(tmp_path, network, capsys, instance_types=["m6i.large", "p99.large"])
    table = doctor(tmp_path, network, capsys)

    assert f"ok  aws-batch: all 2 instance types are offered in {REGION}a" in there
    assert f"BAD aws-batch: not offered in {REGION}a: p99.large" in missing
    (told,) = [line for line in table if f"instance types are offered in {REGION}a; GPUs: " in line]
    assert told.startswith("ok ")
    with_gpus, _, without = told.partition("; not offered: ")
    assert "T4" in with_gpus
    assert "H100" in without


def test_doctor_says_which_machines_only_some_zones_have(
    tmp_path: Path, network: dict[str, str], capsys: Capture
) -> None:
    ec2 = boto3.client("ec2", region_name=REGION)
    where = {"VpcId": network["vpc"], "CidrBlock": "10.0.2.0/24"}
    other = ec2.create_subnet(**where, AvailabilityZone=f"{REGION}b")["Subnet"]["SubnetId"]
    subnets = [network["subnet"], other]

    told = doctor(tmp_path, network, capsys, subnets=subnets, instance_types=["p4de.24xlarge"])

    zones = f"{REGION}a, {REGION}b"
    assert f"ok  aws-batch: offered only in some of {zones}: p4de.24xlarge" in told


def test_doctor_looks_for_fsx_for_lustre(
    tmp_path: Path, network: dict[str, str], capsys: Capture
) -> None:
    fsx = boto3.client("fsx", region_name=REGION)
    wanted = {"StorageCapacity": 1200, "SubnetIds": [network["subnet"]]}
    lustre = fsx.create_file_system(FileSystemType="LUSTRE", **wanted)["FileSystem"]
    windows = fsx.create_file_system(FileSystemType="WINDOWS", **wanted)["FileSystem"]
    shared = {
        "good": f"fsx:{lustre['FileSystemId']}:abcdwxyz",
        "other": f"fsx:{windows['FileSystemId']}:abcdwxyz",
        "gone": "fsx:fs-0123456789abcdef0:abcdwxyz",
    }

    told = doctor(tmp_path, network, capsys, shared=shared)

    assert f"ok  aws-batch: shared 'good': FSx for Lustre {lustre['FileSystemId']}" in told
    kind = f"BAD aws-batch: {windows['FileSystemId']} is of type WINDOWS and not LUSTRE"
    assert kind in told
    assert any(line.startswith("BAD") and "fs-0123456789abcdef0" in line for line in told)


@pytest.fixture
def account(region: Region, network: dict[str, str], tmp_path: Path) -> Iterator[dict[str, str]]:
    """Give an account with the roles of a job, and a subnet that gives machines public addresses, as a default VPC."""
    iam, ec2 = boto3.client("iam", region_name=REGION), boto3.client("ec2", region_name=REGION)
    for role in ("job", "execution", "machine"):
        iam.create_role(RoleName=role, AssumeRolePolicyDocument="{}")
    iam.create_instance_profile(InstanceProfileName="machine")
    iam.add_role_to_instance_profile(InstanceProfileName="machine", RoleName="machine")
    gateway = ec2.create_internet_gateway()["InternetGateway"]["InternetGatewayId"]
    ec2.attach_internet_gateway(InternetGatewayId=gateway, VpcId=network["vpc"])
    table = ec2.create_route_table(VpcId=network["vpc"])["RouteTable"]["RouteTableId"]
    ec2.create_route(RouteTableId=table, DestinationCidrBlock="0.0.0.0/0", GatewayId=gateway)
    ec2.associate_route_table(RouteTableId=table, SubnetId=network["subnet"])
    ec2.modify_subnet_attribute(SubnetId=network["subnet"], MapPublicIpOnLaunch={"Value": True})
    profile(tmp_path, subnets=[network["subnet"]], security_groups=[network["group"]])
    yield network
    iam.remove_role_from_instance_profile(InstanceProfileName="machine", RoleName="machine")
    iam.delete_instance_profile(InstanceProfileName="machine")
    for role in ("job", "execution", "machine"):
        iam.delete_role(RoleName=role)


def test_doctor_finds_nothing_that_stops_a_job_of_one_node_in_a_default_vpc(
    account: dict[str, str], capsys: Capture
) -> None:
    capsys.readouterr()

    code = run(["doctor", "aws-batch", write("echo")])

    told = capsys.readouterr().out
    assert code == 0, told
    assert "job on aws-batch: no check of " in told and "could not be checked" in told
    # moto simulates no policies, and has no quotas in this region.
    assert "?   aws-batch: doctor cannot check the rights of the login" in told
    assert "BAD" not in told


def test_doctor_says_why_a_job_of_several_nodes_will_not_run_in_a_default_vpc(
    account: dict[str, str], capsys: Capture
) -> None:
    capsys.readouterr()

    code = run(["doctor", "aws-batch", write("echo", cluster={"nodes": 2}), "--json"])

    told = json.loads(capsys.readouterr().out)
    bad = [finding["what"] for finding in told["findings"] if not finding["ok"]]
    assert (code, told["will_run"], told["job"]) == (69, False, "job")
    assert len(bad) == 2, bad
    assert "has no NAT gateway" in bad[0]
    assert "no security group allows inbound traffic from itself" in bad[1]
