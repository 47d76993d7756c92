"""`runspec plan`."""

from __future__ import annotations

import json
import shlex
from argparse import Namespace
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from runspec_jobs.cli import diagnostics, import_, output, smoke
from runspec_jobs.diagnostics.render import as_json, plain
from runspec_jobs.errors import CHANGES, OK, UsageError
from runspec_jobs.load import inputs, source
from runspec_jobs.plan import diff, model
from runspec_jobs.plan.diff import Change
from runspec_jobs.plan.model import Plan
from runspec_jobs.provider import Scope, Spec
from runspec_jobs.spec import placeholders
from runspec_jobs.spec.sweep import Random
from runspec_jobs.state import run_record

ROWS = 50  # tasks shown to a person
WIDTH = 100  # characters of a value shown to a person


def load(args: Namespace, told: output.Told) -> inputs.PlanInputs:
    """Read and gather the job that the command line names; notes are printed."""
    path = Path(args.file)
    text = source.read_file(path)
    with told:
        found = inputs.gather(text, path.parent, told.progress, getattr(args, "provider", None))
    if text.diagnostics and not args.json:
        diagnostics.print_one(text, diagnostics.wanted(args))
    return found


def each(found: inputs.PlanInputs) -> list[inputs.PlanInputs]:
    """Give the job at each of its sizes; itself where it has none."""
    if found.spec.scaling is None:
        return [found]
    return [inputs.at_size(found, size) for size in found.spec.scaling.nodes]


def plan_(args: Namespace) -> int:
    found = each(load(args, output.Told()))
    if args.smoke:
        found = [smoke.job_of(one) for one in found]
    if args.export and len(found) > 1:
        what = "a spec with sizes is a job for each"
        raise UsageError(what, "take scaling away, and set cluster.nodes")
    changed = [_planned(one, args) for one in found]
    return CHANGES if args.detailed_exitcode and any(changed) else OK


def _planned(found: inputs.PlanInputs, args: Namespace) -> bool:
    """Show one plan, or what changed in it; say whether something did. As JSON, each is one document."""
    made = model.make_plan(found.provider, found.spec, model.PREVIEW, found.facts)
    before = last_applied(found.spec.name)
    changes = None if before is None else diff.differences(before, made)
    if args.export:
        import_.export(found.provider, made, Path(args.export), as_json=args.json)
    elif args.json and args.diff:
        output.out_json({"run": before and before.run, "changes": _changes_json(changes)})
    elif args.json:
        output.out(as_json(model.to_json(made), indent=2))
    elif args.diff:
        _print_changes(before, changes)
    else:
        for line in view(made):
            output.out(line)
        _show_drawn(found.spec)
    return changes is None or bool(changes)


def _show_drawn(spec: Spec) -> None:
    """Show what was drawn at random, which nobody can see in the spec; the JSON has all of it."""
    if not any(isinstance(part, Random) for part in spec.sweep.values()):
        return
    from runspec_jobs.report import tables

    all_of_them = placeholders.tasks(spec)
    output.out("")
    output.print_table(tables.drawn(all_of_them[:ROWS]))
    if len(all_of_them) > ROWS:
        output.out(f"and {len(all_of_them) - ROWS:,} more: see --json")


def last_applied(name: str) -> Plan | None:
    """Give the plan of the newest run of *name* that is still on record."""
    runs = run_record.of_name(name)
    return runs[-1].plan if runs else None


def _changes_json(changes: list[Change] | None) -> list[dict[str, Any]] | None:
    return None if changes is None else [vars(change) for change in changes]


def _print_changes(before: Plan | None, changes: list[Change] | None) -> None:
    if before is None or changes is None:
        output.out("nothing of this name was applied yet")
        return
    output.out(f"against {before.run}: {len(changes) or 'no'} change{'s' * (len(changes) != 1)}")
    for line in describe(changes):
        output.out(line)


def describe(changes: list[Change]) -> Iterator[str]:
    """Give each change in a line or two, for a person."""
    for change in changes:
        path = plain(change.path)
        if change.before is None:
            yield f"  + {path}: {_short(change.after)}"
        elif change.after is None:
            yield f"  - {path}: {_short(change.before)}"
        else:
            yield f"  ~ {path}: {_short(change.before)} -> {_short(change.after)}"


def view(made: Plan) -> Iterator[str]:
    """Give *made* for a person: each step, its request, and what takes it away again."""
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
    """Give a value in one line: words as a command line, what is not known yet by its name."""
    if isinstance(value, list) and value and all(isinstance(word, str) for word in value):
        text = shlex.join(value)
    elif isinstance(value, str):
        text = value
    else:
        text = json.dumps(value, ensure_ascii=False)
    text = plain(text)
    return text if len(text) <= WIDTH else text[: WIDTH - 3] + "..."
