"""Chooses the run that the name of a spec means, and notes if other runs could have been meant."""

from __future__ import annotations

from collections.abc import Callable

from runspec_jobs.engine import apply as engine, clients
from runspec_jobs.errors import Damaged, RunspecError
from runspec_jobs.state import run_record
from runspec_jobs.state.run_record import Record

Note = Callable[[str], None]  # takes a message for a person
ASKED = 20  # the most runs of a name whose state is queried, the newest ones


def run(name: str, note: Note) -> Record:
    """Return the run that *name* means, and note if other runs of the name are alive or newer.

    *name* is the id of a run, or the name of a spec, which means its newest run that is alive, or else its newest run.
    Raises UsageError if there is none.
    """
    newest = run_record.find(name)
    if newest.run == name:
        return newest
    if wrong := run_record.damaged(name):
        note(f"ignoring a run of '{name}' whose record cannot be read: {wrong.message}")
    open_ = [of for of in run_record.of_name(name) if _may_be_alive(of)]
    if open_ in ([], [newest]):
        _note_fallback(name, newest, note)
        return newest
    alive = [of for of in reversed(open_[-ASKED:]) if _is_alive(of)]
    chosen = alive[0] if alive else newest
    if len(alive) > 1:
        others = ", ".join(of.run for of in alive[1:])
        note(f"'{name}' means {chosen.run}, {_rank(chosen, newest)}; also alive: {others}")
    elif chosen != newest:
        note(f"'{name}' means {chosen.run}, which is alive; {newest.run} is newer but has ended")
    else:
        _note_fallback(name, newest, note)
    return chosen


def kept(name: str, note: Note) -> Record:
    """Return the run that *name* means, as `run` does. Raises UsageError also if it was destroyed."""
    return run_record.kept(run(name, note))


def _rank(chosen: Record, newest: Record) -> str:
    """Return a text on *chosen*, the newest live run of its name; *newest* is the newest that was not destroyed."""
    if chosen != newest:
        return f"its newest run that is alive ({newest.run} is newer but has ended)"
    if chosen != run_record.newest(chosen.name):
        return "its newest run that is alive"
    return "its newest run"


def _note_fallback(name: str, chosen: Record, note: Note) -> None:
    """Note if a newer run of that name was destroyed."""
    last = run_record.newest(name)
    if last is not None and last != chosen:
        note(f"{last.run}, the newest run of '{name}', was destroyed; using {chosen.run}")


def _may_be_alive(of: Record) -> bool:
    memory = of.memory()
    if memory.want == "destroy":
        return True  # an interrupted destroy, which the same command continues
    return memory.status is None and bool(memory.begun)


def _is_alive(of: Record) -> bool:
    """Return whether a run is alive, or may be because its state cannot be queried."""
    memory = of.memory()
    try:
        if memory.want == "destroy" or not engine.is_made(of.plan, memory):
            return True
        return not clients.connect(of)[1].state(of.run).state.terminal
    except Damaged:
        return False
    except RunspecError:
        return True
