"""Finds the node that caused the failure of a job, as opposed to nodes that were stopped because of it."""

from __future__ import annotations

from collections.abc import Iterable

from runspec_jobs.provider.types import NodeStatus, State

ENDED_BY_OTHERS = {
    143: 2,
    137: 1,
}  # SIGTERM; SIGKILL after the grace period, or when memory ran out


def blamed(nodes: Iterable[NodeStatus]) -> NodeStatus | None:
    """Return the failed node that probably caused the failure of the job, or None if no node has failed.

    A node that failed by itself is preferred to one that may have been stopped because of another.

    >>> first = NodeStatus(0, 0, 1, State.FAILED, exit_code=143)
    >>> blamed([first, NodeStatus(0, 1, 1, State.FAILED, exit_code=3)]).exit_code
    3
    """

    def order(node: NodeStatus) -> int:
        return ENDED_BY_OTHERS.get(node.exit_code, 0) if node.exit_code else 3

    return min((node for node in nodes if node.state is State.FAILED), key=order, default=None)
