"""`runspec fetch`: copies the outputs of a run to this machine."""

from __future__ import annotations

from pathlib import Path

from runspec_jobs.api.lifecycle import get
from runspec_jobs.cli import output
from runspec_jobs.cli.live.progress import ProgressPrinter
from runspec_jobs.errors import OK
from runspec_jobs.options.run_verbs import FetchOptions


def fetch(options: FetchOptions) -> int:
    of = get(options.run, on_event=output.tell_event)
    target = options.to or Path(of.id)
    with ProgressPrinter(quiet=options.as_json) as printer:
        saved = of.fetch(
            target,
            output=options.output,
            save=options.save,
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
        files_s = "1 file" if len(saved) == 1 else f"{len(saved):,} files"
        output.tell(f"fetched {files_s} ({whole:,} bytes) into {target}")
    return OK
