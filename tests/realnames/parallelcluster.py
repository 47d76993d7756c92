"""AWS as `pcluster` asks for it, behind its own names: moto, with what it lacks."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import boto3

from runspec_emulators.aws.region import KEYS, Objects
from runspec_emulators.slurm import Cluster, Partition
from tests.realnames.front import Backend, Route
from tests.realnames.metadata import Metadata

SERVICES = "tests.realnames.parallelcluster:ParallelCluster"
REGION, BUCKET = "us-east-1", "own-files"
SERVER = "tests.support.slurm.moto_parallelcluster"
SERVICE_NAMES = "cloudformation dynamodb ec2 fsx logs sts ssm s3".split()
NAMES = [
    "iam.amazonaws.com",
    "s3.amazonaws.com",
    *(f"{name}.{REGION}.amazonaws.com" for name in SERVICE_NAMES),
    *(f"{BUCKET}.{name}.amazonaws.com" for name in ("s3", f"s3.{REGION}")),
]


class _Objects(Objects):
    def _start(self, listener: int) -> subprocess.Popen[bytes]:
        line = [sys.executable, "-m", SERVER, str(listener)]
        with (self.folder / "moto.log").open("wb") as log:
            return subprocess.Popen(
                line,
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
                env=dict(os.environ),
                pass_fds=[listener],
            )


class ParallelCluster:
    """One region, and the Slurm of this machine as that of every cluster."""

    def __init__(self, folder: Path) -> None:
        self.slurm = Cluster(
            folder / "slurm",
            partitions=[Partition("ondemand")],
            prolog=True,
            address_in="RUNSPEC_HOST",
        )
        self.objects = _Objects(folder / "moto")
        self.metadata = Metadata(lambda: None, lambda path: (404, {}))

    def routes(self) -> Iterable[Route]:
        yield Route("169.254.1*", Backend(self.metadata.port))
        yield Route("*", Backend(self.objects.port))

    def account(self) -> dict[str, Any]:
        """Make what an account has before there is a cluster; return the settings that name it."""
        ec2, s3 = self._client("ec2"), self._client("s3")
        vpc = ec2.create_vpc(CidrBlock="10.0.0.0/16")["Vpc"]["VpcId"]
        for word in ("EnableDnsHostnames", "EnableDnsSupport"):
            ec2.modify_vpc_attribute(VpcId=vpc, **{word: {"Value": True}})
        where = {"CidrBlock": "10.0.1.0/24", "AvailabilityZone": f"{REGION}a"}
        subnet = ec2.create_subnet(VpcId=vpc, **where)["Subnet"]["SubnetId"]
        ec2.create_key_pair(KeyName="my-key", KeyType="ed25519")
        images = ec2.describe_images()["Images"]
        ami = next(i["ImageId"] for i in images if i.get("Architecture") == "x86_64")
        s3.create_bucket(Bucket=BUCKET)
        s3.put_bucket_versioning(Bucket=BUCKET, VersioningConfiguration={"Status": "Enabled"})
        return {"subnets": [subnet], "custom_ami": ami, "bucket": BUCKET}

    def head(self, cluster: str, given: Mapping[str, Any]) -> None:
        """Start what stands for the head node: a real stack does. Its address is moto's."""
        tags = {"parallelcluster:cluster-name": cluster, "parallelcluster:node-type": "HeadNode"}
        told = [{"Key": key, "Value": value} for key, value in tags.items()]
        self._client("ec2").run_instances(
            ImageId=given["custom_ami"],
            MinCount=1,
            MaxCount=1,
            InstanceType="m6i.xlarge",
            SubnetId=given["subnets"][0],
            TagSpecifications=[{"ResourceType": "instance", "Tags": told}],
        )

    def env(self) -> Mapping[str, str]:
        """Return the variables that lead Slurm's commands to the cluster."""
        return self.slurm.env

    def stacks(self) -> list[str]:
        found = self._client("cloudformation").list_stacks()["StackSummaries"]
        return [s["StackName"] for s in found if s["StackStatus"] != "DELETE_COMPLETE"]

    def _client(self, service: str) -> Any:
        keys = {"aws_access_key_id": KEYS["AWS_ACCESS_KEY_ID"]}
        keys |= {"aws_secret_access_key": KEYS["AWS_SECRET_ACCESS_KEY"]}
        return boto3.client(service, endpoint_url=self.objects.url, region_name=REGION, **keys)

    def close(self) -> None:
        self.slurm.close()
        self.metadata.close()
        self.objects.close()
