"""Make the steps that run a spec on Azure Batch."""

from __future__ import annotations

from typing import Any

from runspec_azure.batch import signed
from runspec_azure.batch.infrastructure import autoscale, pool
from runspec_azure.batch.job import job
from runspec_azure.store import layout
from runspec_jobs.provider import (
    Facts,
    Spec,
    Step,
    argv,
    nodes_each,
    proves_end,
    reach,
    tasks_in_all,
)

STOP_S = 5  # how often an agent checks whether its task was stopped


def steps(spec: Spec, run: str, facts: Facts) -> tuple[Step, ...]:
    own = {
        "argv": list(argv(spec)),
        "pool": pool.name(spec, facts),
        "count": tasks_in_all(spec),
        "nodes": nodes_each(spec),
        "tries": spec.retry.attempts,
        **_ends(spec, facts),
        **({"stops": job.STOPS} if job.reserves_exit_code(facts.options) else {}),
        "spot": "azure",  # each node finds out whether it is a spot machine, also in a pool of the profile
        **_stops(spec, facts),
        **reach(spec, pool.rule(facts.options)),
    }
    return (
        *layout.steps(spec, facts),
        *pool.steps(spec, facts),
        *autoscale.wake(spec, run, facts, pool.name(spec, facts)),
        layout.record(spec, run, facts, shape=job.shape(spec), **own),
        *(signed.steps(spec, run, facts) if facts.options.files == "signed" else ()),
        *job.steps(spec, run, facts),
    )


def _ends(spec: Spec, facts: Facts) -> dict[str, Any]:
    if facts.options.files != "signed":
        return {"ends": True}
    return {"ends": "signed"} if proves_end(spec) else {}


def _stops(spec: Spec, facts: Facts) -> dict[str, int]:
    """Return how often an agent checks whether its task was stopped; only tasks of a sweep with an agent can be."""
    return {"stop_s": STOP_S} if spec.sweep and facts.options.files == "agent" else {}
