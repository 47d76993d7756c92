"""Tasks: how they are added, shown, changed, and what there is to know of each attempt."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from runspec_emulators.azure_batch.api import listing, validation
from runspec_emulators.azure_batch.api.requests import Request
from runspec_emulators.azure_batch.errors import ServiceError, model, wrong
from runspec_emulators.azure_batch.model import Job, Task
from runspec_emulators.azure_batch.resource import Response, now
from runspec_emulators.azure_batch.tasks.exit_conditions import acts
from runspec_emulators.azure_batch.world import World

MOST_AT_ONCE = 100  # "a maximum of 100 Tasks"
MOST_BYTES = 1024 * 1024  # "The total serialized size of this collection must be less than 1MB"


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
    validation.task(body, None if pool is None else pool.contained)
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
    # Lists show a new task at once, and the scheduler takes it a moment later.
    task.ready_at = time.monotonic() + world.settings.active_s
    return task


def add(world: World, request: Request) -> Response:
    job = world.job(request.path["job_id"])
    fits_job(job)
    check(world, job, request.body)
    task = put(world, job, request.body)
    world.timers.after(world.settings.active_s, world.place)
    return Response(201, headers=world.made(task, world.task_url(task)))


def add_collection(world: World, request: Request) -> Response:
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
            results.append({"status": "clienterror", "taskId": body["id"], "error": model(exc)})
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
    return Response(200, {"value": results})


def show(world: World, request: Request) -> Response:
    task = world.task(request.path)
    return Response(
        200, listing.selected(task.shown(world.task_url(task)), request), world.tags(task)
    )


def listed(world: World, request: Request) -> Response:
    job = world.job(request.path["job_id"])
    return listing.page(
        world, request, job.tasks.values(), lambda t: t.shown(world.task_url(t)), "tasks"
    )


def update(world: World, request: Request) -> Response:
    """ "Updates the properties of a Task", of which there is one: constraints."""
    task = world.task(request.path)
    if task.state == "completed":
        raise ServiceError("TaskCompleted", "The specified task is already in a completed state.")
    task.body["constraints"] |= request.body.get("constraints", {})
    task.touch()
    return Response(200, headers=world.tags(task))


def terminate(world: World, request: Request) -> Response:
    """ "When the Task has been terminated, it moves to the completed state"."""
    task = world.task(request.path)
    if task.state == "completed":
        raise ServiceError("TaskCompleted", "The specified task is already in a completed state.")
    world.runner.terminate(task)
    return Response(204, headers=world.tags(task))


def delete(world: World, request: Request) -> Response:
    """ "all of the files in its directory on the Compute Node where it ran are also deleted"."""
    task = world.task(request.path)
    world.runner.delete(task)
    return Response(200)


def reactivate(world: World, request: Request) -> Response:
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
    # The attempts of before the reactivation do not count any more.
    task.info = {"retryCount": 0, "requeueCount": 0}
    task.move("active")
    world.place()
    return Response(204, headers=world.tags(task))


def subtasks(world: World, request: Request) -> Response:
    """ "If the Task is not a multi-instance Task then this returns an empty collection".

    Nothing ties their numbers to the order of AZ_BATCH_HOST_LIST, so here it is the opposite.
    """
    task = world.task(request.path)
    attempt = task.attempts[-1] if task.attempts else None
    if "multiInstanceSettings" not in task.body or attempt is None:
        return Response(200, {"value": []})
    shown = []
    for number in range(1, task.instances):
        index = task.instances - number
        code = attempt.exit_codes[index]
        entry: dict[str, Any] = {
            "id": number,
            "nodeInfo": task.node_info(index),
            "startTime": task.info.get("startTime", now()),
            "state": "running" if attempt.ended is None else "completed",
            "stateTransitionTime": task.moved,
        }
        if code is not None:
            entry["exitCode"] = code
        if attempt.ended is not None:
            entry |= {"endTime": attempt.ended, "result": "failure" if code else "success"}
        shown.append(entry)
    return Response(200, {"value": [listing.selected(s, request) for s in shown]})


def counts(world: World, request: Request) -> Response:
    """Task counts by state: "the counts are eventually consistent"; here they are exact."""
    job = world.job(request.path["job_id"])
    slots = dict.fromkeys(("active", "running", "completed", "succeeded", "failed"), 0)
    number = dict(slots)
    for task in job.tasks.values():
        # The counts have no preparing tasks: their nodes are taken already.
        names = [{"preparing": "running"}.get(task.state, task.state)]
        if task.state == "completed":
            names.append("succeeded" if task.info.get("result") == "success" else "failed")
        for name in names:
            number[name] += 1
            slots[name] += int(task.body["requiredSlots"])
    return Response(200, {"taskCounts": number, "taskSlotCounts": slots})
