"""`runspec cancel` and `destroy`."""

from __future__ import annotations

from runspec_jobs.api.cleanup import destroy_shared, forget_group
from runspec_jobs.api.lifecycle import get_all
from runspec_jobs.cli import output
from runspec_jobs.errors import OK, UsageError


def cancel(run: str, *, as_json: bool) -> int:
    for of in get_all(run, on_event=output.tell_event):
        status = of.cancel(on_event=output.ProgressPrinter(quiet=as_json))
        if as_json:
            found = {"run": of.id, "state": status.state, "reason": status.reason}
            output.out_json("runspec.cancel/v1", found)
        else:
            output.tell(f"{of.id} {status.state}")
    return OK


def destroy(run: str | None, *, site: bool, as_json: bool) -> int:
    if site:
        return _destroy_site(run, as_json=as_json)
    if run is None:
        raise UsageError("no run given", "name a run (see runspec list), or use --site")
    for of in get_all(run, on_event=output.tell_event):
        of.destroy(on_event=output.ProgressPrinter(quiet=as_json))
        if as_json:
            output.out_json("runspec.destroy/v1", {"run": of.id, "state": "destroyed"})
        else:
            output.tell(f"{of.id} destroyed")
    forget_group(run)
    return OK


def _destroy_site(run: str | None, *, as_json: bool) -> int:
    """Delete the shared resources, unless a run may still need them."""
    if run is not None:
        what = f"--site deletes the resources that runs share, and takes no run (got '{run}')"
        raise UsageError(what, f"destroy the run first: runspec destroy {run}")
    deleted = destroy_shared(on_event=output.ProgressPrinter(quiet=as_json))
    if as_json:
        output.out_json("runspec.destroy-site/v1", {"destroyed": deleted})
    else:
        output.tell(
            f"{len(deleted)} shared {'resource' if len(deleted) == 1 else 'resources'} destroyed"
        )
    return OK
