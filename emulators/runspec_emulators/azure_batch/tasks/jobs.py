"""Jobs: how they are added, shown, changed, and how they end."""

from __future__ import annotations

from functools import partial
from typing import Any

from runspec_emulators.azure_batch.api import listing, validation
from runspec_emulators.azure_batch.api.requests import Request
from runspec_emulators.azure_batch.errors import ServiceError, wrong
from runspec_emulators.azure_batch.model import Job
from runspec_emulators.azure_batch.resource import Response, now, seconds
from runspec_emulators.azure_batch.world import World


def check(body: dict[str, Any]) -> None:
    """Rules of BatchJobCreateOptions."""
    validation.exactly_one("poolInfo", body["poolInfo"], ("poolId", "autoPoolSpecification"))
    if "autoPoolSpecification" in body["poolInfo"]:
        raise wrong("autoPoolSpecification", "", "this emulator does not support auto pools")
    for other in ("jobManagerTask", "jobReleaseTask", "networkConfiguration"):
        if other in body:
            raise wrong(other, "", "this emulator does not support it")
    if not -1000 <= body.get("priority", 0) <= 1000:
        raise wrong("priority", body["priority"], "it must be from -1000 to 1000")
    if "jobPreparationTask" in body:
        validation.task_like(body["jobPreparationTask"], "jobPreparationTask")


def add(world: World, request: Request) -> Response:
    """Add a job. Its pool must be there: "You must ensure that the Pool referenced exists"."""
    body = request.body
    validation.id_of(body)
    check(body)
    existing = world.jobs.get(body["id"].lower())
    if existing is not None:
        code = "JobBeingDeleted" if existing.state == "deleting" else "JobExists"
        raise ServiceError(code, "The specified job already exists.")
    pool = world.pool(body["poolInfo"]["poolId"])
    if pool.state == "deleting":
        raise ServiceError("PoolBeingDeleted", "The specified pool has been marked for deletion.")
    job = Job(body)
    world.jobs[job.id.lower()] = job
    job.remember(job.shown(world.job_url(job)))
    limit = seconds(job.body["constraints"]["maxWallClockTime"])
    # A longer limit is the service's way to write none.
    if limit is not None and limit < 10**7:
        world.timers.after(limit, partial(expire, world, job))
    all_done(world, job)
    return Response(201, headers=world.made(job, world.job_url(job)))


def expire(world: World, job: Job) -> None:
    """ "the Batch service terminates it and any Tasks that are still running", with this reason."""
    if world.jobs.get(job.id.lower()) is job:
        end(world, job, "MaxWallClockTimeExpiry")


def show(world: World, request: Request) -> Response:
    job = world.job(request.path["job_id"])
    return Response(200, listing.selected(job.shown(world.job_url(job)), request), world.tags(job))


def listed(world: World, request: Request) -> Response:
    return listing.page(
        world, request, world.jobs.values(), lambda j: j.shown(world.job_url(j)), "jobs"
    )


def changeable(world: World, request: Request) -> Job:
    job = world.job(request.path["job_id"])
    codes = {
        "deleting": "JobBeingDeleted",
        "terminating": "JobBeingTerminated",
        "completed": "JobCompleted",
    }
    if job.state in codes:
        raise ServiceError(codes[job.state], f"The specified job is in state {job.state}.")
    return job


def patch(world: World, request: Request) -> Response:
    """Replace what is given.

    onAllTasksComplete: "once a Job has been set to terminatejob [...] it may not be set back", and
    "If the Job contains no Tasks, then all Tasks are considered complete", so an empty job ends.
    """
    job = changeable(world, request)
    body = request.body
    if (
        body.get("onAllTasksComplete") == "noaction"
        and job.body["onAllTasksComplete"] != "noaction"
    ):
        raise wrong("onAllTasksComplete", "noaction", "it cannot be changed back to noaction")
    if "poolInfo" in body and job.state != "disabled":
        raise ServiceError(
            "OperationInvalidForCurrentState",
            "The pool can only be changed when the job is disabled.",
        )
    body = dict(body)
    if "constraints" in body:
        # Constraints that a patch leaves out keep their values.
        body["constraints"] = {**job.body["constraints"], **body["constraints"]}
    job.body |= body
    job.touch()
    all_done(world, job)
    return Response(200, headers=world.tags(job))


def terminate(world: World, request: Request) -> Response:
    """End a job.

    "When a Terminate Job request is received, the Batch service sets the Job to the terminating
    state [...] terminates any running Tasks [...] then the Job moves into the completed state".
    """
    job = changeable(world, request)
    end(world, job, (request.body or {}).get("terminateReason", "UserTerminate"))
    return Response(202, headers=world.tags(job))


def end(world: World, job: Job, reason: str) -> None:
    """End a job and all its tasks that have not ended.

    Tasks that never ran: "If there are any Tasks in the Job still in the active state, they will
    remain in the active state. Once a Job is terminated, new Tasks cannot be added and any remaining
    active Tasks will not be scheduled."
    """
    if job.state in ("terminating", "completed", "deleting"):
        return
    job.info["terminateReason"] = reason
    job.move("terminating")
    for task in job.tasks.values():
        if task.attempt is not None:
            world.runner.terminate(task)
    ended(world, job)


def ended(world: World, job: Job) -> None:
    """Set a terminating job to completed once none of its tasks runs."""
    if job.state != "terminating":
        return
    if any(t.attempt for t in job.tasks.values()):
        world.timers.after(0.01, partial(ended, world, job))
        return
    job.info["endTime"] = now()
    job.move("completed")


def all_done(world: World, job: Job) -> None:
    """End a job whose tasks are all complete, if it is to end then.

    "AllTasksComplete - the Job's onAllTasksComplete attribute is set to terminatejob". BatchJobExecutionInfo.
    """
    done = all(t.state == "completed" for t in job.tasks.values())
    if job.state == "active" and done and job.body["onAllTasksComplete"] == "terminatejob":
        end(world, job, "AllTasksComplete")


def delete(world: World, request: Request) -> Response:
    """Delete a job; it is gone a while later.

    "also deletes all Tasks that are part of that Job [...] the Batch service sets the Job to the
    deleting state".
    """
    job = world.job(request.path["job_id"])
    if job.state == "deleting":
        raise ServiceError("JobBeingDeleted", "The specified job has been marked for deletion.")
    job.move("deleting")
    for task in list(job.tasks.values()):
        world.runner.delete(task)
    # A client that does not wait would meet JobBeingDeleted when it adds the job again.
    world.timers.after(world.settings.delete_s, partial(remove, world, job))
    return Response(202)


def remove(world: World, job: Job) -> None:
    if any(t.attempt for t in job.tasks.values()):
        world.timers.after(0.01, partial(remove, world, job))
        return
    world.jobs.pop(job.id.lower(), None)


def disable(world: World, request: Request) -> Response:
    """Start no tasks any more; running ones are queued again, ended or waited for."""
    job = changeable(world, request)
    job.move("disabling")
    how = request.body["disableTasks"]
    for task in job.tasks.values():
        if task.attempt is not None and how == "requeue":
            task.attempt.cut("requeue")
        elif task.attempt is not None and how == "terminate":
            world.runner.terminate(task)
    disabled(world, job)
    return Response(202, headers=world.tags(job))


def disabled(world: World, job: Job) -> None:
    if job.state == "disabling":
        if any(t.attempt for t in job.tasks.values()):
            world.timers.after(0.01, partial(disabled, world, job))
        else:
            job.move("disabled")


def enable(world: World, request: Request) -> Response:
    job = changeable(world, request)
    job.move("active")
    world.place()
    return Response(202, headers=world.tags(job))


def preparations(world: World, request: Request) -> Response:
    """Return the result of the job preparation task on each node."""
    job = world.job(request.path["job_id"])
    if "jobPreparationTask" not in job.body:
        message = "The specified job does not have job preparation task."
        raise ServiceError("JobPreparationTaskNotSpecified", message)
    shown = [
        {
            "poolId": node.pool.id,
            "nodeId": node.id,
            "nodeUrl": f"{world.pool_url(node.pool)}/nodes/{node.id}",
            "jobPreparationTaskExecutionInfo": node.prepared[job.id],
        }
        for pool in world.pools.values()
        for node in pool.nodes.values()
        if job.id in node.prepared
    ]
    return Response(200, {"value": shown})
