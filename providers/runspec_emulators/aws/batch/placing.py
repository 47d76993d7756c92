"""Place a RUNNABLE job in the first environment that has room for it, or report why it stays RUNNABLE."""

from __future__ import annotations

from typing import NamedTuple

from runspec_emulators.aws.batch.jobs import Job
from runspec_emulators.aws.batch.resources import FARGATE, Environment, Queue
from runspec_emulators.aws.batch.world import World
from runspec_emulators.aws.nodes.instance_types import fits

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


def place(job: Job, queue: Queue, world: World) -> Environment | Stuck:
    """Return the environment for a job. They are tried in ascending order. CreateJobQueue."""
    settings = world.settings
    if settings.runnable_reason is not None:
        return Stuck(settings.runnable_reason)
    found = [world.environments[name] for name in queue.order if name in world.environments]
    valid = [e for e in found if e.status == "VALID"]
    if not valid:
        return Stuck(INVALID)
    if settings.capacity == "none":
        types = valid[0].resources.get("instanceTypes", ("?",))
        return Stuck(NO_CAPACITY.format(", ".join(types)))
    large = [e for e in valid if holds(e, job, settings.memory_share)]
    if not large:
        return Stuck(TOO_LARGE)
    wide = [e for e in large if job.vcpus() <= e.resources.get("maxvCpus", float("inf"))]
    if not wide:
        return Stuck(ABOVE_MAX)
    free = [e for e in wide if e.state == "ENABLED" and job.vcpus() <= e.free_vcpus()]
    return free[0] if free else Stuck(None)


def holds(environment: Environment, job: Job, memory_share: float) -> bool:
    if environment.kind in (*FARGATE, "UNMANAGED"):
        return True
    types = environment.resources.get("instanceTypes", ())
    wanted = {t for one in job.containers if (t := (one.container or {}).get("instanceType"))}
    return fits(job.size(), wanted or types, memory_share)
