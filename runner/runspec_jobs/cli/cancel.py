"""`runspec cancel` and `destroy`."""

from __future__ import annotations

from argparse import Namespace

from runspec_jobs.cli import apply, choose_run, output
from runspec_jobs.engine import apply as engine
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
    """Give the run that is meant, or the newest one of each size of a group."""
    group = run_group.find(run)
    if group is None:
        return [choose_run.run(run)]
    return [of for of in run_group.runs(group).values() if of is not None]


def _cancel(of: Record, args: Namespace) -> None:
    with of.opened(output.tell) as journal:
        if not journal.memory.attempted:
            status = engine.abandon(journal, "cancel")
        else:
            hands = engine.ApplyContext(apply.connect(of)[1], output.Told(quiet=args.json))
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
        raise UsageError("which run?", "name one (see runspec list), or say --site")
    for of in _meant(args.run):
        with of.opened(output.tell) as journal:
            apply.take_away(of, journal, output.Told(quiet=args.json))
        if args.json:
            output.out_json({"run": of.run, "state": "destroyed"})
        else:
            output.tell(f"{of.run} destroyed")
    group = run_group.find(args.run)
    if group is not None and not any(run_group.runs(group).values()):
        run_group.forget(args.run)
    return OK


def _destroy_site(args: Namespace) -> int:
    """Take away what runs share, unless a run may still need it."""
    if args.run is not None:
        raise UsageError("--site is about what all runs share", "destroy the run by itself")
    with run_record.site_lock(output.tell, shared=False):
        gone = _take_away_site(output.Told(quiet=args.json))
    if args.json:
        output.out_json({"destroyed": gone})
    else:
        output.tell(f"{len(gone)} shared things destroyed")
    return OK


def _take_away_site(told: output.Told) -> list[str]:
    """Give the titles of what was taken away. Hold the site's lock: no apply may find what is about to go."""
    records = run_record.all_runs()
    unreadable = [r for r in records if run_record.unreadable(r)]
    if unreadable:
        raise Conflict(
            f"{unreadable[0].run} cannot be read, and may still need it",
            f"runspec list says why; move {unreadable[0].folder} away to have runspec forget it",
        )
    alive = [r.run for r in records if not r.memory().deleted]
    if alive:
        raise Conflict(
            f"{len(alive)} runs may still need it: {', '.join(alive[:3])}",
            "destroy them first, each with runspec destroy RUN",
        )
    gone: list[str] = []
    seen: set[str] = set()
    for of in reversed(records):
        memory = of.memory()
        left = memory.attempted - memory.undone
        steps = [s for s in of.plan.steps if s.scope is Scope.SITE and s.id in left]
        steps = [s for s in steps if _fresh(s, seen)]
        if not steps:
            continue
        _, client, _ = apply.connect(of)
        with of.opened(output.tell) as journal:
            engine.undo(steps, journal, engine.ApplyContext(client, told))
        gone += [step.title for step in steps]
    return gone


def _fresh(step: Step, seen: set[str]) -> bool:
    """Say whether nobody has asked for *step* before; equal steps make one thing."""
    key = model.canonical(model.step_json(step)["do"])
    if key in seen:
        return False
    seen.add(key)
    return True
