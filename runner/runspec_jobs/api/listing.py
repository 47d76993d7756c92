"""The runs on record in short, also those whose record cannot be read."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from runspec_jobs.api.lifecycle import Run
from runspec_jobs.engine import apply as engine
from runspec_jobs.engine.status import UNKNOWN, known_status
from runspec_jobs.errors import Damaged, Lacking, Newer
from runspec_jobs.load import registry
from runspec_jobs.machines import spent
from runspec_jobs.machines.spent import Spent
from runspec_jobs.provider import State, Status
from runspec_jobs.state import attempt_history, run_record
from runspec_jobs.state.journal import RunState
from runspec_jobs.state.run_record import Record

UNREADABLE, NOT_STARTED, DESTROYED = "unreadable", "not-started", "destroyed"  # in place of a state


class Summary(NamedTuple):
    """One run in short. *began* is in seconds since 1970, and *state* a `State` or one of the words above.

    *provider* and *began* are None if the record is unreadable. *cost* is the sum of `Run.cost` as JSON, or None if it
    is not known.
    """

    run: str
    name: str
    provider: str | None
    state: str
    reason: str
    began: float | None
    cost: Mapping[str, Any] | None = None


def summaries() -> list[Summary]:
    """Return all runs on record, destroyed ones too, oldest first; a damaged record gives the reason."""
    return [_listed(of, memory) for of, memory in run_record.all_states()]


class Spending(NamedTuple):
    """What the runs of one spec, or on one provider, have cost."""

    group: str
    runs: int
    cost: Spent


class AllSpending(NamedTuple):
    """What the runs on record have cost, from the records alone.

    *stale* are runs that may have cost more since runspec last saw them running, *unpriced* those whose record has no
    price, and *unreadable* those whose record is damaged.
    """

    groups: Sequence[Spending]
    cost: Spent
    stale: Sequence[str]
    unpriced: Sequence[str]
    unreadable: Sequence[str]


def spending(since_s: float | None = None, *, by_provider: bool = False) -> AllSpending:
    """Return what the runs on record have cost since *since_s*, destroyed ones too, by the names of their specs.

    With *by_provider*, they are grouped by their providers. Nothing is asked of a service.
    """
    groups: dict[str, list[Spent]] = {}
    stale, unpriced, unreadable = list[str](), list[str](), list[str]()
    for of in run_record.all_runs():
        try:
            memory, found = of.memory(), attempt_history.cost(of, since_s=since_s)
            group = of.plan.provider if by_provider else of.name
        except (Damaged, Newer):
            unreadable.append(of.run)
            continue
        if found is None:
            unpriced.append(of.run)
            continue
        if memory.status is None and not memory.deleted and memory.attempted:
            stale.append(of.run)
        if found:
            groups.setdefault(group, []).append(found)
    rows = [
        Spending(name, len(each), spent.together(each)) for name, each in sorted(groups.items())
    ]
    whole = spent.together(row.cost for row in rows)
    return AllSpending(rows, whole, stale, unpriced, unreadable)


def summary(run: Run, status: Status) -> Summary:
    """Return *run* in short, with the *status* that was found."""
    return _summary(run.record, run.record.memory(), status)


def _listed(of: Record, memory: RunState | Damaged) -> Summary:
    try:
        if isinstance(memory, Damaged):
            raise memory
        try:
            with registry.extras():
                return _summary(of, memory, known_status(of, memory))
        except Lacking as exc:
            return _summary(of, memory, Status(State.WAITING, UNKNOWN.format(exc.message)))
    except Damaged as exc:
        return Summary(of.run, of.name, None, UNREADABLE, exc.message, None)


def _summary(of: Record, memory: RunState, status: Status) -> Summary:
    state = _shown_state(of, memory, status)
    cost = _cost(of, memory, status)
    return Summary(of.run, of.name, of.plan.provider, state, status.reason, memory.born, cost)


def _cost(of: Record, memory: RunState, status: Status) -> Mapping[str, Any] | None:
    """Return what a run has cost, from the journal if the run has ended. The record of its attempts may be damaged."""
    if memory.status is not None or memory.deleted:
        return memory.cost
    try:
        found = attempt_history.cost(of, status, time.time())
    except (Damaged, Newer):
        return None
    return None if not found else spent.part_json(spent.total(found))


def _shown_state(of: Record, memory: RunState, status: Status) -> str:
    if memory.deleted:
        return DESTROYED
    begun = memory.status is not None or engine.is_made(of.plan, memory)
    return str(status.state) if begun else NOT_STARTED
