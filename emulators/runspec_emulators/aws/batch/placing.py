"""Place a RUNNABLE job in the first environment that has room for it, or report why it stays RUNNABLE."""

from __future__ import annotations

from typing import NamedTuple

from runspec_emulators.aws.batch.jobs import Attempt, Job
from runspec_emulators.aws.batch.resources import Environment, Queue
from runspec_emulators.aws.batch.world import World
from runspec_emulators.aws.nodes.instances import Instance, Size, exceeds, holding, types
from runspec_emulators.aws.settings import Settings

# User guide, "Jobs stuck in a RUNNABLE status" and the pages below it
NO_CAPACITY = (
    "CAPACITY:INSUFFICIENT_INSTANCE_CAPACITY - "
    "Service cannot fulfill the capacity requested for instance type [{}]"
)
TOO_LARGE = (
    "MISCONFIGURATION:JOB_RESOURCE_REQUIREMENT - The job resource requirement (vCPU/memory/GPU) "
    "is higher than that can be met by the CE(s) attached to the job queue."
)
ABOVE_MAX = (
    "MISCONFIGURATION:COMPUTE_ENVIRONMENT_MAX_RESOURCE - "
    "All compute environments have a maxVcpu setting that is smaller than the job requirements."
)  # the words: DescribeJobs, statusReason
INVALID = "ACTION_REQUIRED - CE(s) associated with the job queue are invalid."


class Stuck(NamedTuple):
    """The job stays RUNNABLE; *reason* is None where it only waits for its turn."""

    reason: str | None


class Place(NamedTuple):
    """Where a job runs: the instance of each of its containers; none on Fargate and in UNMANAGED environments."""

    environment: Environment
    instances: list[Instance]


def place(job: Job, queue: Queue, world: World) -> Place | Stuck:
    """Return the place for a job. Environments are tried in ascending order. CreateJobQueue."""
    settings = world.settings
    if settings.runnable_reason is not None:
        return Stuck(settings.runnable_reason)
    environments = [world.environments[name] for name in queue.order if name in world.environments]
    valid = [e for e in environments if e.status == "VALID"]
    if not valid:
        return Stuck(INVALID)
    if settings.capacity == "none":
        names = valid[0].resources.get("instanceTypes", ("?",))
        return Stuck(NO_CAPACITY.format(", ".join(names)))
    valid = [e for e in valid if takes(e, job)]
    if not valid:
        return Stuck(None)
    large = [e for e in valid if e.has_no_instances or choices(e, job, settings)]
    if not large:
        return Stuck(TOO_LARGE)
    wide = [e for e in large if wide_enough(e, job, settings)]
    if not wide:
        return Stuck(ABOVE_MAX)
    places = (free(e, job, settings) for e in wide if e.state == "ENABLED")
    return next((place for place in places if place), Stuck(None))


def takes(environment: Environment, job: Job) -> bool:
    """Return whether an environment takes such jobs at all.

    A multi-node job in a queue of spot machines is accepted, "stays in the RUNNABLE state" and is "never executed":
    github.com/aws/aws-parallelcluster/issues/2098. Nobody there says that it has a statusReason.
    """
    return not (job.is_multinode and environment.kind == "SPOT")


def choices(environment: Environment, job: Job, settings: Settings) -> list[tuple[str, Size]]:
    """Return the instance types that may run a job: of those of the environment, the ones that hold it.

    instanceType of a multi-node job is "the instance type to use", and all its nodes "must use the same instance
    type". ContainerProperties, instanceType. The strategies of allocation go by price and by capacity, so any of
    the types may come: `Settings.instance_choice`.
    """
    allowed = [name for one in environment.resources["instanceTypes"] for name in types(one)]
    asked = {t for job in job.containers if (t := (job.container or {}).get("instanceType"))}
    allowed = [name for name in allowed if not asked or asked == {name}]
    sizes = holding(job.size(), allowed, settings.memory_share)
    return sizes if settings.instance_choice == "smallest" else sizes[::-1]


def wide_enough(environment: Environment, job: Job, settings: Settings) -> bool:
    """Return whether an environment without any other job has enough vCPUs for a job."""
    if job.vcpus() > environment.max_vcpus:
        return False
    return environment.has_no_instances or any(
        may_start(environment, job, size, 0.0) for _, size in choices(environment, job, settings)
    )


def may_start(environment: Environment, job: Job, size: Size, running: float) -> bool:
    """Return whether the instances for a job may be started beside *running* vCPUs of others.

    All nodes of a multi-node job start together, so that all their instances must fit: no source says that maxvCpus
    is exceeded for them.
    """
    if job.is_multinode:
        return running + len(job.containers) * size.vcpus <= environment.max_vcpus
    if exceeds(environment.resources):
        return running < environment.max_vcpus
    return running + size.vcpus <= environment.max_vcpus


def free(environment: Environment, job: Job, settings: Settings) -> Place | None:
    """Return the place that an environment has for a job now.

    Nodes of a multi-node job are single-tenant: "only a single job container is run on each Amazon EC2 instance".
    https://docs.aws.amazon.com/batch/latest/userguide/multi-node-parallel-jobs.html
    """
    if environment.has_no_instances:
        return Place(environment, []) if job.vcpus() <= environment.free_vcpus() else None
    sizes = choices(environment, job, settings)
    names = {name for name, _ in sizes}
    if not job.is_multinode:
        for instance in environment.instances:
            if instance.type in names and instance.has_room(job.size()):
                return Place(environment, [instance])
    running = sum(instance.size.vcpus for instance in environment.instances)
    for name, size in sizes:
        if may_start(environment, job, size, running):
            made = [Instance(name, size, job.is_multinode) for _ in job.containers]
            return Place(environment, made)
    return None


def board(world: World, job: Job, made: Attempt, environment: Environment, on: Instance) -> None:
    """Put an attempt on an instance; its containers get the address of the instance.

    A job of one node keeps the address that it has, because no other node has to be told apart from it.
    """
    if not on.id:
        on.id, on.arn, on.address = made.instance, made.instance_arn, world.addresses.take()
        environment.instances.append(on)
    on.jobs[job.id] = job.size()
    made.instance, made.instance_arn = on.id, on.arn
    if job.parent is not None:
        made.address = on.address


def leave(world: World, job: Job, attempt: Attempt) -> None:
    """Free what the attempt of a job had of its machine, which ends when nothing else runs there."""
    environment = world.environments.get(job.environment or "")
    for instance in environment.instances if environment else ():
        if instance.id == attempt.instance:
            instance.jobs.pop(job.id, None)
            if environment and not instance.jobs:
                environment.instances.remove(instance)
                world.addresses.give_back(instance.address)
            return
    world.addresses.give_back(attempt.address)
