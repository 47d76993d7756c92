"""The client is told which job was submitted, where that is known."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

from runspec_aws.client import AwsClient


def test_only_a_job_that_was_submitted_is_remembered() -> None:
    told: list[tuple[str, str]] = []
    jobs = SimpleNamespace(remember=lambda run, job: told.append((run, job)))
    client = cast(Any, SimpleNamespace(jobs=jobs))

    AwsClient.remember(client, "job-a1", {"record": {}})
    AwsClient.remember(client, "job-b2", {"record": {}, "job": {"jobId": "7"}})

    assert told == [("job-b2", "7")]
