"""Machines that are more than their type: what EC2 and AWS Batch are told of them, rehearsed."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError

from runspec_emulators.aws.region import Region
from runspec_jobs.cli.app import run
from tests.support.aws.emulated_account import REGION, Capture, calls, profile, write

pytestmark = pytest.mark.slow


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
    assert environment["instanceTypes"] == [container["instanceType"]] == ["c5n.9xlarge"]
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


def test_gc_finds_launch_templates_and_placement_groups(
    region: Region, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    run(["apply", write("echo close", cluster={"placement": "close", "disk": "40GiB"})])
    mine = [name for name in ours() if "machine" in name or "close" in name]
    capsys.readouterr()
    run(["gc", "aws-batch"])
    assert not any(name in capsys.readouterr().out for name in mine)
    monkeypatch.setenv("RUNSPEC_HOME", str(tmp_path / "another"))

    assert run(["gc", "aws-batch", "--yes"]) == 0

    assert len(mine) >= 2
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
