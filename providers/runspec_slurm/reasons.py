"""Why a job waits or has failed, in words that say what to do; Slurm's own stand behind them."""

from __future__ import annotations

from runspec_slurm import timing
from runspec_slurm.queue import Row

# https://slurm.schedmd.com/job_reason_codes.html
WAITING = {
    "None": "waits for Slurm to look at it",
    "Priority": "waits for jobs of a higher priority",
    "Resources": "waits for nodes to become free",
    "Dependency": "waits for the jobs it comes after",
    "DependencyNeverSatisfied": "the job it comes after did not end as it should: cancel it",
    "BeginTime": "waits until it may begin: a job that is tried again waits for some seconds or minutes",
    "JobArrayTaskLimit": "waits for other tasks of the sweep: max_parallel of them run",
    "JobHeldUser": "is held: let it go on with scontrol release",
    "JobHeldAdmin": "is held by whoever runs the cluster: ask them",
    "JobHoldMaxRequeue": "is held, since it was tried too often: scontrol release, or cancel it",
    "launch failed requeued held": "is held, since no node could start it: see runspec doctor slurm, "
    "then scontrol release, or cancel it",
    "PartitionDown": "its partition takes no jobs now",
    "PartitionInactive": "its partition takes no jobs now",
    "PartitionNodeLimit": "its partition does not give so many nodes: lower cluster.nodes",
    "PartitionTimeLimit": "its partition's time limit is shorter than timeout: lower it",
    "PartitionConfig": "its partition has no such nodes: ask for less in cluster",
    "ReqNodeNotAvail": "a node it needs is down, or reserved for maintenance",
    "Reservation": "waits for its reservation",
    "Licenses": "waits for a licence",
    "Nodes_required_for_job_are_DOWN,_DRAINED_or_reserved_for_jobs_in_higher_priority_partitions": (
        "all nodes it could have are down, drained or reserved"
    ),
    "BadConstraints": "no node is as it asks for: look at the options for sbatch in the profile",
    "InvalidAccount": "its account is none that you may use: option account",
    "InvalidQOS": "its QOS is none that you may use: option qos",
    "AccountNotAllowed": "its partition is not for its account: option account or partition",
    "QOSNotAllowed": "its partition is not for its QOS: option qos or partition",
    "NodeDown": "a node it was to have is down",
    "FrontEndDown": "the node that starts jobs is down",
    "Prolog": "its nodes are being prepared",
    "WaitingForScheduling": "waits for Slurm to look at it",
    "SchedDefer": "waits for Slurm to look at it",
    "Cleaning": "waits until what is left of its last try is gone",
}
# Limits of accounting have hundreds of names of one form: Assoc..., QOS..., MaxJobs...
LIMITS = ("Assoc", "QOS", "Max", "Group")
STATES = {
    "CONFIGURING": "its nodes are being started",
    "SUSPENDED": "is suspended by whoever runs the cluster",
    "REQUEUE_HOLD": "is held after a failed try: scontrol release, or cancel it",
    "SPECIAL_EXIT": "is held after a failed try: scontrol release, or cancel it",
    "REQUEUED": "is to be tried again",
    "PENDING": "waits for a node",
}
ENDED = {
    "TIMEOUT": "its time was over: raise timeout",
    "NODE_FAIL": "its node was lost, and it was not to be tried again: set retry or capacity: spot",
    "PREEMPTED": "it had to make room for another job",
    "OUT_OF_MEMORY": "it needed more than its memory: raise cluster.memory",
    "BOOT_FAIL": "its node could not be started",
    "DEADLINE": "it could not end before its deadline",
    "CANCELLED": "cancelled",
    "REVOKED": "another cluster of the federation took it",
}
# Of jobs that FAILED, by Slurm's reason.
FAILURES = {
    "JobLaunchFailure": "it could not be started on its node: is the workspace there, and python? "
    "See runspec doctor slurm",
    "RaisedSignal": "its process was ended by a signal",
    "InvalidQOS": WAITING["InvalidQOS"],
    "InvalidAccount": WAITING["InvalidAccount"],
    "BadConstraints": WAITING["BadConstraints"],
}
NEVER = "the job it comes after did not end as it should"
NOT_SHOWN = "it was submitted just now, and Slurm does not show it yet"
NOT_KNOWN = (
    "not known: Slurm does not know it, or no more, and it has left no word of its end, which may be on its way; it "
    f"counts as failed when nothing has come of it for {timing.DOUBT_MIN} minutes"
)
FORGOTTEN = (
    "Slurm has forgotten it, and it left no word of how it ended: it may never have begun, or its node was lost. "
    "Slurm remembers for MinJobAge seconds; ask for status sooner"
)
TOLD = "it was told to end, since another node had failed"
TAKEN = "its node was lost, or it had to make room for another job"
BY_HAND = "cancelled, and not by runspec"


def waiting(row: Row) -> str:
    """Return why *row* does not run yet."""
    if row.state != "PENDING":
        return f"{STATES.get(row.state, 'waits')} ({row.state})"
    name = row.reason.partition(",")[0] if row.reason not in WAITING else row.reason
    if name in WAITING:
        return f"{WAITING[name]} ({row.reason})" if name != "None" else WAITING[name]
    if name.startswith(LIMITS):
        return f"waits, since a limit of its account or QOS is reached ({row.reason})"
    return f"{STATES['PENDING']} ({row.reason})" if row.reason else STATES["PENDING"]


def ended(state: str, reason: str, code: int | None) -> str:
    """Return why a job failed: by Slurm's state and reason, or by its own exit code."""
    if state == "CANCELLED" and reason == "DependencyNeverSatisfied":
        return f"{NEVER} ({reason})"
    if state in ENDED:
        return f"{ENDED[state]} ({state})"
    if reason == "JobLaunchFailure" and code is not None and code > 128 and code != 128 + 53:
        return exited(code)  # Slurm says so of every process that a signal has ended
    if reason in FAILURES and (code is None or reason != "RaisedSignal"):
        return f"{FAILURES[reason]} ({reason})"
    if code is not None:
        return exited(code)
    return f"Slurm gives no reason ({state}{f', {reason}' if reason else ''})"


def afterwards(state: str) -> str:
    """Return what Slurm says of a job whose program had ended well.

    >>> afterwards("NODE_FAIL")
    'its program ended well; what Slurm says of the job: NODE_FAIL'
    """
    return f"its program ended well; what Slurm says of the job: {state}"


def exited(code: int) -> str:
    return f"exited with code {code}{_signal(code)}"


def _signal(code: int) -> str:
    return {
        75: ": to be tried again, and nothing was left of its tries",
        124: ": its time was over",
        137: ": killed",
        139: ": segmentation fault",
        143: ": told to end",
    }.get(code, "")
