"""The steps of a plan that run a spec on Slurm."""

from __future__ import annotations

from runspec_jobs.provider import Facts, Request, Scope, Spec, Step, nodes_each, tasks_in_all
from runspec_slurm import timing
from runspec_slurm.job import sbatch_argv, script
from runspec_slurm.store import layout


def steps(spec: Spec, run: str, facts: Facts) -> tuple[Step, ...]:
    return (
        *layout.steps(spec, facts),
        layout.record(spec, run, facts),
        *layout.secrets(spec, run, facts),
        *layout.login(spec, run, facts),
        _job(spec, run, facts),
    )


def _job(spec: Spec, run: str, facts: Facts) -> Step:
    """Return the step that submits the job. sbatch has no client token, so the job is named after the run."""
    params = {
        "argv": list(sbatch_argv.words(spec, run, facts)),
        "script": script.text(spec, run, facts),
    }
    do, undo = Request("slurm", "sbatch", params), Request("slurm", "scancel", {"name": run})
    return Step("job", f"submit {_count(spec)}", Scope.RUN, do, undo, timing.DEFAULT.settle_s)


def _count(spec: Spec) -> str:
    nodes, count = nodes_each(spec), tasks_in_all(spec)
    where = f"{nodes} nodes" if nodes > 1 else "1 node"
    if spec.cluster.nodes.elastic:
        return f"{count:,} nodes that join and leave, as an array of single jobs"
    return f"an array of {count:,} tasks of {where}" if count > 1 else f"a job of {where}"
