"""Nodes that come and go: single tasks to a service, and nodes of one task to everybody else.

How such a job ends stands in the state that its nodes keep in the store of the run: `runspec_agent.elastic`.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

from runspec_jobs import record_formats
from runspec_jobs.provider.types import MembershipChange, NodeStatus, State, Status, changes_of
from runspec_jobs.spec.model import Spec
from runspec_jobs.spec.placeholders import tasks

ELASTIC = "runspec.elastic/v1"  # as runspec_agent.base.record_formats has it
Record = Mapping[str, Any]
CHANGES = 1000  # the last ones of a task: each is a request where an object store has them
NOT_NEEDED = "the job is over: it is not needed any more"


def nodes_each(spec: Spec) -> int:
    """Give the nodes of one task of a service that has tasks of one node and of many."""
    return 1 if spec.cluster.nodes.elastic else spec.cluster.nodes.max


def tasks_in_all(spec: Spec) -> int:
    """Give how many tasks such a service has of *spec*."""
    return len(tasks(spec)) * (spec.cluster.nodes.max if spec.cluster.nodes.elastic else 1)


def width(record: Record) -> int:
    """Give how many tasks of the service are nodes of one task."""
    elastic = record.get("elastic")
    return int(elastic["max"]) if elastic and record["nodes"] == 1 else 1


def seat(record: Record, task: int, rank: int) -> tuple[int, int]:
    """Give task and rank of the node *rank* of the service's *task*.

    >>> seat({"nodes": 1, "elastic": {"min": 1, "max": 4}}, 5, 0)
    (1, 1)
    """
    return divmod(task, width(record)) if width(record) > 1 else (task, rank)


def task_of(record: Record, task: int, rank: int) -> tuple[int, int]:
    """Give the service's task, and the node of it, that *rank* of *task* is.

    >>> task_of({"nodes": 1, "elastic": {"min": 1, "max": 4}}, 1, 1)
    (5, 0)
    """
    return (task * width(record) + rank, 0) if width(record) > 1 else (task, rank)


def seats_of(record: Record, tasks: Collection[int]) -> set[int]:
    """Give the tasks of the service that are nodes of *tasks*.

    >>> sorted(seats_of({"nodes": 1, "elastic": {"min": 1, "max": 3}}, [1]))
    [3, 4, 5]
    """
    many = width(record)
    return {task * many + rank for task in tasks for rank in range(many)}


def seated(found: Status, record: Record) -> Status:
    """Give *found*, which knows the service's tasks alone, with the nodes of tasks."""
    if width(record) == 1:
        return found
    seats = (seat(record, *node[:2]) for node in found.nodes)
    nodes = (
        node._replace(task=task, rank=rank)
        for node, (task, rank) in zip(found.nodes, seats, strict=True)
    )
    return found._replace(nodes=tuple(nodes))


def elastic_end(
    record: Record, count: int, read: Callable[[str], bytes | None]
) -> tuple[int, str] | None:
    """Give the code that an elastic job has ended with, and why, as its nodes have it.

    None while one of its *count* tasks goes on, where all of them were stopped, and of any other job. *read* gives what
    lies below the run.
    """
    if not record.get("elastic"):
        return None
    found: list[dict[str, Any]] = []
    for task in range(count):
        text = read(f"elastic/{task}/state")
        state = json.loads(text) if text else {}
        record_formats.check(state, ELASTIC, f"the state of task {task} of this elastic job")
        if state.get("phase") == "done":
            found.append(state)
        elif count == 1 or read(f"stop/{task_of(record, task, 0)[0]}") is None:
            return None
    if not found:
        return None
    bad = next((state for state in found if state["code"]), found[0])
    return bad["code"], bad["why"]


def elastic_changes(
    record: Record,
    names: Callable[[str], Iterable[str]],
    read: Callable[[Sequence[str]], Iterable[bytes | None]],
) -> list[MembershipChange]:
    """Give what the nodes of an elastic job have written down of each change; nothing of any other job.

    *names* gives the names below a folder of the run, *read* what lies at some paths below the run.
    """
    found: list[tuple[int, bytes]] = []
    for task in range(_tasks(record) if record.get("elastic") else 0):
        folder = f"elastic/{task}/changes/"
        paths = [f"{folder}{name}" for name in sorted(names(folder))[-CHANGES:]]
        found += ((task, content) for content in read(paths) if content is not None)
    return changes_of(found)


def _tasks(record: Record) -> int:
    return math.prod(len(values) for _, values in record["sweep"])


def elastic_status(end: tuple[int, str], nodes: tuple[NodeStatus, ...]) -> Status:
    """Give how a job is that has ended so, whatever became of single nodes; who was called off says why."""
    code, why = end
    nodes = tuple(
        node._replace(reason=NOT_NEEDED, exit_code=None) if node.state is State.CANCELLED else node
        for node in nodes
    )
    return Status(State.FAILED, why, code, nodes) if code else Status(State.SUCCEEDED, "", 0, nodes)
