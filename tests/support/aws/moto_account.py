"""An AWS account inside this process: moto's Batch, S3 and CloudWatch Logs, which know nothing of our client.

moto starts no container. A job of it has the status that the test gives it.
https://docs.getmoto.org/en/latest/docs/services/batch.html
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import boto3
import pytest
from moto import mock_aws
from moto.batch.models import Job, batch_backends

from runspec_aws import plan
from runspec_aws.client import AwsClient
from runspec_aws.options import AwsOptions
from runspec_jobs.engine.apply import fill_request
from runspec_jobs.provider import Facts, Response, Spec, Step
from tests.support.aws.specs import PROFILE

REGION, ACCOUNT, QUEUE = PROFILE["region"], "123456789012", "queue"


class MotoAccount:
    """The resources of the account, and a client of it."""

    def __init__(self, **profile: Any) -> None:
        self.options = AwsOptions.model_validate({**PROFILE, "queue": QUEUE, **profile})
        boto3.client("s3", REGION).create_bucket(
            Bucket=PROFILE["bucket"], CreateBucketConfiguration={"LocationConstraint": REGION}
        )
        role = boto3.client("iam").create_role(RoleName="r", AssumeRolePolicyDocument="{}")
        self.batch = boto3.client("batch", REGION)
        environment = self.batch.create_compute_environment(
            computeEnvironmentName="environment",
            type="UNMANAGED",
            state="ENABLED",
            serviceRole=role["Role"]["Arn"],
        )
        order = [{"order": 1, "computeEnvironment": environment["computeEnvironmentArn"]}]
        self.batch.create_job_queue(
            jobQueueName=QUEUE, state="ENABLED", priority=1, computeEnvironmentOrder=order
        )
        self.client = AwsClient(self.options)

    def other_client(self) -> AwsClient:
        """Return a client that remembers nothing of what this one has seen."""
        return AwsClient(self.options)

    def plan(self, spec: Spec, run: str) -> dict[str, Step]:
        return {step.id: step for step in plan.steps(spec, run, Facts(self.options))}

    def submit(self, spec: Spec, run: str, status: str = "RUNNING") -> Mapping[str, Response]:
        """Carry out the plan of *spec*, and give its jobs a *status*; return the answers by step."""
        answers: dict[str, Response] = {}
        for name, step in self.plan(spec, run).items():
            answers[name] = self.client.call(fill_request(step.do, answers))
        self.set_status(answers["job"]["jobId"], status)
        return answers

    def set_status(self, job: str, status: str) -> None:
        """Give the job and its children a *status*."""
        for name, one in self.jobs.items():
            if name.split(":")[0] == job:
                one.status = status
                if status == "RUNNING":
                    one.job_stopped = False

    @property
    def jobs(self) -> Mapping[str, Job]:
        jobs: Mapping[str, Job] = batch_backends[ACCOUNT][REGION]._jobs
        return jobs

    def ended(self) -> list[str]:
        """Return the ids of the jobs that were terminated, in order."""
        return sorted(name for name, job in self.jobs.items() if job.stop)

    def objects(self) -> list[str]:
        """Return the keys in the bucket."""
        listed = boto3.client("s3", REGION).list_objects_v2(Bucket=PROFILE["bucket"])
        return [found["Key"] for found in listed.get("Contents", ())]

    def put_object(self, key: str, content: bytes) -> None:
        boto3.client("s3", REGION).put_object(Bucket=PROFILE["bucket"], Key=key, Body=content)

    def save_output(self, run: str, output: str, path: str, content: bytes) -> None:
        """Save one file of the first node as an agent does."""
        base = f"runspec/runs/{run}/outputs/{output}/0/0/.runspec"
        file = {"path": path, "size": len(content), "mtime_ns": 5, "sha256": "", "object": "x-1"}
        save = {"number": 1, "at": 5, "files": [file]}
        manifest = {"format": "runspec.outputs/v2", "holder": "x", "saves": [save]}
        self.put_object(f"{base}/objects/x-1", content)
        self.put_object(f"{base}/manifest.json", json.dumps(manifest).encode())

    def print_line(self, group: str, stream: str, line: str) -> None:
        """Put a line into a log stream, which is made."""
        logs = boto3.client("logs", REGION)
        if not logs.describe_log_groups(logGroupNamePrefix=group)["logGroups"]:
            logs.create_log_group(logGroupName=group)
        logs.create_log_stream(logGroupName=group, logStreamName=stream)
        event = {"timestamp": int(time.time() * 1000), "message": line}
        logs.put_log_events(logGroupName=group, logStreamName=stream, logEvents=[event])


@contextmanager
def moto_account(monkeypatch: pytest.MonkeyPatch, **profile: Any) -> Iterator[MotoAccount]:
    """Yield an account that is empty but for a bucket, a role and a queue."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "id")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "key")
    with mock_aws(config={"batch": {"use_docker": False}}):
        yield MotoAccount(**profile)
