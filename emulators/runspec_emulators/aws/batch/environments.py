"""Compute environments and job queues: making, changing, describing and deleting them."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from runspec_emulators.aws.batch import schedule
from runspec_emulators.aws.batch.resources import FARGATE, Environment, Queue, named
from runspec_emulators.aws.batch.world import World
from runspec_emulators.aws.errors import check_supported, refused
from runspec_emulators.aws.paging import page

MOST_ENVIRONMENTS = 3  # user guide, "Service quotas"
NOT_FOR_FARGATE = (  # CreateComputeEnvironment: "isn't applicable to [...] Fargate. Don't specify it."
    "minvCpus desiredvCpus allocationStrategy instanceTypes imageId ec2KeyPair instanceRole tags "
    "placementGroup bidPercentage spotIamFleetRole launchTemplate ec2Configuration"
).split()


def forget(things: dict[str, Any], name: str) -> None:
    things.pop(name, None)


def check_resources(params: Mapping[str, Any]) -> None:
    """Refuse computeResources that CreateComputeEnvironment's documentation rules out."""
    resources = params.get("computeResources")
    if params["type"] == "UNMANAGED":
        return
    if resources is None:
        raise refused("computeResources is required for managed compute environments")
    if resources["type"] == "ECS_MANAGED_INSTANCES":
        raise refused("this emulator does not support ECS_MANAGED_INSTANCES")
    if not resources.get("subnets"):
        raise refused("subnets is required")
    if resources["type"] in FARGATE:
        # The service refuses them, and a client that sends them anyway would pass here.
        given = [name for name in NOT_FOR_FARGATE if name in resources]
        if given:
            raise refused(f"not applicable to Fargate: {given}")
        if not resources.get("securityGroupIds"):
            raise refused("securityGroupIds is required for Fargate")
        return
    if not resources.get("instanceTypes") or not resources.get("instanceRole"):
        raise refused("instanceTypes and instanceRole are required for EC2")
    best_fit = resources.get("allocationStrategy", "BEST_FIT") == "BEST_FIT"
    if resources["type"] == "SPOT" and best_fit and not resources.get("spotIamFleetRole"):
        raise refused("spotIamFleetRole is required with the allocation strategy BEST_FIT")


def create_environment(world: World, params: dict[str, Any]) -> dict[str, Any]:
    check_supported(params, "eksConfiguration")
    name = params["computeEnvironmentName"]
    if name in world.environments:
        raise refused("Object already exists")
    if params.get("state", "ENABLED") != "ENABLED":
        raise refused("A compute environment must be created in the ENABLED state")
    check_resources(params)
    made = Environment(name, world.arn(f"compute-environment/{name}"), dict(params))
    made.tags = dict(params.get("tags", {}))
    world.environments[name] = made

    def known() -> None:
        made.reason = world.settings.invalid.get(name)
        made.status = "INVALID" if made.reason else "VALID"
        made.reason = made.reason or "ComputeEnvironment Healthy"
        schedule.place_all(world)

    world.timers.after(world.settings.valid_s, known)
    return {"computeEnvironmentName": name, "computeEnvironmentArn": made.arn}


def the_environment(world: World, name_or_arn: str) -> Environment:
    environment = world.environments.get(named(name_or_arn))
    if environment is None or environment.status == "DELETING":
        raise refused(f"ComputeEnvironment not found: {name_or_arn}")
    return environment


def update_environment(world: World, params: dict[str, Any]) -> dict[str, Any]:
    environment = the_environment(world, params["computeEnvironment"])
    for key, value in params.items():
        if key == "computeResources":
            # What an update leaves out stays.
            environment.params[key] = {**environment.resources, **value}
        elif key != "computeEnvironment":
            environment.params[key] = value
    schedule.place_all(world)
    return {"computeEnvironmentName": environment.name, "computeEnvironmentArn": environment.arn}


def delete_environment(world: World, params: dict[str, Any]) -> dict[str, Any]:
    """Delete one that is DISABLED and that no queue uses. DeleteComputeEnvironment."""
    environment = the_environment(world, params["computeEnvironment"])
    if environment.state != "DISABLED":
        raise refused("Cannot delete, state must be DISABLED")
    users = [queue.name for queue in world.queues.values() if environment.name in queue.order]
    if users:
        raise refused(f"Cannot delete, found existing JobQueue relationship: {users}")
    environment.status = "DELETING"
    world.timers.after(
        world.settings.delete_s, partial(forget, world.environments, environment.name)
    )
    return {}


def describe_environments(world: World, params: dict[str, Any]) -> dict[str, Any]:
    wanted = {named(name) for name in params.get("computeEnvironments", ())}
    environments = [e for e in world.environments.values() if not wanted or e.name in wanted]
    details = [
        {
            "type": "MANAGED",
            **e.params,
            "state": e.state,
            "computeEnvironmentArn": e.arn,
            "status": e.status,
            "statusReason": e.reason,
            "ecsClusterArn": world.arn(f"cluster/{e.name}", "ecs"),
            "tags": e.tags or None,
        }
        for e in environments
    ]
    return page("computeEnvironments", details, params, 100)


def check_order(world: World, order: list[Mapping[str, Any]]) -> None:
    """Refuse environments that a queue cannot have. CreateJobQueue, computeEnvironmentOrder."""
    if not 1 <= len(order) <= MOST_ENVIRONMENTS:
        raise refused(f"a queue has 1 to {MOST_ENVIRONMENTS} compute environments: {len(order)}")
    environments = [the_environment(world, entry["computeEnvironment"]) for entry in order]
    for environment in environments:
        # A client that does not wait for VALID meets this in the service.
        if environment.status != "VALID":
            raise refused(f"{environment.arn} is not VALID: {environment.status}")
    if len({environment.kind in FARGATE for environment in environments}) > 1:
        raise refused("EC2 and Fargate compute environments can't be mixed")


def create_queue(world: World, params: dict[str, Any]) -> dict[str, Any]:
    check_supported(params, "schedulingPolicyArn", "serviceEnvironmentOrder")
    name = params["jobQueueName"]
    if name in world.queues:
        raise refused("Object already exists")
    check_order(world, params.get("computeEnvironmentOrder", []))
    made = Queue(name, world.arn(f"job-queue/{name}"), dict(params))
    made.tags = dict(params.get("tags", {}))
    world.queues[name] = made

    def known() -> None:
        made.status, made.reason = "VALID", "JobQueue Healthy"

    world.timers.after(world.settings.valid_s, known)
    return {"jobQueueName": name, "jobQueueArn": made.arn}


def the_queue(world: World, name_or_arn: str) -> Queue:
    queue = world.queues.get(named(name_or_arn))
    if queue is None or queue.status == "DELETING":
        raise refused(f"JobQueue not found: {name_or_arn}")
    return queue


def update_queue(world: World, params: dict[str, Any]) -> dict[str, Any]:
    check_supported(params, "schedulingPolicyArn", "serviceEnvironmentOrder")
    queue = the_queue(world, params["jobQueue"])
    if "computeEnvironmentOrder" in params:
        check_order(world, params["computeEnvironmentOrder"])
    queue.params.update({k: v for k, v in params.items() if k != "jobQueue"})
    schedule.place_all(world)
    return {"jobQueueName": queue.name, "jobQueueArn": queue.arn}


def delete_queue(world: World, params: dict[str, Any]) -> dict[str, Any]:
    """Delete one that is DISABLED; its jobs are terminated. DeleteJobQueue."""
    queue = the_queue(world, params["jobQueue"])
    if queue.state != "DISABLED":
        raise refused("Cannot delete, state must be DISABLED")
    queue.status = "DELETING"
    for job in world.jobs:
        if job.queue == queue.name and job.parent is None:
            schedule.terminate(world, job, f"JobQueue {queue.name} was deleted")
    world.timers.after(world.settings.delete_s, partial(forget, world.queues, queue.name))
    return {}


def describe_queues(world: World, params: dict[str, Any]) -> dict[str, Any]:
    wanted = {named(name) for name in params.get("jobQueues", ())}
    queues = [q for q in world.queues.values() if not wanted or q.name in wanted]
    details = [
        {
            **q.params,
            "state": q.state,
            "jobQueueArn": q.arn,
            "status": q.status,
            "statusReason": q.reason,
            "tags": q.tags or None,
            "computeEnvironmentOrder": [
                {"order": n, "computeEnvironment": world.arn(f"compute-environment/{name}")}
                for n, name in enumerate(q.order, 1)
            ],
        }
        for q in queues
    ]
    return page("jobQueues", details, params, 100)
