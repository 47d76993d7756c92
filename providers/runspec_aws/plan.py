"""The steps of a plan that run a spec on AWS Batch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from runspec_aws import job, signed, timing
from runspec_aws.infrastructure import compute_environments
from runspec_aws.naming import batch, tags
from runspec_aws.options import AwsOptions
from runspec_aws.resources.job_kind import JobKind, children, shape
from runspec_aws.store import layout
from runspec_jobs.provider import Facts, Scope, Spec, Step, tasks


def steps(spec: Spec, run: str, facts: Facts) -> tuple[Step, ...]:
    listed = [signed.step(spec, run, facts)] if facts.options.files == "signed" else []
    return (
        *layout.steps(spec, facts),
        *compute_environments.steps(spec, facts.options),
        job.step(spec, facts),
        layout.record(spec, run, facts),
        *listed,
        _submit(spec, run, facts),
    )


def _submit(spec: Spec, run: str, facts: Facts) -> Step:
    """Return the call that starts the job. Batch has no client token, so the job's name contains the run.

    There is nothing to undo: the service removes jobs some time after they have ended.
    """
    options: AwsOptions = facts.options
    queue: Any = options.queue or {"$ref": "queue.jobQueueArn"}
    params: dict[str, Any] = {
        "jobName": run,
        "jobQueue": queue,
        "jobDefinition": {"$ref": "definition.jobDefinitionArn"},
        **_size(spec, run, options),
        "propagateTags": True,
        "tags": tags(options, run=run, job=spec.name),
    }
    if options.share:
        params["shareIdentifier"] = options.share
    if options.priority is not None:
        params["schedulingPriorityOverride"] = options.priority
    return Step(
        "job",
        f"submit {_count(spec)}",
        Scope.RUN,
        batch("submit_job", **params),
        settle_s=timing.DEFAULT.settle_s,
    )


def overrides(run: str, options: AwsOptions) -> dict[str, Any]:
    """Return the parameters that differ between runs; all others are in the definition and the record.

    Only one signed URL is passed, that of the list of all others, because overrides are limited to 8,192 bytes.
    """
    own: dict[str, Any] = {"RUNSPEC_RUN": run}
    if options.files == "signed":
        own["RUNSPEC_FILES"] = signed.mark("GET", signed.files_key(run, options))
    return {"environment": [{"name": name, "value": value} for name, value in own.items()]}


def _size(spec: Spec, run: str, options: AwsOptions) -> Mapping[str, Any]:
    kind = shape(spec)
    mine = overrides(run, options)
    if kind is JobKind.NODES:
        own = [{"targetNodes": "0:", "containerOverrides": mine}]
        nodes = spec.cluster.nodes.max
        return {"nodeOverrides": {"numNodes": nodes, "nodePropertyOverrides": own}}
    if kind is JobKind.ARRAY:
        return {"arrayProperties": {"size": children(spec)}, "containerOverrides": mine}
    return {"containerOverrides": mine}


def _count(spec: Spec) -> str:
    nodes, count, kind = spec.cluster.nodes.max, len(tasks(spec)), shape(spec)
    where = f"{nodes} nodes" if nodes > 1 else "1 node"
    if kind is JobKind.ARRAY:
        what = f"an array of {children(spec):,}"
        each = (
            f"{count:,} tasks of {where}"
            if count > 1
            else f"{where} that find each other through the store"
        )
        return f"{what}: {each}"
    return f"a job of {where}"
