"""A stand-in with clients, an environment and a queue: what every test of it begins with."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import boto3
from botocore.config import Config

from runspec_emulators import privacy
from runspec_emulators.aws import Server, Settings, serve
from runspec_emulators.aws.region import KEYS
from tests.support.wait import until as until

QUICK: dict[str, Any] = {
    "valid_s": 0.0,
    "delete_s": 0.0,
    "submitted_s": 0.0,
    "runnable_s": 0.0,
    "starting_s": 0.0,
    "terminate_grace_s": 0.2,
    "min_timeout_s": 1,
}
RESOURCES = {
    "type": "EC2",
    "maxvCpus": 64,
    "instanceTypes": ["m5.large"],
    "instanceRole": "role",
    "subnets": ["subnet-1"],
}
SIZE = [{"type": "VCPU", "value": "1"}, {"type": "MEMORY", "value": "64"}]
GROUP = "/aws/batch/job"


@cache
def session() -> Any:
    """One session: it keeps the service models, which take long to read."""
    return boto3.Session(*KEYS.values(), region_name="us-east-1")


def container(command: Sequence[str], **more: Any) -> dict[str, Any]:
    return {"image": "image", "command": list(command), "resourceRequirements": SIZE, **more}


class Stand:
    """A server and its clients, which do not try again by themselves."""

    def __init__(self, folder: Path, **settings: Any) -> None:
        self.server: Server = serve(Settings(folder, **{**QUICK, **settings}))
        config = Config(retries={"total_max_attempts": 1}, read_timeout=60)
        given = {"endpoint_url": self.server.url, "config": config}
        self.batch: Any = session().client("batch", **given)
        self.logs: Any = session().client("logs", **given)

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        """Use a control path."""
        url = f"{self.server.url}/_rehearsal/{path}"
        data = None if body is None else json.dumps(body).encode()
        headers = {privacy.HEADER: privacy.KEY, "Content-Type": "application/json"}
        request = urllib.request.Request(url, data, headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            error.close()  # Python 3.14 warns of one that is not closed
            raise

    def set(self, **settings: Any) -> None:
        self.ask("PUT", "settings", settings)

    def faults(self, *faults: dict[str, Any]) -> None:
        self.ask("PUT", "faults", list(faults))

    def environment(self, name: str = "ce", **resources: Any) -> None:
        self.batch.create_compute_environment(
            computeEnvironmentName=name,
            type="MANAGED",
            computeResources={**RESOURCES, **resources},
        )
        until(lambda: self.server.world.environments[name].status != "CREATING")

    def queue(self, name: str = "queue", *environments: str) -> None:
        order = [
            {"order": n, "computeEnvironment": e} for n, e in enumerate(environments or ("ce",))
        ]
        self.batch.create_job_queue(jobQueueName=name, priority=1, computeEnvironmentOrder=order)
        until(lambda: self.server.world.queues[name].status == "VALID")

    def ready(self) -> Stand:
        self.environment()
        self.queue()
        return self

    def define(self, command: Sequence[str], name: str = "definition", **more: Any) -> str:
        given = {k: more.pop(k) for k in ("timeout", "retryStrategy", "parameters") if k in more}
        answer = self.batch.register_job_definition(
            jobDefinitionName=name,
            type="container",
            containerProperties=container(command, **more),
            **given,
        )
        return str(answer["jobDefinitionArn"])

    def define_nodes(self, command: Sequence[str], count: int, main: int = 0) -> str:
        answer = self.batch.register_job_definition(
            jobDefinitionName="nodes",
            type="multinode",
            nodeProperties={
                "numNodes": count,
                "mainNode": main,
                "nodeRangeProperties": [{"targetNodes": "0:", "container": container(command)}],
            },
        )
        return str(answer["jobDefinitionArn"])

    def submit(self, definition: str, name: str = "job", **more: Any) -> str:
        answer = self.batch.submit_job(
            jobName=name, jobQueue="queue", jobDefinition=definition, **more
        )
        return str(answer["jobId"])

    def run(self, *command: str, **more: Any) -> str:
        """Submit a job that runs *command*."""
        return self.submit(self.define(command), **more)

    def sh(self, script: str, **more: Any) -> str:
        return self.run("sh", "-c", script, **more)

    def job(self, job_id: str) -> Any:
        (found,) = self.batch.describe_jobs(jobs=[job_id])["jobs"]
        return found

    def reach(self, job_id: str, *states: str) -> Any:
        """Wait until a job has one of these states, and describe it."""
        until(lambda: self.job(job_id)["status"] in states)
        return self.job(job_id)

    def end(self, job_id: str) -> Any:
        return self.reach(job_id, "SUCCEEDED", "FAILED")

    def lines(self, job: Any) -> list[str]:
        """Give the lines of the last attempt of a described job."""
        stream = job["container"]["logStreamName"]
        page = self.logs.get_log_events(
            logGroupName=GROUP, logStreamName=stream, startFromHead=True
        )
        return [event["message"] for event in page["events"]]

    def wrote(self, job_id: str, line: str) -> Any:
        """Wait until a running job has written a line, and describe it."""
        self.reach(job_id, "RUNNING")
        job = self.job(job_id)
        stream = job["container"]["logStreamName"]
        world = self.server.world

        def seen() -> bool:
            group = world.logs.group(GROUP) if world.logs.has_group(GROUP) else None
            return bool(group and stream in group.streams and line in self.lines(job))

        until(seen)
        return job

    def truth(self, job_id: str) -> Any:
        (found,) = [job for job in self.ask("GET", "jobs") if job["id"] == job_id]
        return found
