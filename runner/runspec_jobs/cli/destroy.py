"""`runspec cancel`, and `destroy`: one run, many at once, or what runs share; `resize` and `release` end nodes."""

from __future__ import annotations

import time
from collections.abc import Sequence

from runspec_jobs.api import cleanup, listing
from runspec_jobs.api.chains import get_chain
from runspec_jobs.api.lifecycle import Run, Status, explain_doubt, get, get_all
from runspec_jobs.api.listing import Summary
from runspec_jobs.cli import costs, output
from runspec_jobs.cli.live.progress import ProgressPrinter
from runspec_jobs.cli.views import node_table
from runspec_jobs.diagnostics.render import escape_control
from runspec_jobs.errors import (
    OK,
    CredentialsError,
    Damaged,
    FileFailed,
    Newer,
    RemoteError,
    RunspecError,
    Unavailable,
    UnknownOutcome,
    UsageError,
)
from runspec_jobs.options.run_verbs import (
    CancelOptions,
    DestroyOptions,
    ReleaseOptions,
    ResizeOptions,
)
from runspec_jobs.report.numbers import format_seconds

SERVICE = (
    Damaged,
    RemoteError,
    UnknownOutcome,
    CredentialsError,
    Unavailable,
)  # the service refuses the request, or does not know the run


def cancel(options: CancelOptions) -> int:
    if (chain := get_chain(options.run)) is not None:
        from runspec_jobs.cli import chain as of_chain

        return of_chain.cancel_chain(chain, as_json=options.as_json)
    for of in _meant(options.run, "cancel"):
        status = of.cancel(on_event=ProgressPrinter(quiet=options.as_json))
        if options.as_json:
            document = {"run": of.id, "state": status.state, "reason": status.reason}
            output.out_json("runspec.cancel/v1", document)
        else:
            output.tell(f"{of.id} {'is already destroyed' if of.destroyed else status.state}")
    return OK


def _meant(name: str, verb: str) -> list[Run]:
    """Return the runs that *name* means to *verb*, "cancel" or "destroy", after `demand_meant`."""
    runs = get_all(name, on_event=output.tell_event)
    demand_meant(name, runs, f"{verb} RUN")
    return runs


def demand_meant(name: str, runs: Sequence[Run], verb: str) -> None:
    """Ask at a terminal if *name* may mean other runs than *runs*; elsewhere raise UsageError.

    *verb* is the command that ends them, with the word RUN in place of the run.
    """
    doubtful = [(of, why) for of in runs if (why := explain_doubt(name, of))]
    if not doubtful:
        return
    why = "; ".join(why for _, why in doubtful)
    if not output.at_terminal():
        commands = "; ".join(f"runspec {verb.replace('RUN', of.id)}" for of, _ in doubtful)
        raise UsageError(
            f"nothing was done, because '{name}' is not clear here: {why}",
            f"if that run is meant, give its id: {commands}",
        )
    ids = ", ".join(of.id for of in runs)
    if not output.agreed(f"{why}. {verb.replace('RUN', ids)}?"):
        raise UsageError("not confirmed: nothing was done")


def destroy(options: DestroyOptions) -> int:
    if options.shared or options.site:
        return _destroy_shared(options)
    if options.ended or options.every:
        return _destroy_many(options)
    if options.run is None:
        hint = "name a run (see runspec list), or use --ended, --all or --shared"
        raise UsageError("no run given", hint)
    if (chain := get_chain(options.run)) is not None and not options.forget:
        from runspec_jobs.cli import chain as of_chain

        return of_chain.destroy_chain(chain, as_json=options.as_json)
    for of in _meant(options.run, "destroy"):
        _destroy_or_forget(of, options)
    cleanup.forget_group(options.run)
    return OK


def _destroy(of: Run, *, as_json: bool) -> None:
    before = " is already" if of.destroyed else ""
    of.destroy(on_event=ProgressPrinter(quiet=as_json))
    if as_json:
        output.out_json("runspec.destroy/v1", {"run": of.id, "state": "destroyed"})
    else:
        output.tell(f"{of.id}{before} destroyed")


def _destroy_or_forget(of: Run, options: DestroyOptions) -> None:
    """Destroy a run. If its service does not let that happen, forget it if that is wanted, or else say how to."""
    try:
        _destroy(of, as_json=options.as_json)
        return
    except SERVICE as exc:
        # The fault is on this machine: forgetting the run would hide it.
        if isinstance(exc, FileFailed | Newer):
            raise
        if not options.forget:
            exc.message = f"{of.id} is not destroyed: {exc.message}"
            exc.hint = exc.hint if isinstance(exc, Damaged) else _with_forget(exc, of.id)
            raise
        output.tell(f"{of.id} cannot be destroyed: {exc.message}")
    _confirm(f"forget {of.id}? what it left stays, and its job may go on", yes=options.yes)
    name = of.provider
    # What is left has the run's labels, by which gc finds it without a record.
    for title in (left := of.forget(on_event=output.tell_event)):
        output.tell(f"not undone: {title}")
    if left:
        output.tell(f"when '{name}' answers again: runspec gc {name}")
    if options.as_json:
        document = {"run": of.id, "state": "forgotten", "left": left}
        output.out_json("runspec.destroy/v1", document)
    else:
        output.tell(f"{of.id} forgotten")


def _with_forget(exc: RunspecError, run: str) -> str:
    """Return the hint of an error of a service, and how to forget *run*."""
    forget = f"if its service is gone for good: runspec destroy {run} --forget"
    return f"{exc.hint}; {forget}" if exc.hint else forget


def _destroy_many(options: DestroyOptions) -> int:
    """Destroy the runs that have ended, or all; one that fails does not keep the others."""
    listed = (
        cleanup.list_not_destroyed()
        if options.every
        else cleanup.list_ended(options.older_than_s or 0.0)
    )
    # What such a run has made is not known, so destroying it could leave something behind.
    chosen = [one for one in listed if one.state != listing.UNREADABLE]
    for one in listed:
        if one.state == listing.UNREADABLE:
            output.tell(f"{one.run} is kept, because its record cannot be read: {one.reason}")
    if chosen:
        _preview(chosen)
        runs = "1 run" if len(chosen) == 1 else f"{len(chosen):,} runs"
        whose = "its" if len(chosen) == 1 else "their"
        _confirm(f"destroy {runs}, with {whose} outputs and logs?", yes=options.yes)
    else:
        output.tell("no runs to destroy")
    failed = dict[str, RunspecError]()
    for one in chosen:
        try:
            get(one.run).destroy(on_event=ProgressPrinter(quiet=options.as_json))
            output.tell(f"{one.run} destroyed")
        except RunspecError as exc:
            failed[one.run] = exc
            output.tell(f"{one.run} is not destroyed: {exc.message}")
    if options.as_json:
        destroyed = [one.run for one in chosen if one.run not in failed]
        said = {"destroyed": destroyed, "failed": list(failed)}
        output.out_json("runspec.destroy-runs/v1", said)
    # The first failure gives the exit code; all were told above.
    for run, error in failed.items():
        error.message = f"{run}: {error.message}"
        if isinstance(error, SERVICE) and not isinstance(error, Damaged | FileFailed):
            error.hint = _with_forget(error, run)
        raise error
    return OK


def _preview(runs: Sequence[Summary]) -> None:
    now = time.time()
    for run in runs:
        age = "" if run.began is None else f"{format_seconds(round(now - run.began))} old"
        row = f"{run.run:48} {run.provider or '-':14} {run.state:11} {age:12} {run.file or ''}"
        output.tell(row.rstrip())


def _confirm(question: str, *, yes: bool) -> None:
    """Ask at a terminal unless *yes*; raise UsageError if the answer is no, or if nobody can be asked."""
    if yes:
        return
    if not output.at_terminal():
        raise UsageError("not confirmed: nothing was destroyed", "--yes confirms it")
    if not output.agreed(question):
        raise UsageError("not confirmed: nothing was destroyed")


def _destroy_shared(options: DestroyOptions) -> int:
    """Delete the shared resources, unless a run may still need them; say what they cost, and ask at a terminal."""
    kept = () if options.as_json else _kept()
    for line in kept:
        output.tell(line)
    # Scripts need no --yes here, because the next apply makes again what is deleted.
    if kept and output.at_terminal():
        question = "delete it? the next apply makes it again"
        _confirm(question, yes=options.yes)
    deleted = cleanup.destroy_shared(on_event=ProgressPrinter(quiet=options.as_json))
    if options.as_json:
        output.out_json("runspec.destroy-site/v1", {"destroyed": deleted})
    else:
        resources = "resource" if len(deleted) == 1 else "resources"
        output.tell(f"{len(deleted)} shared {resources} destroyed")
    return OK


def _kept() -> Sequence[str]:
    """Return what runs share, and what keeping it costs, as lines of text."""
    shared = cleanup.list_shared()
    if not shared.titles:
        return ()
    costing = [
        f"{escape_control(resource.what)}: {costs.price(resource)}" for resource in shared.costs
    ]
    head = ["keeping it costs"] if costing else []
    made = [f"  {escape_control(title)}" for title in shared.titles]
    return ["runs share what these steps made:", *made, *head, *(f"  {line}" for line in costing)]


# Nodes of elastic runs leave while the others go on, and come back.


def resize(options: ResizeOptions) -> int:
    of = _get_alive(options.run)
    status = of.resize(
        options.nodes, task=options.task, on_event=ProgressPrinter(quiet=options.as_json)
    )
    return _print_size(of, status, as_json=options.as_json)


def release(options: ReleaseOptions) -> int:
    of = _get_alive(options.run)
    status = of.release(
        options.nodes, task=options.task, on_event=ProgressPrinter(quiet=options.as_json)
    )
    return _print_size(of, status, as_json=options.as_json)


def _get_alive(name: str) -> Run:
    if (chain := get_chain(name)) is not None:
        what = f"'{name}' is a chain: only the nodes of one run can be changed"
        raise UsageError(what, f"name the run of a job: see runspec status {chain.name}")
    return get(name, alive=True, on_event=output.tell_event)


def _print_size(of: Run, status: Status, *, as_json: bool) -> int:
    size = of.size(status)
    if as_json:
        found = {"run": of.id, "state": status.state, "size": node_table.size_json(size)}
        output.out_json("runspec.size/v1", found)
        return OK
    for line in node_table.size_lines(size):
        output.tell(f"{of.id}: {line}")
    if size is None:
        output.tell(f"{of.id} {status.state}")
    return OK
