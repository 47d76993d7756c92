"""Chooses the run that the name of a spec means, and notes if other runs could have been meant.

A name means the newest run of those whose specs lie nearest to the current folder: in it, else below it, else
elsewhere. A destroyed run counts, so that a command that is repeated does not act on an older run.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from runspec_jobs.engine import apply as engine, clients
from runspec_jobs.errors import Damaged, RunspecError, UsageError
from runspec_jobs.state import chain_record, origin, run_record
from runspec_jobs.state.run_record import Record

Note = Callable[[str], None]  # takes a message for a person
ASKED = 20  # the most runs of a name whose state is queried, the newest ones


def run(name: str, note: Note, *, alive: bool = False) -> Record:
    """Return the run that *name* means, as `find_newest` does, and note if it is of another folder."""
    chosen = find_newest(name, note, alive=alive)
    if chosen.run != name and origin.is_elsewhere(chosen):
        note(f"{chosen.run} is of another folder: {origin.read_origin(chosen).text}")
    return chosen


def find_newest(name: str, note: Note, *, alive: bool = False) -> Record:
    """Return the run that *name* means, and note if other runs of the name are alive.

    *name* is the id of a run, or the name of a spec; with *alive*, a name means its newest run that is alive, if there
    is one. Raises UsageError if there is none.
    """
    exact = _find(name)
    # The id of a run is never ambiguous, so nothing else is looked at.
    if exact.run == name:
        return exact
    if wrong := run_record.find_damaged(name):
        note(f"ignoring a run of '{name}' whose record cannot be read: {wrong.message}")
    near = origin.select_nearest(run_record.list_readable(name))
    return _choose_run(name, near, note, alive=alive) if near else exact


def _find(name: str) -> Record:
    """Return what `run_record.find` does. Raises UsageError with another message if *name* is that of a chain."""
    try:
        return run_record.find(name)
    except UsageError:
        if not any(chain.name == name for chain in chain_record.all_chains()):
            raise
    what = f"'{name}' is a chain, and this is for one run"
    raise UsageError(what, f"name the run of a job: see runspec status {name}")


def _choose_run(name: str, near: Sequence[Record], note: Note, *, alive: bool) -> Record:
    """Return the newest run of *near*, or with *alive* the newest that is alive, and note which others are."""
    last = near[-1]
    live = _list_alive([record for record in near if _may_be_alive(record)], last)
    if alive and live and last not in live:
        note(f"'{name}' means {live[0].run}, which is alive; {last.run} is newer but has ended")
        return live[0]
    if others := [record.run for record in live if record != last]:
        note(f"'{name}' means {last.run}, its newest run; also alive: {', '.join(others)}")
    elif last.read_memory().deleted and (
        left := [record.run for record in near if not record.read_memory().deleted]
    ):
        note(f"'{name}' means {last.run}, its newest run, which was destroyed; {left[-1]} is older")
    return last


def find_kept(name: str, note: Note, *, alive: bool = False) -> Record:
    """Return the run that *name* means, as `run` does. Raises UsageError also if it was destroyed."""
    return run_record.require_kept(run(name, note, alive=alive))


def explain_doubt(name: str, record: Record) -> str:
    """Return why the user may not mean the run *record* by *name*; nothing if it is clear, or if nothing is left of it.

    A command that ends a run asks then. The id of a run is always clear.
    """
    if record.run == name or (not run_record.find_damage(record) and record.read_memory().deleted):
        return ""
    its = origin.read_origin(record)
    if origin.is_elsewhere(record):
        return f"{record.run} is of another folder: {its.text}"
    for other in reversed(origin.select_nearest(run_record.list_runs(record.name))):
        if origin.is_different(other, record) and origin.is_there(other):
            of_other = f"{other.run} is of {origin.read_origin(other).text}"
            return (
                f"'{name}' is the name of several specs: {record.run} is of {its.text}, {of_other}"
            )
    return ""


def _may_be_alive(record: Record) -> bool:
    memory = record.read_memory()
    if memory.deleted:
        return False
    if memory.want == "destroy":
        return True  # an interrupted destroy, which the same command continues
    return memory.status is None and bool(memory.begun)


def _list_alive(of_name: Sequence[Record], last: Record) -> list[Record]:
    """Return those that are alive, the newest first. No service is asked if *last* alone may be."""
    # The usual case, which must not cost a request.
    if list(of_name) in ([], [last]):
        return []
    return [record for record in reversed(of_name[-ASKED:]) if _is_alive(record)]


def _is_alive(record: Record) -> bool:
    """Return whether a run is alive, or may be because its state cannot be queried."""
    memory = record.read_memory()
    try:
        # Something of it may exist, even if its service knows no job.
        if memory.want == "destroy" or not engine.is_made(record.plan, memory):
            return True
        return not clients.connect(record)[1].state(record.run).state.terminal
    except Damaged:  # a state that nobody knows: rather another run of the name
        return False
    except RunspecError:  # its service does not answer, so it may be alive
        return True
