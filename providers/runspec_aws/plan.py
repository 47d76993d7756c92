"""The steps of a plan that run a spec on AWS Batch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from runspec_aws import job, signed, timing
from runspec_aws.decision import JobKind, JobShape, decide
from runspec_aws.infrastructure import built_image, compute_environments
from runspec_aws.naming import batch, tags
from runspec_aws.options import AwsOptions
from runspec_aws.store import layout, run_secrets
from runspec_jobs.provider import Facts, Parent, Scope, Spec, Step, answer_mark


def steps(spec: Spec, run: str, facts: Facts) -> tuple[Step, ...]:
    options: AwsOptions = facts.options
    decision = decide(spec, options)
    queue = compute_environments.queue_name(decision, options)
    own = run_secrets.carried(spec, options)  # then the definition names secrets of the run
    return (
        *layout.steps(spec, facts),
        *built_image.steps(spec, decision, facts),
        *compute_environments.steps(decision, options),
        *([] if own else [job.step(spec, decision, run, facts)]),
        layout.record(spec, decision, queue, run, facts),
        *run_secrets.steps(spec, run, options),
        *([job.step(spec, decision, run, facts)] if own else []),
        *([signed.step(spec, run, facts)] if options.files == "signed" else []),
        *run_secrets.values(spec, run, options),
        _submit(spec.name, decision.shape, run, facts),
    )


def _submit(name: str, shape: JobShape, run: str, facts: Facts) -> Step:
    """Return the call that starts the job. Batch has no client token, so the job's name contains the run.

    There is nothing to undo: the service removes jobs some time after they have ended.
    """
    options: AwsOptions = facts.options
    queue: Any = options.queue or {"$ref": "queue.jobQueueArn"}
    params: dict[str, Any] = {
        "jobName": run,
        "jobQueue": queue,
        "jobDefinition": {"$ref": "definition.jobDefinitionArn"},
        **_size(shape, run, options),
        "propagateTags": True,
        "tags": tags(options, run=run, job=name),
    }
    if facts.parents:
        params["dependsOn"] = [
            _dependency(parent, step) for parent in facts.parents for step in parent.steps
        ]
    if options.share:
        params["shareIdentifier"] = options.share
    if options.priority is not None:
        params["schedulingPriorityOverride"] = options.priority
    return Step(
        "job",
        f"submit {_count(shape)}",
        Scope.RUN,
        batch("submit_job", **params),
        settle_s=timing.DEFAULT.settle_s,
    )


def _dependency(parent: Parent, step: str) -> dict[str, Any]:
    """Return the dependency on a job: https://docs.aws.amazon.com/batch/latest/userguide/job_dependencies.html."""
    job = {"jobId": answer_mark(parent.run, step, "jobId")}
    return {**job, "type": "N_TO_N"} if parent.paired else job


def overrides(run: str, options: AwsOptions) -> dict[str, Any]:
    """Return the parameters that differ between runs; all others are in the definition and the record.

    Only one signed URL is passed, that of the list of all others, because overrides are limited to 8,192 bytes.
    """
    values: dict[str, Any] = {"RUNSPEC_RUN": run}
    if options.files == "signed":
        values["RUNSPEC_FILES"] = signed.mark("GET", signed.files_key(run, options))
    return {"environment": [{"name": name, "value": value} for name, value in values.items()]}


def _size(shape: JobShape, run: str, options: AwsOptions) -> Mapping[str, Any]:
    container = overrides(run, options)
    if shape.is_gang:
        groups = [{"targetNodes": "0:", "containerOverrides": container}]
        return {"nodeOverrides": {"numNodes": shape.nodes, "nodePropertyOverrides": groups}}
    if shape.kind is JobKind.ARRAY:
        return {"arrayProperties": {"size": shape.children}, "containerOverrides": container}
    return {"containerOverrides": container}


def _count(shape: JobShape) -> str:
    nodes = f"{shape.nodes} nodes" if shape.nodes > 1 else "1 node"
    if shape.kind is not JobKind.ARRAY:
        return f"a job of {nodes}"
    if shape.tasks > 1:
        return f"an array of {shape.children:,}: {shape.tasks:,} tasks of {nodes}"
    return f"an array of {shape.children:,}: {nodes} that find each other through the store"
