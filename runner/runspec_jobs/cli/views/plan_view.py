"""Shows a plan to people: first what it makes, shares and costs, then each request."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Sequence
from typing import Any

from runspec_jobs.api.jobs import Change, Estimate, Folder, Plan, Scope
from runspec_jobs.cli import costs
from runspec_jobs.diagnostics.render import escape_control

WIDTH = 100  # the most characters of a value that are shown, unless all are


def view(made: Plan, cost: Estimate | None, *, full: bool) -> Iterator[str]:
    """Yield *made* as lines of text: the summary, then the requests of each step. Long values are cut if not *full*."""
    yield f"plan for {made.provider}, {made.digest[:19]}"
    yield from _summary(made)
    if cost is not None:
        yield from costs.lines(cost)
    shown = _Values(full)
    yield "\nrequests"
    for number, step in enumerate(made.steps, 1):
        shared = "  (shared between runs)" if step.scope is Scope.SITE else ""
        yield f"{number:3}. {escape_control(step.title)}{shared}"
        yield f"     {step.do.service} {step.do.operation}"
        for name, value in step.do.params.items():
            if value not in (None, [], {}, ""):
                yield f"       {name}: {shown.text(value)}"
        if step.undo is not None:
            yield f"     undone by {step.undo.service} {step.undo.operation}"
    if shown.cut:
        values = "1 value is" if shown.cut == 1 else f"{shown.cut} values are"
        yield f"\n{values} cut: --full shows everything, and so does --json"


def _summary(made: Plan) -> Iterator[str]:
    """Yield what the plan makes, by what becomes of it at the end."""
    for title, scope in (
        ("for this run, until `runspec destroy`", Scope.RUN),
        ("shared with other runs, and kept until `runspec destroy --shared`", Scope.SITE),
    ):
        steps = [step for step in made.steps if step.scope is scope]
        if steps:
            yield f"\n{title}"
            yield from (f"     {escape_control(step.title)}" for step in steps)


def describe(changes: Sequence[Change], *, full: bool) -> Iterator[str]:
    """Yield a line of text for each change."""
    shown = _Values(full)
    for change in changes:
        path = escape_control(change.path)
        if change.before is None:
            yield f"  + {path}: {shown.text(change.after)}"
        elif change.after is None:
            yield f"  - {path}: {shown.text(change.before)}"
        else:
            yield f"  ~ {path}: {shown.text(change.before)} -> {shown.text(change.after)}"
    if shown.cut:
        yield "long values are cut: --full shows everything, and so does --json"


def folder(content: Folder) -> Iterator[str]:
    """Yield the files of a folder that is uploaded, and what is left out, as lines of text."""
    size = sum(size for _, size in content.files)
    files = "1 file" if len(content.files) == 1 else f"{len(content.files):,} files"
    yield escape_control(f"{content.mount}: {content.source}, {files}, {size:,} bytes")
    for path, size in content.files:
        yield f"  {size:13,}  {escape_control(path)}"
    if content.left_out:
        yield "  left out:"
    for path, why in content.left_out:
        yield escape_control(f"       {path}  ({why})")


def folder_json(content: Folder) -> dict[str, Any]:
    """Return what `folder` shows as JSON."""
    files = [{"path": path, "bytes": size} for path, size in content.files]
    return {
        **content._asdict(),
        "files": files,
        "left_out": [entry._asdict() for entry in content.left_out],
    }


class _Values:
    """Shows values as text on one line, and counts those that were cut."""

    def __init__(self, full: bool) -> None:
        self.full = full
        self.cut = 0

    def text(self, value: Any) -> str:
        """Return *value* as text; a list of strings is shown as a command line."""
        if isinstance(value, list) and value and all(isinstance(word, str) for word in value):
            text = shlex.join(value)
        elif isinstance(value, str):
            text = value
        else:
            text = json.dumps(value, ensure_ascii=False)
        text = escape_control(text)
        if self.full or len(text) <= WIDTH:
            return text
        self.cut += 1
        return f"{text[: WIDTH - 3]}... ({len(text):,} characters)"
