"""Adopts a run that another machine started, from the state of the run in the store.

Everyone who may write to the store may have written the state. Therefore it is trusted like a job file: only the spec
and the settings that a spec may have are used. The plan is made again from them and compared, and all else comes from
this machine.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from runspec_agent.base.light_typing import NamedTuple
from runspec_jobs import __version__, record_formats
from runspec_jobs.diagnostics.problem import Problem
from runspec_jobs.document import reader
from runspec_jobs.engine.apply import is_submitting
from runspec_jobs.errors import Conflict, Damaged
from runspec_jobs.load import profile, source
from runspec_jobs.plan import model
from runspec_jobs.provider import (
    Client,
    Facts,
    Options,
    Provider,
    Response,
    Resume,
    SavedOutput,
    Scope,
    Source,
    Spec,
    State,
    Step,
    SupportsRehydration,
)
from runspec_jobs.provider.types import PARTS, WHOLE
from runspec_jobs.spec import validate
from runspec_jobs.spec.field_marks import find_user_settings
from runspec_jobs.spec.requirements import RequirementsError, list_conda_lines, list_requirements
from runspec_jobs.spec.types import KEY
from runspec_jobs.state import run_record
from runspec_jobs.state.journal import Journal
from runspec_jobs.state.run_record import Record

FORMAT = "runspec.state/v1"
# The errors of reading a state, or of planning from it, if runspec has not written it.
NOT_OURS = (LookupError, TypeError, ValueError, AttributeError, RecursionError, reader.YamlError)


class Uploaded(BaseModel):
    """A folder that the run mounts. Its digest becomes part of names."""

    model_config = ConfigDict(frozen=True, strict=True, defer_build=True)

    digest: str = Field(pattern=rf"\A(?:{WHOLE}|{PARTS})[0-9a-f]{{64}}\z")
    files: int = Field(ge=0)
    bytes: int = Field(ge=0)
    is_file: bool = False


class MountedOutput(BaseModel):
    """An output of another run that the run mounts. Its names become part of keys."""

    model_config = ConfigDict(frozen=True, strict=True, defer_build=True)

    run: str = Field(pattern=rf"\A{run_record.RUN.pattern}\z")
    output: str = Field(pattern=rf"\A{KEY.strip('^$')}\z")
    tasks: int = Field(ge=1)
    nodes: int = Field(ge=1)
    task: int | None = Field(ge=0)
    same: bool = False


class Resumed(BaseModel):
    """The saves of another run that the run begins with. Their names become part of keys."""

    model_config = ConfigDict(frozen=True, strict=True, defer_build=True)

    run: str = Field(pattern=rf"\A{run_record.RUN.pattern}\z")
    saves: dict[
        Annotated[str, Field(pattern=rf"\A{KEY.strip('^$')}\z")],
        dict[Annotated[str, Field(pattern=r"\A\d{1,7}/\d{1,7}\z")], Annotated[int, Field(ge=0)]],
    ]
    copied: bool
    content: str = Field(default="", pattern=r"\A[0-9a-f]*\z")


class Kept(BaseModel):
    """The state of a run in a store. Keys that this version does not know are ignored."""

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
    outputs: dict[str, MountedOutput] = Field(default={})
    resume: Resumed | None = None
    plan: dict[str, Any]


class Adopted(NamedTuple):
    """A run that this machine can adopt; *elsewhere* has the ids of steps that this machine plans differently."""

    text: bytes
    spec: Spec
    facts: Facts
    plan: model.Plan
    elsewhere: frozenset[str]
    born: float


def make_state(record: Record, provider: Provider) -> bytes:
    """Return the state of a run on record, for the store."""
    return format_state(
        record.job, record.plan, record.read_facts(provider), record.read_memory().born
    )


def format_state(job_text: bytes, plan: model.Plan, facts: Facts, born: float) -> bytes:
    """Return the state of a run in the format that `read` reads. *born* is its start, in seconds since 1970.

    Settings that only a user may set, and folders of this machine, are left out.
    """
    content = {
        **record_formats.make_format_keys(FORMAT),
        "provider": plan.provider,
        "run": plan.run,
        "born": born,
        "job": job_text.decode(),
        "options": _drop_user_settings(type(facts.options), facts.options.model_dump(mode="json")),
        "sources": {name: source.fields for name, source in facts.sources.items()},
        "requirements": list(facts.requirements),
        "survey": facts.survey,
        **(
            {"outputs": {name: output._asdict() for name, output in facts.outputs.items()}}
            if facts.outputs
            else {}
        ),
        **({"resume": facts.resume._asdict()} if facts.resume is not None else {}),
        "plan": model.write_plan(plan),
    }
    return json.dumps(content, ensure_ascii=False).encode()


def _drop_user_settings(kind: type[Options], settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return those of *settings* that do not contain a setting that only the user may set."""
    return {
        name: value
        for name, value in settings.items()
        if name in kind.model_fields and not list(find_user_settings(kind, {name: value}))
    }


def read(content: bytes, run: str) -> Kept:
    """Return the state of *run* from *content*.

    Raises Newer if a newer version of runspec wrote it, and Damaged if it is not a state of *run*.
    """
    try:
        parsed = json.loads(content)
        record_formats.check(parsed, FORMAT, f"the state of {run} in the store")
        kept = Kept.model_validate(parsed)
    except NOT_OURS as exc:  # ValidationError is a ValueError
        raise _make_damaged(run, _explain_error(exc)) from exc
    if kept.run != run:
        raise _make_damaged(run, f"its content is the state of '{kept.run}'")
    return kept


def _explain_error(exc: Exception) -> str:
    if isinstance(exc, ValidationError):
        first = exc.errors(include_url=False)[0]
        return f"{'.'.join(map(str, first['loc']))}: {first['msg'].lower()}"
    return "it is not JSON of runspec"


def _make_damaged(run: str, why: str) -> Damaged:
    hint = "use the machine that started the run, or delete what the run has left with runspec gc"
    return Damaged(f"the state of {run} in the store is damaged: {why}", hint)


def convert_state(kept: Kept, provider: Provider, user_profile: profile.Profile) -> Adopted:
    """Return *kept* as a run of this machine, with the settings of *user_profile*.

    Raises Damaged if the state is damaged, and Conflict if this machine would delete the run with other requests.
    """
    spec = _read_spec(kept, provider)
    options = _merge_options(kept, provider, spec, user_profile)
    try:
        read_lines = list_conda_lines if spec.container.conda else list_requirements
        # Parsed again, because whoever wrote the state may have added an option, or a file of this machine.
        lines = read_lines("\n".join(kept.requirements))
        sources = {name: Source(**uploaded.model_dump()) for name, uploaded in kept.sources.items()}
        outputs = {
            name: SavedOutput(**output.model_dump()) for name, output in kept.outputs.items()
        }
        resume = None if kept.resume is None else Resume(**kept.resume.model_dump())
        facts = Facts(options, sources, lines, kept.survey, outputs=outputs, resume=resume)
        spec, _ = source.choose_gpu_type(provider, spec, facts)
        _refuse(kept, source.check_sizes(provider, spec, facts))
        mine = model.make_plan(provider, spec, kept.run[-6:], facts)
        theirs = model.read_plan(kept.plan)
        plan, elsewhere = _compare_plans(kept, mine, theirs)
    except (*NOT_OURS, RequirementsError) as exc:
        raise _make_damaged(kept.run, "its spec cannot be planned") from exc
    return Adopted(kept.job.encode(), spec, facts, plan, elsewhere, kept.born)


def _read_spec(kept: Kept, provider: Provider) -> Spec:
    try:
        spec, problems = validate.parse_spec(reader.read(kept.job.encode()))
    except NOT_OURS as exc:
        raise _make_damaged(kept.run, "its spec cannot be read") from exc
    if spec is None:
        raise _make_damaged(
            kept.run, f"this version of runspec refuses its spec: {problems[0].what}"
        )
    if (spec.name, spec.provider) != (kept.run[:-7], provider.name):
        raise _make_damaged(kept.run, f"its spec is that of '{spec.name}' on '{spec.provider}'")
    return spec


def _merge_options(
    kept: Kept, provider: Provider, spec: Spec, user_profile: profile.Profile
) -> Options:
    """Return this machine's options, updated with those of the run that a job file may set."""
    kind = provider.options_model
    options, *problems = profile.merge_options(
        kind, provider.name, spec, user_profile, complete=False
    )
    if options is None:
        _refuse(kept, [*problems[0], *problems[1]])
        raise AssertionError("BUG: options without problems")
    settings = options.model_dump(mode="json") | _drop_user_settings(kind, kept.options)
    merged, wrong = validate.parse_model(kind, settings)
    if merged is None:
        raise _make_damaged(kept.run, f"its settings: {wrong[0].what}")
    return merged


def _refuse(kept: Kept, problems: Iterable[Problem]) -> None:
    for problem in problems:
        if problem.severity == "error":
            message = (
                f"{kept.run} cannot be adopted with the settings of this machine: {problem.what}"
            )
            raise Conflict(message, problem.hint)


def _compare_plans(
    kept: Kept, mine: model.Plan, theirs: model.Plan
) -> tuple[model.Plan, frozenset[str]]:
    """Return the plan for the record, and the ids of its steps that this machine plans differently.

    Steps of the run itself must be undone by exactly the requests that this machine plans. Shared resources may have
    been planned differently, for example by another version of runspec: this machine then never deletes them.
    """
    # The usual case: the same version of runspec, with the same settings.
    if [s._replace(title="") for s in mine.steps] == [s._replace(title="") for s in theirs.steps]:
        return mine, frozenset()
    planned, ids = {step.id: step for step in mine.steps}, {step.id for step in theirs.steps}
    if len(ids) < len(theirs.steps):
        raise _make_damaged(kept.run, "two steps of its plan have the same id")
    of_run = [[(s.id, s.undo) for s in p.steps if s.scope is Scope.RUN] for p in (mine, theirs)]
    # Whoever can write to the store could otherwise have this machine delete what it never planned.
    if of_run[0] != of_run[1]:
        message = f"runspec {kept.runspec} planned {kept.run} differently than this version, {__version__}, does"
        hint = "use that version, with the settings of the machine that started the run"
        raise Conflict(message, hint)
    # In the order of the other machine, which has carried some of them out.
    steps = [_own_or_left(planned.get(step.id), step) for step in theirs.steps]
    elsewhere = frozenset(s.id for s in steps if s != planned.get(s.id)) | (planned.keys() - ids)
    digest = model.digest(steps)
    return model.Plan(mine.provider, mine.run, digest, tuple(steps)), elsewhere


def _own_or_left(mine: Step | None, theirs: Step) -> Step:
    """Return the step as this machine plans it, or *theirs* without an undo if this machine plans it differently.

    Titles are not compared: another version of runspec may give the same request another title.
    """
    if mine is not None and (
        theirs.scope is Scope.RUN or mine == theirs._replace(title=mine.title)
    ):
        return mine
    return theirs._replace(scope=Scope.SITE, undo=None, settle_s=0.0)


def demand_submitted(adopted: Adopted, client: Client) -> None:
    """Raise Conflict if the run's job does not exist and this machine cannot continue as the other one would."""
    *_, job = (step for step in adopted.plan.steps if step.scope is Scope.RUN)
    there = not adopted.elsewhere or _find_answer(job, client) is not None
    if not there and client.state(adopted.plan.run).state is State.GONE:
        shared = ", ".join(sorted(adopted.elsewhere))
        message = (
            f"{adopted.plan.run} has no job yet, and this machine plans its {shared} differently"
        )
        raise Conflict(message, "apply or destroy it on the machine that started it")


def put_on_record(
    adopted: Adopted,
    base: Path,
    profile_file: Path | None,
    machines: Mapping[str, Any] | None = None,
    places: Mapping[str, Any] | None = None,
) -> Record:
    """Write the record of an adopted run to disk, in which all steps of the run itself have begun.

    *machines* are those that the run may get, with the prices of this machine, and *places* where its logs and outputs
    are. The caller holds the lock of the name.
    """
    events: list[dict[str, Any]] = [
        {"event": "begun", "step": step.id}
        for step in adopted.plan.steps
        if step.scope is Scope.RUN
    ]
    for step in sorted(adopted.elsewhere):
        events += [{"event": "done", "step": step, "answer": {}}, {"event": "undone", "step": step}]
    name, born = adopted.spec.name, adopted.born
    return run_record.adopt(
        adopted.text,
        adopted.plan,
        adopted.facts,
        base,
        name,
        profile_file,
        born,
        events,
        machines,
        places,
    )


def look(plan: model.Plan, journal: Journal, client: Client) -> None:
    """Note in the journal which steps of an adopted run were done, from what the service has.

    Steps are done in order. Therefore all steps before the last step of the run that is found were done too, even if
    their resources do not exist any more or cannot be found. Of several steps that submit jobs, the last ones may be
    missing after an apply that was interrupted: the next apply submits them, and repeats a step whose lost answer they
    need.
    """
    answers: dict[str, Response] = {}
    for step in plan.steps:
        if step.id not in journal.memory.answers:
            answer = _find_answer(step, client)
            if answer is not None:
                answers[step.id] = answer
                if isinstance(client, SupportsRehydration):
                    client.remember(plan.run, {**journal.memory.answers, **answers})
    known = {*journal.memory.answers, *answers}
    of_run = [n for n, s in enumerate(plan.steps, 1) if s.scope is Scope.RUN and s.id in known]
    last = max(of_run, default=0)
    in_part = any(step.id in known for step in plan.steps if is_submitting(step, plan))
    # A service may forget how to find a job and still report its state.
    if of_run and not in_part and client.state(plan.run).state is not State.GONE:
        last = len(plan.steps)  # the last step is done, because the job exists
    done = {step.id for number, step in enumerate(plan.steps, 1) if number <= last} | known
    refs = [
        ref
        for step in plan.steps
        if step.id not in done
        for ref in model.find_marked(step.do.params, model.REF)
    ]
    done -= {ref.split(".")[0] for ref in refs} - known
    for step in plan.steps:
        if step.id in done and step.id not in journal.memory.answers:
            _note(step, answers.get(step.id), journal)


def _find_answer(step: Step, client: Client) -> Response | None:
    try:
        return client.find(step)
    except Conflict:
        if step.scope is Scope.RUN:
            raise
        return None  # the shared resource was replaced by another one


def _note(step: Step, answer: Response | None, journal: Journal) -> None:
    journal.add("done", step=step.id, answer=dict(answer or {}))
    refs = [] if step.undo is None else list(model.find_marked(step.undo.params, model.REF))
    if answer is None and any(ref.split(".")[0] == step.id for ref in refs):
        journal.add("undone", step=step.id)  # the values that its undo refers to are lost
