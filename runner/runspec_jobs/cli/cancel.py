"""`runspec cancel` and `destroy`."""

from __future__ import annotations

from argparse import Namespace

from runspec_jobs.cli import choose_run, output
from runspec_jobs.engine import apply as engine, clients
from runspec_jobs.engine.start import destroy_run
from runspec_jobs.errors import OK, Conflict, UsageError
from runspec_jobs.plan import model
from runspec_jobs.provider import Scope, Status, Step
from runspec_jobs.state import run_group, run_record
from runspec_jobs.state.run_record import Record


def cancel(args: Namespace) -> int:
    for of in _meant(args.run):
        _cancel(of, args)
    return OK


def _meant(run: str) -> list[Record]:
    """Return the run that *run* means, or the newest run of each size of a group."""
    group = run_group.find(run)
    if group is None:
        return [choose_run.run(run)]
    return [of for of in run_group.runs(group).values() if of is not None]


def _cancel(of: Record, args: Namespace) -> None:
    with of.opened(output.tell) as journal:
        if not journal.memory.attempted:
            status = engine.abandon(journal, "cancel")
        else:
            hands = engine.ApplyContext(
                clients.connect(of)[1], output.ProgressPrinter(quiet=args.json)
            )
            status = engine.cancel(of.plan, journal, hands)
    _say(of, status, args)


def _say(of: Record, status: Status, args: Namespace) -> None:
    if args.json:
        output.out_json({"run": of.run, "state": status.state, "reason": status.reason})
    else:
        output.tell(f"{of.run} {status.state}")


def destroy(args: Namespace) -> int:
    if args.site:
        return _destroy_site(args)
    if args.run is None:
        raise UsageError("no run given", "name a run (see runspec list), or use --site")
    for of in _meant(args.run):
        with of.opened(output.tell) as journal:
            destroy_run(of, journal, output.ProgressPrinter(quiet=args.json))
        if args.json:
            output.out_json({"run": of.run, "state": "destroyed"})
        else:
            output.tell(f"{of.run} destroyed")
    group = run_group.find(args.run)
    if group is not None and not any(run_group.runs(group).values()):
        run_group.forget(args.run)
    return OK


def _destroy_site(args: Namespace) -> int:
    """Delete the shared resources, unless a run may still need them."""
    if args.run is not None:
        what = f"--site deletes the resources that runs share, and takes no run (got '{args.run}')"
        raise UsageError(what, f"destroy the run first: runspec destroy {args.run}")
    with run_record.site_lock(output.tell, shared=False):
        deleted = _delete_shared(output.ProgressPrinter(quiet=args.json))
    if args.json:
        output.out_json({"destroyed": deleted})
    else:
        output.tell(
            f"{len(deleted)} shared {'resource' if len(deleted) == 1 else 'resources'} destroyed"
        )
    return OK


def _delete_shared(printer: output.ProgressPrinter) -> list[str]:
    """Delete the shared resources and return the titles of their steps.

    The caller holds the site lock, so that no apply finds a resource that is about to be deleted.
    """
    records = run_record.all_runs()
    unreadable = [r for r in records if run_record.unreadable(r)]
    if unreadable:
        raise Conflict(
            f"{unreadable[0].run} may still need shared resources, and its record cannot be read",
            f"runspec list says why; if you move {unreadable[0].folder} away, runspec forgets the run",
        )
    alive = [r.run for r in records if not r.memory().deleted]
    if alive:
        raise Conflict(
            f"{len(alive)} {'run' if len(alive) == 1 else 'runs'} may still need shared resources: "
            f"{', '.join(alive[:3])}{', ...' if len(alive) > 3 else ''}",
            "destroy each of them first: runspec destroy RUN",
        )
    deleted: list[str] = []
    seen: set[str] = set()
    for of in reversed(records):
        memory = of.memory()
        left = memory.attempted - memory.undone
        steps = [s for s in of.plan.steps if s.scope is Scope.SITE and s.id in left]
        steps = [s for s in steps if _fresh(s, seen)]
        if not steps:
            continue
        _, client, _ = clients.connect(of)
        with of.opened(output.tell) as journal:
            engine.undo(steps, journal, engine.ApplyContext(client, printer))
        deleted += [step.title for step in steps]
    return deleted


def _fresh(step: Step, seen: set[str]) -> bool:
    """Return whether no equal step is in *seen*, and add it: equal steps make the same resource."""
    key = model.canonical(model.step_json(step)["do"])
    if key in seen:
        return False
    seen.add(key)
    return True
