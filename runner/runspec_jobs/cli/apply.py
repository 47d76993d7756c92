"""`runspec apply`: starts or continues the run of a spec, and follows it."""

from __future__ import annotations

import contextlib
import sys
import time
from argparse import Namespace
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from runspec_jobs.cli import output, plan, smoke
from runspec_jobs.cli.log_printer import LogPrinter
from runspec_jobs.diagnostics.render import plain
from runspec_jobs.engine import adopt, apply as engine, early_stop, publish
from runspec_jobs.errors import (
    DETACHED,
    OK,
    Conflict,
    CredentialsError,
    Damaged,
    JobFailed,
    TimedOut,
    UsageError,
)
from runspec_jobs.load import inputs
from runspec_jobs.logs import follow
from runspec_jobs.plan import diff, model
from runspec_jobs.provider import (
    Client,
    Facts,
    Provider,
    Spec,
    State,
    Status,
    SupportsAdoption,
    SupportsProgress,
    SupportsRehydration,
)
from runspec_jobs.spec import placeholders
from runspec_jobs.spec.types import seconds
from runspec_jobs.state import run_group, run_record
from runspec_jobs.state.journal import Journal, RunState
from runspec_jobs.state.run_record import Record


@dataclass(frozen=True)
class Chosen:
    """The run that an apply is about, a message about it, and its status if it has ended."""

    record: Record
    client: Client
    message: str
    done: Status | None = None


def apply(args: Namespace) -> int:
    limit_s = wait_limit(args)
    printer = output.ProgressPrinter(quiet=args.json)
    found = plan.load(args, printer)
    if found.profile is not None and not args.json:
        output.tell(f"profile {found.profile}")
    if found.spec.scaling is None:
        run_group.forget(found.spec.name)  # from now on the name means this run
        return _apply(found, args, printer, limit_s)
    run_group.keep(found.spec, found.text.data)
    code = OK
    for one in plan.each(found):
        ended = _apply(one, args, printer, limit_s)
        if ended == DETACHED:
            return ended
        code = code or ended
    if not args.json:
        output.tell(f"compare the sizes: runspec report {found.spec.name}")
    return code


def _apply(
    found: inputs.PlanInputs,
    args: Namespace,
    printer: output.ProgressPrinter,
    limit_s: float | None,
) -> int:
    began = time.monotonic()
    first = smoke.job_of(found) if args.smoke else None
    client = found.provider.connect(found.facts)
    if first is not None:
        code = _smoke(first, client, args, printer, limit_s)
        if code is not None:
            return code
    chosen, done = _begin(found, client, args, printer)
    if done:
        return _result(chosen.record, done, args)
    if args.detach:
        return _detached(chosen.record.run, args)
    left_s = None if limit_s is None else limit_s - (time.monotonic() - began)
    return watch(chosen.record, client, args, left_s if first is not None else limit_s)


def _begin(
    found: inputs.PlanInputs,
    client: Client,
    args: Namespace,
    printer: output.ProgressPrinter,
    new: bool = False,
) -> tuple[Chosen, Status | None]:
    """Start or continue the run of *found* if necessary; return the run, and its status if it has ended."""
    with printer, run_record.name_lock(found.spec.name, output.tell):
        chosen = _choose(found, client, args.new or new, printer)
        if chosen.message and not args.json:
            output.tell(chosen.message)
        with run_record.site_lock(output.tell, shared=True):
            ended = _make(chosen.record, found, client, printer)
    return chosen, chosen.done or ended


def _smoke(
    first: inputs.PlanInputs,
    client: Client,
    args: Namespace,
    printer: output.ProgressPrinter,
    limit_s: float | None,
) -> int | None:
    """Run the smoke test, unless an equal one has succeeded; return an exit code if the job must not start."""
    chosen, status = _begin(first, client, args, printer)
    if status is not None and status.state is State.GONE:  # it is not known whether it succeeded
        chosen, status = _begin(first, client, args, printer, new=True)
    lines: list[str] = []
    if status is None:

        def heard(line: follow.Line) -> None:
            if line.rank == 0:
                lines.append(follow.text(line.text, plain))
            printed(line)

        with printing(chosen.record, args) as printed:
            status = _followed(chosen.record, client, args, limit_s, heard)
    if status is None:
        return DETACHED
    if status.state is State.SUCCEEDED:
        return None
    more = smoke.report_failure(chosen.record.run, status, lines, as_json=args.json)
    return _result(chosen.record, status, args, more)


def _choose(
    found: inputs.PlanInputs, client: Client, new: bool, printer: output.ProgressPrinter
) -> Chosen:
    """Return the run that this spec already has, or else a new one. The caller holds the lock of the name."""
    preview = model.make_plan(found.provider, found.spec, model.PREVIEW, found.facts)
    if not new and (wrong := run_record.damaged(found.spec.name)):
        raise wrong  # it may be alive
    for age, old in enumerate(reversed([] if new else run_record.of_name(found.spec.name))):
        chosen = _same(old, preview, client, found, printer)
        # An older run that has ended does not count: the newest one has failed or was cancelled.
        if chosen is not None and (age == 0 or chosen.done is None):
            return chosen
    made = model.make_plan(found.provider, found.spec, run_record.new_token(), found.facts)
    base, name = found.base.absolute(), found.spec.name
    fresh = run_record.create(found.text.data, made, found.facts, base, name, found.profile)
    return Chosen(fresh, client, f"run {made.run}")


def _same(
    old: Record,
    preview: model.Plan,
    client: Client,
    found: inputs.PlanInputs,
    printer: output.ProgressPrinter,
) -> Chosen | None:
    """Return the earlier run *old* if this apply continues or reports it; None if a new run is needed.

    Raises Conflict if *old* is alive and has another spec.
    """
    memory, made = old.memory(), old.plan
    succeeded = memory.status is not None and memory.status.state is State.SUCCEEDED
    if memory.want == "destroy" or (memory.want == "cancel" and not succeeded):
        return None
    if not engine.is_made(made, memory):
        return _unfinished(old, _is_equal(old, preview, found), preview, printer)
    same = made.provider == found.provider.name
    old_client = reminded(client, old) if same else connect(old)[1]
    status = memory.status or old_client.state(old.run)
    if not status.state.terminal:
        if _is_equal(old, preview, found):
            return Chosen(
                old, client, f"run {old.run} is already {status.state}; starting no other"
            )
        raise Conflict(
            f"{old.run} is {status.state} with another spec: {_changed(made, preview)}",
            f"cancel it with runspec cancel {old.run}, or start another run with apply --new",
        )
    if status.state in (State.SUCCEEDED, State.GONE) and _is_equal(old, preview, found):
        ended = "is gone" if status.state is State.GONE else f"has already {status.state}"
        message = f"run {old.run} {ended}; starting no other (--new starts one)"
        return Chosen(old, client, message, status)
    return None


def _is_equal(old: Record, preview: model.Plan, found: inputs.PlanInputs) -> bool:
    """Return whether an earlier run has the spec that *preview* plans.

    An older version of runspec may have planned the spec differently, so the spec of that run is planned again.
    """
    if old.plan.digest == preview.digest:
        return True
    if old.plan.provider != found.provider.name:
        return False
    try:
        anew = model.make_plan(found.provider, old.spec, model.PREVIEW, old.facts(found.provider))
    except (Damaged, LookupError):
        return False  # this version refuses the spec or the options, or discovers more of clusters
    return anew.digest == preview.digest


def _unfinished(
    old: Record, equal: bool, preview: model.Plan, printer: output.ProgressPrinter
) -> Chosen | None:
    """Return the run of an interrupted apply if its spec is *equal*; else None, if that apply made nothing.

    Raises Conflict if it made something.
    """
    if equal:
        return Chosen(old, connect(old)[1], f"continuing run {old.run}, which was interrupted")
    with old.opened(output.tell) as journal:
        of_run = {s.id for s in old.plan.steps if s.scope == "run"}
        if of_run & journal.memory.begun:
            raise Conflict(
                f"{old.run} was started with another spec: {_changed(old.plan, preview)}",
                f"destroy it with runspec destroy {old.run}, or start another run with apply --new",
            )
        destroy_run(old, journal, printer)
    return None


def destroy_run(of: Record, journal: Journal, printer: output.ProgressPrinter) -> None:
    """Destroy a run; neither a login nor the provider is needed if no step of it has begun."""
    if journal.memory.attempted:
        engine.destroy(of.plan, journal, engine.ApplyContext(connect(of)[1], printer))
    else:
        engine.abandon(journal, "destroy")


def _changed(before: model.Plan, after: model.Plan) -> str:
    paths = [change.path for change in diff.differences(before, after)]
    more = f" and {len(paths) - 3} more" if len(paths) > 3 else ""
    return f"{', '.join(paths[:3])}{more} changed" if paths else f"planned for '{before.provider}'"


def connect(of: Record) -> tuple[Provider, Client, Facts]:
    """Return the provider of a run on record, a client for it, and the facts that it was planned from."""
    from runspec_jobs.load import registry

    provider = registry.load(of.plan.provider)
    facts = of.facts(provider)
    return provider, reminded(provider.connect(facts), of), facts


def reminded(client: Client, of: Record) -> Client:
    """Return *client*, after passing it the answers in the journal of a run if it can use them."""
    if isinstance(client, SupportsRehydration):
        client.remember(of.run, of.memory().answers)
    return client


def _make(
    old: Record, found: inputs.PlanInputs, client: Client, printer: output.ProgressPrinter
) -> Status | None:
    """Carry out the remaining steps of a run; return its status if another command has ended it meanwhile."""
    with old.opened(output.tell) as journal:
        if journal.memory.want != "run":
            return _ended_by_others(journal.memory)
        if isinstance(client, SupportsProgress):
            client.listen(printer.line)
        state = adopt.state(old, found.provider) if isinstance(client, SupportsAdoption) else None
        engine.make(
            old.plan, journal, engine.ApplyContext(client, printer, found.bundles, state=state)
        )
    return None


def _ended_by_others(memory: RunState) -> Status:
    return memory.status or Status(State.CANCELLED, f"runspec {memory.want} ended it meanwhile")


def wait_limit(args: Namespace) -> float | None:
    """Return the seconds of `--timeout`, or None without it."""
    if args.timeout is None:
        return None
    try:
        return float(seconds(args.timeout))
    except ValueError as exc:
        what = f"--timeout: '{args.timeout}' is not a length of time"
        raise UsageError(what, "write 90s, 10m, 2h or 1h30m") from exc


def watch(
    old: Record,
    client: Client,
    args: Namespace,
    limit_s: float | None,
    wanted: follow.Wanted = follow.every,
) -> int:
    """Follow a run to its end, and return the exit code."""
    with printing(old, args) as printed:
        status = _followed(old, client, args, limit_s, printed, wanted)
    return DETACHED if status is None else _result(old, status, args)


def _followed(
    old: Record,
    client: Client,
    args: Namespace,
    limit_s: float | None,
    shown: Callable[[follow.Line], None],
    wanted: follow.Wanted = follow.every,
) -> Status | None:
    """Follow a run and return its last status; None after Ctrl-C, which leaves the run alone."""
    try:
        metric = None if args.verb == "logs" else old.spec.metric  # `logs` stops no tasks
        with (
            output.interruptible() as sleep,
            early_stop.stopper(old, client, metric, output.tell) as stopper,
            job_goes_on(old.run),
        ):
            status = follow.follow(
                client,
                old.run,
                early_stop.both(shown, stopper),
                wanted,
                waits=lambda why: None if args.json else output.tell(f"{old.run} {why}"),
                tell=output.tell,
                timeout_s=limit_s,
                answered=args.verb
                != "logs",  # else the service has just accepted the run, or reported its state
                sleep=early_stop.watched(sleep, stopper),
            )
    except KeyboardInterrupt:
        rehearsed = args.verb == "rehearse"
        ended = "interrupted; the job is cancelled and its resources are deleted"
        output.tell(ended if rehearsed else f"detached; the job goes on. {ways(old.run)}")
        return None
    except TimedOut as exc:
        raise TimedOut(exc.message, ways(old.run)) from None
    with old.opened(output.tell) as journal:
        if status.state is State.GONE and journal.memory.want != "run":
            status = _ended_by_others(journal.memory)
        engine.note_end(journal, status)
        if args.verb == "apply" and old.spec.outputs:
            publish.publish_ended(journal, old.run, client, status, output.tell)
    return status


@contextlib.contextmanager
def job_goes_on(run: str) -> Iterator[None]:
    """Add to a CredentialsError that the job goes on, because only this command needs the credentials."""
    try:
        yield
    except CredentialsError as exc:
        more = f"; the job goes on. {ways(run)}"
        raise CredentialsError(exc.message, f"{exc.hint or 'log in again'}{more}") from exc


@contextlib.contextmanager
def printing(old: Record, args: Namespace) -> Iterator[Callable[[follow.Line], None]]:
    """Yield the function that prints a line of a log, or a part of one. Piped output of `logs` ends as the log does."""
    if args.json and args.verb != "logs":
        yield lambda line: None
        return
    exact = args.verb == "logs" and not args.json and not sys.stdout.isatty()
    with LogPrinter(*shape(old), json=args.json, exact=exact) as printer:
        yield printer.line


def shape(old: Record) -> tuple[int, int]:
    """Return the number of nodes of each task, and the number of tasks."""
    found = old.spec
    return found.cluster.nodes.max, placeholders.length(found.sweep)


def spec(old: Record) -> Spec | None:
    """Return the spec of a run, or None if it cannot be read or this version of runspec refuses it."""
    try:
        return old.spec
    except Damaged:
        return None


def ways(run: str) -> str:
    return f"follow: runspec logs -f {run}   stop: runspec cancel {run}"


def _detached(run: str, args: Namespace) -> int:
    if args.json:
        output.out_json({"run": run, "state": "started"})
    else:
        output.out(run)
        output.tell(ways(run))
    return OK


def _result(
    old: Record, status: Status, args: Namespace, more: Mapping[str, object] | None = None
) -> int:
    if args.json:
        output.out_json(
            {
                "run": old.run,
                "provider": old.plan.provider,
                "state": status.state,
                "reason": status.reason,
                "exit_code": status.exit_code,
                **(more or {}),
            }
        )
    else:
        output.tell(f"{old.run} {status.state}{': ' + status.reason if status.reason else ''}")
    return OK if status.state is State.SUCCEEDED else JobFailed.exit_code
