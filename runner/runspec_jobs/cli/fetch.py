"""`runspec fetch`: copies the outputs of a run to this machine."""

from __future__ import annotations

from pathlib import Path

from runspec_jobs.cli import output
from runspec_jobs.engine import clients, fetch as engine, named_run, publish
from runspec_jobs.errors import OK, Unavailable
from runspec_jobs.provider import SupportsOutputs


def fetch(
    run: str, to: Path | None, output_name: str | None, save: int | None, *, as_json: bool
) -> int:
    of = named_run.kept(run, output.tell)
    _, client, _ = clients.connect(of)
    if not isinstance(client, SupportsOutputs):
        raise Unavailable(f"'{of.plan.provider}' cannot read outputs")
    target = to or Path(of.run)
    with output.ProgressPrinter(quiet=as_json) as printer:
        move = printer.progress(f"fetch {of.run}")
        saved = engine.fetch(client, of.run, output_name, save, target, move)
    if saved:
        publish.finish(of, client, output.tell)
    whole = sum(file.bytes for file in saved.values())
    if as_json:
        files = [{"output": f.output, "path": str(p), "bytes": f.bytes} for p, f in saved.items()]
        output.out_json({"run": of.run, "files": files})
    else:
        files_s = "1 file" if len(saved) == 1 else f"{len(saved):,} files"
        output.tell(f"fetched {files_s} ({whole:,} bytes) into {target}")
    return OK
