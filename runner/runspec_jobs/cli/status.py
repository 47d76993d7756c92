"""`runspec list`, `status` and `logs`."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from runspec_jobs.api import listing
from runspec_jobs.api.lifecycle import Run, SavedLog, Selection, State, Status, get, is_known
from runspec_jobs.api.listing import UNREADABLE, Summary
from runspec_jobs.cli import apply, costs, node_table, output
from runspec_jobs.diagnostics.render import plain
from runspec_jobs.errors import OK, JobFailed, RunspecError


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
    tail: int | None = None
    grep: str | None = None

    @property
    def selection(self) -> Selection:
        return Selection(self.tail, self.grep)


def list_runs(*, destroyed: bool, as_json: bool) -> int:
    """List the runs of this machine, with *destroyed* also destroyed ones."""
    listed = listing.summaries()
    rows = [row for row in listed if destroyed or row.state != listing.DESTROYED]
    if not rows and not as_json:
        output.tell(_none(destroyed=len(listed)))
    _print_rows(rows, as_json=as_json)
    return OK


def list_remote(*, as_json: bool) -> int:
    """List the runs of other machines that can be adopted."""
    from runspec_jobs.api import adoption  # only here, because importing it takes time

    rows, failures = adoption.remote()
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
    for row in rows:
        cost = costs.short(row.cost)
        line = f"{row.run:48} {row.provider or '-':14} {row.state:11} {_minute(row.began)}  {cost}"
        output.out(line.rstrip())
        if row.state == UNREADABLE:
            output.out(f"  why: {plain(row.reason)}")


def _minute(began: float | None) -> str:
    return "-" if began is None else time.strftime("%Y-%m-%d %H:%M", time.localtime(began))


def _none(*, destroyed: int) -> str:
    """Return the message that replaces an empty list."""
    if destroyed == 0:
        return "no runs yet: runspec apply job.yaml starts one"
    return (
        "no runs: 1 was destroyed, --all shows it"
        if destroyed == 1
        else f"no runs: {destroyed:,} were destroyed, --all shows them"
    )


def status(run: str, *, as_json: bool) -> int:
    of = get(run, destroyed=True, on_event=output.tell_event)
    found = _reconciled(of)
    short = listing.summary(of, found)
    changed = of.membership()
    cost = costs.of_run(of, found)
    if as_json:
        shown = {**found._asdict(), "nodes": node_table.rows(found.nodes), "want": of.wanted}
        shown |= {**short._asdict(), **node_table.changes_json(changed)}
        shown["cost"] = costs.spent_json(cost)
        output.out_json("runspec.status/v1", shown)
        return OK
    node_table.show(of.id, short.state, found, changed)
    for line in costs.spent_lines(cost):
        output.out(line)
    return OK


def _reconciled(of: Run) -> Status:
    """Return the status, after ending what the run does not need: nobody may be waiting for it."""
    found = of.status()
    if not is_known(found):
        return found
    try:
        ended = of.reconcile(found)
    except RunspecError as exc:
        output.tell(f"{of.id}: cannot end what it does not need: {exc.message}")
        return found
    for line in ended:
        output.tell(f"{of.id}: {line}")
    return of.status() if ended else found


def logs(options: LogsOptions) -> int:
    limit_s, selection = apply.wait_limit(options.timeout), options.selection
    of = get(options.run, on_event=output.tell_event)
    if options.save is not None:
        return _save(of, options.save, options, limit_s)
    how = apply.Following(
        options.as_json,
        of_logs=True,
        node=options.node,
        task=options.task,
        selection=selection,
    )
    if options.follow:
        return apply.watch(of, how, limit_s)
    with apply.printing(of, how, follows=False) as printed:
        for line in of.log_parts(node=options.node, task=options.task, selection=selection):
            printed.line(line)
    return OK


def _save(of: Run, target: Path, options: LogsOptions, limit_s: float | None) -> int:
    """Save a copy of every log to *target*; with `--follow`, until the run has ended."""
    with output.interruptible() as sleep:
        saved = of.save_logs(
            target,
            node=options.node,
            task=options.task,
            follow=options.follow,
            timeout_s=limit_s,
            on_event=output.tell_event,
            sleep=sleep,
        )
    _print_saved(saved.files, as_json=options.as_json)
    done = saved.status is None or saved.status.state is State.SUCCEEDED
    return OK if done else JobFailed.exit_code


def _print_saved(saved: Sequence[SavedLog], *, as_json: bool) -> None:
    if as_json:
        rows = [{**one._asdict(), "path": str(one.path)} for one in saved]
        output.out_json("runspec.saved-logs/v1", {"files": rows})
        return
    for one in saved:
        output.tell(f"saved {one.path} ({one.bytes:,} bytes)")
