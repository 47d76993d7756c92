"""Cancels and destroys runs, and deletes the resources that runs share."""

from __future__ import annotations

from collections.abc import Callable

from runspec_jobs.engine import apply as engine, named_run, rescue
from runspec_jobs.engine.clients import connect
from runspec_jobs.engine.reporter import Reporter
from runspec_jobs.engine.resume import find_dependent
from runspec_jobs.engine.start_run import destroy_run
from runspec_jobs.errors import Conflict, Damaged, Newer, RunspecError, UsageError
from runspec_jobs.plan import model
from runspec_jobs.provider import Scope, State, Status, Step
from runspec_jobs.regex import regex
from runspec_jobs.spec.scaling import make_name
from runspec_jobs.state import run_group, run_record
from runspec_jobs.state.run_record import Record

OF_SIZE = regex(r"(.+)-[np]\d+")  # the name of a run of a group


def cancel(record: Record, reporter: Reporter) -> Status:
    """Cancel a run, wait until it has ended, and return its status. Calling it again is safe."""
    try:
        with record.open_journal(reporter.wait) as journal:
            if journal.memory.deleted:
                return journal.memory.status or Status(State.GONE, "the run was destroyed")
            if not journal.memory.attempted:
                rescue.end_unnoted(record, reporter, delete=False)
                return engine.abandon(journal, "cancel")
            hands = engine.ApplyContext(connect(record)[1], reporter)
            return engine.cancel(record.plan, journal, hands)
    except Newer:
        raise
    except Damaged as exc:
        return rescue.cancel(record, exc, reporter)


def destroy(record: Record, reporter: Reporter) -> None:
    """Cancel a run and delete what was made for it alone, its outputs too. Calling it again is safe.

    The group of the run is forgotten with its last run. Raises Conflict if another run is to begin with its saves.
    """
    try:
        with record.open_journal(reporter.wait) as journal:
            if not journal.memory.deleted:
                other = find_dependent(record)
                if other is not None:
                    message = f"{other.run} begins with the saves of {record.run}, and has not saved anything yet"
                    raise Conflict(
                        message, f"wait until it has, or end it first: runspec destroy {other.run}"
                    )
                if not journal.memory.attempted:
                    rescue.end_unnoted(record, reporter, delete=True)
                destroy_run(record, journal, reporter)
    except Newer:
        raise
    except Damaged as exc:
        rescue.destroy(record, exc, reporter)
    if of_size := OF_SIZE.fullmatch(record.name):
        forget_group(of_size[1])


def forget(record: Record, reporter: Reporter) -> list[str]:
    """Record a run as destroyed without asking its service, and return the titles of the steps that are not undone."""
    try:
        with record.open_journal(reporter.wait) as journal:
            return engine.forget(record.plan, journal)
    except Newer:
        raise
    except Damaged as exc:
        rescue.forget(record, reporter)
        return [f"all that was made for {record.run}, because {exc.message}"]


def resolve_name(name: str, note: Callable[[str], None]) -> list[Record]:
    """Return the run that *name* means, or the newest run of each size if *name* is a spec with `scaling`.

    Destroyed runs count, so that a command that is repeated ends no older run. Raises UsageError if there is none, or
    if a record that cannot be read may be the newest.
    """
    names = _list_names(name)
    for each in names:
        # A name that only damaged records have is handled later, by ending the run by its id.
        if (wrong := run_record.find_damaged(each)) and run_record.list_readable(each):
            message = f"the newest run of '{each}' may be one whose record cannot be read"
            raise UsageError(
                f"{message}: {wrong.message}", "name a run by its id: see runspec list"
            )
    return [named_run.find_newest(each, note) for each in names]


def _list_names(name: str) -> list[str]:
    """Return *name*, or the name of each size that has a run if *name* is a spec with `scaling`."""
    group = run_group.find(name)
    if group is not None:
        assert group.scaling is not None, "BUG: the spec of a group has no scaling"
        of_sizes = [make_name(group, size) for size in group.scaling.sizes]
        return [each for each in of_sizes if run_record.list_readable(each)]
    of_sizes = run_record.list_sizes(name)
    if of_sizes and not run_record.has(name) and not any(map(run_record.list_runs, of_sizes)):
        return of_sizes  # the last run of the group was destroyed
    return [name]


def forget_group(name: str) -> None:
    """Forget the group called *name*, if there is one and its last run was destroyed."""
    group = run_group.find(name)
    if group is not None and not any(run_group.find_runs(group).values()):
        run_group.forget(name)


def destroy_shared(reporter: Reporter) -> list[str]:
    """Delete the resources that runs share, and return the titles of their steps.

    Raises Conflict while a run is left that may need them. If a service fails, what others have is deleted all the
    same, and the first error is raised at the end.
    """
    with run_record.lock_site(reporter.wait, shared=False):
        return _delete_shared(reporter)


def list_shared_steps() -> list[tuple[Record, list[Step]]]:
    """Return the steps that made what runs share and that is still there, each once, with the newest run that has it.

    Runs whose journal cannot be read are left out. Raises Damaged if the plan of another one cannot be read.
    """
    shared = []
    seen: set[str] = set()
    for record in reversed(run_record.list_all()):
        if run_record.find_damage(record):
            continue
        memory = record.read_memory()
        left = memory.attempted - memory.undone
        steps = [s for s in record.plan.steps if s.scope is Scope.SITE and s.id in left]
        # Newest first: the newest run has the settings that reach the service today.
        if steps := [s for s in steps if _is_fresh(s, seen)]:
            shared.append((record, steps))
    return shared


def _delete_shared(reporter: Reporter) -> list[str]:
    """Delete the shared resources and return the titles of their steps.

    The caller holds the site lock, so that no apply finds a resource that is about to be deleted.
    """
    records = run_record.list_all()
    unreadable = [r for r in records if run_record.find_damage(r)]
    if unreadable:
        raise Conflict(
            f"{unreadable[0].run} may still need shared resources, and its record cannot be read",
            f"runspec list says why; if you move {unreadable[0].folder} away, runspec forgets the run",
        )
    alive = [r.run for r in records if not r.read_memory().deleted]
    if alive:
        raise Conflict(
            f"{len(alive)} {'run' if len(alive) == 1 else 'runs'} may still need shared resources: "
            f"{', '.join(alive[:3])}{', ...' if len(alive) > 3 else ''}",
            f"destroy {'it' if len(alive) == 1 else 'each of them'} first: "
            f"runspec destroy {alive[0] if len(alive) == 1 else 'RUN'}",
        )
    deleted: list[str] = []
    failures: list[RunspecError] = []
    for record, steps in list_shared_steps():
        try:
            _, client, _ = connect(record)
            with record.open_journal(reporter.wait) as journal:
                engine.undo(steps, journal, engine.ApplyContext(client, reporter))
            deleted += [step.title for step in steps]
        except RunspecError as exc:  # that service may be gone; what others have costs money
            failures.append(exc)
            reporter.note(f"not deleted, of {record.plan.provider}: {exc.message}")
    if failures:
        raise failures[0]
    return deleted


def _is_fresh(step: Step, seen: set[str]) -> bool:
    """Return whether no equal step is in *seen*, and add it: equal steps make the same resource."""
    key = model.format_canonical(model.write_step(step)["do"])
    if key in seen:
        return False
    seen.add(key)
    return True
