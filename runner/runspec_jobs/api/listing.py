"""The runs on record in short, also those whose record cannot be read."""

from __future__ import annotations

from typing import NamedTuple

from runspec_jobs.api.lifecycle import Run
from runspec_jobs.engine import apply as engine
from runspec_jobs.engine.status import UNKNOWN, known_status
from runspec_jobs.errors import Damaged, Lacking
from runspec_jobs.load import registry
from runspec_jobs.provider import State, Status
from runspec_jobs.state import run_record
from runspec_jobs.state.journal import RunState
from runspec_jobs.state.run_record import Record

UNREADABLE, NOT_STARTED, DESTROYED = "unreadable", "not-started", "destroyed"  # in place of a state


class Summary(NamedTuple):
    """One run in short. *began* is in seconds since 1970, and *state* a `State` or one of the words above.

    *provider* and *began* are None if the record is unreadable.
    """

    run: str
    name: str
    provider: str | None
    state: str
    reason: str
    began: float | None


def summaries() -> list[Summary]:
    """Return all runs on record, destroyed ones too, oldest first; a damaged record gives the reason."""
    return [_listed(of) for of in run_record.all_runs()]


def summary(run: Run, status: Status) -> Summary:
    """Return *run* in short, with the *status* that was found."""
    return _summary(run.record, run.record.memory(), status)


def _listed(of: Record) -> Summary:
    try:
        memory = of.memory()
        try:
            with registry.extras():
                return _summary(of, memory, known_status(of, memory))
        except Lacking as exc:
            return _summary(of, memory, Status(State.WAITING, UNKNOWN.format(exc.message)))
    except Damaged as exc:
        return Summary(of.run, of.name, None, UNREADABLE, exc.message, None)


def _summary(of: Record, memory: RunState, status: Status) -> Summary:
    state = _shown_state(of, memory, status)
    return Summary(of.run, of.name, of.plan.provider, state, status.reason, memory.born)


def _shown_state(of: Record, memory: RunState, status: Status) -> str:
    if memory.deleted:
        return DESTROYED
    begun = memory.status is not None or engine.is_made(of.plan, memory)
    return str(status.state) if begun else NOT_STARTED
