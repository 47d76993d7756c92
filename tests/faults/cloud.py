"""A world of its own for each case on AWS Batch: a rehearsed region, and what must hold in it."""

from __future__ import annotations

import json
import re
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import boto3

from runspec_aws.rehearsal import SETTINGS
from runspec_rehearsal.aws.region import Objects, Region
from tests.faults.shapes import SINGLE, Shape
from tests.faults.world import (
    KILLED,
    LONG,
    MEMORY,
    QUICK,
    UNKNOWN,
    Driver,
    Ended,
    World,
)

REGION, BUCKET = "eu-central-1", "faults"
SUBMIT, SUBMIT_SENT = "call call submit_job", "send POST /v1/submitjob"
AT_ONCE = 8  # worlds that wait for the service most of the time
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
class Cloud(World):
    """A world whose job runs in a rehearsed region; its lists lag by *lag_s*."""

    objects: Objects | None = None
    lag_s: float = 0.0
    shape: Shape = SINGLE
    wire: dict[str, Any] = field(default_factory=lambda: {"at": None, "fault": None})

    def __post_init__(self) -> None:
        assert self.objects is not None
        self.region = Region(
            self.folder / "region",
            REGION,
            self.objects,
            terminate_grace_s=1.0,
            list_lag_s=self.lag_s,
        )
        super().__post_init__()
        own = {"region": REGION, "bucket": BUCKET, "prefix": self.folder.name}
        found = {**SETTINGS, **own, **self.shape.settings}
        settings = {name: value for name, value in found.items() if value is not None}
        text = json.dumps({"providers": {"aws-batch": settings}})
        (self.folder / "runspec-profile.yaml").write_text(text)

    def spec(self, name: str = "faults", last: str | None = None) -> str:
        path = self.folder / f"{name}.yaml"
        found = {"name": name, "truth": self.folder / "truth", "last": last or self.last}
        path.write_text(SPEC.format(**found, more=self.shape.spec))
        return path.name

    def start(self, *words: str, **how: Any) -> tuple[int, int]:
        how.setdefault("wire", self.wire)
        return super().start(*words, **how)

    def environment(self) -> dict[str, str]:
        return {**super().environment(), **self.region.env}

    def jobs(self) -> list[dict[str, Any]]:
        """Give every job there ever was, as the service itself knows it."""
        found: list[dict[str, Any]] = self.region.control("GET", "jobs")
        return found

    def submitted(self) -> list[str]:
        """Give the ids of the jobs there are, but for children of arrays and nodes."""
        return [job["id"] for job in self.jobs() if not set(job["id"]) & {":", "#"}]

    def begun(self) -> set[str]:
        """Give the jobs of which a container was started, theirs or a child's or a node's."""
        return {re.split("[:#]", job["id"])[0] for job in self.jobs() if job["starts"]}

    def submits(self) -> int:
        """Give how many requests to submit a job the service has got."""
        return sum(c["operation"] == "SubmitJob" for c in self.region.control("GET", "calls"))

    def client(self, service: str) -> Any:
        env = self.region.env
        url = env["AWS_ENDPOINT_URL" if service == "s3" else "AWS_ENDPOINT_URL_BATCH"]
        keys = {"aws_access_key_id": "x", "aws_secret_access_key": "x"}
        return boto3.client(service, region_name=REGION, endpoint_url=url, **keys)

    def left(self) -> Iterator[str]:
        """Give all that is at the service for this world, but for jobs that have ended."""
        found = self.client("s3").list_objects_v2(Bucket=BUCKET, Prefix=f"{self.folder.name}/")
        yield from (f"object {o['Key']}" for o in found.get("Contents", ()))
        uploads = self.client("s3").list_multipart_uploads(Bucket=BUCKET).get("Uploads", ())
        yield from (f"upload {u['Key']}" for u in uploads if u["Key"].startswith(self.folder.name))
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


@contextmanager
def new_cloud(
    driver: Driver,
    objects: Objects,
    last: str = QUICK,
    lag_s: float = 0.0,
    shape: Shape = SINGLE,
) -> Iterator[Cloud]:
    folder = Path(tempfile.mkdtemp(prefix="runspec-faults-", dir=MEMORY))
    cloud = Cloud(driver, folder, last, objects=objects, lag_s=lag_s, shape=shape)
    try:
        yield cloud
    finally:
        cloud.close()


def started(cloud: Cloud) -> str:
    """Start a job that goes on until it is ended, and give its run."""
    done = cloud.run("apply", "faults.yaml", "--detach")
    assert done.code == 0, done.err
    cloud.await_truth(cloud.shape.containers)
    return done.out.strip()


# What must hold


def always(cloud: Cloud, codes: Sequence[int] = (0, KILLED, UNKNOWN)) -> Iterator[str]:
    """Give what is wrong in *cloud* that must hold after every verb."""
    for ended in cloud.log:
        if ended.code not in codes:
            yield f"exit code {ended.code}: {ended.err.strip()[-300:]}"
    for report in (cloud.folder / "home.tmp").iterdir():
        yield f"{report.name}: {' / '.join(report.read_text().splitlines()[-4:])}"
    for key, count in Counter(tuple(line[:3]) for line in cloud.truth()).items():
        if count > 1:
            yield f"ran twice: {key}"
    runs = {line[0] for line in cloud.truth()}
    if len(runs) > 1:
        yield f"{len(runs)} jobs have run"
    if len(cloud.submitted()) > cloud.submits():
        yield "more jobs than requests to submit one"
    for ended in cloud.log:
        if sent(ended, SUBMIT_SENT) > sent(ended, SUBMIT):
            yield "a submission was sent again by the SDK"


def sent(ended: Ended, label: str) -> int:
    return sum(step["label"] == label for step in ended.steps)


def applied(cloud: Cloud) -> Iterator[str]:
    """Give what is wrong after an apply that was repeated until it exited with 0."""
    yield from always(cloud)
    if cloud.log[-1].code != 0:
        yield f"apply ends with {cloud.log[-1].code}"
        return
    if len(cloud.truth()) != cloud.shape.containers:
        yield f"{len(cloud.truth())} containers ran, not {cloud.shape.containers}"
    if len(cloud.begun()) != 1:
        yield f"{len(cloud.begun())} jobs were started by the service"
    yield from listed(cloud, "succeeded")


def listed(cloud: Cloud, state: str) -> Iterator[str]:
    rows = cloud.runs()
    if [row["state"] for row in rows] != [state]:
        yield f"list says {[row['state'] for row in rows]}, not {state}"


def ended(cloud: Cloud, state: str) -> Iterator[str]:
    """Give what is wrong after the run was to end as *state*."""
    yield from always(cloud)
    if cloud.log[-1].code != 0:
        yield f"it ends with {cloud.log[-1].code}: {cloud.log[-1].err.strip()[-200:]}"
    alive = [j for j in cloud.jobs() if j["status"] not in ("SUCCEEDED", "FAILED")]
    if alive:
        yield f"jobs are alive: {alive}"
    yield from listed(cloud, state)


def bare(cloud: Cloud) -> Iterator[str]:
    """Give what is left after the run and all that runs share was taken away."""
    done = cloud.again("destroy", "--site")
    if done.code:
        yield f"destroy --site ends with {done.code}: {done.err.strip()[-300:]}"
    yield from (f"left: {what}" for what in cloud.left())


# The cells: a verb that is killed, or whose wire breaks, and is repeated


def apply(cloud: Cloud, **how: Any) -> list[str]:
    cloud.run("apply", "faults.yaml", **how)
    cloud.again("apply", "faults.yaml")
    return list(applied(cloud))


def cancel(cloud: Cloud, **how: Any) -> list[str]:
    run = started(cloud)
    cloud.run("cancel", run, **how)
    cloud.again("cancel", run)
    return list(ended(cloud, "cancelled"))


def destroy(cloud: Cloud, **how: Any) -> list[str]:
    run = started(cloud)
    cloud.run("destroy", run, **how)
    cloud.again("destroy", run)
    return [*ended(cloud, "destroyed"), *bare(cloud)]


def given_up(cloud: Cloud, **how: Any) -> list[str]:
    """An apply is killed, and its user takes all of it away."""
    cloud.run("apply", "faults.yaml", "--detach", **how)
    if not cloud.runs():
        return list(always(cloud))
    cloud.again("destroy", "faults")
    before = len(cloud.truth())
    found = [*ended(cloud, "destroyed"), *bare(cloud)]
    if len(cloud.truth()) > before:
        found.append("a job began after destroy had exited with 0")
    return found


LAST = {"apply": QUICK, "cancel": LONG, "destroy": LONG, "given up": LONG}
CELLS = {"apply": apply, "cancel": cancel, "destroy": destroy, "given up": given_up}


def trace(cloud: Cloud, verb: str) -> Ended:
    """Run *verb* once with nothing in its way; give its steps."""
    if verb in ("apply", "given up"):
        words = ("apply", "faults.yaml", *(("--detach",) if verb == "given up" else ()))
    else:
        words = (verb, started(cloud))
    done = cloud.run(*words)
    assert done.code == 0, done.err
    if verb == "given up":
        cloud.await_truth(cloud.shape.containers)
    return done
