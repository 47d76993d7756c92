"""Translate the states of jobs at Batch AI to those of the core."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from runspec_batchai.attempts import End
from runspec_jobs.provider import Attempt, NodeStatus, State, Status
from runspec_jobs.provider.node_ends import exited

STATES = {
    "queued": State.WAITING,
    "running": State.RUNNING,
    "terminating": State.RUNNING,
    "succeeded": State.SUCCEEDED,
    "failed": State.FAILED,
}
TERMINATED = "JobTerminated"
TIMED_OUT = "JobTimedOut"
QUEUED_S = 60.0  # the longest time after which the service queues a new job
LOST = "a node was reclaimed, and Batch AI has queued the job again"


def node(task: int, job: Any, ends: Mapping[int, End] = MappingProxyType({})) -> NodeStatus:
    """Return the status of a job as that of its first node; the service reports no status of other nodes.

    *ends* are the ends of the attempts that have ended, by number.
    """
    info = job.execution_info
    errors = list(getattr(info, "errors", None) or ())
    state = STATES.get(str(job.execution_state), State.WAITING)
    if state is State.FAILED and any(error.code == TERMINATED for error in errors):
        state = State.CANCELLED
    code = getattr(info, "exit_code", None) if state.terminal else None
    reason = ""
    if state is State.FAILED:
        reason = "; ".join(error_line(error) for error in errors)
        if any(error.code == TIMED_OUT for error in errors):
            reason = f"timeout: {reason}"
        reason = reason or (exited(code) if code is not None else "the job failed")
    elif state is State.CANCELLED:
        reason = "cancelled"
    past = tuple(_attempts(job, state, code, ends))
    number = max(1, len(past) + (not state.terminal))
    began_s = _next_began_s(job, past) if state is State.RUNNING else None
    return NodeStatus(task, 0, number, state, reason, code, past, began_s, job.node_count or 1)


def _attempts(
    job: Any, state: State, code: int | None, ends: Mapping[int, End]
) -> Iterator[Attempt]:
    """Yield the attempts that have ended; the service reports the beginning of the first and the end of the last.

    An attempt during which the job was ended has written no end of its own.
    """
    began_s, ended_s = _seconds(job, "start_time"), _seconds(job, "end_time")
    last = max(ends, default=0)
    is_cut = state.terminal and (not ends or state is State.CANCELLED or ends[last].code != code)
    for number, end in sorted(ends.items()):
        is_end = state.terminal and number == last and not is_cut and ended_s is not None
        at_s = ended_s if is_end else end.at_s
        yield Attempt(number, end.code, exited(end.code) if end.code else "", False, began_s, at_s)
        began_s = end.at_s
    if is_cut and began_s is not None:
        reason = exited(code) if code else ""
        yield Attempt(last + 1, code, reason, False, began_s, ended_s)


def _next_began_s(job: Any, past: Sequence[Attempt]) -> float | None:
    return past[-1].ended_s if past else _seconds(job, "start_time")


def _seconds(job: Any, name: str) -> float | None:
    moment = getattr(job.execution_info, name, None)
    return None if moment is None else float(moment.timestamp())


def cluster_of(job: Any) -> str:
    """Return the name of the cluster of a job, or an empty string if the answer has none."""
    where = getattr(job.cluster, "id", None) or ""
    return str(where).rpartition("/")[2]


def requeued(job: Any) -> bool:
    """Return whether a queued job has run before: then it was queued long after it was made."""
    made, since = job.creation_time, job.execution_state_transition_time
    if str(job.execution_state) != "queued" or made is None or since is None:
        return False
    return bool((since - made).total_seconds() > QUEUED_S)


def error_line(error: Any) -> str:
    """Return an error of the service with its details, in one line."""
    more = "; ".join(f"{d.name}: {d.value}" for d in getattr(error, "details", None) or ())
    return f"{error.message or error.code or 'no reason given'}{f' ({more})' if more else ''}"


def status(nodes: Sequence[NodeStatus], waiting: str) -> Status:
    """Return the status of a run with the jobs *nodes*; *waiting* is why it waits, if it does."""
    states = {node.state for node in nodes}
    shown = tuple(nodes)
    if not all(state.terminal for state in states):
        if states == {State.WAITING}:
            return Status(State.WAITING, waiting, None, shown)
        return Status(State.RUNNING, "", None, shown)
    for state in (State.FAILED, State.CANCELLED):
        if state in states:
            first = next(node for node in nodes if node.state is state)
            return Status(state, first.reason, first.exit_code, shown)
    return Status(State.SUCCEEDED, "", 0, shown)


def waits(cluster: Any) -> str:
    """Return why a job waits for *cluster*, which is None if it does not exist."""
    if cluster is None:
        return "its cluster has been deleted"
    errors = list(cluster.errors or ())
    if errors:
        return f"the cluster cannot get nodes: {error_line(errors[0])}"
    counts = cluster.node_state_counts
    if counts is not None and counts.preparing_node_count:
        count = counts.preparing_node_count
        return f"{_nodes(count)} {'is' if count == 1 else 'are'} being prepared"
    there = cluster.current_node_count or 0
    if str(cluster.allocation_state) == "resizing":
        return f"the cluster has {_nodes(there)}, and is being resized"
    if not there:
        return "the cluster has no nodes yet"
    idle = counts.idle_node_count if counts is not None else 0
    if idle:
        return f"the cluster has {_nodes(there)}, {idle} of them free: too few for this job"
    return f"the cluster has {_nodes(there)}, {'which is' if there == 1 else 'all of them'} in use"


def _nodes(count: int) -> str:
    """Return *count* with its noun.

    >>> _nodes(1), _nodes(2)
    ('1 node', '2 nodes')
    """
    return f"{count or 'no'} node{'' if count == 1 else 's'}"
