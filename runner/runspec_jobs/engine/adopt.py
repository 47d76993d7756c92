"""Taking up a run that another machine has begun, from the state that its store keeps of it.

Whoever may write to the store may have written it. So only the spec counts, as a job file does, and the settings that
a job file may have; the plan is made anew from them and compared, and all else is this machine's own.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from runspec_jobs import __version__, record_formats
from runspec_jobs.diagnostics.problem import Problem
from runspec_jobs.document import reader
from runspec_jobs.errors import Conflict, Damaged
from runspec_jobs.load import profile, source
from runspec_jobs.plan import model
from runspec_jobs.provider import (
    Client,
    Facts,
    Options,
    Provider,
    Response,
    Scope,
    Source,
    Spec,
    State,
    Step,
    SupportsRehydration,
)
from runspec_jobs.spec import validate
from runspec_jobs.spec.field_marks import of_user
from runspec_jobs.spec.requirements import RequirementsError, requirement_lines
from runspec_jobs.state import run_record
from runspec_jobs.state.journal import Journal
from runspec_jobs.state.run_record import Record

FORMAT = "runspec.state/v1"
# What planning, or reading, raises about data that no runspec has written so.
NOT_OURS = (LookupError, TypeError, ValueError, AttributeError, RecursionError, reader.YamlError)


class Uploaded(BaseModel):
    """A folder that the run mounts; its digest becomes part of names."""

    model_config = ConfigDict(frozen=True, strict=True, defer_build=True)

    digest: str = Field(pattern=r"\Asha256:[0-9a-f]{64}\z")
    files: int = Field(ge=0)
    bytes: int = Field(ge=0)


class Kept(BaseModel):
    """The state of a run as a store keeps it. Keys that this version does not know are left out."""

    model_config = ConfigDict(frozen=True, defer_build=True)

    runspec: str
    provider: str
    run: str
    born: float = Field(ge=0, le=1e11, allow_inf_nan=False)
    job: str
    options: dict[str, Any]
    sources: dict[str, Uploaded]
    requirements: tuple[str, ...]
    survey: dict[str, Any]
    plan: dict[str, Any]


class Adopted(NamedTuple):
    """A run that can be put on record here; *elsewhere* are steps that this machine would do otherwise."""

    text: bytes
    spec: Spec
    facts: Facts
    plan: model.Plan
    elsewhere: frozenset[str]
    born: float


def state(of: Record, provider: Provider) -> bytes:
    """Return what the store is to keep of a run on record."""
    return text(of.job, of.plan, of.facts(provider), of.memory().born)


def text(job_text: bytes, made: model.Plan, facts: Facts, born: float) -> bytes:
    """Return the state of a run, as `read` takes it. *born* is when it was begun, in seconds since 1970.

    Settings that only a user may set, and folders of this machine, are left out.
    """
    found = {
        **record_formats.written(FORMAT),
        "provider": made.provider,
        "run": made.run,
        "born": born,
        "job": job_text.decode(),
        "options": _of_anyone(type(facts.options), facts.options.model_dump(mode="json")),
        "sources": {name: source._asdict() for name, source in facts.sources.items()},
        "requirements": list(facts.requirements),
        "survey": facts.survey,
        "plan": model.to_json(made),
    }
    return json.dumps(found, ensure_ascii=False).encode()


def _of_anyone(kind: type[Options], settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return those of *settings* in which nothing is for the user alone to set."""
    return {
        name: value
        for name, value in settings.items()
        if name in kind.model_fields and not list(of_user(kind, {name: value}))
    }


def read(content: bytes, run: str) -> Kept:
    """Return the state of *run* that *content* is.

    Raises Newer where a newer version wrote it, and Damaged where it is none.
    """
    try:
        found = json.loads(content)
        record_formats.check(found, FORMAT, f"the state of {run} in the store")
        kept = Kept.model_validate(found)
    except NOT_OURS as exc:  # ValidationError is a ValueError
        raise _damaged(run, _why(exc)) from exc
    if kept.run != run:
        raise _damaged(run, "it is the state of something else")
    return kept


def _why(exc: Exception) -> str:
    if isinstance(exc, ValidationError):
        first = exc.errors(include_url=False)[0]
        return f"{'.'.join(map(str, first['loc']))}: {first['msg'].lower()}"
    return "it is no JSON that runspec has written"


def _damaged(run: str, why: str) -> Damaged:
    hint = "adopt it on the machine that began it; runspec gc finds what it has left"
    return Damaged(f"the state of {run} in the store is damaged: {why}", hint)


def understood(kept: Kept, provider: Provider, own: profile.Profile) -> Adopted:
    """Return *kept* as a run of this machine, with the settings of its *own* profile.

    Raises Damaged where it cannot be one, and Conflict where this machine would take it away by other calls.
    """
    spec = _spec(kept, provider)
    options = _options(kept, provider, spec, own)
    try:
        lines = requirement_lines("\n".join(kept.requirements))
        sources = {name: Source(**one.model_dump()) for name, one in kept.sources.items()}
        facts = Facts(options, sources, lines, kept.survey)
        _refuse(kept, source.checked(provider, spec, facts))
        mine = model.make_plan(provider, spec, kept.run[-6:], facts)
        theirs = model.from_json(kept.plan)
        made, elsewhere = _agreed(kept, mine, theirs)
    except (*NOT_OURS, RequirementsError) as exc:
        raise _damaged(kept.run, "no plan can be made of it") from exc
    return Adopted(kept.job.encode(), spec, facts, made, elsewhere, kept.born)


def _spec(kept: Kept, provider: Provider) -> Spec:
    try:
        spec, problems = validate.spec(reader.read(kept.job.encode()))
    except NOT_OURS as exc:
        raise _damaged(kept.run, "its spec cannot be read") from exc
    if spec is None:
        raise _damaged(kept.run, f"this version refuses its spec: {problems[0].what}")
    if (spec.name, spec.provider) != (kept.run[:-7], provider.name):
        raise _damaged(kept.run, f"its spec is of '{spec.name}' on '{spec.provider}'")
    return spec


def _options(kept: Kept, provider: Provider, spec: Spec, own: profile.Profile) -> Options:
    """Return this machine's options, with those of the run that a job file may set as well."""
    kind = provider.options_model
    found, *problems = profile.options(kind, provider.name, spec, own, complete=False)
    if found is None:
        _refuse(kept, [*problems[0], *problems[1]])
        raise AssertionError("BUG: options without problems")
    settings = found.model_dump(mode="json") | _of_anyone(kind, kept.options)
    merged, wrong = validate.model(kind, settings)
    if merged is None:
        raise _damaged(kept.run, f"its settings: {wrong[0].what}")
    return merged


def _refuse(kept: Kept, problems: Iterable[Problem]) -> None:
    for problem in problems:
        if problem.severity == "error":
            what = f"{kept.run} cannot be adopted with the settings of this machine: {problem.what}"
            raise Conflict(what, problem.hint)


def _agreed(kept: Kept, mine: model.Plan, theirs: model.Plan) -> tuple[model.Plan, frozenset[str]]:
    """Return the plan to put on record, and which of its steps this machine would do otherwise.

    Those of the run itself must be taken away by the very calls that this machine plans. What runs share may have been
    planned otherwise, by another version say: it is then left to others to take away.
    """
    if [s._replace(title="") for s in mine.steps] == [s._replace(title="") for s in theirs.steps]:
        return mine, frozenset()
    own, ids = {step.id: step for step in mine.steps}, {step.id for step in theirs.steps}
    if len(ids) < len(theirs.steps):
        raise _damaged(kept.run, "two steps of its plan have one name")
    of_run = [[(s.id, s.undo) for s in p.steps if s.scope is Scope.RUN] for p in (mine, theirs)]
    if of_run[0] != of_run[1]:
        what = f"{kept.run} was planned by runspec {kept.runspec} in a way that this one would not"
        hint = "use that version, and the settings of the machine that began it"
        raise Conflict(f"{what} ({__version__})", hint)
    steps = [_own_or_left(own.get(step.id), step) for step in theirs.steps]
    elsewhere = frozenset(s.id for s in steps if s != own.get(s.id)) | (own.keys() - ids)
    digest = model.digest(steps)
    return model.Plan(mine.provider, mine.run, digest, tuple(steps)), elsewhere


def _own_or_left(mine: Step | None, theirs: Step) -> Step:
    """Return the step as this machine plans it, or as one that is never called again nor taken back.

    Only the calls count: another version of runspec may give the same call another title.
    """
    if mine is not None and (
        theirs.scope is Scope.RUN or mine == theirs._replace(title=mine.title)
    ):
        return mine
    return theirs._replace(scope=Scope.SITE, undo=None, settle_s=0.0)


def demand_submitted(found: Adopted, client: Client) -> None:
    """Raise Conflict where the run's job is not there and this machine could not go on as the other one."""
    *_, job = (step for step in found.plan.steps if step.scope is Scope.RUN)
    there = not found.elsewhere or _found(job, client) is not None
    if not there and client.state(found.plan.run).state is State.GONE:
        shared = ", ".join(sorted(found.elsewhere))
        what = f"{found.plan.run} has no job, and another version of runspec, or other settings, made its {shared}"
        raise Conflict(what, "apply or destroy it on the machine that began it")


def put_on_record(found: Adopted, base: Path, profile_file: Path | None) -> Record:
    """Put the record of a run on the disk. All of the run itself counts as begun until it is looked for.

    Hold the name's lock.
    """
    events: list[dict[str, Any]] = [
        {"event": "begun", "step": step.id} for step in found.plan.steps if step.scope is Scope.RUN
    ]
    for step in sorted(found.elsewhere):
        events += [{"event": "done", "step": step, "answer": {}}, {"event": "undone", "step": step}]
    name, born = found.spec.name, found.born
    return run_record.adopt(
        found.text, found.plan, found.facts, base, name, profile_file, born, events
    )


def look(made: model.Plan, journal: Journal, client: Client) -> None:
    """Note which steps of an adopted run were done, as the service tells.

    Steps are done in their order, so those before the last one of the run that is found were done too: what they made
    may be gone by now, or be nothing that can be found.
    """
    found: dict[str, Response] = {}
    for step in made.steps:
        if step.id not in journal.memory.answers:
            answer = _found(step, client)
            if answer is not None:
                found[step.id] = answer
                if isinstance(client, SupportsRehydration):
                    client.remember(made.run, {**journal.memory.answers, **found})
    known = {*journal.memory.answers, *found}
    of_run = [n for n, s in enumerate(made.steps, 1) if s.scope is Scope.RUN and s.id in known]
    last = max(of_run, default=0)
    if of_run and last < len(made.steps) and client.state(made.run).state is not State.GONE:
        last = len(made.steps)  # its job is there
    for number, step in enumerate(made.steps, 1):
        if step.id not in journal.memory.answers and (number <= last or step.id in found):
            _note(step, found.get(step.id), journal)


def _found(step: Step, client: Client) -> Response | None:
    try:
        return client.find(step)
    except Conflict:
        if step.scope is Scope.RUN:
            raise
        return None  # what runs share has been made anew since


def _note(step: Step, answer: Response | None, journal: Journal) -> None:
    journal.add("done", step=step.id, answer=dict(answer or {}))
    refs = [] if step.undo is None else list(model.marked(step.undo.params, model.REF))
    if answer is None and any(ref.split(".")[0] == step.id for ref in refs):
        journal.add("undone", step=step.id)  # nobody knows any more what its undo would name
