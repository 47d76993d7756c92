"""Computes the costs of membership changes of elastic jobs, and formats them. All functions are pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from typing import Any, NamedTuple

from runspec_jobs.provider import MembershipChange, NodeRef

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


def compute_costs(found: Sequence[MembershipChange]) -> list[Cost]:
    """Return *found*, which must be in order, and for each whether the next change includes its cost."""
    told: list[Cost] = []
    for one in found:
        ended = one.gap_s is not None or one.first_step is not None
        told.append(Cost(one, not ended and _is_spanned(one.task, one.generation, found)))
    return told


def _is_spanned(task: int, generation: int, found: Sequence[MembershipChange]) -> bool:
    """Return whether the gap of a later change began before *generation*, of which no step is known."""
    later = (one for one in found if (one.task, one.generation) > (task, generation))
    known = next((one for one in later if one.gap_s is not None), None)
    if known is None or known.task != task or known.since is None:
        return False
    return known.since < generation


def sum_costs(found: Sequence[MembershipChange]) -> Total:
    """Add up *found*, which must be in order. Generations without a record count as changes too."""
    count = unread = 0
    for task, of_task in groupby(found, lambda one: one.task):
        told = list(of_task)
        numbers = range(2, told[-1].generation + 1)
        missing = set(numbers).difference(one.generation for one in told)
        count += len(numbers)
        unread += sum(not _is_spanned(task, number, told) for number in missing)
    own = [
        cost.change for cost in compute_costs(found) if cost.change.before and not cost.with_next
    ]
    gaps = [one.gap_s for one in own if one.gap_s is not None]
    steps = [one.lost_steps for one in own if one.lost_steps is not None]
    return Total(
        count,
        round(sum(gaps), 3) if gaps else None,
        len(own) - len(gaps) + unread,
        sum(steps) if steps else None,
        len(own) - len(steps) + unread,
        all(one.exact for one in own),
    )


def write_change(one: MembershipChange) -> dict[str, Any]:
    """Return a change as JSON."""
    who = {name: [w._asdict() for w in getattr(one, name)] for name in ("came", "left", "lost")}
    return {**one._asdict(), **who}


def write_changes(found: Sequence[MembershipChange]) -> dict[str, Any]:
    return {"changes": list(map(write_change, found)), "changes_total": sum_costs(found)._asdict()}


def format_nodes(one: MembershipChange) -> str:
    return f"{one.before} to {one.nodes}" if one.before else str(one.nodes)


def describe_nodes(one: MembershipChange) -> str:
    """Return the nodes that joined, left or were lost, or else the reason why the program was started again."""
    parts = [
        f"{name} {_list_names(getattr(one, name))}"
        for name in ("came", "left", "lost")
        if getattr(one, name)
    ]
    return "; ".join(parts) or one.why


def _list_names(found: Sequence[NodeRef]) -> str:
    told = [f"node {w.node} ({w.host}{', ' + w.why if w.why else ''})" for w in found[:NAMED]]
    more = len(found) - NAMED
    return ", ".join(told) + (f" and {more:,} more" if more > 0 else "")


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


def format_totals(found: Total) -> tuple[str, str]:
    """Return the texts of the seconds and of the steps that all changes have cost."""
    most, least = ("", "") if found.exact else ("at most ", "at least ")
    gap = None if found.gap_s is None else f"{most}{found.gap_s:,.1f} s"
    again = None if found.lost_steps is None else f"{least}{found.lost_steps:,}"
    return _sum(gap, found.gap_unknown), _sum(again, found.lost_unknown)


def _sum(known: str | None, unknown: int) -> str:
    if known is None:
        return NOT_KNOWN
    return f"{known} ({NOT_KNOWN} for {unknown:,} of them)" if unknown else known


def format_lines(found: Sequence[MembershipChange], most: int, when: When) -> Iterator[str]:
    """Yield the sum and the last *most* changes as lines of text."""
    if not found:
        return
    count = sum_costs(found).changes
    gap, again = format_totals(sum_costs(found))
    if count:
        yield f"  changes of nodes: {count:,}; without a step: {gap}; steps done again: {again}"
    if len(found) > most:
        yield f"  these are the last {most} generations: --json has all"
    yield from (_format_line(cost, when) for cost in compute_costs(found)[-most:])


def _format_line(cost: Cost, when: When) -> str:
    one, gap = cost.change, get_seconds(cost)
    told = [describe_nodes(one)] if describe_nodes(one) else []
    if one.before:
        unit = "" if one.gap_s is None else " s"
        told.append(f"without a step: {gap if isinstance(gap, str) else f'{gap:.1f}'}{unit}")
        told.append(f"steps done again: {get_steps(cost)}")
    begun = (
        f"  task {one.task} generation {one.generation}, {when(one.at)}, {format_nodes(one)} nodes"
    )
    return ": ".join((begun, "; ".join(told))) if told else begun
