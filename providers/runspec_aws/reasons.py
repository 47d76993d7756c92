"""Messages about why a job waits or has failed, with what to do."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from runspec_jobs.provider.node_ends import NodeEnd, exited, overdue

# https://docs.aws.amazon.com/batch/latest/userguide/job_retries.html
RECLAIMED = ("Host EC2", "Your Spot Task was interrupted")
TIMED_OUT = "Job attempt duration exceeded timeout"
EXITED, LEFT = "Essential container in task exited", 143  # the job exited by itself after a notice

# Reasons of AWS Batch for a job that waits:
# https://docs.aws.amazon.com/batch/latest/userguide/job_stuck_in_runnable.html
STUCK: Mapping[str, str] = {
    "MISCONFIGURATION:JOB_RESOURCE_REQUIREMENT": "no machine of the queue is large enough: ask for less in cluster",
    "MISCONFIGURATION:COMPUTE_ENVIRONMENT_MAX_RESOURCE": "the queue's environments are too small: raise max_vcpus",
    "MISCONFIGURATION:SERVICE_ROLE_PERMISSIONS": "the service role has no permission to start machines",
    "CAPACITY:INSUFFICIENT_INSTANCE_CAPACITY": "AWS has no such machine now: add more instance_types to the profile",
    "ACTION_REQUIRED": "an environment needs attention: see runspec doctor aws-batch",
}
# The same reasons, after max_queue_wait has passed: .../job_stuck_in_runnable_capacity.html
GIVEN_UP = "Canceled by JobStateTimeLimit action due to reason: "
WAITING = {
    "SUBMITTED": "submitted",
    "PENDING": "waits for its children or for other jobs",
    "RUNNABLE": "waits for a machine",
    "STARTING": "a machine pulls the image and starts the container",
}
EXPLAINED: Mapping[str, str] = {
    "OutOfMemoryError": "the container used more than its memory: raise cluster.memory",
    "CannotPullContainerError": "the image could not be pulled: check its name and the role's permissions",
    "ResourceInitializationError": "the container could not be set up: secrets, logs or the network",
    "CannotStartContainerError": "the container could not be started",
    "CannotInspectContainerError": "the machine could not inspect the container",
    "DockerTimeoutError": "the machine was too slow to start the container",
}


def waiting(job: Mapping[str, Any]) -> str:
    """Return why *job* is not running yet."""
    status, reason = job["status"], str(job.get("statusReason", ""))
    if status in ("RUNNING", "SUCCEEDED", "FAILED"):
        return ""
    for code, text in STUCK.items():
        if reason.startswith(code):
            return f"{text} ({reason})"
    text = WAITING.get(status, "AWS Batch has a status that this version of runspec does not know")
    return f"{text} ({status}{': ' + reason if reason else ''})"


def ended(job: Mapping[str, Any]) -> str:
    """Return why *job* ended: the exit code or reason of its last attempt, and how many attempts were preempted."""
    attempts = job.get("attempts", ())
    last = attempts[-1] if attempts else {}
    container = {**job.get("container", {}), **last.get("container", {})}
    words = _words(container, container.get("exitCode"), str(job.get("statusReason", "")))
    return "; ".join(text for text in (words, reclaimed(job)) if text)


def of_attempt(attempt: Mapping[str, Any], code: int | None, *, preempted: bool) -> str:
    """Return why one attempt ended; *code* is the exit code of the program. Empty if it succeeded."""
    if preempted:
        reason = str(attempt["statusReason"])
        return f"the machine was reclaimed ({'after a notice' if reason == EXITED else reason})"
    container = attempt.get("container", {})
    if code == 0 and not container.get("reason"):
        return ""
    return _words(container, code, str(attempt.get("statusReason", "")))


def recorded(end: NodeEnd, record: Mapping[str, Any], attempt: Mapping[str, Any]) -> str:
    """Return why an attempt ended by the end record of its agent, with what the service says beside it."""
    if explained := _explained(attempt.get("container", {})):
        return explained  # such as the container's memory, of which the agent sees SIGKILL alone
    said, reason = end.reason(record), str(attempt.get("statusReason", ""))
    return said if not said or reason in ("", EXITED) else f"{said} ({reason})"


def late(
    attempt: Mapping[str, Any],
    job: Mapping[str, Any],
    end: NodeEnd | None,
    record: Mapping[str, Any],
) -> str:
    """Return why an *attempt* ended that AWS Batch has ended at its own time limit, or an empty string.

    *end* is what its agent recorded: a program that had ended by itself before keeps its reason.
    """
    reason = str(attempt.get("statusReason", ""))
    if not reason.startswith(TIMED_OUT) or (end is not None and not end.told):
        return ""
    limit_s = (job.get("timeout") or {}).get("attemptDurationSeconds")
    return f"{overdue('AWS Batch', record.get('timeout_s'), limit_s)} ({reason})"


def _words(container: Mapping[str, Any], code: int | None, reason: str) -> str:
    detail, text = str(container.get("reason", "")), _explained(container)
    if not text and code is not None:
        text = exited(code) + (": another attempt is needed" if code == 75 else "")
        text += "" if reason in ("", EXITED) else f" ({reason})"
    return text or _given_up(reason) or detail or reason or "AWS Batch gives no reason"


def _explained(container: Mapping[str, Any]) -> str:
    """Return what a reason of the service means, or an empty string."""
    detail = str(container.get("reason", ""))
    return next((f"{text} ({detail})" for name, text in EXPLAINED.items() if name in detail), "")


def was_reclaimed(attempt: Mapping[str, Any], job: Mapping[str, Any]) -> bool:
    """Return whether an attempt of *job* was preempted, or ended after a notice.

    On machines that are not spot machines, that exit code counts as the program's own.
    """
    reason = str(attempt.get("statusReason", ""))
    left = reason == EXITED and attempt.get("container", {}).get("exitCode") == LEFT
    rules = job.get("retryStrategy", {}).get("evaluateOnExit", ())
    leaves = any(rule.get("onExitCode") == str(LEFT) for rule in rules)
    return (left and leaves) or reason.startswith(RECLAIMED)


def reclaimed(job: Mapping[str, Any]) -> str:
    """Return a message about preempted attempts of *job*, if there were any."""
    attempts = job.get("attempts", ())
    count = sum(was_reclaimed(attempt, job) for attempt in attempts)
    if not count:
        return ""
    return f"{count} of {len(attempts)} attempts ended because the machine was reclaimed"


def _given_up(reason: str) -> str:
    code = reason.removeprefix(GIVEN_UP)
    if code == reason:
        return ""
    return f"max_queue_wait has passed: {STUCK.get(code, code)} ({reason})"
