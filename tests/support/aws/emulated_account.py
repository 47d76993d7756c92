"""An account of AWS that is nobody's, a spec for it, and what the rehearsed region knows of the jobs in it."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest

from runspec_agent.store.manifest import MANIFEST, parsed
from runspec_aws import errors, session, timing
from runspec_aws.emulator import ACCOUNT as ACCOUNT, SETTINGS
from runspec_emulators.aws.region import Objects, Region
from runspec_jobs.cli.app import run
from tests.drawn.aws_truths import TRUTHS
from tests.support.profiles import own_profile

REGION, BUCKET = "eu-central-1", "jobs"
SECRET = f"arn:aws:secretsmanager:{REGION}:{ACCOUNT}:secret:hf-a1b2c3"
PROFILE: dict[str, Any] = {
    **SETTINGS,
    "region": REGION,
    "bucket": BUCKET,
    "secrets": {"hf": f"aws-sm:{SECRET}"},
}
# A copy of boto3's own asks for these: nothing of ours reads their answers, but for whether they are refusals.
BY_BOTO3 = {
    "HeadObject",
    "CopyObject",
    "CreateMultipartUpload",
    "UploadPartCopy",
    "CompleteMultipartUpload",
}
Capture = pytest.CaptureFixture[str]


def prepared(objects: Objects, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Region]:
    """Give a region with an empty folder, a profile, and quick waits."""
    monkeypatch.setattr(timing, "DEFAULT", timing.Timing(settle_s=1.0, quiet_s=0.2))
    found = Region(
        tmp_path / "region", REGION, objects, terminate_grace_s=2.0, secrets={SECRET: "s3cret"}
    )
    for name, value in found.env.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(tmp_path)
    profile(tmp_path)
    called = recorded(monkeypatch)
    yield found
    found.close()
    assert called - BY_BOTO3 <= set(TRUTHS), "tests/drawn has no answers of these operations"


def recorded(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """Return the operations that our client calls from now on, as they are called."""
    called: set[str] = set()

    def checked(parsed: dict[str, Any], **event: Any) -> None:
        called.add(event["model"].name)
        errors.checked(parsed, **event)

    monkeypatch.setattr(session, "checked", checked)
    return called


def profile(folder: Path, **more: Any) -> None:
    settings = {**PROFILE, "prefix": folder.name, **more}
    own_profile().write_text(json.dumps({"providers": {"aws-batch": settings}}))


def write(text: str, **fields: Any) -> str:
    spec = {"apiVersion": "runspec/v1", "name": "job", "provider": "aws-batch", "run": text}
    Path("job.yaml").write_text(json.dumps({**spec, **fields}))
    return "job.yaml"


def ended(capsys: Capture, *words: str) -> dict[str, Any]:
    """Give how an apply ended, as it says itself."""
    capsys.readouterr()
    run(["apply", *words, "--json"])
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def calls(region: Region, operation: str | None = None) -> list[dict[str, Any]]:
    found = region.control("GET", "calls")
    return [call for call in found if operation in (None, call["operation"])]


def jobs(region: Region) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = region.control("GET", "jobs")
    return found


def await_job(region: Region, text: str = "RUNNING") -> str:
    """Wait until a job runs; give its id."""
    end = time.monotonic() + 90
    while time.monotonic() < end:
        if found := [job["id"] for job in jobs(region) if job["running"]]:
            return str(found[0])
        time.sleep(0.05)
    raise AssertionError(f"nothing is {text}: {jobs(region)}")


def left(region: Region, folder: Path) -> list[str]:
    return stored(boto3.client("batch", region_name=REGION), folder)


def stored(batch: Any, folder: Path | None = None) -> list[str]:
    """Give what there is at AWS Batch by name, and in the bucket below *folder*'s prefix."""
    names: list[str] = []
    if folder is not None:
        s3 = boto3.client("s3", region_name=REGION)
        found = s3.list_objects_v2(Bucket=BUCKET, Prefix=f"{folder.name}/").get("Contents", ())
        names += [o["Key"] for o in found]
    active = batch.describe_job_definitions(status="ACTIVE")["jobDefinitions"]
    names += [d["jobDefinitionArn"] for d in active]
    names += [q["jobQueueName"] for q in batch.describe_job_queues()["jobQueues"]]
    environments = batch.describe_compute_environments()["computeEnvironments"]
    return names + [e["computeEnvironmentName"] for e in environments]


def await_object(folder: Path, name: str) -> None:
    """Wait until a file of an output is saved."""
    s3 = boto3.client("s3", region_name=REGION)
    end = time.monotonic() + 90
    while time.monotonic() < end:
        found = s3.list_objects_v2(Bucket=BUCKET, Prefix=f"{folder.name}/runs/").get("Contents", ())
        for key in (o["Key"] for o in found if o["Key"].endswith(MANIFEST)):
            content = s3.get_object(Bucket=BUCKET, Key=key)["Body"].read()
            if name in parsed(content, key).files:
                return
        time.sleep(0.05)
    raise AssertionError(f"{name} is not saved")


def account() -> dict[str, Any]:
    """Make the roles and the network that moto's own Batch asks for; give their settings."""
    iam, ec2 = boto3.client("iam", region_name=REGION), boto3.client("ec2", region_name=REGION)
    for role in ("job", "execution", "machine", "service"):
        iam.create_role(RoleName=role, AssumeRolePolicyDocument="{}")
    iam.create_instance_profile(InstanceProfileName="machine")
    iam.add_role_to_instance_profile(InstanceProfileName="machine", RoleName="machine")
    vpc = ec2.create_vpc(CidrBlock="10.0.0.0/16")["Vpc"]["VpcId"]
    subnet = ec2.create_subnet(VpcId=vpc, CidrBlock="10.0.1.0/24")["Subnet"]["SubnetId"]
    group = ec2.create_security_group(GroupName="g", Description="g", VpcId=vpc)["GroupId"]
    role = f"arn:aws:iam::{ACCOUNT}:role/service"
    return {"subnets": [subnet], "security_groups": [group], "service_role": role}
