"""Make the steps that run a spec on Azure Batch."""

from __future__ import annotations

from typing import Any

from runspec_azure import store_layout
from runspec_azure.batch import job, signed
from runspec_azure.batch.decision import Decision
from runspec_azure.batch.infrastructure import (
    autoscale,
    built_image,
    pool as pools,
    run_secrets,
)
from runspec_azure.batch.options import BatchOptions
from runspec_jobs.provider import Facts, Spec, Step
from runspec_jobs.provider.commands import argv
from runspec_jobs.provider.job_manifest import reach
from runspec_jobs.provider.signed_urls import proves_end

STOP_S = 5  # how often an agent checks whether its task was stopped


def steps(decision: Decision, spec: Spec, run: str, facts: Facts) -> tuple[Step, ...]:
    options, pool = decision.options, pools.name(decision)
    in_record = {
        "argv": list(argv(spec)),
        "pool": pool,
        "count": decision.tasks,
        "nodes": decision.nodes,
        "tries": spec.retry.attempts,
        **_ends(spec, options),
        **({"stops": job.STOPS} if job.reserves_exit_code(options) else {}),
        "spot": "azure",  # each node finds out whether it is a spot machine, also in a pool of the profile
        # Only tasks of a sweep can be stopped, and only an agent looks for such a request.
        **({"stop_s": STOP_S} if spec.sweep and options.files == "agent" else {}),
        **reach(spec, pools.rule(options)),
    }
    return (
        *store_layout.steps(spec, facts),
        *built_image.steps(decision, spec, facts),
        *pools.steps(decision),
        *autoscale.wake(decision, run, pool),
        store_layout.record(spec, run, facts, shape=decision.shape, **in_record),
        *(signed.steps(spec, run, facts) if options.files == "signed" else ()),
        *job.entrypoint(decision, spec),
        *run_secrets.steps(spec, run, options),
        *job.steps(decision, spec, run, pool),
    )


def _ends(spec: Spec, options: BatchOptions) -> dict[str, Any]:
    if options.files != "signed":
        return {"ends": True}
    return {"ends": "signed"} if proves_end(spec) else {}
