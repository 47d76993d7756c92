"""Which task runs where: by priority and age, where slots are free."""

from __future__ import annotations

import time
from collections.abc import Callable

from runspec_emulators.azure_batch.model import Node, Pool, Task
from runspec_emulators.azure_batch.tasks.exit_conditions import satisfied
from runspec_emulators.azure_batch.world import World


def place(world: World, start: Callable[[Task, list[Node]], None]) -> None:
    """Have *start* begin each task that can start. Jobs of higher priority go first; the lock is held."""
    at = time.monotonic()
    jobs = [j for j in world.jobs.values() if j.state == "active"]
    for job in sorted(jobs, key=lambda j: (-j.body["priority"], j.created)):
        pool = world.pools.get(job.pool_id.lower())
        if pool is None or not any(n.free for n in pool.nodes.values()):
            continue
        most = job.body.get("maxParallelTasks", -1)
        running = sum(t.attempt is not None for t in job.tasks.values())
        for task in list(job.tasks.values()):
            if task.state != "active" or task.attempt or at < task.ready_at or not ready(task):
                continue
            if most != -1 and running >= most:
                break
            nodes = chosen(pool, task)
            if nodes:
                start(task, nodes)
                running += 1


def ready(task: Task) -> bool:
    """Return whether what it depends on has succeeded, or is satisfied by exit conditions.

    "This Task will not be scheduled until all Tasks that it depends on have completed successfully."
    """
    wanted = task.body.get("dependsOn", {})
    ids = {i.lower() for i in wanted.get("taskIds", ())}
    for span in wanted.get("taskIdRanges", ()):
        ids |= {str(n) for n in range(span["start"], span["end"] + 1)}
    tasks = [task.job.tasks.get(i) for i in ids]
    return all(t is not None and t.state == "completed" and satisfied(t) for t in tasks)


def chosen(pool: Pool, task: Task) -> list[Node]:
    """Return the nodes that a task is to start on; none if it has to wait.

    "If you try to run a multi-instance task in a pool with internode communication disabled, or
    with a taskSlotsPerNode value greater than 1, the task is never scheduled--it remains
    indefinitely in the active state." https://learn.microsoft.com/en-us/azure/batch/batch-mpi
    """
    failed = [n for n in pool.nodes.values() if unprepared(n, task)]
    free = [n for n in pool.nodes.values() if n not in failed]
    free = [n for n in free if n.free >= int(task.body["requiredSlots"])]
    free.sort(key=lambda n: (-n.free if fills(pool) == "spread" else n.free, n.number))
    if "multiInstanceSettings" not in task.body:
        return free[:1]
    if not pool.body["enableInterNodeCommunication"] or pool.slots > 1:
        return []
    return free[: task.instances] if len(free) >= task.instances else []


def fills(pool: Pool) -> str:
    return str(pool.body["taskSchedulingPolicy"]["nodeFillType"])


def unprepared(node: Node, task: Task) -> bool:
    return node.prepared.get(task.job.id, {}).get("result") == "failure"
