"""`runspec plan`: prints a plan, or what changed in it."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from runspec_jobs.api import jobs
from runspec_jobs.api.jobs import Change, Job, Plan, Scope
from runspec_jobs.cli import costs, diagnostics, import_, output
from runspec_jobs.diagnostics.render import as_json, plain
from runspec_jobs.errors import CHANGES, OK, UsageError

ROWS = 50  # the most tasks that are printed as text
DIFF, DIFFS, PLANS = "runspec.plan-diff/v1", "runspec.plan-diffs/v1", "runspec.plans/v1"
WIDTH = 100  # the most characters of a value that are printed as text


@dataclass(frozen=True)
class PlanOptions:
    """The options of `plan`."""

    file: Path
    provider: str | None
    export: Path | None
    diff: bool
    detailed_exitcode: bool
    smoke: bool
    output_format: str
    as_json: bool
    max_usd: str | None = None


def load(
    path: Path,
    printer: output.ProgressPrinter,
    provider: str | None = None,
    *,
    output_format: str,
    as_json: bool,
) -> Job:
    """Return the job of the spec at *path*, and print its warnings and notes."""
    with printer:
        job = jobs.load(path, provider=provider, on_event=printer)
    if job.notes and not as_json:
        diagnostics.print_one(job.text, diagnostics.wanted(output_format, as_json=as_json))
    return job


def plan_(options: PlanOptions) -> int:
    job = load(
        options.file,
        output.ProgressPrinter(),
        options.provider,
        output_format=options.output_format,
        as_json=options.as_json,
    )
    found = list(job.sizes())
    if options.smoke:
        found = [jobs.smoke_test(one) for one in found]
    if options.export is not None and len(found) > 1:
        what = "--export writes one job, and a spec with `scaling` describes several"
        raise UsageError(what, "remove scaling, and set cluster.nodes")
    documents: list[dict[str, Any]] = []
    changed = [_planned(one, options, documents.append) for one in found]
    _print_documents(documents, diff=options.diff)
    return CHANGES if options.detailed_exitcode and any(changed) else OK


def _planned(job: Job, options: PlanOptions, keep: Callable[[dict[str, Any]], None]) -> bool:
    """Print one plan, or what changed in it; return whether it changed. With `--json`, *keep* gets it instead."""
    made = jobs.plan(job)
    costs.demand_below(jobs.estimate(job), costs.limit(options.max_usd))
    before = jobs.last_applied(job.spec.name)
    changes = jobs.changes(before, made)
    if options.export is not None:
        import_.export(job, options.export, as_json=options.as_json)
    elif options.as_json and options.diff:
        known = {"name": job.spec.name, "run": before and before.run}
        keep({"format": DIFF, **known, "changes": _changes_json(changes)})
    elif options.as_json:
        keep({**jobs.plan_json(made), "cost": costs.to_json(jobs.estimate(job))})
    elif options.diff:
        _print_changes(before, changes)
    else:
        for line in view(made):
            output.out(line)
        if (found := jobs.estimate(job)) is not None:
            for line in costs.lines(found):
                output.out(line)
        _show_drawn(job)
    return changes is None or bool(changes)


def _print_documents(found: Sequence[dict[str, Any]], *, diff: bool) -> None:
    """Print what `--json` shows as one document, also for several sizes."""
    if not found:
        return
    several = {"format": DIFFS, "diffs": found} if diff else {"format": PLANS, "plans": found}
    output.out(as_json(found[0] if len(found) == 1 else several, indent=None if diff else 2))


def _show_drawn(job: Job) -> None:
    """Print the values that were drawn at random, because the spec does not show them."""
    if not job.draws:
        return
    from runspec_jobs.report import tables

    tasks = job.tasks()
    output.out("")
    output.print_table(tables.drawn(tasks[:ROWS]))
    if len(tasks) > ROWS:
        output.out(f"and {len(tasks) - ROWS:,} more tasks: --json lists all")


def _changes_json(changes: list[Change] | None) -> list[dict[str, Any]] | None:
    return None if changes is None else [vars(change) for change in changes]


def _print_changes(before: Plan | None, changes: list[Change] | None) -> None:
    if before is None or changes is None:
        output.out("no run of this name to compare with")
        return
    count = f"{len(changes) or 'no'} change{'s' * (len(changes) != 1)}"
    output.out(f"{count} since {before.run}")
    for line in describe(changes):
        output.out(line)


def describe(changes: list[Change]) -> Iterator[str]:
    """Yield a line of text for each change."""
    for change in changes:
        path = plain(change.path)
        if change.before is None:
            yield f"  + {path}: {_short(change.after)}"
        elif change.after is None:
            yield f"  - {path}: {_short(change.before)}"
        else:
            yield f"  ~ {path}: {_short(change.before)} -> {_short(change.after)}"


def view(made: Plan) -> Iterator[str]:
    """Yield *made* as lines of text: each step with its request and the request that undoes it."""
    yield f"plan for {made.provider}, {made.digest[:19]}"
    for number, step in enumerate(made.steps, 1):
        shared = "  (shared between runs)" if step.scope is Scope.SITE else ""
        yield f"\n{number}. {plain(step.title)}{shared}"
        yield f"     {step.do.service} {step.do.operation}"
        yield from _params(step.do.params)
        if step.undo is not None:
            yield f"     undone by {step.undo.service} {step.undo.operation}"


def _params(params: Mapping[str, Any]) -> Iterator[str]:
    for name, value in params.items():
        if value not in (None, [], {}, ""):
            yield f"       {name}: {_short(value)}"


def _short(value: Any) -> str:
    """Return a value as one line of text, cut to WIDTH; a list of strings is shown as a command line."""
    if isinstance(value, list) and value and all(isinstance(word, str) for word in value):
        text = shlex.join(value)
    elif isinstance(value, str):
        text = value
    else:
        text = json.dumps(value, ensure_ascii=False)
    text = plain(text)
    return text if len(text) <= WIDTH else text[: WIDTH - 3] + "..."
