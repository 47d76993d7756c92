"""Decides which run an apply concerns, and starts or continues it; docs/architecture.md has the table of cases."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from runspec_agent.base.light_typing import NamedTuple
from runspec_jobs.engine import apply as engine, resume
from runspec_jobs.engine.clients import connect, record_rates, rehydrate
from runspec_jobs.engine.outputs import run_inputs
from runspec_jobs.engine.reporter import Reporter
from runspec_jobs.engine.resume import Wanted
from runspec_jobs.errors import Conflict, Damaged, UsageError
from runspec_jobs.load import git_commit, spec_in_mounts
from runspec_jobs.load.inputs import PlanInputs
from runspec_jobs.load.run_mounts import MountedRun
from runspec_jobs.plan import diff, model, spec_diff
from runspec_jobs.provider import (
    Client,
    Places,
    State,
    Status,
    SupportsAdoption,
    SupportsPlaces,
    SupportsProgress,
)
from runspec_jobs.spec import placeholders
from runspec_jobs.state import origin, run_record
from runspec_jobs.state.journal import Journal, RunState
from runspec_jobs.state.run_record import Record

Confirm = Callable[[], None]
NoteRun = Callable[[str], None]
Equal = Callable[[Record, model.Plan, PlanInputs], bool]


class Started(NamedTuple):
    """The run that an apply concerns; *status* is set if it has ended."""

    record: Record
    client: Client
    status: Status | None = None


class Choice(NamedTuple):
    """A run that may have to be started or continued, and a message about it."""

    record: Record
    client: Client
    message: str
    status: Status | None = None
    inputs: PlanInputs | None = None  # with the saves that a new run begins with


def start(
    inputs: PlanInputs,
    client: Client,
    reporter: Reporter,
    *,
    new: bool = False,
    confirm: Confirm = lambda: None,
    note_run: NoteRun = lambda run: None,
    wanted: Wanted | None = None,
) -> Started:
    """Start or continue the run of *inputs* if necessary, and return it; *new* starts one in any case.

    A new run begins with the saves that are *wanted*, if any. *confirm* is called before a new run is recorded, and may
    raise an error to start none. *note_run* gets the id of the run before anything is made for it, while no other apply
    of the name can start one, and may raise an error, too.
    Raises Conflict if a run of the name is alive with another spec, and Damaged if the record of one cannot be read.
    """
    if wanted is not None:
        wanted = resume.resolve_run(wanted, inputs.spec, reporter)
    with run_record.lock_name(inputs.spec.name, reporter.wait):
        choice = _choose(inputs, client, new, reporter, confirm, note_run, wanted)
        reporter.note(choice.message)
        with run_record.lock_site(reporter.wait, shared=True):
            ended = _make(choice, choice.inputs or inputs, client, reporter)
    return Started(choice.record, choice.client, choice.status or ended)


def _choose(
    inputs: PlanInputs,
    client: Client,
    new: bool,
    reporter: Reporter,
    confirm: Confirm,
    note_run: NoteRun,
    wanted: Wanted | None,
) -> Choice:
    """Return the run that this spec already has, or else a new one. The caller holds the lock of the name."""
    plan = model.make_plan(inputs.provider, inputs.spec, run_record.make_token(), inputs.facts)
    if not new and (wrong := run_record.find_damaged(inputs.spec.name)):
        raise wrong  # the other run may be alive
    # From the newest to the oldest.
    for age, old in enumerate(reversed([] if new else run_record.list_runs(inputs.spec.name))):
        choice = judge_earlier(old, plan, client, inputs, reporter, wanted, newest=age == 0)
        # An older run that has ended does not count: the newest one has failed or was cancelled.
        if choice is not None and (age == 0 or choice.status is None):
            note_run(old.run)
            return choice
    if wanted is not None:
        inputs = resume.add_saves(inputs, wanted, reporter)
    inputs = run_inputs.add_copies(inputs)
    if wanted is not None or inputs.copies:
        # The run keeps its token: its plan now has what it begins with.
        plan = model.make_plan(inputs.provider, inputs.spec, plan.run[-6:], inputs.facts)
        resume.demand_planned(plan, inputs.facts.resume)
    # The question comes last, when all that could be refused was not, and before anything is written.
    confirm()
    note_run(plan.run)
    base, name = inputs.base.absolute(), inputs.spec.name
    machines = record_rates(inputs.provider, inputs.spec, inputs.facts, inputs.prices)
    about = describe_run(inputs, client, plan.run)
    about |= resume.describe_saves(wanted, inputs.facts.resume)
    fresh = run_record.create(
        inputs.text.applied, plan, inputs.facts, base, name, inputs.profile, machines, about
    )
    if inputs.spec.ttl is not None:
        run_record.note_ttl(plan.run, inputs.spec.ttl)
    return Choice(fresh, client, f"run {plan.run}", inputs=inputs)


def describe_run(inputs: PlanInputs, client: Client, run: str) -> dict[str, Any]:
    """Return what a list of runs shows of a new run: `journal.RunState.about`."""
    file = spec_in_mounts.find_spec_file(inputs)
    places = client.places(run) if isinstance(client, SupportsPlaces) else Places()
    mounted = spec_in_mounts.describe_spec_file(inputs)
    return {
        **({} if mounted is None else {"spec_file": mounted}),
        **({"inputs": _inputs_json(inputs)} if inputs.mounted_runs else {}),
        "provider": inputs.provider.name,
        "nodes": inputs.spec.cluster.nodes.max,
        "tasks": placeholders.count_tasks(inputs.spec.sweep),
        "file": None if file is None else str(file),
        "commit": git_commit.commit(inputs.base.absolute()),
        **places._asdict(),
    }


def _inputs_json(inputs: PlanInputs) -> dict[str, Any]:
    return {mount: mounted._asdict() for mount, mounted in inputs.mounted_runs.items()}


def changed_inputs(old: Record, inputs: PlanInputs) -> list[str]:
    """Return the mounts of outputs of runs whose content differs from what the run *old* has read.

    Before a run has ended, its outputs count as different from those of every other run.
    """
    before = old.read_memory().about.get("inputs", {})
    return [
        mount
        for mount, now in inputs.mounted_runs.items()
        if mount not in before or not _is_same(MountedRun(**before[mount]), now)
    ]


def _is_same(before: MountedRun, now: MountedRun) -> bool:
    if before.run == now.run and before.task == now.task:
        return True
    return bool(now.digest) and now.digest == (before.digest or run_inputs.read_digest(before))


def judge_earlier(
    old: Record,
    plan: model.Plan,
    client: Client,
    inputs: PlanInputs,
    reporter: Reporter,
    wanted: Wanted | None = None,
    *,
    newest: bool = True,
) -> Choice | None:
    """Return the earlier run *old* if this apply continues or reports it; None if a new run is needed.

    Raises Conflict if *old* is alive and has another spec, or has not begun with the save that is *wanted*, and
    UsageError if it is the *newest* and has succeeded with another spec, so that there is nothing to resume.
    """
    memory, before = old.read_memory(), old.plan
    succeeded = memory.status is not None and memory.status.state is State.SUCCEEDED
    # What the user has ended is not continued; a run that succeeded before it was cancelled is done.
    if memory.want == "destroy" or (memory.want == "cancel" and not succeeded):
        return None
    if not engine.is_made(before, memory):
        return _judge_unfinished(old, plan, inputs, reporter, wanted)
    # A client of another provider would not find the job of the old run.
    same = before.provider == inputs.provider.name
    old_client = rehydrate(client, old) if same else connect(old)[1]
    status = memory.status or old_client.state(old.run)
    if not status.state.terminal:
        if _is_same_spec(old, plan, inputs, _is_equal_but_for_survey):
            _demand_same_saves(old, inputs, status, wanted)
            message = f"run {_format_id(old, inputs)} is already {status.state}; starting no other"
            return Choice(old, client, message)
        name, changed = _format_id(old, inputs), _describe_changes(old, plan, inputs)
        conflict = f"{name} is {status.state} with another spec: {changed}"
        raise Conflict(conflict, _suggest_cure("cancel", old, inputs))
    if wanted is not None and _must_go_on(old, status, wanted):
        return None
    has_ended = status.state in (State.SUCCEEDED, State.GONE)
    if has_ended and _is_same_spec(old, plan, inputs, _is_equal):
        ended = "is gone" if status.state is State.GONE else f"has already {status.state}"
        none = "nothing to resume" if wanted is not None and wanted.needed else "starting no other"
        message = f"run {_format_id(old, inputs)} {ended}; {none} (--new starts one)"
        return Choice(old, client, message, status)
    # An older success does not count here: the newest run is what --resume is about.
    if has_ended and newest and wanted is not None and wanted.run is None and wanted.needed:
        refusal = f"run {_format_id(old, inputs)} has succeeded, so there is nothing to resume"
        hint = f"the spec has changed since: apply --from {old.run} begins with its last save"
        raise UsageError(refusal, hint)
    return None


def _must_go_on(old: Record, status: Status, wanted: Wanted) -> bool:
    """Return whether a new run is started although *old*, which has ended, may have done the work."""
    if wanted.run is not None:
        return status.state is not State.SUCCEEDED or not resume.has_begun_so(old, wanted)
    return status.state is State.GONE and wanted.needed


def _demand_same_saves(
    old: Record, inputs: PlanInputs, status: Status, wanted: Wanted | None
) -> None:
    """Raise Conflict if a run that is alive has not begun with the save that is named."""
    if wanted is None or wanted.run is None or resume.has_begun_so(old, wanted):
        return
    began = old.resume
    where = "from the beginning" if began is None else f"with a save of {began.run}"
    message = f"{_format_id(old, inputs)} is {status.state}, and has begun {where}"
    raise Conflict(message, _suggest_cure("cancel", old, inputs))


def _format_id(old: Record, inputs: PlanInputs) -> str:
    """Return the id of *old*, with its file or folder if that is not the one of *inputs*."""
    return (
        f"{old.run} of {origin.read_origin(old).text}" if _is_of_another(old, inputs) else old.run
    )


def _is_of_another(old: Record, inputs: PlanInputs) -> bool:
    its, file = origin.read_origin(old), spec_in_mounts.find_spec_file(inputs)
    if its.file is not None and file is not None:
        return its.file.resolve() != file.resolve()
    return its.folder is not None and its.folder.resolve() != inputs.base.resolve()


def _suggest_cure(verb: str, old: Record, inputs: PlanInputs) -> str:
    """Return what to do about *old*, which is in the way; a run of another file should not be ended."""
    end = f"{verb} it with runspec {verb} {old.run}"
    rename = _is_of_another(old, inputs) and origin.is_there(old)
    return (
        f"{'give this spec another name' if rename else end}, or start another run with apply --new"
    )


def _is_same_spec(old: Record, plan: model.Plan, inputs: PlanInputs, equal: Equal) -> bool:
    """Return whether two specs are *equal*, also if the file of the spec is mounted and has other comments now."""
    if equal(old, plan, inputs):
        return True
    facts = spec_in_mounts.restore_facts(old, inputs)
    if facts is None or old.plan.provider != inputs.provider.name:
        return False
    then = model.make_plan(inputs.provider, inputs.spec, model.PREVIEW, facts)
    return equal(old, then, replace(inputs, facts=facts))


def _is_equal(old: Record, plan: model.Plan, inputs: PlanInputs) -> bool:
    """Return whether an earlier run has the spec that *plan* plans.

    An older version of runspec may have planned the spec differently, so the spec of that run is planned again.
    """
    if changed_inputs(old, inputs):
        return False
    if old.plan.digest == plan.digest:
        return True
    if old.plan.provider != inputs.provider.name:
        return False
    try:
        anew = model.make_plan(
            inputs.provider, old.spec, model.PREVIEW, old.read_facts(inputs.provider)
        )
    except (Damaged, LookupError):
        return False  # this version refuses the spec or the options, or discovers more of clusters
    return anew.digest == plan.digest


def _is_equal_but_for_survey(old: Record, plan: model.Plan, inputs: PlanInputs) -> bool:
    """Return whether a run that has not ended has the spec that *plan* plans, whatever its cluster says of itself now.

    A busy Slurm may not answer, or have other limits than when the sweep of the run was split.
    """
    if _is_equal(old, plan, inputs):
        return True
    if old.plan.provider != inputs.provider.name:
        return False
    try:
        before = old.read_facts(inputs.provider)
        of_then = model.make_plan(inputs.provider, old.spec, model.PREVIEW, before)
        facts = inputs.facts._replace(survey=before.survey)
        of_now = model.make_plan(inputs.provider, inputs.spec, model.PREVIEW, facts)
    except (Damaged, LookupError):
        # The older run cannot be planned again: then it counts as different.
        return False
    return of_then.digest == of_now.digest


def _judge_unfinished(
    old: Record,
    plan: model.Plan,
    inputs: PlanInputs,
    reporter: Reporter,
    wanted: Wanted | None = None,
) -> Choice | None:
    """Return the run of an interrupted apply if its spec is that of *inputs*; else None, if that apply made nothing.

    Its outputs have to begin with the saves that are *wanted*. Raises Conflict if it made something.
    """
    same = _is_equal_but_for_survey(old, plan, inputs)
    if same and (wanted is None or resume.has_begun_so(old, wanted)):
        message = f"continuing run {old.run}, which was interrupted"
        return Choice(old, connect(old)[1], message, inputs=_add_left(inputs, old))
    with old.open_journal(reporter.wait) as journal:
        # Shared steps do not count: the new run would find and use what they made.
        of_run = {s.id for s in old.plan.steps if s.scope == "run"}
        if of_run & journal.memory.begun:
            name = _format_id(old, inputs)
            message = f"{name}, which was interrupted, was started with other saves"
            if not same:
                changed = _describe_changes(old, plan, inputs)
                message = f"{name} was started with another spec: {changed}"
            raise Conflict(message, _suggest_cure("destroy", old, inputs))
        destroy_run(old, journal, reporter)
    return None


def _add_left(inputs: PlanInputs, old: Record) -> PlanInputs:
    """Return *inputs* with the copies that the interrupted run *old* has not uploaded yet."""
    answers = old.read_memory().answers
    left = [step for step in old.plan.steps if step.id not in answers]
    # Only what the steps that are left upload is looked for: its source may be gone when the rest is done.
    names = {name for step in left for name in model.find_marked(step.do.params, model.FILE)}
    return run_inputs.continue_copies(resume.add_copies(inputs, old, names), old, names)


def destroy_run(record: Record, journal: Journal, reporter: Reporter) -> None:
    """Destroy a run; neither a login nor the provider is needed if no step of it has begun."""
    if journal.memory.attempted:
        engine.destroy(record.plan, journal, engine.ApplyContext(connect(record)[1], reporter))
    else:
        engine.abandon(journal, "destroy")


def _describe_changes(old: Record, plan: model.Plan, inputs: PlanInputs) -> str:
    """Return which fields of the spec changed since *old*, or if its spec cannot be read, which of the plan."""
    before = old.plan
    if before.provider != inputs.provider.name:
        return f"planned for '{before.provider}'"
    changes: list[diff.Change] = []
    with contextlib.suppress(Damaged):
        of_old = (old.spec, old.read_facts(inputs.provider))
        changes = spec_diff.find_differences(of_old, (inputs.spec, inputs.facts))
    paths = [change.path for change in changes or diff.find_differences(before, plan)]
    more = f" and {len(paths) - 3} more" if len(paths) > 3 else ""
    return f"{', '.join(paths[:3])}{more} changed"


def _make(choice: Choice, inputs: PlanInputs, client: Client, reporter: Reporter) -> Status | None:
    """Carry out the remaining steps of a run; return its status if another command has ended it meanwhile.

    The end of a run that has ended is noted.
    """
    old = choice.record
    with old.open_journal(reporter.wait) as journal:
        if choice.status is not None:
            engine.note_end(journal, choice.status)
        # Between the choice and the lock of the run, another command may have ended the run.
        if journal.memory.want != "run":
            return read_ended_status(journal.memory)
        if isinstance(client, SupportsProgress):
            client.listen(reporter.line)
        state = None
        if isinstance(client, SupportsAdoption):
            from runspec_jobs.engine import adopt  # makes models, which is slow

            state = adopt.make_state(old, inputs.provider)
        bundles = {**inputs.bundles, **inputs.copies}
        hands = engine.ApplyContext(client, reporter, bundles, state=state)
        engine.make(old.plan, journal, hands)
    return None


def read_ended_status(memory: RunState) -> Status:
    """Return the status of a run that another command has cancelled or destroyed."""
    return memory.status or Status(State.CANCELLED, f"runspec {memory.want} ended it meanwhile")
