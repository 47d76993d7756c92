"""Why a task waits or has failed, in words that say what to do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

TAKEN = "the machine was taken away"
TASK_STOPPED = "its task was stopped"
NEVER = "its job has ended before it began"
LOST_RIGHT = (
    "the job has lost its right to the store: signed_for may be over, a key or a role changed"
)
WAITING = {
    "active": "waits for a machine",
    "preparing": "a machine gets what it needs",
}
# https://learn.microsoft.com/en-us/rest/api/batchservice/nodes/list-nodes#computenodestate
NODES = {
    "starttaskfailed": "its start task failed",
    "unusable": "it cannot be used",
    "preempted": "it was taken away",
    "starting": "it starts",
    "creating": "it is being made",
    "waitingforstarttask": "its start task runs",
    "rebooting": "it starts again",
    "reimaging": "it is made anew",
    "unknown": "nothing is heard of it",
    "offline": "it takes no tasks",
    "leavingpool": "it leaves",
}
# https://learn.microsoft.com/en-us/azure/batch/batch-pool-node-error-checking
ERRORS: Mapping[str, str] = {
    "AccountCoreQuotaReached": "the account's quota of cores is used up: ask for more, or use a smaller vm_size",
    "AccountVMSeriesCoreQuotaReached": "the account's quota for this kind of machine is used up",
    "AccountLowPriorityCoreQuotaReached": "the account's quota for spot machines is used up",
    "AccountSpotCoreQuotaReached": "the account's quota for spot machines is used up",
    "ResizeStopped": "somebody has stopped it from getting machines",
    "AllocationFailed": "Azure has no such machine now: use another vm_size, or wait",
    "CommunicationEnabledPoolReachedMaxVMCount": "a pool whose nodes talk to each other has no more "
    "machines than this: set max_nodes: 100 or less, or nodes to less",
    "AllocationTimedout": "the machines did not come in time: Azure may have none now",
    "OverconstrainedAllocationRequestError": "Azure has no such machine in this place now",
}
# https://learn.microsoft.com/en-us/azure/batch/batch-job-task-error-checking
FAILURES: Mapping[str, str] = {
    "TaskEnded": "it was ended",
    "BlobAccessDenied": "Azure Batch may not read the job's blobs: signed_for may be over, or the "
    "pool's identity has no right to",
    "ResourceContainerAccessDenied": "Azure Batch may not read the job's blobs",
    "BlobNotFound": "a blob it needs has gone",
    "BlobDownloadTimedOut": "a blob it needs could not be got in time",
    "ContainerImageNotFound": "the image could not be got: is its name right?",
    "ContainerInvalidImage": "the image could not be got, or cannot run there",
    "ContainerPoolNotSupported": "the pool is not for containers: use another pool",
    "DiskFull": "its disk is full: raise cluster.disk",
    "FileUploadAccessDenied": "Azure Batch may not keep what it printed: signed_for may be over",
    "FileUploadContainerNotFound": "Azure Batch cannot keep what it printed: the container has gone",
}
# Of the service's own copy of what a task printed. Each node keeps one itself, too.
COPIES = "FileUpload"
ENDED_CODES = frozenset({"FailureExitCode"})


def waiting(pool: Mapping[str, Any], tasks: Sequence[Mapping[str, Any]]) -> str:
    """Return why tasks do not run yet, by the pool they wait for."""
    if not tasks:
        return "waits for its tasks"
    if not pool:
        return "its pool has been taken away"
    name = pool.get("id", "the pool")
    if errors := pool.get("resizeErrors"):
        return "; ".join(_explained(ERRORS, error) for error in errors)
    if error := (pool.get("autoScaleRun") or {}).get("error"):
        return f"how many machines {name} needs cannot be told: {_explained({}, error)}"
    nodes = pool.get("nodes", [])
    for state in ("starttaskfailed", "unusable"):
        bad = [node for node in nodes if node.get("state") == state]
        if bad and len(bad) == len(nodes):
            return f"no machine of {name} can be used: {_node(bad[0])}"
    if any(task["state"] == "preparing" for task in tasks):
        return WAITING["preparing"]
    if coming := [node for node in nodes if node.get("state") in NODES]:
        return f"waits for a machine: of {coming[0].get('id')}, {NODES[coming[0]['state']]}"
    asked = "which is being asked for" if pool.get("allocationState") == "resizing" else "or more"
    return f"waits for a machine, {asked}" if not nodes else WAITING["active"]


def _node(node: Mapping[str, Any]) -> str:
    errors = [_explained({}, error) for error in node.get("errors", ())]
    info = node.get("startTaskInfo", {})
    if node["state"] == "starttaskfailed" and info.get("exitCode") is not None:
        errors.insert(0, f"exited with code {info['exitCode']}")
    return f"{NODES[node['state']]} ({'; '.join(errors) or node['state']})"


def _explained(words: Mapping[str, str], error: Mapping[str, Any]) -> str:
    """Azure writes one code in several ways, AllocationTimedout and AllocationTimedOut."""
    code, message = str(error.get("code", "")), str(error.get("message", "")).partition("\n")[0]
    for known, said in words.items():
        if known.lower() == code.lower():
            return f"{said} ({code})"
    return f"{code}: {message}" if message else code


def only_a_copy(info: Mapping[str, Any]) -> bool:
    """Return whether nothing was wrong with a task but the service's copy of what it printed.

    https://learn.microsoft.com/en-us/azure/batch/batch-task-output-files#diagnose-file-upload-errors
    """
    return info.get("exitCode") == 0 and _code(info).startswith(COPIES)


def _code(info: Mapping[str, Any]) -> str:
    return str((info.get("failureInfo") or {}).get("code", ""))


def ended(info: Mapping[str, Any], code: int | None) -> str:
    """Return why a task failed: by its failure, or its exit code, which is told before a copy that failed."""
    failure = info.get("failureInfo") or {}
    lesser = code is not None and _code(info).startswith(COPIES)
    if failure and not lesser and failure.get("code") not in ENDED_CODES:
        found = _explained(FAILURES, failure)
        details = [str(one.get("value", "")) for one in failure.get("details", ())]
        return f"{found}: {details[0]}" if details and details[0] else found
    if code is None:
        return "Azure Batch gives no reason"
    own = code != info.get("exitCode", code)  # the program's, that the agent did not end with
    return f"exited with code {code}{'' if own else _signal(code)}"


def stopped(task: int, count: int) -> str:
    """Return why a task has ended its job, by its exit conditions."""
    if count == 1:
        return f"exited with code 77: {LOST_RIGHT}"
    return (
        f"task {task} exited with code 77: {LOST_RIGHT}; so Azure Batch has ended the other tasks"
    )


def _signal(code: int) -> str:
    return {
        75: ": to be tried again",
        77: ": if that is not the program's own, the run's signature has ended, see signed_for",
        137: ": killed",
        143: ": told to end",
        139: ": segmentation fault",
    }.get(code, "")
