"""Formats the nodes of a run with their attempts, and the membership changes of an elastic job."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from runspec_jobs.api.lifecycle import AWAY, Attempt, Membership, NodeStatus, Size, State, Status
from runspec_jobs.diagnostics.render import escape_control
from runspec_jobs.report import elastic_costs

LISTED = 20  # up to this number, all nodes are listed, else those that failed or were retried
MOST = 50  # the most nodes that are listed without --json
CHANGES_LISTED = 20  # the most changes that a status lists, the last ones


def head(run: str, state: str, status: Status) -> Iterator[str]:
    """Yield the first lines of the status of a run; *state* is its state in a word."""
    yield f"{run} {state}"
    if status.reason:
        yield f"  why: {escape_control(status.reason)}"
    if status.exit_code is not None:
        yield f"  exit code: {status.exit_code}"


def rows(nodes: Sequence[NodeStatus]) -> list[dict[str, Any]]:
    """Return all of *nodes* as JSON."""
    return [_json(node) for node in nodes]


def _json(node: NodeStatus) -> dict[str, Any]:
    document = {**node._asdict(), "attempts": [attempt._asdict() for attempt in node.attempts]}
    del document["machines"]  # only what the run has cost depends on it
    return document


def lines(nodes: Sequence[NodeStatus]) -> Iterator[str]:
    """Yield lines of text on *nodes*: a limited number, even for many nodes."""
    if len(nodes) <= LISTED:
        shown = list(nodes)
    else:
        counts = Counter(str(node.state) for node in nodes)
        yield "  nodes: " + ", ".join(f"{count:,} {state}" for state, count in counts.items())
        shown = [node for node in nodes if node.state is State.FAILED or node.attempt > 1]
    for node in shown[:MOST]:
        yield from _of(node)
    if len(shown) > MOST:
        yield f"  and {len(shown) - MOST:,} more that failed or were retried: --json lists all"


def _of(node: NodeStatus) -> Iterator[str]:
    code = "" if node.exit_code is None else f", exit code {node.exit_code}"
    attempts = f", attempt {node.attempt}" if node.attempt > 1 else ""
    state = AWAY if node.reason == AWAY else str(node.state)
    yield f"  task {node.task} node {node.rank}: {state}{code}{attempts}"
    if node.attempt > 1:
        for attempt in node.attempts:
            yield f"    attempt {attempt.number} of {node.attempt}: {_how(attempt)}"
        if reclaims := sum(attempt.reclaimed for attempt in node.attempts):
            yield f"    spot machine reclaimed {reclaims} {'time' if reclaims == 1 else 'times'}"


def _how(attempt: Attempt) -> str:
    code = "" if attempt.exit_code is None else f"exit code {attempt.exit_code}"
    said = f"exited with code {attempt.exit_code}"
    if code and attempt.reason.startswith(said):
        return escape_control(code + attempt.reason.removeprefix(said))
    return escape_control("; ".join(filter(None, (code, attempt.reason))) or "no exit code")


def changes_json(membership: Membership | None) -> dict[str, Any]:
    """Return the changes as further keys of the JSON; if they are not known, the reason instead."""
    if membership is None:
        return {}
    if membership.unknown:
        return {"changes": None, "changes_total": None, "changes_unknown": membership.unknown}
    return elastic_costs.write_changes(membership.changes)


def when(at: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(at))


def change_lines(membership: Membership | None) -> Iterator[str]:
    if membership is not None and membership.unknown:
        yield escape_control(f"  changes of nodes: {elastic_costs.NOT_KNOWN}: {membership.unknown}")
    elif membership is not None:
        yield from map(
            escape_control, elastic_costs.format_lines(membership.changes, CHANGES_LISTED, when)
        )


def size_json(size: Size | None) -> dict[str, Any] | None:
    """Return the size of an elastic run as JSON, if it is known."""
    if size is None:
        return None
    nodes = [{"task": task, "node": rank} for task, rank in size.released]
    return {"asked": size.asked, "present": size.present, "released": nodes}


def size_lines(size: Size | None) -> Iterator[str]:
    """Yield a line with the number of nodes that are asked for and that run, and the released ones."""
    if size is None:
        return
    asked = "1 node is" if size.asked == 1 else f"{size.asked:,} nodes are"
    said = f"{asked} asked for, {size.present:,} {'runs' if size.present == 1 else 'run'}"
    if size.released:
        said += f"; released: {_named(size.released)}"
    yield said


def _named(seats: Sequence[tuple[int, int]]) -> str:
    """Return the released nodes, with their tasks unless all are of the first."""
    if any(task for task, _ in seats):
        return ", ".join(f"{rank} of task {task}" for task, rank in seats)
    return ", ".join(str(rank) for _, rank in seats)
