"""`runspec plan`: prints a plan, or what changed in it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol

from runspec_jobs.api import jobs
from runspec_jobs.api.jobs import Change, Job, Overrides, Plan
from runspec_jobs.api.specs import is_chain
from runspec_jobs.cli import costs, diagnostics, import_, output
from runspec_jobs.cli.live.progress import ProgressPrinter
from runspec_jobs.cli.views import plan_view
from runspec_jobs.diagnostics.render import format_json
from runspec_jobs.errors import CHANGES, OK, UsageError
from runspec_jobs.options.spec_verbs import PlanOptions

ROWS = 50  # the most tasks that are printed as text
DIFF, DIFFS, PLANS = "runspec.plan-diff/v1", "runspec.plan-diffs/v1", "runspec.plans/v1"
FILES = "runspec.plan-files/v1"


NONE = Overrides()


class Changing(Protocol):
    """The options of a verb that changes a spec before it reads it."""

    @property
    def provider(self) -> str | None: ...

    @property
    def settings(self) -> Sequence[str]: ...

    @property
    def words(self) -> Sequence[str]: ...

    @property
    def params(self) -> Sequence[str]: ...


def overrides_of(options: Changing) -> Overrides:
    return Overrides(options.provider, options.settings, options.words, options.params)


def load(
    path: Path,
    printer: ProgressPrinter,
    overrides: Overrides = NONE,
    *,
    output_format: str,
    as_json: bool,
) -> Job:
    """Return the job of the spec at *path*, and print its warnings and notes."""
    with printer:
        job = jobs.load(
            path,
            provider=overrides.provider,
            settings=overrides.settings,
            arguments=overrides.words,
            params=overrides.params,
            on_event=printer,
        )
    if job.notes and not as_json:
        diagnostics.print_one(job.text, diagnostics.wanted(output_format, as_json=as_json))
    return job


def plan_(options: PlanOptions) -> int:
    if is_chain(options.file):
        from runspec_jobs.cli import chain

        if options.export is not None or options.diff or options.files:
            what = "--export, --diff and --files are for one job"
            raise UsageError(what, "plan a job from a file of its own")
        if options.from_save is not None:
            what = f"--from is for one job, and {options.file} has several"
            raise UsageError(what, "plan --resume begins each job with its own last save")
        return chain.plan_chain(options, full=options.full, resume=options.resume)
    refuse_job_options(options.only, options.until)
    job = load(
        options.file,
        ProgressPrinter(),
        overrides_of(options),
        output_format=options.output_format,
        as_json=options.as_json,
    )
    if options.files:
        return _files(job, as_json=options.as_json)
    sizes = list(job.sizes())
    if options.smoke:
        sizes = [jobs.make_smoke_test(one) for one in sizes]
    begin = options.resume if options.from_save is None else options.from_save
    if begin:
        from runspec_jobs.api import lifecycle  # slow to import, and other plans need no run

        sizes = [lifecycle.foresee(one, resume=begin, on_event=ProgressPrinter()) for one in sizes]
    if options.export is not None and len(sizes) > 1:
        what = "--export writes one job, and a spec with `scaling` describes several"
        raise UsageError(what, "remove scaling, and set cluster.nodes")
    costs.demand_below(sizes, options.max_usd)
    documents: list[dict[str, Any]] = []
    changed = [_planned(one, options, documents.append) for one in sizes]
    if not (options.as_json or options.diff):
        for line in costs.together(sizes):
            output.out(f"\n{line}")
    _print_documents(documents, diff=options.diff)
    return CHANGES if options.detailed_exitcode and any(changed) else OK


def refuse_job_options(only: Sequence[str], until: Sequence[str]) -> None:
    """Raise UsageError if options for the jobs of a chain are given."""
    if only or until:
        raise UsageError("--only and --until are for chains, and this file has one job")


def _files(job: Job, *, as_json: bool) -> int:
    """Print the files of the folders that are uploaded, and those that are left out."""
    folders = jobs.list_folders(job)
    if as_json:
        output.out_json(FILES, {"folders": [plan_view.folder_json(one) for one in folders]})
        return OK
    for one in folders:
        for line in plan_view.folder(one):
            output.out(line)
    if not folders:
        output.out("no folder of this machine is uploaded")
    return OK


def _planned(job: Job, options: PlanOptions, keep: Callable[[dict[str, Any]], None]) -> bool:
    """Print one plan, or what changed in it; return whether it changed. With `--json`, *keep* gets it instead."""
    made = jobs.plan(job)
    before = jobs.find_last_plan(job)
    changes = jobs.compare_plans(before, made)
    if options.export is not None:
        import_.export(job, options.export, as_json=options.as_json)
    elif options.as_json and options.diff:
        known = {"name": job.spec.name, "run": before and before.run}
        in_spec = _changes_json(jobs.compare_specs(job))
        keep({"format": DIFF, **known, "changes": _changes_json(changes), "spec": in_spec})
    elif options.as_json:
        keep({**jobs.plan_json(made), "cost": costs.to_json(jobs.estimate(job))})
    elif options.diff:
        _print_changes(before, changes, jobs.compare_specs(job), full=options.full)
    else:
        for line in plan_view.view(made, jobs.estimate(job), full=options.full):
            output.out(line)
        _show_drawn(job)
    return changes is None or bool(changes)


def _print_documents(documents: Sequence[dict[str, Any]], *, diff: bool) -> None:
    """Print what `--json` shows as one document, also for several sizes."""
    if not documents:
        return
    several = (
        {"format": DIFFS, "diffs": documents} if diff else {"format": PLANS, "plans": documents}
    )
    output.out(
        format_json(documents[0] if len(documents) == 1 else several, indent=None if diff else 2)
    )


def _show_drawn(job: Job) -> None:
    """Print the values that were drawn at random, because the spec does not show them."""
    if not job.draws:
        return
    from runspec_jobs.report import tables

    tasks = job.tasks()
    output.out("")
    output.print_table(tables.make_drawn_table(tasks[:ROWS]))
    if len(tasks) > ROWS:
        output.out(f"and {len(tasks) - ROWS:,} more tasks: --json lists all")


def _changes_json(changes: list[Change] | None) -> list[dict[str, Any]] | None:
    return None if changes is None else [change._asdict() for change in changes]


def _print_changes(
    before: Plan | None, changes: list[Change] | None, in_spec: list[Change] | None, *, full: bool
) -> None:
    """Print the changes of the spec, or those of the requests if nothing else explains them."""
    if before is None or changes is None:
        output.out("no run of this name to compare with")
        return
    shown = in_spec if in_spec and changes and not full else changes
    output.out(f"{_count(len(shown), 'change')} since {before.run}")
    if full and in_spec:
        for line in plan_view.describe(in_spec, full=True):
            output.out(line)
        output.out("in the requests:")
    for line in plan_view.describe(shown, full=full):
        output.out(line)
    if shown is in_spec:
        fields, one = _count(len(changes), "field"), len(changes) == 1
        shows = "differs: --full shows it" if one else "differ: --full shows them"
        output.out(f"{fields} of the requests {shows}")


def _count(number: int, what: str) -> str:
    return f"{number or 'no'} {what}{'s' * (number != 1)}"
