"""Messages about why a job waits or has failed, with what to do and Slurm's own reason in brackets."""

from __future__ import annotations

from runspec_jobs.provider import node_ends
from runspec_jobs.provider.node_ends import overdue
from runspec_slurm import timing
from runspec_slurm.queue import Row

NOT_SUBMITTED = "NotSubmitted"  # not of Slurm: an array of the run that is not submitted
# https://slurm.schedmd.com/job_reason_codes.html
WAITING = {
    "None": "waits for Slurm to schedule it",
    "Priority": "waits for jobs with a higher priority",
    "Resources": "waits for free nodes",
    "Dependency": "waits for other jobs, those of `needs` or of option after",
    "DependencyNeverSatisfied": "a job in option after did not end as required: cancel this one",
    "BeginTime": "waits for its start time: a requeued job waits for some seconds or minutes",
    "JobArrayTaskLimit": "waits for other tasks of the sweep: max_parallel of them run",
    NOT_SUBMITTED: "is not submitted yet: if its apply was interrupted or refused, run the same apply again",
    "JobHeldUser": "is held by its user: release it with scontrol release",
    "JobHeldAdmin": "is held by an administrator of the cluster: ask them",
    "JobHoldMaxRequeue": "is held, since it was requeued too often: release it with scontrol release, or cancel it",
    "launch failed requeued held": "is held, since no node could start it: see runspec doctor slurm, "
    "then release it with scontrol release, or cancel it",
    "PartitionDown": "its partition is down and accepts no jobs now",
    "PartitionInactive": "its partition is inactive and accepts no jobs now",
    "PartitionNodeLimit": "its partition does not allow so many nodes: lower cluster.nodes",
    "PartitionTimeLimit": "the time limit of its partition is shorter than timeout: lower timeout",
    "PartitionConfig": "its partition has no such nodes: ask for less in cluster",
    "ReqNodeNotAvail": "a node that it needs is down, or reserved for maintenance",
    "Reservation": "waits for its reservation",
    "Licenses": "waits for a licence",
    "Nodes_required_for_job_are_DOWN,_DRAINED_or_reserved_for_jobs_in_higher_priority_partitions": (
        "all nodes that it could use are down, drained or reserved"
    ),
    "BadConstraints": "no node meets its constraints: check the option sbatch in the profile",
    "InvalidAccount": "you may not use its account: set option account to one that you may use",
    "InvalidQOS": "you may not use its QOS: set option qos to one that you may use",
    "AccountNotAllowed": "its account may not use its partition: change option account or partition",
    "QOSNotAllowed": "its QOS may not use its partition: change option qos or partition",
    "NodeDown": "a node that was allocated to it is down",
    "FrontEndDown": "the node that starts jobs is down",
    "Prolog": "its nodes are being prepared",
    "WaitingForScheduling": "waits for Slurm to schedule it",
    "SchedDefer": "waits for Slurm to schedule it",
    "Cleaning": "waits until Slurm has cleaned up its last attempt",
}
LATER = "waits for an earlier array of the sweep, because of max_parallel, or for other jobs"
# The limits of the accounting have hundreds of reasons, whose names begin alike: Assoc..., QOS..., MaxJobs...
LIMITS = ("Assoc", "QOS", "Max", "Group")
STATES = {
    "CONFIGURING": "its nodes are being started",
    "SUSPENDED": "is suspended by Slurm or by an administrator of the cluster",
    "REQUEUE_HOLD": "is held after a failed attempt: release it with scontrol release, or cancel it",
    "SPECIAL_EXIT": "is held after a failed attempt: release it with scontrol release, or cancel it",
    "REQUEUED": "is being requeued",
    "PENDING": "waits for a node",
}
ENDED = {
    "TIMEOUT": overdue("Slurm", None),
    "NODE_FAIL": "its node was lost, and it had no attempts left: set retry or capacity: spot",
    "PREEMPTED": "it was preempted by another job",
    "OUT_OF_MEMORY": "it used more than its memory: raise cluster.memory",
    "BOOT_FAIL": "its node could not be started",
    "DEADLINE": "it could not have ended before its deadline",
    "CANCELLED": "cancelled",
    "REVOKED": "another cluster of the federation started it",
}
# By Slurm's reason for a job in state FAILED.
FAILURES = {
    "JobLaunchFailure": "it could not be started on its node: check that the node has the workspace and "
    "python, with runspec doctor slurm --node",
    "RaisedSignal": "its process was killed by a signal",
    "InvalidQOS": WAITING["InvalidQOS"],
    "InvalidAccount": WAITING["InvalidAccount"],
    "BadConstraints": WAITING["BadConstraints"],
}
KILLED = "its batch script was killed, and another attempt is due: runspec status, apply and logs -f requeue the job"
NEVER = "a job in option after did not end as required"
NOT_SHOWN = "it was submitted just now, and Slurm does not list it yet"
NOT_KNOWN = (
    "unknown: Slurm does not list the job, and its exit record is not in the workspace, where it may still appear; the "
    f"job counts as failed after {timing.DEFAULT.unknown_min} minutes without a change"
)
FORGOTTEN = (
    "Slurm no longer lists the job, and it wrote no exit record: it may never have begun, or its node was lost. "
    "Slurm lists a job for MinJobAge seconds after its end; run runspec status sooner"
)
STOPPED = "it was stopped, since another node had failed"
PREEMPTED = "its node was lost, or it was preempted by another job"
BY_HAND = "cancelled, but not by runspec"


def waiting(row: Row) -> str:
    """Return why the job of *row* is not running yet."""
    if row.state != "PENDING":
        return f"{STATES.get(row.state, 'waits')} ({row.state})"
    name = row.reason.partition(",")[0] if row.reason not in WAITING else row.reason
    if name == "Dependency" and row.offset:
        return f"{LATER} ({row.reason})"
    if name in WAITING:
        return f"{WAITING[name]} ({row.reason})" if name != "None" else WAITING[name]
    if name.startswith(LIMITS):
        return f"waits, since its account or QOS has reached a limit ({row.reason})"
    return f"{STATES['PENDING']} ({row.reason})" if row.reason else STATES["PENDING"]


def ended(state: str, reason: str, code: int | None, *, is_own: bool = False) -> str:
    """Return why a job failed, from Slurm's state and reason or from its exit code; *is_own*: as for `exited`."""
    if state == "CANCELLED" and reason == "DependencyNeverSatisfied":
        return f"{NEVER} ({reason})"
    if state in ENDED:
        return f"{ENDED[state]} ({state})"
    if reason == "JobLaunchFailure" and code is not None and code > 128 and code != 128 + 53:
        return exited(
            code, is_own=is_own
        )  # Slurm has this reason for every process that a signal killed
    if reason in FAILURES and (code is None or reason != "RaisedSignal"):
        return f"{FAILURES[reason]} ({reason})"
    if code is not None:
        return exited(code, is_own=is_own)
    return f"Slurm gives no reason ({state}{f', {reason}' if reason else ''})"


def afterwards(state: str) -> str:
    """Return the reason of a job whose program succeeded before the job got another state.

    >>> afterwards("NODE_FAIL")
    'its program succeeded; afterwards Slurm set the job to NODE_FAIL'
    """
    return f"its program succeeded; afterwards Slurm set the job to {state}"


BY_AGENT = {
    75: "exited with code 75: it needed another attempt, and had none left",
    124: "exited with code 124: it reached its time limit",
    126: "exited with code 126",  # the agent says what
    127: "exited with code 127",
    143: "exited with code 143: told to end",
}


def exited(code: int, *, is_own: bool = False) -> str:
    """Return the message for an exit code; *is_own*: the program has it by itself, and not by the agent.

    >>> exited(143), exited(143, is_own=True)
    ('exited with code 143: told to end', 'exited with code 143 (SIGTERM)')
    """
    return node_ends.exited(code) if is_own else BY_AGENT.get(code) or node_ends.exited(code)
