"""Compute environments, and the job queues that use them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from runspec_aws import timing
from runspec_aws.decision import Decision
from runspec_aws.infrastructure import launch_template
from runspec_aws.naming import batch, tags
from runspec_aws.options import AwsOptions
from runspec_jobs.provider import Request, Scope, Step, content_name, in_turn

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


def queue_name(decision: Decision, options: AwsOptions) -> str:
    """Return the name of the queue of *decision*: the profile's, or the one that is made for such jobs."""
    return options.queue or content_name("queue", _queue(decision, options))


def steps(decision: Decision, options: AwsOptions) -> Iterator[Step]:
    """Yield the steps that make the queue and its compute environments; none for an existing queue."""
    if options.queue:
        return
    if decision.placement:
        yield _placement(decision, options)
    if template := launch_template.content(decision, options):
        yield launch_template.step(template, decision, options)
    for kind in decision.environments:
        yield from _environment(kind, decision, options)
    yield from _queue_steps(decision, options)


def _placement(decision: Decision, options: AwsOptions) -> Step:
    """Return the step that makes a placement group.

    https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/placement-strategies.html#placement-groups-cluster
    """
    name = placement_name(decision, options)
    return Step(
        "placement",
        "make a placement group, for machines that are close to each other",
        Scope.SITE,
        Request("ec2", "create_placement_group", {"GroupName": name, "Strategy": "cluster"}),
        Request("ec2", "delete_placement_group", {"GroupName": name}),
        timing.DEFAULT.settle_s,
    )


def placement_name(decision: Decision, options: AwsOptions) -> str:
    return content_name("close", [list(options.subnets), list(decision.machines)])


def _environment(kind: str, decision: Decision, options: AwsOptions) -> Iterator[Step]:
    made = {"type": "MANAGED", "computeResources": _resources(kind, decision, options)}
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
    title = f"make a compute environment: {kind}, {_shown(kind, decision)}"
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


def _shown(kind: str, decision: Decision) -> str:
    if kind.startswith("FARGATE"):
        return f"up to {decision.max_vcpus} vCPUs"
    names = decision.instance_types
    more = f" and {len(names) - 2} more" if len(names) > 2 else ""
    return f"{', '.join(names[:2])}{more}, up to {decision.max_vcpus} vCPUs"


def _resources(kind: str, decision: Decision, options: AwsOptions) -> dict[str, Any]:
    resources: dict[str, Any] = {
        "type": kind,
        "maxvCpus": decision.max_vcpus,
        "subnets": list(options.subnets),
        "securityGroupIds": list(options.security_groups),
    }
    if kind.startswith("FARGATE"):
        return resources
    resources |= {
        "allocationStrategy": STRATEGIES[kind],
        "minvCpus": 0,  # no cost while no job runs
        "instanceTypes": list(decision.instance_types),
        "instanceRole": options.instance_role,
        "tags": tags(options, kind="machine"),
    }
    if options.key_pair:
        resources["ec2KeyPair"] = options.key_pair
    template = launch_template.content(decision, options)
    image = {"imageIdOverride": options.ami} if options.ami else {}
    if image or "UserData" in template:  # the mount script is written for Amazon Linux 2023
        has_gpus = decision.node.gpus and not decision.node.chips
        system = "ECS_AL2023_NVIDIA" if has_gpus else "ECS_AL2023"
        resources["ec2Configuration"] = [{"imageType": system, **image}]
    if template:
        name = launch_template.name(template)
        resources["launchTemplate"] = {"launchTemplateName": name, "version": "$Latest"}
        if "NetworkInterfaces" in template:  # the template's interfaces contain the security groups
            del resources["securityGroupIds"]
    elif options.launch_template:
        resources["launchTemplate"] = {
            "launchTemplateId": options.launch_template,
            "version": "$Default",
        }
    if decision.placement:
        resources["placementGroup"] = placement_name(decision, options)
    return resources


def _queue(decision: Decision, options: AwsOptions) -> dict[str, Any]:
    made = [
        {"type": "MANAGED", "computeResources": _resources(kind, decision, options)}
        for kind in decision.environments
    ]
    return {"environments": made, "service_role": options.service_role, **_limits(options)}


def _limits(options: AwsOptions) -> dict[str, Any]:
    """Return the limit of max_queue_wait for the job at the head of the queue, if it is set."""
    if options.max_queue_wait is None:
        return {}
    limit = {"state": "RUNNABLE", "action": "CANCEL", "maxTimeSeconds": options.max_queue_wait}
    return {"jobStateTimeLimitActions": [{"reason": reason, **limit} for reason in HOPELESS]}


def _queue_steps(decision: Decision, options: AwsOptions) -> Iterator[Step]:
    name = queue_name(decision, options)
    order = [
        {"order": n, "computeEnvironment": {"$ref": f"{step_id(kind)}.computeEnvironmentArn"}}
        for n, kind in enumerate(decision.environments, 1)
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
    title = f"make a job queue: {', then '.join(decision.environments)}"
    yield Step("queue", title, Scope.SITE, do, deletion(QUEUE, name), timing.DEFAULT.settle_s)
