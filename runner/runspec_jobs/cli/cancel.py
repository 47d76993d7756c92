"""`runspec cancel`."""

from __future__ import annotations

from runspec_jobs.api.lifecycle import get_all
from runspec_jobs.cli import output
from runspec_jobs.errors import OK


def cancel(run: str, *, as_json: bool) -> int:
    for of in get_all(run, on_event=output.tell_event):
        status = of.cancel(on_event=output.ProgressPrinter(quiet=as_json))
        if as_json:
            found = {"run": of.id, "state": status.state, "reason": status.reason}
            output.out_json("runspec.cancel/v1", found)
        else:
            output.tell(f"{of.id} {status.state}")
    return OK
