"""From a spec to the steps that run it on Azure Batch."""

from __future__ import annotations

from runspec.provider import Facts, Spec, Step, tasks
from runspec_azure import stores
from runspec_azure.batch import job, pool


def steps(spec: Spec, run: str, facts: Facts) -> tuple[Step, ...]:
    own = {"pool": pool.name(spec, facts.options), "count": len(tasks(spec))}
    return (
        *stores.steps(spec, facts),
        *pool.steps(spec, facts),
        stores.record(spec, run, facts, shape=job.shape(spec), **own),
        *job.steps(spec, run, facts),
    )
