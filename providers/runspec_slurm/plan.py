"""The steps of a plan that run a spec on Slurm."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from runspec_jobs.provider import Facts, Parent, Request, Scope, Spec, Step, answer_mark
from runspec_slurm import job, timing
from runspec_slurm.decision import Arrays, Decision
from runspec_slurm.naming import job_step
from runspec_slurm.store import built_image, layout

# enroot does since version 4.0: before, it takes what is before the @ for a user.
TAKES_DIGESTS = ("podman", "apptainer")


def steps(decision: Decision, spec: Spec, run: str, facts: Facts) -> tuple[Step, ...]:
    return (
        *built_image.steps(decision, spec, facts),
        *layout.steps(decision, spec, facts),
        layout.record(decision, spec, run, facts),
        *layout.secrets(spec, run, facts),
        *layout.login(decision, run),
        *(_submit(decision, spec, run, array, facts) for array in range(decision.arrays.count)),
    )


def _submit(decision: Decision, spec: Spec, run: str, array: int, facts: Facts) -> Step:
    """Return the step that submits the job, or one of several arrays.

    sbatch has no client token, so a job is named after the run. The undo ends all jobs of the run.
    """
    arrays = decision.arrays
    params: dict[str, Any] = {
        "argv": list(job.make_argv(decision, run, array)),
        "script": job.write_script(decision, spec, run, array),
    }
    if spec.container.build and decision.engine in TAKES_DIGESTS:
        params["image"] = {"named": decision.image, "pinned": {"$ref": "image.image"}}
    if facts.parents:
        params["needs"] = [
            {"after": after, "job": answer_mark(one.run, step, "job")}
            for one in facts.parents
            for after, step in _list_waits(one, array)
        ]
    if arrays.lanes and array >= arrays.lanes:
        params["after"] = {"$ref": f"{job_step(array - arrays.lanes)}.job"}
    do, undo = Request("slurm", "sbatch", params), Request("slurm", "scancel", {"name": run})
    submitted = _name_array(arrays, array) if arrays.count > 1 else _name_job(decision)
    title = f"submit {submitted}"
    return Step(job_step(array), title, Scope.RUN, do, undo, timing.DEFAULT.settle_s)


def _list_waits(parent: Parent, array: int) -> Iterator[tuple[str, str]]:
    """Yield the kind of each dependency on *parent*, and the step that submits the job that it is about."""
    # Two sweeps of equal length are split into equal arrays on one cluster.
    if parent.paired:
        yield job.AFTER_SAME, parent.steps[array]
        return
    for step in parent.steps:
        yield job.AFTER[parent.condition], step


def _name_array(arrays: Arrays, array: int) -> str:
    first, size = arrays.first(array), arrays.size(array)
    return f"tasks {first:,} to {first + size - 1:,}, array {array + 1} of {arrays.count}"


def _name_job(decision: Decision) -> str:
    tasks = decision.arrays.tasks
    where = f"{decision.nodes} nodes" if decision.is_gang else "1 node"
    if decision.elastic:
        return f"{tasks:,} nodes that join and leave, as an array of single jobs"
    return f"an array of {tasks:,} tasks of {where}" if decision.is_array else f"a job of {where}"
