"""Which run the name of a spec means: the one that is alive; and what the user is told about the others."""

from __future__ import annotations

from runspec_jobs.cli import apply, output
from runspec_jobs.engine import apply as engine
from runspec_jobs.errors import Damaged, RunspecError
from runspec_jobs.state import run_record
from runspec_jobs.state.run_record import Record

ASKED = 20  # services are asked about so many runs of a name, the newest ones


def run(name: str) -> Record:
    """Return the run that *name* means, and tell the user where that is not the only or the newest one.

    *name* is a run's own id, or the name of a spec: then the newest run that is alive, else the newest one.
    Raises UsageError when there is none.
    """
    newest = run_record.find(name)
    if newest.run == name:
        return newest
    if wrong := run_record.damaged(name):
        output.tell(f"a run of '{name}' is passed over: {wrong.message}")
    open_ = [of for of in run_record.of_name(name) if _may_be_alive(of)]
    if open_ in ([], [newest]):
        _tell_fallback(name, newest)
        return newest
    alive = [of for of in reversed(open_[-ASKED:]) if _is_alive(of)]
    chosen = alive[0] if alive else newest
    if len(alive) > 1:
        others = ", ".join(of.run for of in alive[1:])
        output.tell(f"'{name}' means {chosen.run}, {_rank(chosen, newest)}; also alive: {others}")
    elif chosen != newest:
        output.tell(
            f"'{name}' means {chosen.run}, which is alive; {newest.run} is newer and has ended"
        )
    else:
        _tell_fallback(name, newest)
    return chosen


def kept(name: str) -> Record:
    """Return the run that *name* means as `run` does; also raises UsageError when it was destroyed."""
    return run_record.kept(run(name))


def _rank(chosen: Record, newest: Record) -> str:
    """Say what *chosen*, the newest live run of its name, is; *newest* is the newest that was not destroyed."""
    if chosen != newest:
        return f"its newest run that is alive: {newest.run} is newer and has ended"
    if chosen != run_record.newest(chosen.name):
        return "its newest run that is alive"
    return "its newest run"


def _tell_fallback(name: str, chosen: Record) -> None:
    """Say so where a newer run of that name was destroyed."""
    last = run_record.newest(name)
    if last is not None and last != chosen:
        output.tell(f"{last.run}, the newest run of '{name}', was destroyed; this is {chosen.run}")


def _may_be_alive(of: Record) -> bool:
    memory = of.memory()
    if memory.want == "destroy":
        return True  # a destroy that was cut off: the same command goes on with it
    return memory.status is None and bool(memory.begun)


def _is_alive(of: Record) -> bool:
    """Say whether the service of a run has it; one that cannot be asked may have."""
    memory = of.memory()
    try:
        if memory.want == "destroy" or not engine.is_made(of.plan, memory):
            return True
        return not apply.connect(of)[1].state(of.run).state.terminal
    except Damaged:
        return False
    except RunspecError:
        return True
