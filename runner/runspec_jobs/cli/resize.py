"""`runspec resize` and `release`: nodes of elastic runs leave while the others go on, and come back."""

from __future__ import annotations

from runspec_jobs.api.chains import get_chain
from runspec_jobs.api.lifecycle import Run, Status, get
from runspec_jobs.cli import node_table, output
from runspec_jobs.cli.live.progress import ProgressPrinter
from runspec_jobs.errors import OK, UsageError
from runspec_jobs.options.run_verbs import ReleaseOptions, ResizeOptions


def resize(options: ResizeOptions) -> int:
    of = _get(options.run)
    status = of.resize(
        options.nodes, task=options.task, on_event=ProgressPrinter(quiet=options.as_json)
    )
    return _print(of, status, as_json=options.as_json)


def release(options: ReleaseOptions) -> int:
    of = _get(options.run)
    status = of.release(
        options.nodes, task=options.task, on_event=ProgressPrinter(quiet=options.as_json)
    )
    return _print(of, status, as_json=options.as_json)


def _get(name: str) -> Run:
    if (chain := get_chain(name)) is not None:
        what = f"'{name}' is a chain: only the nodes of one run can be changed"
        raise UsageError(what, f"name the run of a job: see runspec status {chain.name}")
    return get(name, alive=True, on_event=output.tell_event)


def _print(of: Run, status: Status, *, as_json: bool) -> int:
    size = of.size(status)
    if as_json:
        found = {"run": of.id, "state": status.state, "size": node_table.size_json(size)}
        output.out_json("runspec.size/v1", found)
        return OK
    for line in node_table.size_lines(size):
        output.tell(f"{of.id}: {line}")
    if size is None:
        output.tell(f"{of.id} {status.state}")
    return OK
