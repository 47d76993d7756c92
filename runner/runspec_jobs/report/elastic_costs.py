"""Computes the costs of membership changes of elastic jobs, and formats them. All functions are pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from typing import Any

from runspec_agent.base.light_typing import NamedTuple
from runspec_jobs.provider import MembershipChange
from runspec_jobs.provider.types import NodeRef

NOT_KNOWN = "not known"
WITH_NEXT = "with the next one's"
When = Callable[[float], str]  # formats Unix time for the reader
NAMED = (
    8  # the most nodes of one change that are listed; of further ones only the number is printed
)


class Cost(NamedTuple):
    """A change, and whether the next one includes its cost because no step was done between them."""

    change: MembershipChange
    with_next: bool


class Total(NamedTuple):
    """The known costs of all changes except the starts of tasks, and the number of changes with unknown costs.

    A cost is None if it is known for no change. If *exact* is false, the seconds are upper and the steps lower bounds.
    """

    changes: int
    gap_s: float | None
    gap_unknown: int
    lost_steps: int | None
    lost_unknown: int
    exact: bool


def compute_costs(changes: Sequence[MembershipChange]) -> list[Cost]:
    """Return *changes*, which must be in order, and for each whether the next change includes its cost."""
    costs: list[Cost] = []
    for change in changes:
        ended = change.gap_s is not None or change.first_step is not None
        costs.append(
            Cost(change, not ended and _is_spanned(change.task, change.generation, changes))
        )
    return costs


def _is_spanned(task: int, generation: int, changes: Sequence[MembershipChange]) -> bool:
    """Return whether the gap of a later change began before *generation*, of which no step is known."""
    later = (change for change in changes if (change.task, change.generation) > (task, generation))
    known = next((change for change in later if change.gap_s is not None), None)
    if known is None or known.task != task or known.since is None:
        return False
    # The step before the gap was done in generation `since`, so all generations after it share the gap.
    return known.since < generation


def sum_costs(changes: Sequence[MembershipChange]) -> Total:
    """Add up *changes*, which must be in order. Generations without a record count as changes too."""
    count = unread = 0
    for task, of_task in groupby(changes, lambda change: change.task):
        of_task_changes = list(of_task)
        # Generation 1 is the start of a task, which costs nothing that another job would not pay.
        numbers = range(2, of_task_changes[-1].generation + 1)
        missing = set(numbers).difference(change.generation for change in of_task_changes)
        count += len(numbers)
        unread += sum(not _is_spanned(task, number, of_task_changes) for number in missing)
    own_changes = [
        cost.change for cost in compute_costs(changes) if cost.change.before and not cost.with_next
    ]
    gaps = [change.gap_s for change in own_changes if change.gap_s is not None]
    steps = [change.lost_steps for change in own_changes if change.lost_steps is not None]
    return Total(
        count,
        round(sum(gaps), 3) if gaps else None,
        len(own_changes) - len(gaps) + unread,
        sum(steps) if steps else None,
        len(own_changes) - len(steps) + unread,
        all(change.exact for change in own_changes),
    )


def write_change(change: MembershipChange) -> dict[str, Any]:
    """Return a change as JSON."""
    who = {name: [w._asdict() for w in getattr(change, name)] for name in ("came", "left", "lost")}
    return {**change._asdict(), **who}


def write_changes(changes: Sequence[MembershipChange]) -> dict[str, Any]:
    return {
        "changes": list(map(write_change, changes)),
        "changes_total": sum_costs(changes)._asdict(),
    }


def format_nodes(change: MembershipChange) -> str:
    return f"{change.before} to {change.nodes}" if change.before else str(change.nodes)


def describe_nodes(change: MembershipChange) -> str:
    """Return the nodes that joined, left or were lost, or else the reason why the program was started again."""
    parts = [
        f"{name} {_list_names(getattr(change, name))}"
        for name in ("came", "left", "lost")
        if getattr(change, name)
    ]
    return "; ".join(parts) or change.why


def _list_names(nodes: Sequence[NodeRef]) -> str:
    listed = [f"node {w.node} ({w.host}{', ' + w.why if w.why else ''})" for w in nodes[:NAMED]]
    more = len(nodes) - NAMED
    return ", ".join(listed) + (f" and {more:,} more" if more > 0 else "")


def get_seconds(cost: Cost) -> float | str | None:
    """Return a change's seconds without a step, or a text if they are not exact; None for the start of a task."""
    return _format_amount(cost, cost.change.gap_s, "at most")


def get_steps(cost: Cost) -> float | str | None:
    """Return the number of steps that were repeated after a change, in the same form as `get_seconds`."""
    return _format_amount(cost, cost.change.lost_steps, "at least")


def _format_amount(cost: Cost, value: float | None, bound: str) -> float | str | None:
    if not cost.change.before:
        return None
    if value is None:
        return WITH_NEXT if cost.with_next else NOT_KNOWN
    return value if cost.change.exact else f"{bound} {value:g}"


def format_totals(total: Total) -> tuple[str, str]:
    """Return the texts of the seconds and of the steps that all changes have cost."""
    most, least = ("", "") if total.exact else ("at most ", "at least ")
    gap = None if total.gap_s is None else f"{most}{total.gap_s:,.1f} s"
    again = None if total.lost_steps is None else f"{least}{total.lost_steps:,}"
    return _sum(gap, total.gap_unknown), _sum(again, total.lost_unknown)


def _sum(known: str | None, unknown: int) -> str:
    if known is None:
        return NOT_KNOWN
    return f"{known} ({NOT_KNOWN} for {unknown:,} of them)" if unknown else known


def format_lines(changes: Sequence[MembershipChange], most: int, when: When) -> Iterator[str]:
    """Yield the sum and the last *most* changes as lines of text."""
    if not changes:
        return
    count = sum_costs(changes).changes
    gap, again = format_totals(sum_costs(changes))
    if count:
        yield f"  changes of nodes: {count:,}; without a step: {gap}; steps done again: {again}"
    if len(changes) > most:
        yield f"  these are the last {most} generations: --json has all"
    yield from (_format_line(cost, when) for cost in compute_costs(changes)[-most:])


def _format_line(cost: Cost, when: When) -> str:
    change, gap = cost.change, get_seconds(cost)
    parts = [describe_nodes(change)] if describe_nodes(change) else []
    if change.before:
        unit = "" if change.gap_s is None else " s"
        parts.append(f"without a step: {gap if isinstance(gap, str) else f'{gap:.1f}'}{unit}")
        parts.append(f"steps done again: {get_steps(cost)}")
    begun = f"  task {change.task} generation {change.generation}, {when(change.at)}, {format_nodes(change)} nodes"
    return ": ".join((begun, "; ".join(parts))) if parts else begun
