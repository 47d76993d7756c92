"""Tasks: how they are added, shown, changed, and what there is to know of each attempt."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from runspec_emulators.azure.batch import guards, listing
from runspec_emulators.azure.batch.answers import Answer
from runspec_emulators.azure.batch.errors import ServiceError, wrong
from runspec_emulators.azure.batch.exits import acts
from runspec_emulators.azure.batch.nodes import WORK, Node
from runspec_emulators.azure.batch.things import Thing, now

if TYPE_CHECKING:
    from runspec_emulators.azure.batch.commands import Command
    from runspec_emulators.azure.batch.jobs import Job
    from runspec_emulators.azure.batch.requests import Request
    from runspec_emulators.azure.batch.world import World

MOST_AT_ONCE = 100  # "a maximum of 100 Tasks"
MOST_BYTES = 1024 * 1024  # "The total serialized size of this collection must be less than 1MB"
DEFAULTS = {
    "requiredSlots": 1,
    "userIdentity": {"autoUser": {"elevationLevel": "nonadmin"}},
}


class Attempt:
    """One placing of a task on nodes, the first of which has the primary."""

    def __init__(self, task: Task, nodes: list[Node], number: int) -> None:
        self.task = task
        self.nodes = nodes
        self.number = number
        self.slots = int(task.body["requiredSlots"])
        self.commands: list[Command] = []
        self.verdict: str | None = None
        """Why it was cut short: preempted, requeue, node-terminated, terminated, timeout, deleted,
        closed, subtask. The first reason stands."""
        self.exit_codes: list[int | None] = [None] * len(nodes)
        self.ended: str | None = None

    def is_cut(self) -> bool:
        return self.verdict is not None

    def cut(self, why: str) -> None:
        """End it before its end."""
        if self.verdict is None:
            self.verdict = why
        for command in list(self.commands):
            command.kill()

    def folder(self, node: Node) -> Path:
        return node.folder(WORK) / self.task.job.id / "job-1" / self.task.id


class Task(Thing):
    """One task of a job."""

    def __init__(self, job: Job, body: dict[str, Any]) -> None:
        super().__init__(body["id"], "active")
        self.job = job
        self.body = {**DEFAULTS, **body}
        limits = {"maxWallClockTime": "P10675199DT2H48M5.4775807S", "retentionTime": "P7D"}
        limits |= {"maxTaskRetryCount": job.body.get("constraints", {}).get("maxTaskRetryCount", 0)}
        self.body["constraints"] = {**limits, **body.get("constraints", {})}
        self.info: dict[str, Any] = {"retryCount": 0, "requeueCount": 0}
        self.attempts: list[Attempt] = []
        self.ready_at = 0.0
        """When it may be placed, by the monotonic clock."""

    @property
    def attempt(self) -> Attempt | None:
        """The attempt that is under way."""
        last = self.attempts[-1] if self.attempts else None
        return last if last and last.ended is None else None

    @property
    def instances(self) -> int:
        settings = self.body.get("multiInstanceSettings")
        return int(settings.get("numberOfInstances", 1)) if settings else 1

    def node_info(self, index: int = 0) -> dict[str, Any] | None:
        """Give where it ran last, or runs: BatchTaskNodeInfo."""
        if not self.attempts:
            return None
        node = self.attempts[-1].nodes[index]
        root = f"{WORK}/{self.job.id}/job-1/{self.id}"
        return {
            "affinityId": f"TVM:{node.id}",
            "nodeUrl": f"{node.pool.id}/nodes/{node.id}",
            "poolId": node.pool.id,
            "nodeId": node.id,
            "taskRootDirectory": root,
        }

    def shown(self, url: str) -> dict[str, Any]:
        """BatchTask of the service's description."""
        found = {**self.stamps(url), **self.body, "executionInfo": dict(self.info)}
        info = self.node_info()
        if info is not None and self.state != "active":
            found["nodeInfo"] = info
        return found


def fits_job(job: Job) -> None:
    """Raise ServiceError if no task can be added any more."""
    if job.state in ("terminating", "completed", "deleting"):
        codes = {"deleting": "JobBeingDeleted", "terminating": "JobBeingTerminated"}
        code = codes.get(job.state, "JobCompleted")
        raise ServiceError(code, f"The specified job is in state {job.state}.")


def check(world: World, job: Job, body: Mapping[str, Any]) -> None:
    """Raise ServiceError unless the task may be added to the job.

    jobAction: "If the Job's onTaskFailed property is noaction, then specifying this property returns
    an error and the add Task request fails with an invalid property value error". ExitOptions.
    """
    if acts(body.get("exitConditions", {})) and job.body["onTaskFailure"] == "noaction":
        raise wrong("jobAction", "", "the job's onTaskFailure is noaction")
    pool = world.pools.get(job.pool_id.lower())
    guards.task(body, None if pool is None else pool.contained)
    if "dependsOn" in body and not job.body.get("usesTaskDependencies"):
        raise ServiceError(
            "TaskDependenciesNotSpecifiedOnJob",
            "A task was specified as depending on other tasks, but the job did not specify that it "
            "would use task dependencies.",
        )
    preparation = job.body.get("jobPreparationTask")
    if preparation and preparation.get("id", "jobpreparation").lower() == body["id"].lower():
        raise ServiceError(
            "TaskIdSameAsJobPreparationTask", "The id is the job preparation task's."
        )
    if body["id"].lower() in job.tasks:
        raise ServiceError("TaskExists", "The specified task already exists.")


def put(world: World, job: Job, body: dict[str, Any]) -> Task:
    task = Task(job, body)
    job.tasks[task.id.lower()] = task
    task.remember(task.shown(world.task_url(task)))
    task.ready_at = time.monotonic() + world.settings.active_s
    return task


def add(world: World, request: Request) -> Answer:
    job = world.job(request.path["job_id"])
    fits_job(job)
    check(world, job, request.body)
    task = put(world, job, request.body)
    world.timers.after(world.settings.active_s, world.place)
    return Answer(201, headers=world.made(task, world.task_url(task)))


def add_collection(world: World, request: Request) -> Answer:
    """Add up to 100 tasks; each has its own result.

    "the status of each [...] success, clientError: the Task failed to add due to a client error and
    should not be retried without modifying the request". BatchTaskCreateResult.
    """
    job = world.job(request.path["job_id"])
    fits_job(job)
    bodies = request.body["value"]
    if len(bodies) > MOST_AT_ONCE:
        raise ServiceError(
            "InvalidPropertyValue", "There are more than 100 tasks.", PropertyName="value"
        )
    results = []
    for body in bodies:
        try:
            check(world, job, body)
        except ServiceError as exc:
            results.append({"status": "clienterror", "taskId": body["id"], "error": exc.model})
            continue
        task = put(world, job, body)
        results.append(
            {
                "status": "success",
                "taskId": task.id,
                "eTag": task.etag,
                "lastModified": task.modified,
                "location": world.task_url(task),
            }
        )
    world.timers.after(world.settings.active_s, world.place)
    return Answer(200, {"value": results})


def show(world: World, request: Request) -> Answer:
    task = world.task(request.path)
    return Answer(
        200, listing.selected(task.shown(world.task_url(task)), request), world.tags(task)
    )


def listed(world: World, request: Request) -> Answer:
    job = world.job(request.path["job_id"])
    return listing.page(
        world, request, job.tasks.values(), lambda t: t.shown(world.task_url(t)), "tasks"
    )


def update(world: World, request: Request) -> Answer:
    """ "Updates the properties of a Task", of which there is one: constraints."""
    task = world.task(request.path)
    if task.state == "completed":
        raise ServiceError("TaskCompleted", "The specified task is already in a completed state.")
    task.body["constraints"] |= request.body.get("constraints", {})
    task.touch()
    return Answer(200, headers=world.tags(task))


def terminate(world: World, request: Request) -> Answer:
    """ "When the Task has been terminated, it moves to the completed state"."""
    task = world.task(request.path)
    if task.state == "completed":
        raise ServiceError("TaskCompleted", "The specified task is already in a completed state.")
    world.runner.terminate(task)
    return Answer(204, headers=world.tags(task))


def delete(world: World, request: Request) -> Answer:
    """ "all of the files in its directory on the Compute Node where it ran are also deleted"."""
    task = world.task(request.path)
    world.runner.delete(task)
    return Answer(200)


def reactivate(world: World, request: Request) -> Answer:
    """Make a failed task active again.

    "Reactivation makes a Task eligible to be retried again up to its maximum retry count. [...]
    fail for Tasks that are not completed or that previously completed successfully (with an exit
    code of 0). Additionally, it will fail if the Job has completed (or is terminating or deleting)."
    """
    task = world.task(request.path)
    fits_job(task.job)
    if task.state != "completed":
        raise ServiceError("TaskNotCompleted", "The specified task is not in a completed state.")
    if task.info.get("result") == "success":
        raise ServiceError(
            "TaskSucceeded", "The specified task has already completed successfully."
        )
    task.info = {"retryCount": 0, "requeueCount": 0}
    task.move("active")
    world.place()
    return Answer(204, headers=world.tags(task))


def subtasks(world: World, request: Request) -> Answer:
    """ "If the Task is not a multi-instance Task then this returns an empty collection".

    Nothing ties their numbers to the order of AZ_BATCH_HOST_LIST, so here it is the opposite.
    """
    task = world.task(request.path)
    attempt = task.attempts[-1] if task.attempts else None
    if "multiInstanceSettings" not in task.body or attempt is None:
        return Answer(200, {"value": []})
    shown = []
    for number in range(1, task.instances):
        index = task.instances - number
        code = attempt.exit_codes[index]
        one: dict[str, Any] = {
            "id": number,
            "nodeInfo": task.node_info(index),
            "startTime": task.info.get("startTime", now()),
            "state": "running" if attempt.ended is None else "completed",
            "stateTransitionTime": task.moved,
        }
        if code is not None:
            one["exitCode"] = code
        if attempt.ended is not None:
            one |= {"endTime": attempt.ended, "result": "failure" if code else "success"}
        shown.append(one)
    return Answer(200, {"value": [listing.selected(s, request) for s in shown]})


def counts(world: World, request: Request) -> Answer:
    """Task counts by state: "the counts are eventually consistent"; here they are exact."""
    job = world.job(request.path["job_id"])
    slots = dict.fromkeys(("active", "running", "completed", "succeeded", "failed"), 0)
    number = dict(slots)
    for task in job.tasks.values():
        names = [{"preparing": "running"}.get(task.state, task.state)]
        if task.state == "completed":
            names.append("succeeded" if task.info.get("result") == "success" else "failed")
        for name in names:
            number[name] += 1
            slots[name] += int(task.body["requiredSlots"])
    return Answer(200, {"taskCounts": number, "taskSlotCounts": slots})
