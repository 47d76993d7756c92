"""Make the steps that run a spec on Kubernetes."""

from __future__ import annotations

from runspec_jobs.provider import Facts, Spec, Step
from runspec_kubernetes import job, store_layout
from runspec_kubernetes.decision import decide


def steps(spec: Spec, run: str, facts: Facts) -> tuple[Step, ...]:
    decision = decide(spec, facts)
    return (
        *store_layout.steps(spec, facts),
        store_layout.record(decision, spec, run, facts),
        *job.steps(decision, spec, run),
    )
