"""What `runspec status` says of the nodes of a run, and of the tries that each of them took."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from runspec_jobs.diagnostics.render import plain
from runspec_jobs.provider import Attempt, NodeStatus, State

LISTED = 20  # nodes that are all told; of more, only those that failed or were tried again
MOST = 50  # of these


def rows(nodes: Sequence[NodeStatus]) -> list[dict[str, Any]]:
    """Give all of *nodes* for `--json`."""
    return [
        {**node._asdict(), "attempts": [attempt._asdict() for attempt in node.attempts]}
        for node in nodes
    ]


def lines(nodes: Sequence[NodeStatus]) -> Iterator[str]:
    """Give the lines for a reader: few, however many nodes there are."""
    if len(nodes) <= LISTED:
        shown = list(nodes)
    else:
        counts = Counter(str(node.state) for node in nodes)
        yield "  nodes: " + ", ".join(f"{count:,} {state}" for state, count in counts.items())
        shown = [node for node in nodes if node.state is State.FAILED or node.attempt > 1]
    for node in shown[:MOST]:
        yield from _of(node)
    if len(shown) > MOST:
        yield f"  and {len(shown) - MOST:,} more that failed or were tried again: --json has all"


def _of(node: NodeStatus) -> Iterator[str]:
    code = "" if node.exit_code is None else f", exit code {node.exit_code}"
    tries = f", attempt {node.attempt}" if node.attempt > 1 else ""
    yield f"  task {node.task} node {node.rank}: {node.state}{code}{tries}"
    if node.attempt > 1:
        for attempt in node.attempts:
            yield f"    attempt {attempt.number} of {node.attempt}: {_how(attempt)}"
        if taken := sum(attempt.reclaimed for attempt in node.attempts):
            yield f"    spot machine taken away ({taken} {'time' if taken == 1 else 'times'})"


def _how(attempt: Attempt) -> str:
    code = "" if attempt.exit_code is None else f"exit code {attempt.exit_code}"
    reason = "" if attempt.reason == f"exited with code {attempt.exit_code}" else attempt.reason
    return plain("; ".join(text for text in (code, reason) if text) or "no exit code")
