"""The descriptions of jobs that DescribeJobs and ListJobs return."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from runspec_emulators.aws.batch.jobs import Attempt, Job
from runspec_emulators.aws.batch.world import World

ECHOED = ("parameters", "propagateTags", "schedulingPriority")


def given(members: Mapping[str, Any]) -> dict[str, Any]:
    """Leave out the members whose value is None."""
    return {k: v for k, v in members.items() if v is not None}


def visible(world: World, job: Job, lag_s: float) -> bool:
    """Return whether a job is shown: not if it is younger than *lag_s*, or has ended too long ago."""
    now, top = time.monotonic(), job.parent or job
    if now - top.born < lag_s:
        return False
    forget_s = world.settings.forget_after_s
    return forget_s is None or top.ended is None or now - top.ended < forget_s


def describe(world: World, params: dict[str, Any]) -> dict[str, Any]:
    """Jobs that are not known are left out of the answer."""
    jobs = [job for job_id in params["jobs"] if (job := world.jobs.get(job_id))]
    lag_s = world.settings.describe_lag_s
    return {"jobs": [detail(world, job) for job in jobs if visible(world, job, lag_s)]}


def detail(world: World, job: Job) -> dict[str, Any]:
    """Return a JobDetail. `startedAt` is left out before the start, as in the CLI's example."""
    shown = {
        **{k: job.definition.get(k) for k in ECHOED},
        **{k: job.params[k] for k in ECHOED if k in job.params},
        "jobArn": job.arn,
        "jobName": job.name,
        "jobId": job.id,
        "jobQueue": world.arn(f"job-queue/{job.queue}"),
        "jobDefinition": job.definition["arn"],
        "status": job.status,
        "statusReason": job.status_reason,
        "createdAt": job.created_ms,
        "startedAt": job.started_ms,
        "stoppedAt": job.stopped_ms,
        "retryStrategy": job.retry or None,
        "dependsOn": [given({"jobId": i, "type": kind or None}) for i, kind in job.needs],
        "attempts": [attempt_detail(a) for a in job.main.attempts if a.stopped_ms is not None],
        "timeout": {"attemptDurationSeconds": job.timeout_s} if job.timeout_s else None,
        "tags": job.tags or None,
        "platformCapabilities": job.definition.get("platformCapabilities", ["EC2"]),
        "isCancelled": job.cancelled,
        "isTerminated": job.terminated,
    }
    return given({**shown, **of_its_kind(job)})


def of_its_kind(job: Job) -> dict[str, Any]:
    """Return the members that only arrays, nodes or jobs with a container have."""
    if job.is_array:
        array = {"size": len(job.children), "statusSummary": job.summary()}
        return {"arrayProperties": array, "container": shown_container(job.children[0], None)}
    if job.is_multinode:
        return {"nodeProperties": job.nodes}
    attempt = job.attempts[-1] if job.attempts else None
    shown: dict[str, Any] = {"container": shown_container(job, attempt)}
    if job.parent is not None and job.parent.is_array:
        shown["arrayProperties"] = {"index": job.index}
    elif job.parent is not None:
        shown["nodeDetails"] = {"nodeIndex": job.index, "isMainNode": job is job.parent.main}
    return shown


def of_attempt(attempt: Attempt) -> dict[str, Any]:
    """Return what a container's attempt adds: the log stream only once it is RUNNING.

    AttemptContainerDetail: "Each container attempt receives a log stream name when they reach the
    RUNNING status", and a task ARN "when they reach the STARTING status".
    """
    interface = {"privateIpv4Address": attempt.address}
    return given(
        {
            "taskArn": attempt.task_arn,
            "containerInstanceArn": attempt.instance_arn,
            "logStreamName": attempt.log_stream if attempt.started_ms else None,
            "exitCode": attempt.exit_code,
            "reason": attempt.reason and attempt.reason[:255],  # "(255 max characters)"
            "networkInterfaces": [interface] if attempt.awsvpc else [],
        }
    )


def shown_container(job: Job, attempt: Attempt | None) -> dict[str, Any]:
    return {**(job.container or {}), **(of_attempt(attempt) if attempt else {})}


def attempt_detail(attempt: Attempt) -> dict[str, Any]:
    return given(
        {
            "container": of_attempt(attempt),
            "startedAt": attempt.started_ms,
            "stoppedAt": attempt.stopped_ms,
            "statusReason": attempt.status_reason,
        }
    )


def summary(job: Job) -> dict[str, Any]:
    """Return a JobSummary. isCancelled and isTerminated are "only present when the value is true"."""
    attempt = job.main.attempts[-1] if job.main.attempts else None
    container = {"exitCode": attempt.exit_code, "reason": attempt.reason} if attempt else {}
    shown = {
        "jobArn": job.arn,
        "jobId": job.id,
        "jobName": job.name,
        "createdAt": job.created_ms,
        "status": job.status,
        "statusReason": job.status_reason,
        "startedAt": job.started_ms,
        "stoppedAt": job.stopped_ms,
        "container": given(container) or None,
        "jobDefinition": job.definition["arn"],
        "isCancelled": job.cancelled or None,
        "isTerminated": job.terminated or None,
    }
    if job.is_array:
        shown["arrayProperties"] = {"size": len(job.children), "statusSummary": job.summary()}
    elif job.nodes is not None:
        shown["nodeProperties"] = {"numNodes": job.nodes["numNodes"]}
    elif job.parent is not None and job.parent.is_array:
        shown["arrayProperties"] = {"index": job.index}
    elif job.parent is not None:
        main = job is job.parent.main
        shown["nodeProperties"] = {"nodeIndex": job.index, "isMainNode": main}
    return given(shown)
