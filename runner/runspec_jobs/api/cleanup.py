"""Resources that are left: those that runs share, and those that no record mentions."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from runspec_agent.base.light_typing import NamedTuple
from runspec_jobs.api.events import Events, OnEvent
from runspec_jobs.engine import clients, end, rescue
from runspec_jobs.engine.end import forget_group as forget_group
from runspec_jobs.engine.reporter import Reporter
from runspec_jobs.engine.status import read_full_status
from runspec_jobs.errors import Damaged, RunspecError, Unavailable
from runspec_jobs.load import registry
from runspec_jobs.machines.estimate import StandingCost
from runspec_jobs.provider import Facts, Provider, State, SupportsOrphans
from runspec_jobs.state import chain_record, probe_leftovers, run_record

if TYPE_CHECKING:
    from runspec_jobs.api.listing import Summary

TERMINAL = frozenset(str(state) for state in State if state.terminal)


class Found(NamedTuple):
    """One orphan; *removed* is true if it was deleted."""

    what: str
    run: str | None
    alive: bool
    removed: bool


def list_orphans(
    provider: str, *, delete: bool = False, alive: bool = False, on_event: OnEvent | None = None
) -> list[Found]:
    """Return the resources of runspec in the service of *provider* that no record on this machine mentions.

    With *delete*, they are deleted; with *alive*, those too that live jobs use, which are cancelled first. Shared
    resources stay while a record cannot be read. Raises Unavailable if the provider leaves nothing to find.
    """
    from runspec_jobs.api.profiles import load_configured  # imports what sets up accounts

    events = Events(on_event)
    service, options = load_configured(provider)
    client = service.connect(Facts(options))
    if not isinstance(client, SupportsOrphans):
        raise Unavailable(f"'{provider}' leaves no resources that gc could find")
    rows = list(_list_probe_leftovers(service, delete=delete, tell=events.note))
    known = _list_known_runs()
    orphans = list(client.find_orphans(known.runs, known.texts))
    removed = [orphan for orphan in orphans if delete and (alive or not orphan.alive)]
    for run in known.unreadable:  # an unreadable run may need shared resources
        events.note(
            f"the record of {run} cannot be read, so shared resources stay (see runspec list)"
        )
        # An orphan without a run is shared.
        removed = [orphan for orphan in removed if orphan.run is not None]
    for orphan in removed:
        rescue.remove_orphan(client, orphan)
    return rows + [Found(o.what, o.run, o.alive, removed=o in removed) for o in orphans]


def destroy_shared(*, on_event: OnEvent | None = None) -> list[str]:
    """Delete the resources that runs share, and return the titles of their steps.

    Raises Conflict while a run is left that may need them.
    """
    return end.destroy_shared(Events(on_event))


class Kept(NamedTuple):
    """What runs share, by the titles of its steps, and what keeping it costs."""

    titles: Sequence[str]
    costs: Sequence[StandingCost]


def list_shared() -> Kept:
    """Return what `destroy_shared` would delete. This comes from the records; no service is asked.

    If a record cannot be read, return nothing here; `destroy_shared` raises an error then.
    """
    titles: list[str] = []
    costs: dict[StandingCost, None] = {}
    try:
        steps_of = end.list_shared_steps()
    except Damaged:  # `destroy_shared` reports the damage when it is confirmed
        return Kept((), ())
    for record, steps in steps_of:
        titles += [step.title for step in steps]
        costs |= dict.fromkeys(cost for cost in _list_standing_costs(record) if cost.shared)
    return Kept(titles, list(costs))


def _list_standing_costs(record: run_record.Record) -> Sequence[StandingCost]:
    """Return what costs money while nothing runs, after *record*; nothing if this version cannot read its record."""
    try:
        provider = registry.load(record.plan.provider)
        return clients.read_offer(provider, record.spec, record.read_facts(provider))[0].standing
    except RunspecError:
        return ()


def list_ended(older_than_s: float = 0.0) -> list[Summary]:
    """Return the runs on record that have ended, and began more than *older_than_s* seconds ago, oldest first."""
    before = time.time() - older_than_s
    return [
        summary
        for summary in list_not_destroyed()
        if summary.state in TERMINAL and (summary.began or 0.0) < before
    ]


def list_not_destroyed() -> list[Summary]:
    """Return the runs on record that are not destroyed, alive ones too, oldest first."""
    from runspec_jobs.api import listing  # `destroy_expired`, after each `apply`, needs none

    return [summary for summary in listing.list_summaries() if summary.state != listing.DESTROYED]


class Known(NamedTuple):
    """What the records of this machine mention."""

    runs: set[str]
    texts: set[str]
    unreadable: Sequence[str]


def _list_known_runs() -> Known:
    records = run_record.list_all()
    unreadable = [record.run for record in records if _is_unreadable(record)]
    # A destroyed run needs nothing: what mentions it was left behind.
    kept = [
        record
        for record in records
        if record.run not in unreadable and not record.read_memory().deleted
    ]
    texts = {text for record in kept for text in rescue.list_texts(record)}
    return Known({*(record.run for record in kept), *unreadable}, texts, unreadable)


def _is_unreadable(record: run_record.Record) -> bool:
    try:
        record.read_memory()
        list(rescue.list_texts(record))
    except Damaged:
        return True
    return False


def _list_probe_leftovers(
    provider: Provider, *, delete: bool, tell: Callable[[str], None]
) -> Iterator[Found]:
    """Yield the resources that killed sessions of `doctor --probe` made; with *delete*, delete them first."""
    if not probe_leftovers.list_sessions(provider.name):
        return
    with probe_leftovers.lock_probes(provider.name) as free:
        for session in probe_leftovers.list_sessions(provider.name):
            # `clean` removes what it has deleted from the session.
            made = session.made.copy()
            if delete and free:
                probe_leftovers.clean(session, provider, tell)
            for leftover in made:
                removed = leftover not in session.made
                yield Found(f"{leftover.what}, of {session.name}", None, not free, removed=removed)


# What `ttl` of a spec promises.


ASK_S = 3_600.0  # between two looks at a run that has not ended, or could not be destroyed


class Expired(NamedTuple):
    """A run that was destroyed, since its `ttl` is over; *why* says why it could not be, and is "" otherwise."""

    run: str
    ttl_s: int
    ended_at: float
    why: str = ""


def destroy_expired(now_s: float | None = None) -> Iterator[Expired]:
    """Destroy the runs that this machine has applied and that ended longer ago than their `ttl`, and yield each.

    A run stays while it may be alive, while another command works on it, and while another run or a job of its chain
    may still read its outputs. Nobody is asked, and no error is raised.
    """
    now = time.time() if now_s is None else now_s
    for life in run_record.list_lifetimes():
        if life.failed and now < life.noted_at + ASK_S:
            continue
        record = run_record.Record(run_record.find_runs_folder() / life.run)
        if not record.folder.is_dir():
            run_record.forget_ttl(life.run)
            continue
        ended_at = life.ended_at
        try:
            ended_at = _find_end(record, life, now)
            if ended_at is None or now < ended_at + life.ttl_s or _is_needed(record):
                continue
            end.destroy(record, _Impatient())
            run_record.forget_ttl(life.run)
            yield Expired(life.run, life.ttl_s, ended_at)
        except _Busy:  # another command works on the run: the next one destroys it
            continue
        except RunspecError as exc:
            run_record.note_ttl(life.run, life.ttl_s, ended_at, failed=True)
            if ended_at is not None:
                yield Expired(life.run, life.ttl_s, ended_at, exc.message)


def _find_end(record: run_record.Record, life: run_record.Lifetime, now_s: float) -> float | None:
    """Return when the end of a run was noticed first; None if it may be alive, or nobody knows how it ended."""
    memory = record.read_memory()
    if memory.deleted:
        run_record.forget_ttl(life.run)
        return None
    if now_s < (life.ended_at or memory.born) + life.ttl_s:
        return life.ended_at
    if memory.status is not None and memory.ended_at is not None:
        return None if memory.status.state is State.GONE else memory.ended_at
    if life.ended_at is None and now_s < life.noted_at + min(ASK_S, life.ttl_s):
        return None
    status = read_full_status(record)
    is_over = status.state.terminal and status.state is not State.GONE
    ended_at = (life.ended_at or now_s) if is_over else None
    run_record.note_ttl(life.run, life.ttl_s, ended_at)
    return ended_at


def _is_needed(record: run_record.Record) -> bool:
    """Return whether a run, or a job of the chain, that has not ended may still read outputs of *record*."""
    for _, memory in run_record.list_all_states():
        if isinstance(memory, Damaged) or memory.deleted or memory.status is not None:
            continue
        if any(one["run"] == record.run for one in memory.about.get("inputs", {}).values()):
            return True
    for chain in chain_record.all_chains():
        jobs = [job for job, run in chain.runs.items() if run == record.run]
        needing = [job for job, needs in chain.needs.items() if needs.keys() & {*jobs}]
        if chain.want == "run" and not all(_has_ended(chain.runs.get(job)) for job in needing):
            return True
    return False


def _has_ended(run: str | None) -> bool:
    if run is None:
        return False
    memory = run_record.Record(run_record.find_runs_folder() / run).read_memory()
    return memory.deleted or memory.status is not None


class _Busy(Exception):
    """Another command works on the run."""


class _Impatient(Reporter):
    """Ends the work instead of waiting for another command."""

    def wait(self, text: str) -> None:
        raise _Busy
