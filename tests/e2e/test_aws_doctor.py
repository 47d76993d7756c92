"""What the doctor says of an account of AWS, rehearsed."""

from __future__ import annotations

import re
from pathlib import Path

import boto3
import pytest

from runspec.cli.main import run
from runspec_rehearsal.aws.region import Region
from tests.e2e.aws import (
    ACCOUNT,
    REGION,
    Capture,
    profile,
    write,
)

pytestmark = pytest.mark.slow


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
