"""`runspec list`, `status` and `logs`."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from datetime import timedelta
from pathlib import Path

from runspec_jobs.api import listing
from runspec_jobs.api.chains import get_chain
from runspec_jobs.api.lifecycle import Run, SavedLog, Selection, State, Status, get, is_known
from runspec_jobs.api.listing import RunFilter, Summary
from runspec_jobs.api.machine import HERE
from runspec_jobs.cli import apply, output, spending
from runspec_jobs.cli.live import closing, refresh
from runspec_jobs.cli.live.ports import suggest_tunnels
from runspec_jobs.cli.views import node_table, run_table
from runspec_jobs.diagnostics.render import escape_control
from runspec_jobs.errors import OK, JobFailed, RunspecError, UsageError
from runspec_jobs.options.watch_verbs import ListOptions, LogsOptions, StatusOptions
from runspec_jobs.report import usage
from runspec_jobs.report.numbers import format_seconds

FEW = 8  # nodes whose usage is read


def list_(options: ListOptions) -> int:
    """List the runs of this machine or, with `--remote`, those of others that can be adopted."""
    if options.remote:
        return _list_remote(as_json=options.as_json)
    return _watch_runs(options) if options.watch else _list_runs(options)


def _chosen(options: ListOptions, most: int | None = None) -> RunFilter:
    """Return which runs to list, at most *most* if that is given."""
    since_s = None if options.since_s is None else time.time() - options.since_s
    limits = [limit for limit in (options.limit, most) if limit is not None]
    return RunFilter(
        options.name,
        options.provider,
        since_s,
        options.alive,
        options.failed,
        options.destroyed,
        min(limits, default=None),
    )


def _list_runs(options: ListOptions) -> int:
    """List the runs of this machine, the newest at the bottom."""
    rows = listing.list_summaries(_chosen(options))
    if not rows and options.provider is not None:
        listing.demand_provider(options.provider)
    if not rows and not options.as_json:
        output.tell(_none(options))
    _print_rows(rows, as_json=options.as_json)
    return OK


def _watch_runs(options: ListOptions) -> int:
    """Show the list again and again, at a terminal as many of the newest runs as have room."""

    def look() -> Iterator[str]:
        room = refresh.room()
        rows = listing.list_summaries(_chosen(options, None if room is None else room - 1))
        return run_table.lines(rows) if rows else iter([_none(options)])

    return refresh.repeat(look)


def _list_remote(*, as_json: bool) -> int:
    """List the runs of other machines that can be adopted."""
    from runspec_jobs.api import adoption  # only here, because importing it takes time

    rows, failures = adoption.list_remote()
    for name, exc in failures.items():
        output.tell(f"{name}: {exc.message}")
    if not rows and not as_json:
        output.tell("no runs of other machines in the stores of the profile")
    _print_rows(rows, as_json=as_json)
    return next((exc.exit_code for exc in failures.values()), OK)


def _print_rows(rows: Sequence[Summary], *, as_json: bool) -> None:
    if as_json:
        output.out_json("runspec.list/v1", {"runs": [row._asdict() for row in rows]})
        return
    if rows:
        output.out("\n".join(run_table.lines(rows)))


def _none(options: ListOptions) -> str:
    """Return the message that replaces an empty list."""
    recorded = listing.count_recorded()
    if recorded == 0:
        return "no runs yet: runspec apply job.yaml starts one"
    if options.replace(watch=False) != ListOptions(as_json=options.as_json):
        return f"none of the {recorded:,} runs on record is one of these"
    return (
        "no runs: 1 was destroyed, --all shows it"
        if recorded == 1
        else f"no runs: {recorded:,} were destroyed, --all shows them"
    )


def status(options: StatusOptions) -> int:
    if (chain := get_chain(options.run)) is not None:
        from runspec_jobs.cli import chain as of_chain

        if options.watch:
            return of_chain.watch_chain(chain)
        return of_chain.status_of_chain(chain, as_json=options.as_json)
    if options.watch:
        return _watch_status(options.run)
    of = get(options.run, destroyed=True, on_event=output.tell_event)
    current = _reconciled(of)
    if not options.as_json:
        for line in _status_lines(of, current):
            output.out(line)
        return OK
    cost = spending.of_run(of, current)
    shown = {**current._asdict(), "nodes": node_table.rows(current.nodes), "want": of.wanted}
    shown |= {
        **listing.summarize(of, current)._asdict(),
        **node_table.changes_json(of.membership()),
    }
    used = of.read_usage(current, FEW)
    option = of.find_way_on(current)
    shown |= {"cost": spending.spent_json(cost), "usage": usage.write_usage(used)}
    shown |= {"resume": option.command if option is not None and option.sure else None}
    shown |= {"params": dict(of.params), "ports": dict(of.ports), "ttl_s": of.ttl_s}
    shown |= {"size": node_table.size_json(of.size(current))}
    output.out_json("runspec.status/v1", shown)
    return OK


def _watch_status(run: str) -> int:
    """Show the status of a run again and again, until it has ended."""
    of = get(run, destroyed=True, on_event=output.tell_event)
    last = Status(State.WAITING)

    def look() -> Iterator[str]:
        nonlocal last
        last = _reconciled(of)
        return _status_lines(of, last)

    return refresh.repeat(look, over=lambda: last.state.terminal)


def _status_lines(of: Run, status: Status) -> Iterator[str]:
    """Yield the status of a run as lines of text."""
    short = listing.summarize(of, status)
    yield from node_table.head(of.id, short.state, status)
    yield from run_table.about(short)
    if params := of.params:
        shown = ", ".join(f"{name}={value}" for name, value in params.items())
        yield escape_control(f"  parameters: {shown}")
    if of.ttl_s is not None and not of.destroyed:
        yield f"  kept until: {format_seconds(of.ttl_s)} after its end"
    if not status.state.terminal:
        yield from (f"  to reach its port: {command}" for command in suggest_tunnels(of))
    yield from spending.spent_lines(spending.of_run(of, status))
    yield from (
        escape_control(f"  {line}") for line in usage.format_lines(of.read_usage(status, FEW))
    )
    if option := of.find_way_on(status):
        sure = "" if option.sure else ", if it has saved anything"
        yield escape_control(f"  can be resumed{sure}: {option.command}")
    yield from (f"  {line}" for line in node_table.size_lines(of.size(status)))
    yield from node_table.lines(status.nodes)
    yield from (f"  {line}" for line in closing.log_end(of, status, reads=of.provider == HERE))
    yield from node_table.change_lines(of.membership())


def _reconciled(of: Run) -> Status:
    """Return the status, after ending what the run does not need: nobody may be waiting for it."""
    status = of.status()
    if not is_known(status):
        return status
    try:
        ended = of.reconcile(status)
    except RunspecError as exc:
        output.tell(f"{of.id}: cannot end what it does not need: {exc.message}")
        return status
    for line in ended:
        output.tell(f"{of.id}: {line}")
    return of.status() if ended else status


def _selection(options: LogsOptions) -> Selection:
    """Return which lines to print."""
    since_s = None if options.since_s is None else time.time() - options.since_s
    return Selection(options.tail, options.grep, since_s, options.timestamps)


def logs(options: LogsOptions) -> int:
    if (chain := get_chain(options.run)) is not None:
        from runspec_jobs.cli import chain as of_chain

        if (
            options.follow
            or options.save is not None
            or (options.node, options.task) != (None, None)
            or options.timestamps
            or options.as_json
        ):
            what = "--follow, --save, --node, --task, --timestamps and --json are for one run"
            raise UsageError(what, f"name the run of a job: see runspec status {chain.name}")
        since = None if options.since_s is None else timedelta(seconds=options.since_s)
        return of_chain.logs_of_chain(chain, tail=options.tail, grep=options.grep, since=since)
    of = get(options.run, on_event=output.tell_event)
    if options.save is not None:
        return _save(of, options.save, options)
    how = apply.Following(
        options.as_json,
        of_logs=True,
        node=options.node,
        task=options.task,
        selection=_selection(options),
    )
    if options.follow:
        return apply.watch(of, how, options.timeout)
    with apply.printing(of, how, follows=False) as printed:
        parts = of.log_parts(node=options.node, task=options.task, selection=how.selection)
        for line in parts:
            printed.line(line)
    return OK


def _save(of: Run, target: Path, options: LogsOptions) -> int:
    """Save a copy of every log to *target*; with `--follow`, until the run has ended."""
    with output.interruptible() as sleep:
        saved = of.save_logs(
            target,
            node=options.node,
            task=options.task,
            follow=options.follow,
            timeout_s=options.timeout,
            force=options.force,
            on_event=output.tell_event,
            sleep=sleep,
        )
    _print_saved(saved.files, as_json=options.as_json)
    done = saved.status is None or saved.status.state is State.SUCCEEDED
    return OK if done else JobFailed.exit_code


def _print_saved(saved: Sequence[SavedLog], *, as_json: bool) -> None:
    if as_json:
        rows = [{**save._asdict(), "path": str(save.path)} for save in saved]
        output.out_json("runspec.saved-logs/v1", {"files": rows})
        return
    for save in saved:
        output.tell(f"saved {save.path} ({save.bytes:,} bytes)")
