"""AWS behind its own names: moto for S3, EC2, IAM and STS, the stand-in for Batch and Logs, a machine's metadata."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import boto3

from runspec_aws.naming import partition
from runspec_emulators.aws import signature
from runspec_emulators.aws.batch import task_metadata
from runspec_emulators.aws.http import serve
from runspec_emulators.aws.region import KEYS, PAIR, Objects
from runspec_emulators.aws.settings import Settings
from runspec_emulators.frame import control
from runspec_emulators.frame.processes import inherited
from tests.realnames.front import Backend, Route
from tests.realnames.metadata import Metadata

SERVICES = "tests.realnames.aws:Aws"
REGIONAL = ("batch", "logs", "ec2", "sts", "s3", "api.ecr", "servicequotas", "secretsmanager")
CUSTOM = "s3.storage.example"  # an S3 that is not Amazon's, with a bucket in the path

# Where IAM is, for all regions of a partition. https://docs.aws.amazon.com/general/latest/gr/iam-service.html
IAM = {
    "aws": "iam.amazonaws.com",
    "aws-cn": "iam.cn-north-1.amazonaws.com.cn",
    "aws-us-gov": "iam.us-gov.amazonaws.com",
}


def names(regions: Mapping[str, Iterable[str]]) -> list[str]:
    """Return the hosts of *regions* and of the buckets in each; one with a dot has no host of its own.

    https://docs.aws.amazon.com/general/latest/gr/aws-service-information.html
    """
    found = [CUSTOM]
    for region, buckets in regions.items():
        own = partition(region)
        hosts = (*REGIONAL, *(f"{bucket}.s3" for bucket in buckets if "." not in bucket))
        found += [IAM[own.id], *(f"{host}.{region}.{own.domain}" for host in hosts)]
    return found


def _signed(method: str, target: str, headers: Mapping[str, str]) -> tuple[str, dict[str, str]]:
    """Return a request that has been verified with another host, signed anew for that."""
    path, _, query = target.partition("?")
    kept = [pair for pair in query.split("&") if not pair.startswith("X-Amz-")]
    target = f"{path}?{'&'.join(kept)}" if any(kept) else path
    own = {k: v for k, v in headers.items() if k in ("host", "x-amz-content-sha256")}
    own.setdefault("x-amz-content-sha256", signature.UNSIGNED)
    rest = {k: v for k, v in headers.items() if k not in own and k not in _REPLACED}
    more = {k: v for k, v in rest.items() if k.startswith("x-amz-")}
    made = signature.sign(method, target, {**own, **more}, b"", PAIR, REGION, "s3")
    return target, {**rest, **made}


REGION = "us-east-1"
_REPLACED = ("authorization", "x-amz-date")


class Aws:
    """Regions with their buckets: an S3 for all, and a stand-in for Batch and Logs in each."""

    def __init__(
        self,
        folder: Path,
        regions: dict[str, list[str]],
        machine_env: dict[str, str] | None = None,
    ) -> None:
        # moto finds the bucket in the host, where it is.
        more = {"S3_IGNORE_SUBDOMAIN_BUCKETNAME": "false"}
        self.objects = Objects(folder / "moto", more)
        self.metadata = Metadata(self._ends, self._task)
        task = {"AWS_CONTAINER_CREDENTIALS_RELATIVE_URI": self.metadata.task_uri}
        machine = {**inherited(), "RUNSPEC_BELOW": ".", **task, **(machine_env or {})}
        self.servers = {
            region: serve(
                Settings(
                    folder / "containers" / region,
                    region=region,
                    machine_env=machine,
                    link_local=True,
                    hosts=("*.amazonaws.com", "*.amazonaws.com.cn"),
                    terminate_grace_s=5.0,
                )
            )
            for region in regions
        }
        for region, buckets in regions.items():
            for bucket in buckets:
                self.objects.make_bucket(bucket, region)

    def _wrong(self, method: str, target: str, headers: Mapping[str, str]) -> str:
        return signature.problem(method, target, headers, self.metadata.secrets.get)

    def _ends(self) -> float | None:
        """Say when the machine goes: all jobs are on one, since there is one address."""
        found = [
            attempt.machine.ends
            for server in self.servers.values()
            for _, attempt in list(server.world.tasks.values())
            if attempt.running and attempt.machine.ends is not None
        ]
        return min(found, default=None)

    def _task(self, path: str) -> tuple[int, Any]:
        answers = [task_metadata.of_task(server.world, path) for server in self.servers.values()]
        return max(answers, key=lambda answer: answer[0] == 200)

    def routes(self) -> Iterable[Route]:
        for region, server in self.servers.items():
            backend = Backend(int(server.url.rpartition(":")[2]))
            for service in ("batch", "logs"):
                yield Route(f"{service}.{region}.*", backend)
        yield Route("169.254.1*", Backend(self.metadata.port))
        s3 = f"s3.{next(iter(self.servers))}.amazonaws.com"
        yield Route(
            f"{CUSTOM}/*", Backend(self.objects.port, named=s3, wrong=self._wrong, signed=_signed)
        )
        yield Route("*s3.*", Backend(self.objects.port, wrong=self._wrong))
        yield Route("*", Backend(self.objects.port))

    def control(self, region: str, method: str, path: str, value: Any = None) -> Any:
        """Tell the stand-in of a region something: see `runspec_emulators.aws.admin`."""
        return control.tell(self.servers[region].url, method, path, value)

    def keys(self, region: str, bucket: str, prefix: str) -> list[str]:
        """Return what lies in a bucket below *prefix*, and uploads that were begun."""
        s3 = self._client("s3", region)
        pages = s3.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix)
        found = [entry["Key"] for page in pages for entry in page.get("Contents", ())]
        uploads = s3.list_multipart_uploads(Bucket=bucket).get("Uploads", ())
        return found + [one["Key"] for one in uploads if one["Key"].startswith(prefix)]

    def left(self, region: str) -> list[str]:
        """Return the names of queues and environments at AWS Batch."""
        batch = self._client("batch", region)
        queues = batch.describe_job_queues()["jobQueues"]
        environments = batch.describe_compute_environments()["computeEnvironments"]
        return [q["jobQueueName"] for q in queues] + [
            e["computeEnvironmentName"] for e in environments
        ]

    def account(self, region: str) -> dict[str, Any]:
        """Make what `runspec doctor` looks for; return the settings of a profile."""
        iam, ec2 = self._client("iam", region), self._client("ec2", region)
        for role in ("job", "execution", "machine"):
            iam.create_role(RoleName=role, AssumeRolePolicyDocument="{}")
        iam.create_instance_profile(InstanceProfileName="machine")
        vpc = ec2.create_vpc(CidrBlock="10.0.0.0/16")["Vpc"]["VpcId"]
        subnet = ec2.create_subnet(VpcId=vpc, CidrBlock="10.0.1.0/24")["Subnet"]["SubnetId"]
        group = ec2.create_security_group(GroupName="g", Description="g", VpcId=vpc)["GroupId"]
        return {"subnets": [subnet], "security_groups": [group]}

    def _client(self, service: str, region: str) -> Any:
        """Return a client that goes to the stand-in itself, for what a test looks at."""
        near = self.servers[region].url if service == "batch" else self.objects.url
        return boto3.client(
            service,
            region_name=region,
            endpoint_url=near,
            **{name.lower(): value for name, value in KEYS.items()},
        )

    def close(self) -> None:
        for server in self.servers.values():
            server.close()
        self.metadata.close()
        self.objects.close()
