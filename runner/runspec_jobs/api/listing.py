"""The runs on record in short, also those whose record cannot be read."""

from __future__ import annotations

import contextlib
import fnmatch
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from runspec_agent.base.light_typing import NamedTuple
from runspec_jobs.api.lifecycle import Run
from runspec_jobs.engine import apply as engine, clients
from runspec_jobs.engine.status import UNKNOWN, read_known_status
from runspec_jobs.errors import CredentialsError, Damaged, Lacking, Newer, Unavailable
from runspec_jobs.load import registry
from runspec_jobs.machines import spent
from runspec_jobs.machines.spent import Spent
from runspec_jobs.provider import State, Status
from runspec_jobs.state import attempt_history, chain_record, run_record
from runspec_jobs.state.journal import RunState
from runspec_jobs.state.run_record import Record

UNREADABLE, NOT_STARTED, DESTROYED = (
    "unreadable",
    "not-started",
    "destroyed",
)  # shown in place of a state


class Summary(NamedTuple):
    """One run in short. *began* is in seconds since 1970, and *state* a `State` or one of the words above.

    *provider* and *began* are None if the record is unreadable. *cost* is the sum of `Run.compute_cost` as JSON, and
    *ran_s* what `Run.measure_seconds` returns. *node_count* is that of each task. *metric* has the name, the task and
    the value of the best value on record. *logs* and *outputs* say where they are, *file* is the path of the spec, and
    *commit* that of the checkout around it when the run was started. What is not known is None.
    """

    run: str
    name: str
    provider: str | None
    state: str
    reason: str
    began: float | None
    cost: Mapping[str, Any] | None = None
    ran_s: float | None = None
    node_count: int | None = None
    task_count: int | None = None
    metric: Mapping[str, Any] | None = None
    logs: str | None = None
    outputs: str | None = None
    file: str | None = None
    commit: str | None = None
    resumed: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class RunFilter:
    """Which runs to list: of the spec *name*, in which `*` stands for any text, on *provider*, begun after *since_s*.

    With *alive*, only runs that wait or run; with *failed*, only those that failed. *limit* is the most runs, the
    newest ones. Destroyed runs are listed only with *destroyed*. *name* may also be that of a chain: its runs.
    """

    name: str | None = None
    provider: str | None = None
    since_s: float | None = None
    alive: bool = False
    failed: bool = False
    destroyed: bool = False
    limit: int | None = None

    @cached_property
    def _of_chain(self) -> set[str]:
        """The runs of all chains called *name*."""
        chains = [one for one in chain_record.all_chains() if one.name == self.name]
        return {run for one in chains for run in (*one.earlier, *one.runs.values())}

    def may_have(self, record: Record, memory: RunState | Damaged) -> bool:
        """Return whether a run may be listed, as far as its record says so without a request."""
        if (
            self.name is not None
            and not fnmatch.fnmatchcase(record.name, self.name)
            and record.run not in self._of_chain
        ):
            return False
        if isinstance(memory, Damaged):
            return (
                self.provider is None and self.since_s is None and not (self.alive or self.failed)
            )
        if memory.deleted and not self.destroyed:
            return False
        if self.since_s is not None and memory.born < self.since_s:
            return False
        # Without an end on record, only the service knows the state.
        if memory.status is None or not (self.alive or self.failed):
            return True
        return self.failed and memory.status.state is State.FAILED

    def has(self, summary: Summary) -> bool:
        """Return whether a run is listed."""
        if self.provider is not None and summary.provider != self.provider:
            return False
        wanted = [*(ALIVE if self.alive else ()), *((str(State.FAILED),) if self.failed else ())]
        return not wanted or summary.state in wanted


ALIVE = (str(State.WAITING), str(State.RUNNING))


def list_summaries(chosen: RunFilter = RunFilter(destroyed=True)) -> list[Summary]:
    """Return the runs on record that are *chosen*, oldest first; a damaged record gives the reason."""
    summaries: list[Summary] = []
    # From the newest to the oldest, so that a limit saves requests.
    for record, memory in reversed(run_record.list_all_states()):
        if chosen.limit is not None and len(summaries) >= chosen.limit:
            break
        if chosen.may_have(record, memory) and chosen.has(
            summary := _summarize_listed(record, memory)
        ):
            summaries.append(summary)
    return summaries[::-1]


def demand_provider(name: str) -> None:
    """Raise Unavailable if no provider called *name* is installed, and no run on record has it."""
    if name not in registry.list_installed() and not any(
        summary.provider == name
        for summary in list_summaries(RunFilter(provider=name, destroyed=True))
    ):
        raise Unavailable(*registry.explain_missing(name))


def count_recorded() -> int:
    """Return the number of runs on record, destroyed ones too."""
    return len(run_record.list_all())


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


def sum_spending(since_s: float | None = None, *, by_provider: bool = False) -> AllSpending:
    """Return what the runs on record have cost since *since_s*, destroyed ones too, by the names of their specs.

    With *by_provider*, they are grouped by their providers. Nothing is asked of a service.
    """
    groups: dict[str, list[Spent]] = {}
    stale, unpriced, unreadable = list[str](), list[str](), list[str]()
    for record in run_record.list_all():
        try:
            memory, cost = (
                record.read_memory(),
                attempt_history.compute_cost(record, since_s=since_s),
            )
            may_grow = attempt_history.may_grow(memory)
            group = record.plan.provider if by_provider else record.name
        except (Damaged, Newer):
            unreadable.append(record.run)
            continue
        if cost is None:
            unpriced.append(record.run)
            continue
        if may_grow:
            stale.append(record.run)
        if cost:
            groups.setdefault(group, []).append(cost)
    rows = [Spending(name, len(each), spent.combine(each)) for name, each in sorted(groups.items())]
    whole = spent.combine(row.cost for row in rows)
    return AllSpending(rows, whole, stale, unpriced, unreadable)


def summarize(run: Run, status: Status) -> Summary:
    """Return *run* in short, with the *status* that was found."""
    return _make_summary(run.record, run.record.read_memory(), status)


def _summarize_listed(record: Record, memory: RunState | Damaged) -> Summary:
    try:
        if isinstance(memory, Damaged):
            raise memory
        try:
            with registry.translate_import_errors():
                return _make_summary(record, memory, read_known_status(record, memory))
        except (CredentialsError, Lacking) as exc:
            return _make_summary(record, memory, Status(State.WAITING, UNKNOWN.format(exc.message)))
    except Damaged as exc:
        return Summary(record.run, record.name, None, UNREADABLE, exc.message, None)


def _make_summary(record: Record, memory: RunState, status: Status) -> Summary:
    about, best = memory.about, memory.metric
    if "provider" not in about:
        about = {**_describe_missing(record), **about}
    places = {} if memory.deleted else about  # nothing of a destroyed run is left
    begun = memory.status is not None or memory.deleted or engine.is_submitted(record.plan, memory)
    return Summary(
        record.run,
        record.name,
        about["provider"],
        choose_shown_state(record, memory, status),
        status.reason,
        memory.born,
        _compute_cost(record, memory, status),
        attempt_history.measure_seconds(memory, status, time.time()) if begun else None,
        about.get("nodes"),
        about.get("tasks"),
        None if best is None else {name: best[name] for name in ("name", "task", "value")},
        places.get("logs") or None,
        places.get("outputs") or None,
        about.get("file"),
        about.get("commit"),
        _read_resumed(about),
    )


def _read_resumed(about: Mapping[str, Any]) -> Mapping[str, Any] | None:
    began = about.get("resume")
    if began is None:
        return None
    return {
        "run": began["run"],
        "save": began["number"],
        "content": began.get("content") or None,
    }


def _describe_missing(record: Record) -> Mapping[str, Any]:
    """Return what is known of a run whose journal does not say it."""
    known: dict[str, Any] = {"provider": record.plan.provider}
    with contextlib.suppress(Damaged, Newer):
        known["nodes"], known["tasks"] = clients.count_nodes(record)
        if began := record.resume:
            known["resume"] = {
                "run": began.run,
                "number": began.number,
                "content": began.content,
            }
    return known


def _compute_cost(record: Record, memory: RunState, status: Status) -> Mapping[str, Any] | None:
    """Return what a run has cost, from the journal if the run has ended. The record of its attempts may be damaged."""
    if memory.status is not None or memory.deleted:
        return memory.cost
    try:
        cost = attempt_history.compute_cost(record, status, time.time())
    except (Damaged, Newer):
        return None
    return None if not cost else spent.write_part(spent.sum_spent(cost))


def choose_shown_state(record: Record, memory: RunState, status: Status) -> str:
    """Return the state of a run as tables show it: a run of which nothing was submitted does not wait."""
    if memory.deleted:
        return DESTROYED
    begun = memory.status is not None or engine.is_submitted(record.plan, memory)
    return str(status.state) if begun else NOT_STARTED
