"""Says why a job of a chain is started again: when `apply` starts it, and before that, for a plan."""

from __future__ import annotations

import contextlib
from collections.abc import Collection
from dataclasses import replace

from runspec_jobs.engine import start_run
from runspec_jobs.engine.chain.job_states import describe_end, find_record, find_skipped
from runspec_jobs.engine.chain.jobs import ChainJobs
from runspec_jobs.errors import Damaged
from runspec_jobs.load.inputs import PlanInputs
from runspec_jobs.load.run_mounts import MountedRun
from runspec_jobs.plan import spec_diff
from runspec_jobs.provider import State
from runspec_jobs.state.chain_record import ChainRecord
from runspec_jobs.state.run_record import Record

SHOWN = 3  # the most changed fields that are named


def explain_start(
    before: Record | None, made: PlanInputs, skipped: str = "", *, new: bool = False
) -> str:
    """Return why a job is started: it has not succeeded before, or something has changed since the run *before*.

    *skipped* is why it was skipped in the last apply, if it was; with *new*, all jobs are started again.
    """
    status = None if before is None else before.read_memory().status
    succeeded = status is not None and status.state is State.SUCCEEDED
    if skipped and not succeeded:
        return f"it was skipped because {skipped}"
    if before is None:
        return ""
    if status is None:
        return "it goes on"
    if not succeeded:
        return describe_end(before.run, str(status.state))
    if new:
        return "all are started again"
    if mounts := start_run.changed_inputs(before, made):
        runs = {made.mounted_runs[mount].run for mount in mounts}
        return f"what it reads from {', '.join(sorted(runs))} has changed"
    return _describe_changes(before, made)


def _describe_changes(before: Record, made: PlanInputs) -> str:
    """Return which fields of the spec changed since the run *before*, or an empty string."""
    if before.plan.provider != made.provider.name:
        return ""
    with contextlib.suppress(Damaged):
        then = (before.spec, before.read_facts(made.provider))
        changes = spec_diff.find_differences(then, (made.spec, made.facts))
        fields = ", ".join(change.path for change in changes[:SHOWN])
        more = f" and {len(changes) - SHOWN} more" if len(changes) > SHOWN else ""
        return f"changed: {fields}{more}" if fields else ""
    return ""


def foresee_starts(chain: ChainJobs, record: ChainRecord) -> dict[str, str]:
    """Return why `apply` would start jobs of *chain* again, by name, from the records alone.

    What an output has is not compared: it may not be saved yet, and reading it takes the network.
    """
    skipped = find_skipped(record)
    reasons: dict[str, str] = {}
    starting: set[str] = set()
    for job, made in chain.inputs.items():
        before = find_record(record, job)
        changing = [] if before is None else _list_changing(before, made, record, starting)
        known = replace(made, mounted_runs=_find_known(made, record, changing))
        why = explain_start(before, known, skipped.get(job, ""))
        if changing and not why:
            why = f"only if what it reads from {', '.join(changing)} changes"
        if why:
            reasons[job] = why
        if why or before is None:
            starting.add(job)
    return reasons


def _find_known(
    made: PlanInputs, record: ChainRecord, changing: Collection[str]
) -> dict[str, MountedRun]:
    """Return the outputs that *made* mounts of other jobs than the *changing*; the best task is not known."""
    found = {mount.name: mount.of_run for mount in made.spec.mounts if mount.of_run is not None}
    return {
        name: made.mounted_runs[name]._replace(run=record.runs[of.job])
        for name, of in found.items()
        if not of.best and of.job in record.runs and of.job not in changing
    }


def _list_changing(
    before: Record, made: PlanInputs, record: ChainRecord, starting: Collection[str]
) -> list[str]:
    """Return the jobs and runs of which *made* may read something else than the run *before* has read."""
    read = before.read_memory().about.get("inputs", {})
    jobs: list[str] = []
    for mount in made.spec.mounts:
        if mount.of_run is None or mount.of_run.job in jobs:
            continue
        job = mount.of_run.job
        newest = record.runs.get(job, made.mounted_runs[mount.name].run)
        if job in starting or mount.name not in read or read[mount.name]["run"] != newest:
            jobs.append(job)
    return jobs
