"""Foresees the run that an apply would start, for a plan of it."""

from __future__ import annotations

from runspec_jobs.engine import apply as engine, resume
from runspec_jobs.engine.reporter import Reporter
from runspec_jobs.engine.resume import Wanted
from runspec_jobs.engine.start_run import judge_earlier
from runspec_jobs.load.inputs import PlanInputs
from runspec_jobs.plan import model
from runspec_jobs.state import run_record


def foresee(inputs: PlanInputs, reporter: Reporter, wanted: Wanted) -> PlanInputs:
    """Return *inputs* with the saves that are *wanted*, as `start_run.start` would plan a new run; nothing is changed.

    *reporter* is told if no run would be started. Raises UsageError if there is no save, as that does.
    """
    wanted = resume.resolve_run(wanted, inputs.spec, reporter)
    plan = model.make_plan(inputs.provider, inputs.spec, model.PREVIEW, inputs.facts)
    for old in run_record.list_runs(inputs.spec.name)[-1:]:
        if engine.is_made(old.plan, old.read_memory()):
            client = inputs.provider.connect(inputs.facts)  # only now: it may need a login
            choice = judge_earlier(old, plan, client, inputs, reporter, wanted)
            message = "" if choice is None else choice.message
        else:
            message = f"apply continues {old.run}, which was interrupted, if that began so"
        if message:
            reporter.note(message)
            return inputs
    return resume.add_saves(inputs, wanted, reporter)
