"""Compute environments, and the job queues that use them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from runspec_aws import timing
from runspec_aws.infrastructure import launch_template, lustre
from runspec_aws.naming import batch, tags
from runspec_aws.options import AwsOptions
from runspec_aws.resources import room
from runspec_aws.resources.request import machines
from runspec_jobs.provider import Capacity, Request, Scope, Spec, Step, content_name, in_turn

# capacity: the kinds of compute environment, in the order in which the queue tries them: on-demand if there is no
# spot
# https://docs.aws.amazon.com/batch/latest/userguide/job_queues.html
KINDS: Mapping[Capacity, tuple[str, ...]] = {
    Capacity.ON_DEMAND: ("EC2",),
    Capacity.SPOT: ("SPOT",),
    Capacity.SPOT_THEN_ON_DEMAND: ("SPOT", "EC2"),
}
# The reasons for which a waiting job may be ended; reasons that are not listed do not allow it:
# https://docs.aws.amazon.com/batch/latest/userguide/job_stuck_in_runnable_time_limit_actions.html
HOPELESS = (
    "CAPACITY:INSUFFICIENT_INSTANCE_CAPACITY",
    "MISCONFIGURATION:COMPUTE_ENVIRONMENT_MAX_RESOURCE",
    "MISCONFIGURATION:JOB_RESOURCE_REQUIREMENT",
)
ENVIRONMENT, QUEUE = ("compute_environment", "computeEnvironment"), ("job_queue", "jobQueue")
# https://docs.aws.amazon.com/batch/latest/userguide/allocation-strategies.html
STRATEGIES = {"EC2": "BEST_FIT_PROGRESSIVE", "SPOT": "SPOT_PRICE_CAPACITY_OPTIMIZED"}


def kinds(spec: Spec, options: AwsOptions) -> tuple[str, ...]:
    found = KINDS[spec.cluster.capacity]
    if options.fargate:
        return tuple("FARGATE" if kind == "EC2" else "FARGATE_SPOT" for kind in found)
    return found


def queue_name(spec: Spec, options: AwsOptions) -> str:
    """Return the name of the queue of *spec*: the profile's, or the one that is made for such jobs."""
    return options.queue or content_name("queue", _queue(spec, options))


def steps(spec: Spec, options: AwsOptions) -> Iterator[Step]:
    """Yield the steps that make the queue and its compute environments; none for an existing queue."""
    if options.queue:
        return
    if spec.cluster.placement:
        yield _placement(spec, options)
    if launch_template.data(spec, options):
        yield launch_template.step(spec, options)
    for kind in kinds(spec, options):
        yield from _environment(kind, spec, options)
    yield from _queue_steps(spec, options)


def _placement(spec: Spec, options: AwsOptions) -> Step:
    """Return the step that makes a placement group.

    https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/placement-strategies.html#placement-groups-cluster
    """
    name = placement_name(spec, options)
    return Step(
        "placement",
        "make a placement group, for machines that are close to each other",
        Scope.SITE,
        Request("ec2", "create_placement_group", {"GroupName": name, "Strategy": "cluster"}),
        Request("ec2", "delete_placement_group", {"GroupName": name}),
        timing.DEFAULT.settle_s,
    )


def placement_name(spec: Spec, options: AwsOptions) -> str:
    return content_name("close", [list(options.subnets), list(machines(spec, options))])


def _environment(kind: str, spec: Spec, options: AwsOptions) -> Iterator[Step]:
    made = {"type": "MANAGED", "computeResources": _resources(kind, spec, options)}
    if options.service_role:
        made["serviceRole"] = options.service_role
    name = content_name(kind.lower().replace("_", "-"), made)
    do = batch(
        "create_compute_environment",
        computeEnvironmentName=name,
        state="ENABLED",
        **made,
        tags=tags(options, kind="environment"),
    )
    title = f"make a compute environment: {kind}, {_shown(kind, spec, options)}"
    yield Step(
        step_id(kind), title, Scope.SITE, do, deletion(ENVIRONMENT, name), timing.DEFAULT.settle_s
    )


def step_id(kind: str) -> str:
    return f"environment-{kind.lower().replace('_', '-')}"


def deletion(what: tuple[str, str], name: str) -> Request:
    """Return the calls that delete a compute environment or queue, which must be disabled first.

    https://docs.aws.amazon.com/batch/latest/APIReference/API_DeleteComputeEnvironment.html
    """
    noun, key = what
    off = batch(f"update_{noun}", **{key: name, "state": "DISABLED"})
    return in_turn(off, batch(f"delete_{noun}", **{key: name}))


def _shown(kind: str, spec: Spec, options: AwsOptions) -> str:
    if kind.startswith("FARGATE"):
        return f"up to {room.max_vcpus(spec, options)} vCPUs"
    found = room.types(spec, options)
    more = f" and {len(found) - 2} more" if len(found) > 2 else ""
    return f"{', '.join(found[:2])}{more}, up to {room.max_vcpus(spec, options)} vCPUs"


def _resources(kind: str, spec: Spec, options: AwsOptions) -> dict[str, Any]:
    found: dict[str, Any] = {
        "type": kind,
        "maxvCpus": room.max_vcpus(spec, options),
        "subnets": list(options.subnets),
        "securityGroupIds": list(options.security_groups),
    }
    if kind.startswith("FARGATE"):
        return found
    found |= {
        "allocationStrategy": STRATEGIES[kind],
        "minvCpus": 0,  # no cost while no job runs
        "instanceTypes": list(room.types(spec, options)),
        "instanceRole": options.instance_role,
        "tags": tags(options, kind="machine"),
    }
    if options.key_pair:
        found["ec2KeyPair"] = options.key_pair
    own = {"imageIdOverride": options.ami} if options.ami else {}
    if own or lustre.systems(spec, options):  # the mount script is written for Amazon Linux 2023
        image = "ECS_AL2023_NVIDIA" if spec.cluster.gpus else "ECS_AL2023"
        found["ec2Configuration"] = [{"imageType": image, **own}]
    if template := launch_template.data(spec, options):
        name = launch_template.name(spec, options)
        found["launchTemplate"] = {"launchTemplateName": name, "version": "$Latest"}
        if "NetworkInterfaces" in template:  # the template's interfaces contain the security groups
            del found["securityGroupIds"]
    elif options.launch_template:
        found["launchTemplate"] = {
            "launchTemplateId": options.launch_template,
            "version": "$Default",
        }
    if spec.cluster.placement:
        found["placementGroup"] = placement_name(spec, options)
    return found


def _queue(spec: Spec, options: AwsOptions) -> dict[str, Any]:
    made = [
        {"type": "MANAGED", "computeResources": _resources(kind, spec, options)}
        for kind in kinds(spec, options)
    ]
    return {"environments": made, "service_role": options.service_role, **_limits(options)}


def _limits(options: AwsOptions) -> dict[str, Any]:
    """Return the limit of max_queue_wait for the job at the head of the queue, if it is set."""
    if options.max_queue_wait is None:
        return {}
    limit = {"state": "RUNNABLE", "action": "CANCEL", "maxTimeSeconds": options.max_queue_wait}
    return {"jobStateTimeLimitActions": [{"reason": reason, **limit} for reason in HOPELESS]}


def _queue_steps(spec: Spec, options: AwsOptions) -> Iterator[Step]:
    name = queue_name(spec, options)
    order = [
        {"order": n, "computeEnvironment": {"$ref": f"{step_id(kind)}.computeEnvironmentArn"}}
        for n, kind in enumerate(kinds(spec, options), 1)
    ]
    do = batch(
        "create_job_queue",
        jobQueueName=name,
        state="ENABLED",
        priority=1,
        computeEnvironmentOrder=order,
        **_limits(options),
        tags=tags(options, kind="queue"),
    )
    title = f"make a job queue: {', then '.join(kinds(spec, options))}"
    yield Step("queue", title, Scope.SITE, do, deletion(QUEUE, name), timing.DEFAULT.settle_s)
