"""The status of each node of a run: what AWS Batch says of its job, and what its agent has recorded of its end."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from runspec_agent.base.light_typing import NamedTuple
from runspec_aws import attempts, reasons
from runspec_aws.decision import JobKind
from runspec_aws.status.poll import Job
from runspec_jobs.provider import NodeStatus, State
from runspec_jobs.provider.elastic_tasks import NOT_NEEDED
from runspec_jobs.provider.node_ends import AWAY, NodeEnds, contradicted, unproven, unrecorded

SERVICE = "AWS Batch"
EXITED = "exited with code"  # the beginning of a reason that says nothing else
CANCELLED = "cancelled by runspec"
EARLIER = "runspec:earlier"  # how many attempts of a description are of earlier jobs
STATES = {
    "SUBMITTED": State.WAITING,
    "PENDING": State.WAITING,
    "RUNNABLE": State.WAITING,
    "STARTING": State.WAITING,
    "RUNNING": State.RUNNING,
    "SUCCEEDED": State.SUCCEEDED,
    "FAILED": State.FAILED,
}


class Place(NamedTuple):
    """The job that is a node of a task, and the *earlier* jobs of that node; *absent* describes it if it is none."""

    task: int
    rank: int
    job: str
    earlier: tuple[str, ...] = ()
    absent: Job | None = None


def places(job: str, record: Mapping[str, Any]) -> list[Place]:
    """Return every node of every task of the run with the job *job*, with the id of its own job."""
    nodes = record["nodes"]
    if record["shape"] == JobKind.SINGLE:
        return [Place(0, 0, job)]
    if record["shape"] == JobKind.NODES:
        return [Place(0, rank, f"{job}#{rank}") for rank in range(nodes)]
    count = nodes * count_tasks(record)
    return [Place(i // nodes, i % nodes, f"{job}:{i}") for i in range(count)]


def index(record: Mapping[str, Any], place: Place) -> int:
    """Return the number of a node among the nodes of all tasks."""
    return int(place.task * record["nodes"] + place.rank)


def count_tasks(record: Mapping[str, Any]) -> int:
    return math.prod(len(values) for _, values in record["sweep"])


def state_of(job: Job) -> State:
    if not job:
        return State.WAITING
    # A status of a later version of the service is not one of the two that end a job.
    state = STATES.get(job["status"], State.WAITING)
    stopped = str(job.get("statusReason", "")).startswith((CANCELLED, NOT_NEEDED, AWAY))
    return State.CANCELLED if state is State.FAILED and stopped else state


def look(ends: NodeEnds, known: Mapping[str, Job], listed: Sequence[Place]) -> None:
    """Read the end records of all attempts that have ended, of the jobs *known*."""
    ends.look(
        {
            (node.task, node.rank, number)
            for node in listed
            if node.job in known
            for number, _ in attempts.ended(known[node.job])
        }
    )


def node(
    node: Place, job: Job, codes: attempts.Codes, ends: NodeEnds, *, alone: bool
) -> NodeStatus:
    """Return the status of a node. A success counts if the agent has recorded it.

    *alone*: no other node decides about the success of this one, as the main node of a gang does.
    """
    state = state_of(job)
    over = attempts.over(job, node.task, node.rank, codes, ends)
    before = job.get(EARLIER, 0)
    end = ends.of((node.task, node.rank, len(over))) if len(over) > before else None
    job = {**job, "attempts": job.get("attempts", ())[before:]} if before else job
    reason = reasons.ended(job) if state is State.FAILED else reasons.waiting(job)
    code = exit_code(job) if state.terminal else None
    attempt = max(1, len(over) + (state is State.RUNNING))
    if state is State.SUCCEEDED and ends.written and alone and (end is None or end.code):
        state, code = State.FAILED, None if end is None else end.code
        reason = unproven(SERVICE) if end is None else contradicted(SERVICE, end, ends.record)
        over = (*over[:-1], over[-1]._replace(exit_code=code, reason=reason)) if over else ()
    elif state is State.FAILED and end is not None and over:
        # After a recorded success, the machine or the container failed, and the service's word counts.
        code, reason = end.code or code or None, over[-1].reason or reason
        reason = "; ".join(text for text in (reason, reasons.reclaimed(job)) if text)
    elif state is State.CANCELLED and end is not None and code is not None:
        code = end.code  # the program may have had another one, after it was told to end
    elif code == attempts.AGAIN and over:  # no attempts were left: 75 is the agent's
        code, reason = over[-1].exit_code, over[-1].reason
    elif state is State.FAILED and (late := reasons.late(job, job, end, ends.record)):
        reason = late
    elif state is State.FAILED and ends.written and alone and reason.startswith(EXITED):
        reason = unrecorded(reason)
    reason = reason if state is not State.RUNNING else ""
    began_s = attempts.began_s(job) if state is State.RUNNING else None
    return NodeStatus(node.task, node.rank, attempt, state, reason, code, over, began_s)


def may_have_left(node: NodeStatus, ends: NodeEnds) -> bool:
    """Return whether the agent of a node may have found the request to stop its task before its job was terminated.

    The agent then ends with the exit code LEFT, and AWS Batch has no reason. If a program ends with that code by
    itself, there is an end record.
    """
    end = ends.of((node.task, node.rank, len(node.attempts)))
    left = node.state is State.FAILED and node.exit_code == reasons.LEFT
    return left and (end is None or end.told)


def of_gang(states: tuple[NodeStatus, ...], ends: NodeEnds) -> tuple[NodeStatus, ...]:
    """Return the nodes of a gang, all cancelled if the main node is: of the others, AWS Batch gives no reason."""
    if not states or states[0].state is not State.CANCELLED:
        return states
    return tuple(stopped(node) if may_have_left(node, ends) else node for node in states)


def joint_state(first: State, listed: Sequence[NodeStatus]) -> State:
    """Return the state of an elastic job whose array has ended as *first*, and whose nodes are *listed*.

    Nodes that have come back are jobs of their own, which run on when the array has ended.
    """
    states = {node.state for node in listed if node.reason != AWAY}
    if any(not state.terminal for state in states):
        return State.WAITING
    if first is State.CANCELLED:
        return State.CANCELLED
    return State.SUCCEEDED if states <= {State.SUCCEEDED} else State.FAILED


def stopped(node: NodeStatus) -> NodeStatus:
    return node._replace(state=State.CANCELLED, reason=CANCELLED)


def away(node: NodeStatus) -> NodeStatus:
    """Return the status of a released node that has left, or that was terminated before it began."""
    return node._replace(state=State.CANCELLED, reason=AWAY, exit_code=None)


def exit_code(job: Job) -> int | None:
    """Return the exit code of the last attempt; None if no container was started."""
    codes = [attempt.get("container", {}).get("exitCode") for attempt in job.get("attempts", ())]
    own_code = job.get("container", {}).get("exitCode")
    return own_code if own_code is not None else codes[-1] if codes else None
