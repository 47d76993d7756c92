"""`runspec outputs` and `runspec fetch`: list what a run has saved, and copy it to this machine."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from runspec_jobs.api.lifecycle import OutputFile, Run, get
from runspec_jobs.cli import output
from runspec_jobs.cli.live.progress import ProgressPrinter
from runspec_jobs.diagnostics.render import count_columns, escape_control
from runspec_jobs.errors import OK
from runspec_jobs.options.run_verbs import FetchOptions, OutputsOptions


def fetch(options: FetchOptions) -> int:
    of = get(options.run, on_event=output.tell_event)
    target = options.to or Path(of.id)
    with ProgressPrinter(quiet=options.as_json) as printer:
        saved = of.fetch(
            target,
            output=options.output,
            save=options.save,
            task=options.task,
            best=options.best,
            path=options.path,
            force=options.force,
            on_event=printer,
        )
    whole = sum(file.bytes for file in saved.values())
    if options.as_json:
        files = [
            {"output": f.output, "task": f.task, "node": f.rank, "path": str(p), "bytes": f.bytes}
            for p, f in saved.items()
        ]
        output.out_json("runspec.fetch/v1", {"run": of.id, "files": files})
    elif not saved:
        output.tell(f"fetched no files: the outputs of {of.id} have none, or were not saved yet")
    else:
        output.tell(f"fetched {_counted(len(saved), whole)} into {target}")
    return OK


def outputs(options: OutputsOptions) -> int:
    """List what a run has saved; only the lists of its saves are read."""
    of = get(options.run, on_event=output.tell_event)
    task = of.find_best_task() if options.best else options.task
    files = of.outputs(output=options.output, save=options.save, task=task, path=options.path)
    if options.as_json:
        rows = [_row(file) for file in files]
        output.out_json("runspec.outputs/v1", {"run": of.id, "files": rows})
        return OK
    if not files:
        output.tell(f"{of.id} has saved no files, or none of these")
        return OK
    for line in _table(of, files):
        output.out(line)
    newest = [file for file in files if file.newest]
    saves = f" in the newest saves, {_counted(len(files), None)} in all" * (newest != files)
    whole = sum(file.bytes for file in newest)
    output.tell(f"{_counted(len(newest), whole)}{saves}: runspec fetch {of.id} copies them")
    return OK


def _row(file: OutputFile) -> dict[str, Any]:
    return {
        "output": file.output,
        "task": file.task,
        "node": file.rank,
        "save": file.save,
        "newest": file.newest,
        "saved_at": file.saved_s,
        "path": file.path,
        "bytes": file.bytes,
        "changed_at": None if file.mtime_ns is None else file.mtime_ns / 1e9,
        "sha256": file.sha256 or None,
        "link": file.target or None,
    }


def _table(of: Run, files: Sequence[OutputFile]) -> Iterator[str]:
    """Yield the files as lines, with columns for tasks and nodes if the run has several."""
    nodes, tasks = of.shape
    titles = ["output", *["task"] * (tasks > 1), *["node"] * (nodes > 1)]
    titles += ["save", "saved", "bytes", "changed", "path"]
    rows = [titles]
    for file in files:
        link = f" -> {file.target}" if file.target else ""
        parts = [str(file.task)] * (tasks > 1) + [str(file.rank)] * (nodes > 1)
        save = f"{file.save}{'' if file.newest else ' (older)'}" if file.save else "-"
        changed = None if file.mtime_ns is None else file.mtime_ns / 1e9
        cells = [save, _when(file.saved_s), f"{file.bytes:,}", _when(changed), file.path + link]
        rows.append([escape_control(cell) for cell in (file.output, *parts, *cells)])
    widths = [max(count_columns(row[i]) for row in rows) for i in range(len(titles))]
    for row in rows:
        cells = [f"{c}{' ' * (w - count_columns(c))}" for c, w in zip(row, widths, strict=True)]
        yield "  ".join(cells).rstrip()


def _when(at: float | None) -> str:
    return "-" if at is None else time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(at))


def _counted(count: int, whole: int | None) -> str:
    files = "1 file" if count == 1 else f"{count:,} files"
    return files if whole is None else f"{files} ({whole:,} bytes)"
