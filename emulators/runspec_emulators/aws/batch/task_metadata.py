"""The metadata services of containers and machines, about their task and their machine."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from runspec_emulators.aws.batch.jobs import Attempt, Job
from runspec_emulators.aws.batch.world import World
from runspec_emulators.aws.nodes.imds import Answer

TASK = "/v4/"
MACHINE = "/imds/"


def of_machine(world: World, method: str, path: str, headers: Mapping[str, str]) -> Answer:
    """Answer a request to `/imds/<task>/latest/...` as the machine of the task does."""
    task, _, item = path.removeprefix(MACHINE).partition("/")
    with world.lock:
        if task not in world.tasks:
            return 404, "Not Found"
        return world.tasks[task][1].machine.answer(method, item, headers)


def of_task(world: World, path: str) -> tuple[int, Any]:
    """Answer a container that asks about itself, or about its task.

    https://docs.aws.amazon.com/AmazonECS/latest/developerguide/task-metadata-endpoint-v4-response.html
    """
    task, _, more = path.removeprefix(TASK).partition("/")
    with world.lock:
        if task not in world.tasks or more not in ("", "task"):
            return 404, {"message": "no such task"}
        job, attempt = world.tasks[task]
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
    """Return the metadata of one container. Nodes of multi-node jobs use the network mode awsvpc."""
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
