"""What AWS Batch is given of an account, and what doctor says of it beforehand; against the stand-ins."""

from __future__ import annotations

import base64
import re
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError

from runspec.cli.main import run
from runspec_rehearsal.aws.region import Region
from tests.e2e.test_aws import (
    ACCOUNT,
    REGION,
    Capture,
    calls,
    objects as objects,
    profile,
    region as region,
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


# What is made


def test_close_nodes_with_adapters_are_what_the_documentation_asks_for(region: Region) -> None:
    """https://docs.aws.amazon.com/batch/latest/userguide/efa.html"""
    profile(Path.cwd(), efa=True)
    cluster = {"nodes": 2, "placement": "close"}

    assert run(["apply", write("echo $RUNSPEC_RANK", cluster=cluster)]) == 0

    (made,) = calls(region, "CreateComputeEnvironment")
    environment = made["params"]["computeResources"]
    (registered,) = calls(region, "RegisterJobDefinition")
    (group,) = registered["params"]["nodeProperties"]["nodeRangeProperties"]
    container = group["container"]
    assert environment["instanceTypes"] == [container["instanceType"]] == ["c6i.32xlarge"]
    assert container["linuxParameters"]["devices"] == [
        {
            "hostPath": "/dev/infiniband/uverbs0",
            "containerPath": "/dev/infiniband/uverbs0",
            "permissions": ["READ", "WRITE", "MKNOD"],
        }
    ]
    assert container["ulimits"] == [{"name": "memlock", "softLimit": -1, "hardLimit": -1}]
    ec2 = boto3.client("ec2", region_name=REGION)
    names = [environment["placementGroup"]]
    (placement,) = ec2.describe_placement_groups(GroupNames=names)["PlacementGroups"]
    assert placement["Strategy"] == "cluster"
    (interface,) = template(environment)["NetworkInterfaces"]
    assert (interface["InterfaceType"], interface["Groups"]) == ("efa", ["sg-1"])
    assert "securityGroupIds" not in environment
    assert run(["destroy", "job"]) == 0
    assert run(["destroy", "--site"]) == 0
    assert ours() == []


def template(environment: dict[str, Any]) -> dict[str, Any]:
    """Give what EC2 knows of the launch template of *environment*."""
    ec2 = boto3.client("ec2", region_name=REGION)
    found = ec2.describe_launch_template_versions(
        LaunchTemplateName=environment["launchTemplate"]["launchTemplateName"], Versions=["$Latest"]
    )
    data: dict[str, Any] = found["LaunchTemplateVersions"][0]["LaunchTemplateData"]
    return data


def ours() -> list[str]:
    """Give what is left of ours at EC2."""
    ec2 = boto3.client("ec2", region_name=REGION)
    names = [t["LaunchTemplateName"] for t in ec2.describe_launch_templates()["LaunchTemplates"]]
    names += [g["GroupName"] for g in ec2.describe_placement_groups()["PlacementGroups"]]
    return [name for name in names if name.startswith("runspec-")]


def test_a_disk_and_fsx_for_lustre_are_one_template_of_the_environment(region: Region) -> None:
    profile(Path.cwd(), shared={"work": "fsx:fs-0123456789abcdef0:abcdwxyz"})
    mount = {"name": "work", "source": "shared://work", "target": "/job/work"}
    job = write("echo mounted", cluster={"disk": "40GiB"}, mounts=[mount])

    run(["apply", job, "--detach"])

    (made,) = calls(region, "CreateComputeEnvironment")
    found = template(made["params"]["computeResources"])
    assert found["BlockDeviceMappings"][0]["Ebs"]["VolumeSize"] == 40
    told = base64.b64decode(found["UserData"]).decode()
    assert f"fs-0123456789abcdef0.fsx.{REGION}.amazonaws.com@tcp:/abcdwxyz" in told
    (registered,) = calls(region, "RegisterJobDefinition")
    container = registered["params"]["containerProperties"]
    assert container["volumes"] == [
        {"name": "work", "host": {"sourcePath": "/mnt/runspec/fs-0123456789abcdef0"}}
    ]
    run(["destroy", "job"])
    run(["destroy", "--site"])
    assert ours() == []


def test_a_placement_group_is_made_once_and_gone_when_it_is_deleted(region: Region) -> None:
    """https://docs.aws.amazon.com/AWSEC2/latest/APIReference/errors-overview.html"""
    ec2 = boto3.client("ec2", region_name=REGION)
    ec2.create_placement_group(GroupName="close", Strategy="cluster")

    with pytest.raises(ClientError, match=r"InvalidPlacementGroup\.Duplicate"):
        ec2.create_placement_group(GroupName="close", Strategy="cluster")
    ec2.delete_placement_group(GroupName="close")
    with pytest.raises(ClientError, match=r"InvalidPlacementGroup\.Unknown"):
        ec2.describe_placement_groups(GroupNames=["close"])
    with pytest.raises(ClientError, match=r"InvalidPlacementGroup\.Unknown"):
        ec2.delete_placement_group(GroupName="close")


# What doctor says


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

    assert any(line.startswith("BAD aws-batch: no security group lets its") for line in closed)
    good = f"ok  aws-batch: {group} lets nodes of one job reach each other"
    assert good in inward
    assert any("adapters (efa) cannot talk" in line for line in adapters)
    assert good in both


def test_doctor_says_which_machines_are_not_offered_where_the_subnets_are(
    tmp_path: Path, network: dict[str, str], capsys: Capture
) -> None:
    there = doctor(tmp_path, network, capsys, instance_types=["m6i.large", "c6i.large"])
    missing = doctor(tmp_path, network, capsys, instance_types=["m6i.large", "p99.large"])
    table = doctor(tmp_path, network, capsys)

    assert f"ok  aws-batch: all 2 types of machines are offered in {REGION}a" in there
    assert f"BAD aws-batch: not offered in {REGION}a: p99.large" in missing
    (told,) = [line for line in table if f"not offered in {REGION}a: " in line]
    assert told.startswith("ok ")
    assert "p5.48xlarge" in told
    assert "m6i.large" not in told


def test_doctor_says_which_machines_only_some_zones_have(
    tmp_path: Path, network: dict[str, str], capsys: Capture
) -> None:
    ec2 = boto3.client("ec2", region_name=REGION)
    where = {"VpcId": network["vpc"], "CidrBlock": "10.0.2.0/24"}
    other = ec2.create_subnet(**where, AvailabilityZone=f"{REGION}b")["Subnet"]["SubnetId"]
    subnets = [network["subnet"], other]

    told = doctor(tmp_path, network, capsys, subnets=subnets, instance_types=["p4de.24xlarge"])

    zones = f"{REGION}a, {REGION}b"
    assert f"ok  aws-batch: offered in some of {zones} only: p4de.24xlarge" in told


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


def test_no_credentials_are_said_in_one_line(
    region: Region, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    job = write("echo a")
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")

    assert run(["plan", job]) == 0
    assert run(["apply", job]) == 5

    assert "there are no AWS credentials here" in capsys.readouterr().err


# A region on this machine


def test_a_rehearsal_is_one_command_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("AWS_ENDPOINT_URL", "RUNSPEC_PROFILE"):
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
    job = write("echo rehearsed > ${outputs.o}/a", outputs=[{"name": "o", "path": "/job/o"}])

    assert run(["rehearse", job, "--folder", "kept"]) == 0

    assert (tmp_path / "kept" / "outputs" / "o" / "a").read_text() == "rehearsed\n"
    assert "shared things destroyed" in capsys.readouterr().err
