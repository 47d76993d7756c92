"""Finds the runs whose outputs other jobs mount."""

from __future__ import annotations

from runspec_jobs.engine import clients, named_run
from runspec_jobs.engine.outputs import run_inputs
from runspec_jobs.engine.reporter import Reporter
from runspec_jobs.errors import UsageError
from runspec_jobs.load import registry
from runspec_jobs.load.run_mounts import SourceRun
from runspec_jobs.logs.measured_tasks import measure_tasks
from runspec_jobs.provider import (
    Facts,
    Provider,
    Spec,
    State,
    Status,
    SupportsOutputs,
    SupportsRunMounts,
)
from runspec_jobs.report.ranking import rank_tasks
from runspec_jobs.spec.needs import Condition, RunOutput
from runspec_jobs.state.run_record import Record


def place_of(provider: Provider, spec: Spec, facts: Facts) -> str | None:
    """Return the name of the store to which a job saves, or None if other jobs cannot read it in place."""
    return provider.saves_place(spec, facts) if isinstance(provider, SupportsRunMounts) else None


def find_run(name: str, reporter: Reporter) -> SourceRun:
    """Return the run that *name* means: the id of a run that has ended, or a job whose newest run has succeeded.

    Raises UsageError if there is none.
    """
    record = named_run.find_kept(name, reporter.note)
    return source_run(record, _choose_condition(record, name))


def _choose_condition(record: Record, name: str) -> Condition:
    return Condition.ENDED if record.run == name else Condition.SUCCEEDED


def _demand_end(record: Record, condition: Condition, status: Status) -> None:
    if not meets(condition, status):
        message = f"{record.run} {'is' if not status.state.terminal else 'has'} {status.state}"
        hint = "wait until it has ended" if not status.state.terminal else "name another run"
        raise UsageError(f"{message}, so its outputs are not read", hint)


def source_run(record: Record, condition: Condition) -> SourceRun:
    """Return *record* as a run whose outputs can be mounted.

    Raises UsageError if it has not ended as *condition* says.
    """
    provider, client, facts = clients.connect(record)
    # The journal first: a service may have forgotten how the run ended.
    status = record.read_memory().status or client.state(record.run)
    _demand_end(record, condition, status)
    if not isinstance(client, SupportsOutputs):
        raise UsageError(f"'{provider.name}' cannot read outputs")

    def digest(output: RunOutput) -> str:
        return run_inputs.compute_digest(run_inputs.choose_files(client, record.run, output))

    return SourceRun(
        record.run,
        record.spec,
        place_of(provider, record.spec, facts),
        lambda: best_task(record),
        digest,
    )


def find_planned_run(name: str, reporter: Reporter) -> SourceRun:
    """Return the run that *name* means for a plan: its service and its store are not asked.

    Raises UsageError if there is none, or if it is known to have ended in another way than a mount needs.
    """
    record = named_run.find_kept(name, reporter.note)
    status = record.read_memory().status
    if status is not None:
        _demand_end(record, _choose_condition(record, name), status)
    return unended_run(record)


def unended_run(record: Record) -> SourceRun:
    """Return a run that may not have ended as one whose outputs are read when it has."""
    provider = registry.load(record.plan.provider)
    store = place_of(provider, record.spec, record.read_facts(provider))
    return SourceRun(record.run, record.spec, store, lambda: None)


def meets(condition: Condition, status: Status) -> bool:
    """Return whether a run with *status* has ended as *condition* says."""
    if condition is Condition.SUCCEEDED:
        return status.state is State.SUCCEEDED
    if condition is Condition.FAILED:
        return status.state is State.FAILED
    return status.state.terminal and status.state is not State.GONE


def best_task(record: Record) -> int:
    """Return the number of the task with the best value of the metric. Raises UsageError if none has a value."""
    spec = record.spec
    assert spec.metric is not None, "BUG: ?best of a job without a metric"
    client = clients.connect(record)[1]
    tasks = measure_tasks(record, client, spec, spec.metric, client.state(record.run))
    first = rank_tasks(spec.metric, tasks)[0]
    if first.place is None:
        why = f": {first.task.measured.why}" if first.task.measured.why else ""
        raise UsageError(f"{record.run} has no best task{why}")
    return first.task.number
