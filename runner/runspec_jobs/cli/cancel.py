"""`runspec cancel` and `destroy`."""

from __future__ import annotations

from argparse import Namespace

from runspec_jobs.cli import output
from runspec_jobs.engine import end
from runspec_jobs.errors import OK, UsageError


def cancel(args: Namespace) -> int:
    for of in end.meant(args.run, output.tell):
        status = end.cancel(of, output.ProgressPrinter(quiet=args.json))
        if args.json:
            output.out_json({"run": of.run, "state": status.state, "reason": status.reason})
        else:
            output.tell(f"{of.run} {status.state}")
    return OK


def destroy(args: Namespace) -> int:
    if args.site:
        return _destroy_site(args)
    if args.run is None:
        raise UsageError("no run given", "name a run (see runspec list), or use --site")
    for of in end.meant(args.run, output.tell):
        end.destroy(of, output.ProgressPrinter(quiet=args.json))
        if args.json:
            output.out_json({"run": of.run, "state": "destroyed"})
        else:
            output.tell(f"{of.run} destroyed")
    end.forget_group(args.run)
    return OK


def _destroy_site(args: Namespace) -> int:
    """Delete the shared resources, unless a run may still need them."""
    if args.run is not None:
        what = f"--site deletes the resources that runs share, and takes no run (got '{args.run}')"
        raise UsageError(what, f"destroy the run first: runspec destroy {args.run}")
    deleted = end.destroy_shared(output.ProgressPrinter(quiet=args.json))
    if args.json:
        output.out_json({"destroyed": deleted})
    else:
        output.tell(
            f"{len(deleted)} shared {'resource' if len(deleted) == 1 else 'resources'} destroyed"
        )
    return OK
