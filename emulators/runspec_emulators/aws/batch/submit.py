"""SubmitJob: checking a request against the queue and the definition, and making the jobs of it."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from runspec_emulators.aws.batch import definitions, schedule
from runspec_emulators.aws.batch.environments import the_queue
from runspec_emulators.aws.batch.jobs import Job
from runspec_emulators.aws.batch.resources import FARGATE, Definition, Queue
from runspec_emulators.aws.batch.world import World
from runspec_emulators.aws.errors import check_supported, refused
from runspec_emulators.aws.nodes import node_ranges

MOST_OVERRIDES = 8192
"""Bytes of containerOverrides. The service accepts more, and then the job fails with
"Container Overrides length must be at most 8192": github.com/Netflix/metaflow/issues/1482"""


def submit(world: World, params: dict[str, Any]) -> dict[str, Any]:
    queue = the_queue(world, params["jobQueue"])
    if queue.state != "ENABLED":
        raise refused(f"JobQueue {queue.name} is DISABLED")
    if "shareIdentifier" in params:  # "Don't specify this parameter if [there is no] policy."
        raise refused(f"JobQueue {queue.name} has no fair-share scheduling policy")
    definition = definitions.find(world, params["jobDefinition"])
    if definition is None or definition.status != "ACTIVE":
        raise refused(f"JobDefinition not found or INACTIVE: {params['jobDefinition']}")
    check(world, queue, definition, params)
    job = made(world, queue, definition, params)
    world.jobs.add(job)
    schedule.submitted(world, job)
    if overlong(params):
        schedule.fail(world, job, f"Container Overrides length must be at most {MOST_OVERRIDES}")
    return {"jobArn": job.arn, "jobName": job.name, "jobId": job.id}


def overlong(params: Mapping[str, Any]) -> bool:
    """Return whether the overrides are too long. How the service counts is not documented."""
    given = params.get("containerOverrides", {})
    return len(json.dumps(given, separators=(",", ":")).encode()) > MOST_OVERRIDES


def check(world: World, queue: Queue, definition: Definition, params: Mapping[str, Any]) -> None:
    """Refuse overrides and settings that do not fit the type of the job definition."""
    multinode = definition.params["type"] == "multinode"
    if multinode and "containerOverrides" in params:
        raise refused("containerOverrides are not for multi-node parallel jobs: use nodeOverrides")
    if not multinode and "nodeOverrides" in params:
        raise refused("nodeOverrides are for multi-node parallel jobs")
    overrides = ("ecs", "eks", "consumableResource")
    check_supported(params, *(f"{name}PropertiesOverride" for name in overrides))
    if "instanceType" in params.get("containerOverrides", {}):
        raise refused("instanceType isn't applicable to single-node container jobs")
    if multinode:
        check_multinode(world, queue, definition, params)
    check_dependencies(world, params)


def check_multinode(
    world: World, queue: Queue, definition: Definition, params: Mapping[str, Any]
) -> None:
    """Refuse queues and overrides that a multi-node job cannot have.

    "Multi-node parallel jobs aren't supported on UNMANAGED compute environments", nor on Fargate
    (RegisterJobDefinition, type). Those for spot machines are accepted, and wait: see `placing.takes`.
    https://docs.aws.amazon.com/batch/latest/userguide/mnp-ce.html
    """
    if "arrayProperties" in params:
        raise refused("this emulator does not support arrays of multi-node jobs")
    for name in queue.order:
        kind = world.environments[name].kind
        if kind in ("UNMANAGED", *FARGATE):
            raise refused(f"multi-node parallel jobs are not supported on {kind}: {name}")
    overrides = params.get("nodeOverrides", {})
    properties = definition.params["nodeProperties"]
    node_ranges.count(properties, overrides.get("numNodes"))
    targets = {group["targetNodes"] for group in properties["nodeRangeProperties"]}
    strange = [
        override["targetNodes"]
        for override in overrides.get("nodePropertyOverrides", ())
        if override["targetNodes"] not in targets
    ]
    if strange:  # the words: github.com/aws/aws-parallelcluster/pull/964
        raise refused(
            "NodeOverride targets should match job definition. "
            f"Non matching targets - {', '.join(strange)}"
        )


def check_dependencies(world: World, params: Mapping[str, Any]) -> None:
    """Refuse invalid dependencies. SubmitJob, dependsOn."""
    size = params.get("arrayProperties", {}).get("size")
    for need in params.get("dependsOn", ()):
        kind = need.get("type")
        if kind and size is None:
            raise refused(f"a {kind} dependency is for array jobs")
        if "jobId" not in need:
            if kind != "SEQUENTIAL":
                raise refused("only a SEQUENTIAL dependency has no jobId")
            continue
        other = world.jobs.get(need["jobId"])
        if other is None:
            raise refused(f"Job not found: {need['jobId']}")
        if kind == "N_TO_N" and (not other.is_array or len(other.children) != size):
            raise refused(f"{other.id} is not an array of {size} jobs")


def made(world: World, queue: Queue, definition: Definition, params: Mapping[str, Any]) -> Job:
    """Make the records of a job and of its children."""
    job = record(world, queue, definition, params, str(uuid.uuid4()))
    given = definition.params
    if given["type"] == "multinode":
        job.nodes = node_properties(given["nodeProperties"], params.get("nodeOverrides", {}))
        groups = job.nodes["nodeRangeProperties"]
        for i in range(job.nodes["numNodes"]):
            node = child(world, queue, definition, params, job, f"#{i}", i)
            node.container = node_ranges.group_of(groups, i, job.nodes["numNodes"])["container"]
        return job
    container = overridden(given["containerProperties"], params.get("containerOverrides", {}))
    size = params.get("arrayProperties", {}).get("size")
    if size is None:
        job.container = container
        return job
    for i in range(size):
        child_job = child(world, queue, definition, params, job, f":{i}", i)
        child_job.container = container
        child_job.needs = list(needs_of_child(params.get("dependsOn", ()), job.id, i))
        child_job.status = "PENDING"  # "spawned by its parent and entered the PENDING state"
    return job


def record(
    world: World, queue: Queue, definition: Definition, params: Mapping[str, Any], job_id: str
) -> Job:
    given = definition.params
    timeout = params.get("timeout", given.get("timeout", {})).get("attemptDurationSeconds")
    return Job(
        id=job_id,
        name=params["jobName"],
        arn=world.arn(f"job/{job_id}"),
        queue=queue.name,
        definition={**given, "arn": definition.arn},
        params=params,
        container=None,
        created_ms=int(time.time() * 1000),
        born=time.monotonic(),
        number=world.next_number(),
        retry=params.get("retryStrategy", given.get("retryStrategy", {})),
        timeout_s=timeout,
        needs=[
            (n["jobId"], n.get("type", "")) for n in params.get("dependsOn", ()) if "jobId" in n
        ],
        tags=dict(params.get("tags", {})),
    )


def child(
    world: World,
    queue: Queue,
    definition: Definition,
    params: Mapping[str, Any],
    parent: Job,
    suffix: str,
    index: int,
) -> Job:
    made = record(world, queue, definition, params, parent.id + suffix)
    made.parent, made.index, made.needs, made.tags = parent, index, [], {}
    parent.children.append(made)
    return made


def needs_of_child(
    depends_on: Sequence[Mapping[str, Any]], parent: str, index: int
) -> Sequence[tuple[str, str]]:
    """Return what one child of an array waits for. User guide, "Array jobs"."""
    needs = []
    for need in depends_on:
        kind = need.get("type", "")
        if kind == "N_TO_N":
            needs.append((f"{need['jobId']}:{index}", kind))
        elif "jobId" in need:
            needs.append((need["jobId"], kind))
        if kind == "SEQUENTIAL" and index:
            needs.append((f"{parent}:{index - 1}", kind))
    return needs


def overridden(container: Mapping[str, Any], overrides: Mapping[str, Any]) -> dict[str, Any]:
    """Return container properties with overrides put in. SubmitJob, ContainerOverrides.

    vcpus and memory override their deprecated namesakes, and never a resource requirement.
    """
    changed = dict(container)
    for name in ("command", "instanceType"):
        if name in overrides:
            changed[name] = overrides[name]
    for name in ("vcpus", "memory"):
        if name in overrides and name in container:
            changed[name] = overrides[name]
    changed["environment"] = merged(container, overrides, "environment", "name")
    if "resourceRequirements" in overrides:
        changed["resourceRequirements"] = merged(
            container, overrides, "resourceRequirements", "type"
        )
    return changed


def merged(
    container: Mapping[str, Any], overrides: Mapping[str, Any], member: str, key: str
) -> list[dict[str, Any]]:
    """Return the entries of a list of named things, those of the same name replaced."""
    entries = [*container.get(member, ()), *overrides.get(member, ())]
    return list({entry[key]: dict(entry) for entry in entries}.values())


def node_properties(properties: Mapping[str, Any], overrides: Mapping[str, Any]) -> dict[str, Any]:
    """Return node properties with overrides put in, for as many nodes as the job gets."""
    by_target = {o["targetNodes"]: o for o in overrides.get("nodePropertyOverrides", ())}
    groups = []
    for group in properties["nodeRangeProperties"]:
        override = by_target.get(group["targetNodes"], {}).get("containerOverrides", {})
        groups.append({**group, "container": overridden(group["container"], override)})
    count = node_ranges.count(properties, overrides.get("numNodes"))
    return {**properties, "numNodes": count, "nodeRangeProperties": groups}


# TerminateJob, TerminateJobs and CancelJob


def the_job(world: World, job_id: str) -> Job:
    job = world.jobs.get(job_id)
    if job is None:
        raise refused(f"Job not found: {job_id}")
    return job


def terminate(world: World, params: dict[str, Any]) -> dict[str, Any]:
    schedule.terminate(world, the_job(world, params["jobId"]), params["reason"])
    return {}


def terminate_several(world: World, params: dict[str, Any]) -> dict[str, Any]:
    """TerminateJobs: "Jobs that can't be found are treated as successfully processed"."""
    for name in params["jobs"]:
        if job := world.jobs.get(name):
            schedule.terminate(world, job, params["reason"])
    return {"successful": params["jobs"], "errors": []}


def cancel(world: World, params: dict[str, Any]) -> dict[str, Any]:
    schedule.cancel(world, the_job(world, params["jobId"]), params["reason"])
    return {}
