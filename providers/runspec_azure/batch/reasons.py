"""Messages about why a task waits or has failed, with what to do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from runspec_jobs.provider.node_ends import exited

RECLAIMED = "the machine was reclaimed"
# The end of an attempt that another one followed: the service says only how the last one ended.
COUNTED = "Azure Batch counted a failure"
KILLED = f"{COUNTED}; the agent began and recorded no end: it was killed, or the store was full"
TASK_STOPPED = "its task was stopped"
NEVER = "its job ended before it started"
NO_ACCESS = (
    "the store refused the job's access: signed_for may have passed, or a key or a role has changed"
)
# Exit codes that the agent has, too.
BY_AGENT = {
    75: ": another attempt is needed",
    77: ": unless this is the program's own code, the job's signature has expired, see signed_for",
    143: ": told to end",
}
WAITING = {
    "active": "waits for a machine",
    "preparing": "a machine is being prepared",
}
# https://learn.microsoft.com/en-us/rest/api/batchservice/nodes/list-nodes#computenodestate
NODES = {
    "starttaskfailed": "failed its start task",
    "unusable": "is unusable",
    "preempted": "was preempted",
    "starting": "is starting",
    "creating": "is being created",
    "waitingforstarttask": "is running its start task",
    "rebooting": "is rebooting",
    "reimaging": "is being reimaged",
    "unknown": "does not respond",
    "offline": "is offline",
    "leavingpool": "is leaving the pool",
}
# https://learn.microsoft.com/en-us/azure/batch/batch-pool-node-error-checking
ERRORS: Mapping[str, str] = {
    "AccountCoreQuotaReached": "the account's core quota is used up: request an increase, or set a smaller vm_size",
    "AccountVMSeriesCoreQuotaReached": "the account's core quota for this VM series is used up: request an increase",
    "AccountLowPriorityCoreQuotaReached": "the account's core quota for spot machines is used up: request an increase",
    "AccountSpotCoreQuotaReached": "the account's core quota for spot machines is used up: request an increase",
    "ResizeStopped": "the resizing of the pool was stopped",
    "AllocationFailed": "Azure has no such machine now: set another vm_size, or wait",
    "CommunicationEnabledPoolReachedMaxVMCount": "a pool with inter-node communication cannot have "
    "so many machines: set max_nodes: 100 or less, or fewer nodes",
    "AllocationTimedout": "the machines did not start in time: Azure may have none now",
    "OverconstrainedAllocationRequestError": "Azure has no such machine in this region or zone now",
}
# https://learn.microsoft.com/en-us/azure/batch/batch-job-task-error-checking
FAILURES: Mapping[str, str] = {
    "TaskEnded": "the task was terminated",
    "BlobAccessDenied": "Azure Batch cannot access the job's blobs: signed_for may have passed, or the "
    "pool's identity lacks a role",
    "ResourceContainerAccessDenied": "Azure Batch cannot access the job's blobs",
    "BlobNotFound": "a blob that the task needs does not exist",
    "BlobDownloadTimedOut": "the download of a blob that the task needs took too long",
    "CommandLaunchFailed": "the job could not be started on the machine",
    "CommandProgramNotFound": "the machine or the image lacks /bin/sh",
    "ContainerImageNotFound": "the image was not found: check its name",
    "ContainerInvalidImage": "the image could not be pulled: check its name, and the login of its registry",
    "ContainerInvalidRegistry": "the registry of the image is not valid: check the image's name",
    "ContainerInvalidSettings": "the container could not be started: its image may lack /bin/sh, or be for another "
    "processor",
    "ContainerMiscError": "the container could not be started",
    "ContainerPoolNotSupported": "the pool does not support containers: set another pool",
    "DiskFull": "the disk of the machine is full: raise cluster.disk",
    "FileUploadAccessDenied": "Azure Batch cannot upload the task's output: signed_for may have passed",
    "FileUploadContainerNotFound": "Azure Batch cannot upload the task's output: the container does not exist",
}
# Codes about the service's own upload of a task's output. The agent of each node uploads it, too.
COPIES = "FileUpload"
# An apply sets the formula of a pool before it adds the tasks, so a resize for them may end before they are there.
BEFORE = timedelta(hours=1)
ENDED_CODES = frozenset({"FailureExitCode"})


def waiting(pool: Mapping[str, Any], tasks: Sequence[Mapping[str, Any]]) -> str:
    """Return why tasks do not run yet; *pool* is the pool that they wait for."""
    if not tasks:
        return "waits for its tasks to be submitted"
    if not pool:
        return "its pool has been deleted"
    name = pool.get("id", "the pool")
    if failed := _resize(pool, tasks):
        return failed
    if error := (pool.get("autoScaleRun") or {}).get("error"):
        return f"{name} cannot evaluate its autoscale formula: {_explained({}, error)}"
    nodes = pool.get("nodes", [])
    for state in ("starttaskfailed", "unusable"):
        bad = [node for node in nodes if node.get("state") == state]
        if bad and len(bad) == len(nodes):
            return f"no machine of {name} can be used: the first one {_node(bad[0])}"
    if any(task["state"] == "preparing" for task in tasks):
        return WAITING["preparing"]
    if coming := [node for node in nodes if node.get("state") in NODES]:
        return f"waits for a machine: node {coming[0].get('id')} {NODES[coming[0]['state']]}"
    if nodes:
        return WAITING["active"]
    resizing = pool.get("allocationState") == "resizing"
    return f"waits for machines{', which the pool has requested' if resizing else ''}"


def _resize(pool: Mapping[str, Any], tasks: Sequence[Mapping[str, Any]]) -> str:
    """Return why the pool's last resize failed, and when; "" if that was long before the tasks that wait were there.

    resizeErrors has no times of its own: it is set only while the pool is steady, which it was from the end of that
    resize (Pool_Get in the API description).
    """
    ended = _moment(pool.get("allocationStateTransitionTime"))
    waiting = [_moment(task.get("creationTime")) for task in tasks if task["state"] == "active"]
    since = min((moment for moment in waiting if moment is not None), default=None)
    if ended is not None and since is not None and ended < since - BEFORE:
        return ""
    reasons = "; ".join(_explained(ERRORS, error) for error in pool.get("resizeErrors") or ())
    return f"at {ended:%Y-%m-%d %H:%M} UTC: {reasons}" if reasons and ended is not None else reasons


def _moment(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text).astimezone(UTC)


def _node(node: Mapping[str, Any]) -> str:
    errors = [_explained({}, error) for error in node.get("errors", ())]
    info = node.get("startTaskInfo", {})
    if node["state"] == "starttaskfailed" and info.get("exitCode") is not None:
        errors.insert(0, f"exited with code {info['exitCode']}")
    return f"{NODES[node['state']]} ({'; '.join(errors) or node['state']})"


def _explained(texts: Mapping[str, str], error: Mapping[str, Any]) -> str:
    """Return the message for an error; Azure spells a code in several ways: AllocationTimedout, AllocationTimedOut."""
    code, message = str(error.get("code", "")), str(error.get("message", "")).partition("\n")[0]
    for known, text in texts.items():
        if known.lower() == code.lower():
            return f"{text} ({code})"
    return f"{code}: {message}" if message else code


def was_terminated(task: Mapping[str, Any]) -> bool:
    """Return whether a request ended *task*, and not its own exit.

    https://learn.microsoft.com/en-us/rest/api/batchservice/task-error-codes
    """
    return _code(task.get("executionInfo", {})) == "TaskEnded"


def only_a_copy(info: Mapping[str, Any]) -> bool:
    """Return whether a task succeeded and only the service's upload of its output has failed.

    https://learn.microsoft.com/en-us/azure/batch/batch-task-output-files#diagnose-file-upload-errors
    """
    return info.get("exitCode") == 0 and _code(info).startswith(COPIES)


def _code(info: Mapping[str, Any]) -> str:
    return str((info.get("failureInfo") or {}).get("code", ""))


def ended(info: Mapping[str, Any], code: int | None) -> str:
    """Return why a task failed, from its exit code or its failure; a failed upload of output is less important."""
    failure = info.get("failureInfo") or {}
    lesser = code is not None and _code(info).startswith(COPIES)
    if failure and not lesser and failure.get("code") not in ENDED_CODES:
        reason = _explained(FAILURES, failure)
        details = [str(detail.get("value", "")) for detail in failure.get("details", ())]
        return f"{reason}: {details[0]}" if details and details[0] else reason
    if code is None:
        return "Azure Batch gives no reason"
    # The program's code, if the agent exited with another one.
    is_own = code != info.get("exitCode", code)
    return exited(code) + ("" if is_own else BY_AGENT.get(code, ""))


def stopped(task: int, count: int) -> str:
    """Return why *task* of *count* tasks has ended its job, which exit code 77 does."""
    if count == 1:
        return f"exited with code 77: {NO_ACCESS}"
    return f"task {task} exited with code 77: {NO_ACCESS}; so Azure Batch has terminated the other tasks"
