"""What `runspec status` and `runspec report` say of the changes of an elastic job's nodes."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from runspec_jobs.cli import apply
from runspec_jobs.diagnostics.render import plain
from runspec_jobs.engine import apply as engine
from runspec_jobs.errors import RunspecError
from runspec_jobs.provider import MembershipChange, SupportsMembershipChanges
from runspec_jobs.report import elastic_costs
from runspec_jobs.state.journal import RunState
from runspec_jobs.state.run_record import Record

LISTED = 20  # of more changes, a status tells the last ones


class Known(NamedTuple):
    """The changes of a run, or why they are not known."""

    changes: Sequence[MembershipChange]
    unknown: str = ""


def known(of: Record, memory: RunState) -> Known | None:
    """Give the changes of the nodes of a run; None where they stay, or there is nothing of it: then nobody is asked."""
    spec = apply.spec(of)
    elastic = spec is not None and spec.cluster.nodes.elastic
    if not elastic or memory.deleted or not engine.is_made(of.plan, memory):
        return None
    try:
        _, client, _ = apply.connect(of)
        if isinstance(client, SupportsMembershipChanges):
            return Known(client.changes(of.run))
    except RunspecError as exc:
        return Known((), exc.message)
    return Known((), f"'{of.plan.provider}' does not tell them")


def to_json(found: Known | None) -> dict[str, Any]:
    """Give what `--json` has beside all else: no list where nobody knows, and why."""
    if found is None:
        return {}
    if found.unknown:
        return {"changes": None, "changes_total": None, "changes_unknown": found.unknown}
    return elastic_costs.to_json(found.changes)


def when(at: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(at))


def lines(found: Known | None) -> Iterator[str]:
    if found is not None and found.unknown:
        yield plain(f"  changes of nodes: {elastic_costs.NOT_KNOWN}: {found.unknown}")
    elif found is not None:
        yield from map(plain, elastic_costs.lines(found.changes, LISTED, when))
