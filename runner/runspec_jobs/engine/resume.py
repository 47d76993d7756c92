"""Finds the saves with which a run begins that goes on with another one: `apply --resume` and `apply --from`."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from runspec_agent.base.light_typing import NamedTuple
from runspec_jobs.engine import apply as engine, clients, named_run
from runspec_jobs.engine.outputs import layout, run_inputs
from runspec_jobs.engine.outputs.saves_bundle import SavesBundle
from runspec_jobs.engine.reporter import Reporter
from runspec_jobs.engine.source_runs import place_of
from runspec_jobs.errors import RunspecError, Unavailable, UsageError
from runspec_jobs.load.inputs import PlanInputs
from runspec_jobs.plan.model import Plan, format_canonical
from runspec_jobs.provider import OutputFile, Resume, Spec, State, Status, SupportsOutputs
from runspec_jobs.provider.types import copy_name
from runspec_jobs.spec import placeholders
from runspec_jobs.state import origin, run_record
from runspec_jobs.state.run_record import Record

LOOKED_FOR = 50  # the most nodes of all tasks whose saves a status looks for
WRITE = "write --from RUN or --from RUN:SAVE, such as --from mnist-7k2m9p:3"
BEGIN_AGAIN = "runspec apply without a save starts from the beginning"


class Wanted(NamedTuple):
    """What a new run is to begin with: a save of *run*, or of the last run of its spec if that is None.

    *save* is the number of the save, and None stands for the newest one. If the save is not *needed* and there is none,
    the run begins without.
    """

    run: str | None = None
    save: int | None = None
    needed: bool = True


def parse(text: str) -> Wanted:
    """Return what `RUN` or `RUN:SAVE` means. Raises UsageError if it has another form.

    >>> parse("mnist-7k2m9p:3")
    Wanted(run='mnist-7k2m9p', save=3, needed=True)
    """
    match = re.fullmatch(r"(?P<run>[a-z][a-z0-9-]*)(:(?P<save>[1-9][0-9]{0,8}))?", text, re.ASCII)
    if match is None:
        raise UsageError(f"'{text}' names no save of a run", WRITE)
    return Wanted(match["run"], None if match["save"] is None else int(match["save"]))


def resolve_run(wanted: Wanted, spec: Spec, reporter: Reporter) -> Wanted:
    """Return *wanted* with the id of its run. Raises UsageError if there is no such run, or if it was destroyed.

    The name of *spec* itself is refused: after a crash, it would mean the run that was started before it.
    """
    if wanted.run is None:
        return wanted
    record = named_run.find_kept(wanted.run, reporter.note)
    if wanted.run == spec.name:
        message = f"'{spec.name}' is the name of this spec, and not of one run"
        raise UsageError(message, f"name the run: --from {record.run}")
    return wanted._replace(run=record.run)


def has_begun_so(old: Record, wanted: Wanted) -> bool:
    """Return whether an earlier run has begun with the saves that are *wanted* now."""
    began = old.resume
    if wanted.run is None:
        return began is not None or not wanted.needed
    # The record has the number that was found, and the journal the number that was asked for.
    about = old.read_memory().about.get("resume", {})
    return began is not None and began.run == wanted.run and about.get("save") == wanted.save


def describe_saves(wanted: Wanted | None, resume: Resume | None) -> dict[str, object]:
    """Return what the journal says of the saves that a run begins with.

    That is the `run`, the `save` asked for, the `number` of the save and its `content`.
    """
    if wanted is None or resume is None:
        return {}
    found = {"run": resume.run, "save": wanted.save, "number": resume.number}
    return {"resume": {**found, "content": resume.content}}


class _Source(NamedTuple):
    """A run with the saves that another one is to begin with, and the files in them."""

    record: Record
    saves: Mapping[str, Mapping[str, int]]
    files: Sequence[OutputFile]


def add_saves(inputs: PlanInputs, wanted: Wanted, reporter: Reporter) -> PlanInputs:
    """Return *inputs* with the saves that are *wanted*, which are copied if the new run has another store.

    Raises UsageError if there is no save, or if the run that made it has other tasks or another number of nodes, and
    Unavailable if jobs of the provider cannot begin with saves.
    """
    place = place_of(inputs.provider, inputs.spec, inputs.facts)
    if place is None:
        if not wanted.needed:
            return inputs
        raise _refuse_without_agent(inputs, wanted)
    # Saves are looked for with the client of the run that made them, which may be of another provider.
    source = _find_named(wanted, reporter) if wanted.run else _find_last(inputs, wanted, reporter)
    if source is None:
        return inputs
    demand_shape(source.record, inputs.spec, source.saves)
    provider, _, facts = clients.connect(source.record)
    is_copied = place_of(provider, source.record.spec, facts) != place
    content = run_inputs.compute_digest(source.files)
    resume = Resume(source.record.run, source.saves, is_copied, content)
    reporter.note(_describe_resume(resume, inputs.spec))
    bundles = _make_bundles(resume, source.files) if is_copied else {}
    sources = {name: bundle.source for name, bundle in bundles.items()}
    facts = inputs.facts._replace(resume=resume, sources={**inputs.facts.sources, **sources})
    return replace(inputs, facts=facts, copies=bundles)


def _refuse_without_agent(inputs: PlanInputs, wanted: Wanted) -> Unavailable:
    """Return the refusal of a job whose outputs nothing in it could restore, with what it can do instead."""
    last = next(reversed(run_record.list_runs(inputs.spec.name)), None)
    run = wanted.run or (last.run if last is not None else "RUN")
    output = next((one.name for one in inputs.spec.outputs), "OUTPUT")
    message = f"'{inputs.provider.name}', as it is set up here, cannot begin with what another run has saved"
    way = f"source: run://{run}/{output}"
    return Unavailable(message, f"mount it, and let the script copy what it needs: {way}")


def demand_planned(plan: Plan, resume: Resume | None) -> None:
    """Raise Unavailable if the provider has left the saves with which the run is to begin out of its *plan*."""
    if resume is not None and not any(
        resume.run in format_canonical(step.do.params) for step in plan.steps
    ):
        raise Unavailable(f"'{plan.provider}' cannot begin with what another run has saved")


def _describe_resume(resume: Resume, spec: Spec) -> str:
    number = resume.number
    save = f"save {number}" if number else "its last save" if number == 0 else "its last saves"
    empty = [output.name for output in spec.outputs if output.name not in resume.saves]
    more = f"; {', '.join(empty)} begins empty" if empty else ""
    return f"going on from {resume.run}, {save}{more}"


def add_copies(inputs: PlanInputs, old: Record, left: set[str]) -> PlanInputs:
    """Return *inputs* with the copies of saves of the interrupted run *old*, if some are *left* to upload.

    Raises UsageError if they do not exist any more.
    """
    resume = old.resume
    # Saves in the store of the new run are read in place, by its nodes.
    if resume is None or not resume.copied or left.isdisjoint(map(copy_name, resume.parts)):
        return inputs
    source = run_record.require_kept(run_record.find(resume.run))
    bundles = _make_bundles(resume, _list_files(source, lambda file: _is_in(resume, file)))
    # The plan was made with these digests; other files would be a run that nobody has seen planned.
    if any(bundle.source != old.sources[name] for name, bundle in bundles.items()):
        message = f"the saves of {resume.run} with which {old.run} was to begin are gone"
        raise UsageError(message, f"runspec destroy {old.run}")
    return replace(inputs, copies=bundles)


def _is_in(resume: Resume, file: OutputFile) -> bool:
    return resume.saves.get(file.output, {}).get(_format_part(file)) == file.save


def _make_bundles(resume: Resume, files: Iterable[OutputFile]) -> dict[str, SavesBundle]:
    by_part: dict[str, list[OutputFile]] = {part: [] for part in resume.parts}
    for file in files:
        by_part[_format_part(file)].append(file)
    return {copy_name(part): SavesBundle.of(of_part) for part, of_part in by_part.items()}


def _format_part(file: OutputFile) -> str:
    return f"{file.task}/{file.rank}"


def _find_named(wanted: Wanted, reporter: Reporter) -> _Source:
    """Return the run that *wanted* names, with its saves."""
    assert wanted.run is not None, "BUG: no run is named"
    record = named_run.find_kept(wanted.run, reporter.note)
    _demand_ended(record)
    files = _list_saved(record, wanted.save)
    if files:
        return _make_source(record, files)
    if wanted.save is None:
        raise UsageError(_explain_nothing(record), BEGIN_AGAIN)
    there = sorted({file.save for file in _list_files(record, lambda file: True)})
    hint = f"saves that exist: {', '.join(map(str, there))}" if there else _explain_nothing(record)
    raise UsageError(f"{record.run} has no save number {wanted.save}", hint)


def _find_last(inputs: PlanInputs, wanted: Wanted, reporter: Reporter) -> _Source | None:
    """Return the last run of the spec that has saved something, or None if there is none and it is not *needed*."""
    of_name = run_record.list_runs(inputs.spec.name)
    records = [record for record in of_name if not _is_of_another_folder(record, inputs)]
    tried: list[Record] = []
    for record in reversed(records):
        # A run whose apply was cut off has no nodes, and so no saves.
        if not engine.is_submitted(record.plan, record.read_memory()):
            continue
        # What was done has nothing to go on from, and what failed before it is done now, too.
        if _demand_ended(record).state is State.SUCCEEDED:
            break
        if files := _list_saved(record, None):
            if tried:
                reporter.note(
                    f"{_explain_nothing(tried[0])}; {record.run} is the last run that has"
                )
            return _make_source(record, files)
        # A run that saved nothing of its own is where the run before it was.
        if began := record.resume:
            return _find_earlier(record, began)
        tried.append(record)
    if not wanted.needed:
        return None
    if tried:
        raise UsageError(_explain_nothing(tried[0]), BEGIN_AGAIN)
    hint = BEGIN_AGAIN
    if others := [record for record in of_name if record not in records]:
        of_other = f"{others[-1].run} is of {origin.read_origin(others[-1]).text}"
        hint = f"{of_other}: --from {others[-1].run} goes on from that"
    message = f"no run of '{inputs.spec.name}' is on record that failed or was cancelled"
    raise UsageError(message, hint)


def _find_earlier(record: Record, began: Resume) -> _Source:
    """Return the saves with which a run began that has made none of its own."""
    source = run_record.find(began.run)
    # A record that is gone may be found by its id as the name of another spec.
    if source.run != began.run or source.read_memory().deleted:
        message = (
            f"{_explain_nothing(record)}, and {began.run}, from which it went on, was destroyed"
        )
        raise UsageError(message, BEGIN_AGAIN)
    return _make_source(source, _list_files(source, lambda file: _is_in(began, file)))


def _explain_nothing(record: Record) -> str:
    return f"{record.run} has saved nothing"


def _is_of_another_folder(record: Record, inputs: PlanInputs) -> bool:
    """Return whether a run is of another spec of the same name, which still exists."""
    folder = origin.read_origin(record).folder
    is_here = folder is None or folder.resolve() == inputs.base.resolve()
    return not is_here and origin.is_there(record)


def _demand_ended(record: Record) -> Status:
    """Return how a run has ended. Raises UsageError if it has not."""
    status = record.read_memory().status or clients.connect(record)[1].state(record.run)
    if not status.state.terminal:
        message = f"{record.run} is {status.state}, and another run can begin with its saves when it has ended"
        raise UsageError(message, f"runspec cancel {record.run} ends it after a last save")
    return status


def _list_saved(record: Record, number: int | None) -> list[OutputFile]:
    """Return the newest saves of the outputs of a run, or those of a *number*."""
    return _list_files(record, lambda file: file.newest if number is None else file.save == number)


def _list_files(record: Record, is_chosen: Callable[[OutputFile], bool]) -> list[OutputFile]:
    client = clients.connect(record)[1]
    if not isinstance(client, SupportsOutputs):
        raise Unavailable(f"'{record.plan.provider}' cannot read outputs")
    return [file for file in client.outputs(record.run) if is_chosen(file)]


def _make_source(record: Record, files: Sequence[OutputFile]) -> _Source:
    saves: dict[str, dict[str, int]] = {}
    for file in files:
        saves.setdefault(file.output, {})[_format_part(file)] = file.save
    return _Source(record, saves, files)


def demand_shape(record: Record, spec: Spec, saves: Mapping[str, Mapping[str, int]]) -> None:
    """Raise UsageError if the saves of a run do not fit the outputs, tasks and nodes of *spec*."""
    if not {output.name for output in spec.outputs} & saves.keys():
        message = (
            f"{record.run} has saved {', '.join(sorted(saves))}, which is no output of this spec"
        )
        raise UsageError(message, BEGIN_AGAIN)
    was, now = placeholders.tasks(record.spec), placeholders.tasks(spec)
    if len(was) != len(now):
        counts = _count(len(was), "task"), _count(len(now), "task")
        raise UsageError(f"{record.run} has {counts[0]}, and this spec {counts[1]}", BEGIN_AGAIN)
    for number, (before, after) in enumerate(zip(was, now, strict=True)):
        if before != after:
            message = f"task {number} of {record.run} had {_format_values(before)}, and here {_format_values(after)}"
            raise UsageError(message, BEGIN_AGAIN)
    _demand_nodes(record, spec, saves.keys())


def _demand_nodes(record: Record, spec: Spec, saved: Iterable[str]) -> None:
    """Raise UsageError if an output is saved by each of several nodes, and was not by as many."""
    before, after = layout.make_layout(record.spec), layout.make_layout(spec)
    was, now = record.spec.cluster.nodes.max, spec.cluster.nodes.max
    for output in saved:
        if output in after.of_first or output not in {one.name for one in spec.outputs}:
            continue
        by_first = output in before.of_first
        # The nodes that the new run has more would begin with nothing, and those that it has fewer would be lost.
        if was != now or (by_first and now > 1):
            who = f"the first of {_count(was, 'node')}" if by_first else _count(was, "node")
            message = f"'{output}' of {record.run} was saved by {who}, and here each of {_count(now, 'node')} saves it"
            raise UsageError(message, BEGIN_AGAIN)


def _count(count: int, noun: str) -> str:
    return f"1 {noun}" if count == 1 else f"{count:,} {noun}s"


def _format_values(values: Mapping[str, str]) -> str:
    return ", ".join(f"{name}={value}" for name, value in values.items()) or "no parameters"


def find_dependent(record: Record) -> Record | None:
    """Return a run that still needs a save of *record*, since one of its outputs has none of its own yet; or None."""
    for other in run_record.list_all():
        if other.run == record.run or run_record.find_damage(other):
            continue
        memory = other.read_memory()
        # It has ended or is gone, so it reads no saves any more.
        if memory.deleted or memory.status is not None:
            continue
        resume = other.resume
        is_read = resume is not None and not resume.copied and resume.run == record.run
        if resume is not None and is_read and _needs_saves(other, resume):
            return other
    return None


def _needs_saves(record: Record, resume: Resume) -> bool:
    """Return whether a run may still read saves with which it is to begin."""
    try:
        if not engine.is_made(record.plan, record.read_memory()):
            return True
        if clients.connect(record)[1].state(record.run).state.terminal:
            return False
        own = _make_source(record, _list_saved(record, None)).saves
    except RunspecError:
        return True  # its service does not answer
    return any(saves.keys() - own.get(name, {}).keys() for name, saves in resume.saves.items())


class Way(NamedTuple):
    """The *command* that goes on from a run that has ended; *sure* is false if it may have saved nothing."""

    command: str
    sure: bool


def find_way_on(record: Record, status: Status) -> Way | None:
    """Return how to go on from a run with *status*; None if it has not ended, has succeeded or has saved nothing.

    The saves of a large run are not looked for, because each needs a request.
    """
    if not status.state.terminal or status.state is State.SUCCEEDED:
        return None
    try:
        if record.read_memory().deleted:
            return None
        nodes, tasks = clients.count_nodes(record)
        provider, _, facts = clients.connect(record)
        if not record.spec.outputs or place_of(provider, record.spec, facts) is None:
            return None
        sure = nodes * tasks <= LOOKED_FOR
        if sure and not _list_saved(record, None):
            return None
    except RunspecError:  # only a hint: without the store there is none
        return None
    return Way(format_command(record), sure)


def format_command(record: Record) -> str:
    """Return the command that goes on from the last save of a run."""
    file = origin.read_origin(record).file
    if file is None:
        return f"runspec apply FILE --from {record.run}"
    # --resume finds the newest run of the spec by itself.
    is_newest = run_record.list_runs(record.name)[-1:] == [record]
    option = "--resume" if is_newest else f"--from {record.run}"
    return f"runspec apply {shlex.quote(_shorten(file))} {option}"


def _shorten(file: Path) -> str:
    """Return the path of *file*, from the current folder if it is below that."""
    here = origin.find_current_folder()
    return str(file.relative_to(here)) if here and file.is_relative_to(here) else str(file)
