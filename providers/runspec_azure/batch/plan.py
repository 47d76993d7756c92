"""From a spec to the steps that run it on Azure Batch."""

from __future__ import annotations

from runspec.provider import Facts, Spec, Step, argv, tasks
from runspec_azure import stores
from runspec_azure.batch import job, pool


def steps(spec: Spec, run: str, facts: Facts) -> tuple[Step, ...]:
    own = {
        "argv": list(argv(spec)),
        "pool": pool.name(spec, facts),
        "count": len(tasks(spec)),
        "tries": spec.retry.attempts,
        "spot": False,  # it has the job ask EC2's metadata, which no machine of Azure has
    }
    return (
        *stores.steps(spec, facts),
        *pool.steps(spec, facts),
        stores.record(spec, run, facts, shape=job.shape(spec), **own),
        *job.steps(spec, run, facts),
    )
