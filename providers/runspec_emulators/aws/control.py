"""The paths that are the rehearsal's own here: settings, jobs; and container metadata."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from runspec_emulators.aws import reclaims
from runspec_emulators.aws.jobs import Attempt, Job

if TYPE_CHECKING:
    from runspec_emulators.aws.server import Listener

METADATA = "/v4/"


def put_settings(server: Listener, given: Any) -> Any:
    world = server.world
    with world.lock:
        world.settings = world.settings.changed(given)
        world.scheduler.place_all()
    return {}


def reclaim(server: Listener, given: Any) -> Any:
    """Take away the machine of `jobId`; with `notice_s`, so many seconds after its metadata says so."""
    world = server.world
    with world.lock:
        job = world.jobs.get(given["jobId"])
        notice_s = given.get("notice_s")
        if job is None or not reclaims.reclaim(world, job, notice_s):
            raise ValueError(f"{given['jobId']} is on no machine that could be taken away")
    return {}


def out_of_memory(server: Listener, given: Any) -> Any:
    world = server.world
    with world.lock:
        job = world.jobs.get(given["jobId"])
        if job is None or not world.scheduler.out_of_memory(job):
            raise ValueError(f"no container of {given['jobId']} runs")
    return {}


def jobs(server: Listener, _given: Any) -> Any:
    """Tell how things are: no lag, nothing forgotten."""
    with server.world.lock:
        return [truth(job) for job in server.world.jobs]


def truth(job: Job) -> dict[str, Any]:
    return {
        "id": job.id,
        "name": job.name,
        "status": job.status,
        "statusReason": job.status_reason,
        "attempts": [
            {"number": a.number, "exitCode": a.exit_code, "statusReason": a.status_reason}
            for a in job.main.attempts
        ],
        "starts": job.starts,
        "running": any(a.running for a in job.attempts),
    }


HANDLERS = {
    ("PUT", "settings"): put_settings,
    ("POST", "reclaim"): reclaim,
    ("POST", "out-of-memory"): out_of_memory,
    ("GET", "jobs"): jobs,
}


# ECS_CONTAINER_METADATA_URI_V4


def metadata(server: Listener, path: str) -> tuple[int, Any]:
    """Answer a container that asks about itself, or about its task.

    https://docs.aws.amazon.com/AmazonECS/latest/developerguide/task-metadata-endpoint-v4-response.html
    """
    task, _, more = path.partition("/")
    with server.world.lock:
        if task not in server.world.tasks or more not in ("", "task"):
            return 404, {"message": "no such task"}
        job, attempt = server.world.tasks[task]
        container = of_container(job, attempt)
    if not more:
        return 200, container
    family = job.definition["jobDefinitionName"]
    return 200, {
        "Cluster": job.environment,
        "TaskARN": attempt.task_arn,
        "Family": family,
        "DesiredStatus": "RUNNING",
        "KnownStatus": "RUNNING",
        "Containers": [container],
    }


def of_container(job: Job, attempt: Attempt) -> dict[str, Any]:
    """Give the metadata of one container. Nodes of multi-node jobs use the network mode awsvpc."""
    multinode = job.parent is not None and job.parent.is_multinode
    mode = "awsvpc" if multinode else "host"
    return {
        "DockerId": attempt.task,
        "Name": "default",
        "Image": (job.container or {}).get("image"),
        "Labels": {"com.amazonaws.ecs.task-arn": attempt.task_arn},
        "DesiredStatus": "RUNNING",
        "KnownStatus": "RUNNING",
        "Type": "NORMAL",
        "Networks": [{"NetworkMode": mode, "IPv4Addresses": [attempt.address]}],
    }
