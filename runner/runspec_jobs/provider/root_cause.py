"""Which node says why a job has failed: one that ended by itself, and not one that was ended for it."""

from __future__ import annotations

from collections.abc import Iterable

from runspec_jobs.provider.types import NodeStatus, State

ENDED_BY_OTHERS = {143: 2, 137: 1}  # SIGTERM, and SIGKILL after the grace, unless memory ran out


def blamed(nodes: Iterable[NodeStatus]) -> NodeStatus | None:
    """Return the failed node that says why a job has failed, or None if no node has failed.

    A node that ended by itself comes before one that may have been ended for it.

    >>> first = NodeStatus(0, 0, 1, State.FAILED, exit_code=143)
    >>> blamed([first, NodeStatus(0, 1, 1, State.FAILED, exit_code=3)]).exit_code
    3
    """

    def order(node: NodeStatus) -> int:
        return ENDED_BY_OTHERS.get(node.exit_code, 0) if node.exit_code else 3

    return min((node for node in nodes if node.state is State.FAILED), key=order, default=None)
