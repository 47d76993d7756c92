"""`runspec list`, `status` and `logs`."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from runspec_jobs.cli import apply, node_table, output
from runspec_jobs.diagnostics.render import plain
from runspec_jobs.engine import apply as engine, clients, named_run
from runspec_jobs.engine.status import UNKNOWN, known_status, with_nodes
from runspec_jobs.engine.wait import job_goes_on, ways
from runspec_jobs.errors import OK, Damaged, JobFailed, Lacking, TimedOut, UsageError
from runspec_jobs.load import registry
from runspec_jobs.logs import follow as log, save
from runspec_jobs.logs.outage import Outage
from runspec_jobs.provider import Client, State, Status, Stream
from runspec_jobs.state import run_record
from runspec_jobs.state.journal import RunState
from runspec_jobs.state.run_record import Record

SAVE_PAUSE_S = 0.2
UNREADABLE, NOT_STARTED = "unreadable", "not-started"  # in place of a state


@dataclass(frozen=True)
class LogsOptions:
    """The options of `logs`."""

    run: str
    follow: bool = False
    save: Path | None = None
    node: int | None = None
    task: int | None = None
    timeout: str | None = None
    as_json: bool = False


def list_runs(*, destroyed: bool, as_json: bool) -> int:
    """List the runs of this machine, with *destroyed* also destroyed ones."""
    listed = [_listed(of) for of in run_record.all_runs()]
    rows = [row for row in listed if destroyed or row["state"] != "destroyed"]
    if not rows and not as_json:
        output.tell(_none(destroyed=len(listed)))
    _print_rows(rows, as_json=as_json)
    return OK


def list_remote(*, as_json: bool) -> int:
    """List the runs of other machines that can be adopted."""
    from runspec_jobs.cli import adopt  # only here, because importing it takes time

    rows, code = adopt.remote()
    if not rows and not as_json:
        output.tell("no runs of other machines in the stores of the profile")
    _print_rows(rows, as_json=as_json)
    return code


def _print_rows(rows: list[dict[str, Any]], *, as_json: bool) -> None:
    if as_json:
        output.out_json(rows)
        return
    for row in rows:
        began = time.strftime("%Y-%m-%d %H:%M", time.localtime(row["began"]))
        output.out(f"{row['run']:48} {row['provider']:14} {row['state']:11} {began}")
        if row["state"] == UNREADABLE:
            output.out(f"  why: {plain(row['reason'])}")


def _none(*, destroyed: int) -> str:
    """Return the message that replaces an empty list."""
    if destroyed == 0:
        return "no runs yet: runspec apply job.yaml starts one"
    return (
        "no runs: 1 was destroyed, --all shows it"
        if destroyed == 1
        else f"no runs: {destroyed:,} were destroyed, --all shows them"
    )


def _listed(of: Record) -> dict[str, Any]:
    """Return the row of a run; if its record is damaged, the row has the reason."""
    try:
        memory = of.memory()
        try:
            with registry.extras():
                return _row(of, memory, known_status(of, memory))
        except Lacking as exc:
            return _row(of, memory, Status(State.WAITING, UNKNOWN.format(exc.message)))
    except Damaged as exc:
        known = {"run": of.run, "name": of.name, "provider": "-", "state": UNREADABLE}
        return {**known, "reason": exc.message, "began": 0.0}


def _row(of: Record, memory: RunState, status: Status) -> dict[str, Any]:
    return {
        "run": of.run,
        "name": of.name,
        "provider": of.plan.provider,
        "state": _shown_state(of, memory, status),
        "reason": status.reason,
        "began": memory.born,
    }


def _shown_state(of: Record, memory: RunState, status: Status) -> str:
    if memory.deleted:
        return "destroyed"
    begun = memory.status is not None or engine.is_made(of.plan, memory)
    return status.state if begun else NOT_STARTED


def status(run: str, *, as_json: bool) -> int:
    of = named_run.run(run, output.tell)
    memory = of.memory()
    stands = known_status(of, memory)
    found = with_nodes(of, memory, stands)
    changed = node_table.changes(of, memory)
    shown = {**found._asdict(), "nodes": node_table.rows(found.nodes), "want": memory.want}
    row = {**shown, **_row(of, memory, found), **node_table.changes_json(changed)}
    if as_json:
        output.out_json(row)
        return OK
    output.out(f"{of.run} {row['state']}")
    if found.reason:
        output.out(f"  why: {plain(found.reason)}")
    if found.exit_code is not None:
        output.out(f"  exit code: {found.exit_code}")
    for line in (*node_table.lines(found.nodes), *node_table.change_lines(changed)):
        output.out(line)
    return OK


def logs(options: LogsOptions) -> int:
    limit_s = apply.wait_limit(options.timeout)
    of = named_run.kept(options.run, output.tell)
    count, tasks = clients.shape(of)
    check_number("node", options.node, count)
    check_number("task", options.task, tasks)
    _, client, _ = clients.connect(of)
    wanted = log.chosen(options.node, options.task)
    if options.save is not None:
        return _save(of, client, options.save, options, limit_s, wanted)
    how = apply.Following(as_json=options.as_json, of_logs=True)
    if options.follow:
        return apply.watch(of, client, how, limit_s, wanted)
    with apply.printing(of, how) as show:
        for line in log.everything(client, of.run, wanted):
            show(line)
    return OK


def check_number(what: str, number: int | None, count: int) -> None:
    """Raise UsageError if *number*, from the option `--node` or `--task`, is not below *count*."""
    if number is not None and not 0 <= number < count:
        many = f"{count} {what}s, numbered from 0" if count > 1 else f"only {what} 0"
        raise UsageError(f"--{what}: there is no {what} {number}", f"the run has {many}")


def _save(
    of: Record,
    client: Client,
    target: Path,
    options: LogsOptions,
    limit_s: float | None,
    wanted: log.Wanted,
) -> int:
    """Save a copy of every stream to *target*; with `--follow`, until the run has ended."""
    count, tasks = clients.shape(of)
    source = log.tail(client)
    pause_s = max(SAVE_PAUSE_S, source.poll_s)
    status: Status | None = None
    began = time.monotonic()

    def pause(least_s: float) -> None:
        if limit_s is not None and time.monotonic() - began > limit_s:
            what = f"the logs of {of.run} are not complete after {limit_s:g} s"
            raise TimedOut(f"{what}; run the same command again to continue", ways(of.run))
        sleep(max(pause_s, least_s))

    def over() -> bool:
        nonlocal status
        status = client.state(of.run) if options.follow else None
        return status is None or status.state.terminal

    with output.interruptible() as sleep, job_goes_on(of.run):
        saved = save.save(
            lambda: [s for s in source.streams(of.run) if wanted(s)],
            lambda s: save.name(s, target, count, tasks),
            over,
            pause,
            Outage(output.tell, patient=options.follow),
        )
    _print_saved(saved, as_json=options.as_json)
    if status is None:
        return OK
    with of.opened() as journal:
        engine.note_end(journal, status)
    return OK if status.state is State.SUCCEEDED else JobFailed.exit_code


def _print_saved(saved: Sequence[tuple[Stream, Path, int]], *, as_json: bool) -> None:
    if as_json:
        rows = [
            {"path": str(path), "bytes": size, "node": s.rank, "task": s.task}
            for s, path, size in saved
        ]
        output.out_json(rows)
        return
    for _, path, size in saved:
        output.tell(f"saved {path} ({size:,} bytes)")
