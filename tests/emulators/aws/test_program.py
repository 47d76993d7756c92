"""The stand-in as a program, as tests in other languages would use it."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from runspec_emulators.frame.processes import marked
from tests.emulators.aws.stand import GROUP, RESOURCES, container, session, until
from tests.support.wait import LIMIT_S


def program(folder: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "runspec_emulators.aws"]
    command += ["--folder", str(folder), "--env", "GIVEN=a=b"]
    return subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=folder
    )


def submitted(env: dict[str, str]) -> tuple[Any, str]:
    """Run a job that writes a line and stays; give a client of its logs, and its stream."""
    where: dict[str, str] = {name.lower(): value for name, value in env.items()}
    where["endpoint_url"] = where.pop("url")
    batch = session().client("batch", **where)
    batch.create_compute_environment(
        computeEnvironmentName="ce", type="MANAGED", computeResources=RESOURCES
    )
    environments = batch.describe_compute_environments
    until(lambda: environments()["computeEnvironments"][0]["status"] == "VALID")
    order = [{"order": 1, "computeEnvironment": "ce"}]
    batch.create_job_queue(jobQueueName="q", priority=1, computeEnvironmentOrder=order)
    batch.register_job_definition(
        jobDefinitionName="d",
        type="container",
        containerProperties=container(["sh", "-c", "echo $GIVEN; exec sleep 600"]),
    )
    job_id = batch.submit_job(jobName="j", jobQueue="q", jobDefinition="d")["jobId"]
    job = until(
        lambda: (j := batch.describe_jobs(jobs=[job_id])["jobs"][0])["status"] == "RUNNING" and j
    )
    return session().client("logs", **where), job["container"]["logStreamName"]


@pytest.mark.process
@pytest.mark.parametrize("way", ["SIGTERM", "stdin"])
def test_the_program_ends_with_all_its_jobs(tmp_path: Path, way: str) -> None:
    with program(tmp_path) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        env = json.loads(process.stdout.readline())
        url = env["url"]
        logs, stream = submitted(env)
        until(lambda: logs.describe_log_groups()["logGroups"])
        until(lambda: logs.describe_log_streams(logGroupName=GROUP)["logStreams"])
        events = logs.get_log_events(logGroupName=GROUP, logStreamName=stream)["events"]
        assert list(marked(url))

        process.send_signal(signal.SIGTERM) if way == "SIGTERM" else process.stdin.close()

        assert process.wait(LIMIT_S) == 0
    assert [event["message"] for event in events] == ["a=b"]
    assert list(marked(url)) == []
