"""A rehearsed region of AWS for each case, and what the service itself knows of the jobs in it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import boto3

from runspec_aws.emulator import SETTINGS
from runspec_emulators.aws.region import KEYS, Objects, Region
from tests.faults.cloud import Cloud, New, new_cloud

REGION, BUCKET = "eu-central-1", "faults"
SPEC = """\
apiVersion: runspec/v1
name: {name}
provider: aws-batch
mounts: [{{name: src, source: ./src, target: /job/src}}]
outputs: [{{name: out, path: /job/out}}]
env: {{TRUTH: {truth}}}
{more}
run: |
  words=$(cat "${{mounts.src}}/one" "${{mounts.src}}/two")
  echo "$RUNSPEC_RUN $RUNSPEC_TASK.$RUNSPEC_RANK $RUNSPEC_ATTEMPT $words" >> "$TRUTH"
  echo done > "${{outputs.out}}/done"
  {last}
"""


@dataclass
class AwsCloud(Cloud):
    """A world whose job runs in a rehearsed region."""

    objects: Objects | None = None

    provider: ClassVar[str] = "aws-batch"
    sdk: ClassVar[str] = "aws"
    text: ClassVar[str] = SPEC
    sent_once: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "POST /v1/submitjob": ("call submit_job",)
    }

    def open(self) -> None:
        assert self.objects is not None
        self.region = Region(
            self.folder / "region",
            REGION,
            self.objects,
            terminate_grace_s=1.0,
            list_lag_s=self.lag_s,
        )

    def settings(self) -> Mapping[str, Any]:
        return {**SETTINGS, "region": REGION, "bucket": BUCKET, "prefix": self.folder.name}

    def environment(self) -> dict[str, str]:
        return {**super().environment(), **self.region.env}

    def jobs(self) -> list[dict[str, Any]]:
        """Give every job there ever was, as the service itself knows it."""
        found: list[dict[str, Any]] = self.region.control("GET", "jobs")
        return found

    def submitted(self) -> list[str]:
        return [job["id"] for job in self.jobs() if not set(job["id"]) & {":", "#"}]

    def begun(self) -> set[str]:
        return {re.split("[:#]", job["id"])[0] for job in self.jobs() if job["starts"]}

    def submits(self) -> int:
        return sum(c["operation"] == "SubmitJob" for c in self.region.control("GET", "calls"))

    def alive(self) -> list[dict[str, Any]]:
        return [j for j in self.jobs() if j["status"] not in ("SUCCEEDED", "FAILED")]

    def client(self, service: str) -> Any:
        env = self.region.env
        url = env["AWS_ENDPOINT_URL_BATCH" if service == "batch" else "AWS_ENDPOINT_URL"]
        keys = {name.lower(): value for name, value in KEYS.items()}
        return boto3.client(service, region_name=REGION, endpoint_url=url, **keys)

    def left(self) -> Iterator[str]:
        found = self.client("s3").list_objects_v2(Bucket=BUCKET, Prefix=f"{self.folder.name}/")
        yield from (f"object {o['Key']}" for o in found.get("Contents", ()))
        uploads = self.client("s3").list_multipart_uploads(Bucket=BUCKET).get("Uploads", ())
        yield from (f"upload {u['Key']}" for u in uploads if u["Key"].startswith(self.folder.name))
        secrets = self.client("secretsmanager").list_secrets()["SecretList"]
        own = {"Key": "runspec:store", "Value": f"s3://{BUCKET}/{self.folder.name}"}
        yield from (f"secret {s['Name']}" for s in secrets if own in s["Tags"])
        batch = self.client("batch")
        for d in batch.describe_job_definitions(status="ACTIVE")["jobDefinitions"]:
            yield f"definition {d['jobDefinitionArn']}"
        for q in batch.describe_job_queues()["jobQueues"]:
            yield f"queue {q['jobQueueName']} {q['status']}"
        for e in batch.describe_compute_environments()["computeEnvironments"]:
            yield f"environment {e['computeEnvironmentName']} {e['status']}"

    def close(self) -> None:
        self.region.close()
        super().close()


def aws(objects: Objects) -> New:
    """Give what makes a world of its own over one S3 for all."""
    return partial(new_cloud, AwsCloud, objects=objects)
