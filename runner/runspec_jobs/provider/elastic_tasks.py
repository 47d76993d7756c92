"""Maps the nodes of elastic jobs: each is a task of its own for the service, and a node of one task for the user.

How such a job ends is in the state that its nodes write to the store of the run: see `runspec_agent.elastic`.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

from runspec_jobs import record_formats
from runspec_jobs.provider.node_ends import AWAY
from runspec_jobs.provider.types import MembershipChange, NodeStatus, State, Status, changes_of
from runspec_jobs.spec.model import Spec
from runspec_jobs.spec.placeholders import count_tasks

ELASTIC = "runspec.elastic/v1"  # the same as in runspec_agent.base.record_formats
Record = Mapping[str, Any]
CHANGES = (
    1000  # the most that are read of a task, the last ones: each takes a request in an object store
)
# AWS Batch stores it as the reason of an ended job, and other versions of runspec compare it: it must not change.
OTHER_VERSION = (
    "another version of runspec has started this run: its nodes that have left cannot come back"
)
NOT_NEEDED = "the job is over: it is not needed any more"


def nodes_each(spec: Spec) -> int:
    """Return the number of nodes in each task of a service, which is 1 for elastic jobs."""
    return 1 if spec.cluster.nodes.elastic else spec.cluster.nodes.max


def tasks_in_all(spec: Spec) -> int:
    """Return the number of tasks that *spec* has at the service."""
    return count_tasks(spec.sweep) * (spec.cluster.nodes.max if spec.cluster.nodes.elastic else 1)


def count_nodes(record: Record) -> int:
    """Return the number of tasks of the service that are nodes of one task of the job."""
    elastic = record.get("elastic")
    return int(elastic["max"]) if elastic and record["nodes"] == 1 else 1


def seat(record: Record, task: int, rank: int) -> tuple[int, int]:
    """Return task and rank in the job of the node *rank* of the service's *task*.

    >>> seat({"nodes": 1, "elastic": {"min": 1, "max": 4}}, 5, 0)
    (1, 1)
    """
    return divmod(task, count_nodes(record)) if count_nodes(record) > 1 else (task, rank)


def task_of(record: Record, task: int, rank: int) -> tuple[int, int]:
    """Return task and rank at the service of the node *rank* of the job's *task*.

    >>> task_of({"nodes": 1, "elastic": {"min": 1, "max": 4}}, 1, 1)
    (5, 0)
    """
    return (task * count_nodes(record) + rank, 0) if count_nodes(record) > 1 else (task, rank)


def seats_of(record: Record, tasks: Collection[int]) -> set[int]:
    """Return the tasks of the service that are nodes of the job's *tasks*.

    >>> sorted(seats_of({"nodes": 1, "elastic": {"min": 1, "max": 3}}, [1]))
    [3, 4, 5]
    """
    many = count_nodes(record)
    return {task * many + rank for task in tasks for rank in range(many)}


def seated(status: Status, record: Record) -> Status:
    """Return *status*, a status with the tasks of the service, with the tasks and nodes of the job instead."""
    if count_nodes(record) == 1:
        return status
    seats = (seat(record, *node[:2]) for node in status.nodes)
    nodes = (
        node._replace(task=task, rank=rank)
        for node, (task, rank) in zip(status.nodes, seats, strict=True)
    )
    return status._replace(nodes=tuple(nodes))


def elastic_end(
    record: Record, count: int, read: Callable[[str], bytes | None]
) -> tuple[int, str] | None:
    """Return the exit code and the reason of an elastic job that has ended, from the state that its nodes wrote.

    Return None while one of its *count* tasks goes on, if all of them were stopped, and if the job is not elastic.
    *read* returns the content of a path below the run, or None.
    """
    if not record.get("elastic"):
        return None
    states: list[dict[str, Any]] = []
    for task in range(count):
        text = read(f"elastic/{task}/state")
        state = json.loads(text) if text else {}
        record_formats.check(state, ELASTIC, f"the state of task {task} of this elastic job")
        # A task that was stopped writes no end: the job does not wait for it.
        if state.get("phase") == "done":
            states.append(state)
        elif count == 1 or read(f"stop/{task_of(record, task, 0)[0]}") is None:
            return None
    if not states:
        return None
    # One failed task makes the sweep fail, with the code of the first one that failed.
    bad = next((state for state in states if state["code"]), states[0])
    return bad["code"], bad["why"]


def elastic_changes(
    record: Record,
    names: Callable[[str], Iterable[str]],
    read: Callable[[Sequence[str]], Iterable[bytes | None]],
) -> list[MembershipChange]:
    """Return the membership changes that the nodes of an elastic job wrote; an empty list for other jobs.

    *names* returns the names in a folder of the run, *read* the contents of paths below the run.
    """
    contents: list[tuple[int, bytes]] = []
    for task in range(
        math.prod(len(values) for _, values in record["sweep"]) if record.get("elastic") else 0
    ):
        folder = f"elastic/{task}/changes/"
        paths = [f"{folder}{name}" for name in sorted(names(folder))[-CHANGES:]]
        contents += ((task, content) for content in read(paths) if content is not None)
    return changes_of(contents)


def elastic_status(end: tuple[int, str], nodes: tuple[NodeStatus, ...]) -> Status:
    """Return the status of an elastic job from its *end*; nodes that were no longer needed get that as the reason."""
    code, why = end
    nodes = tuple(
        node._replace(reason=NOT_NEEDED, exit_code=None)
        if node.state is State.CANCELLED and node.reason != AWAY
        else node
        for node in nodes
    )
    return Status(State.FAILED, why, code, nodes) if code else Status(State.SUCCEEDED, "", 0, nodes)
