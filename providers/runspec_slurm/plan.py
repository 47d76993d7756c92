"""The steps of a plan that run a spec on Slurm."""

from __future__ import annotations

from typing import Any

from runspec_jobs.provider import Facts, Request, Scope, Spec, Step, nodes_each, tasks_in_all
from runspec_slurm import timing
from runspec_slurm.job import sbatch_argv, script, split
from runspec_slurm.naming import job_step
from runspec_slurm.store import layout


def steps(spec: Spec, run: str, facts: Facts) -> tuple[Step, ...]:
    return (
        *layout.steps(spec, facts),
        layout.record(spec, run, facts),
        *layout.secrets(spec, run, facts),
        *layout.login(spec, run, facts),
        *(_job(spec, run, facts, array) for array in range(split.arrays(spec, facts))),
    )


def _job(spec: Spec, run: str, facts: Facts, array: int) -> Step:
    """Return the step that submits the job, or one of several arrays.

    sbatch has no client token, so a job is named after the run. The undo ends all jobs of the run.
    """
    params: dict[str, Any] = {
        "argv": list(sbatch_argv.words(spec, run, facts, array)),
        "script": script.text(spec, run, facts, array),
    }
    if (lanes := split.lanes(spec, facts)) and array >= lanes:
        params["after"] = {"$ref": f"{job_step(array - lanes)}.job"}
    do, undo = Request("slurm", "sbatch", params), Request("slurm", "scancel", {"name": run})
    title = (
        f"submit {_count(spec)}" if split.arrays(spec, facts) == 1 else _range(spec, facts, array)
    )
    return Step(job_step(array), title, Scope.RUN, do, undo, timing.DEFAULT.settle_s)


def _range(spec: Spec, facts: Facts, array: int) -> str:
    first = array * split.each(spec, facts)
    last = first + split.size(spec, facts, array) - 1
    return f"submit tasks {first:,} to {last:,}, array {array + 1} of {split.arrays(spec, facts)}"


def _count(spec: Spec) -> str:
    nodes, count = nodes_each(spec), tasks_in_all(spec)
    where = f"{nodes} nodes" if nodes > 1 else "1 node"
    if spec.cluster.nodes.elastic:
        return f"{count:,} nodes that join and leave, as an array of single jobs"
    return f"an array of {count:,} tasks of {where}" if count > 1 else f"a job of {where}"
