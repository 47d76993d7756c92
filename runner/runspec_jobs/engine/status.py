"""The status of a run: from its journal if it has ended, else from its service."""

from __future__ import annotations

import time
from collections.abc import Sequence

from runspec_jobs.engine import apply as engine
from runspec_jobs.engine.clients import connect, reconciler
from runspec_jobs.errors import Damaged, RunspecError
from runspec_jobs.load import registry
from runspec_jobs.provider import State, Status
from runspec_jobs.state import attempt_history
from runspec_jobs.state.journal import RunState
from runspec_jobs.state.run_record import Record

UNKNOWN = "its state is not known now: {}"


def known_status(of: Record, memory: RunState) -> Status:
    """Return the status of a run: from its journal if it has ended, else from its service."""
    if memory.status is not None or memory.deleted:
        return memory.status or Status(State.GONE)
    if not engine.is_made(of.plan, memory):
        if memory.refused:
            return Status(State.WAITING, f"its apply was refused: {memory.refused}")
        hint = "if interrupted, run the same apply again to continue it"
        return Status(State.WAITING, f"its apply was interrupted or is still running; {hint}")
    try:
        _, client, _ = connect(of)
        return client.state(of.run)
    except Damaged:
        raise
    except RunspecError as exc:
        return Status(State.WAITING, UNKNOWN.format(exc.message))


def with_nodes(of: Record, memory: RunState, found: Status) -> Status:
    """Return the status with its nodes from the service, if it has none and the service knows them."""
    if found.nodes or memory.deleted or not engine.is_made(of.plan, memory):
        return found
    try:
        with registry.extras():
            _, client, _ = connect(of)
            return found._replace(nodes=client.state(of.run).nodes)
    except RunspecError:
        return found


def reconcile(of: Record, seen: Status | None = None) -> Sequence[str]:
    """End what a run does not need, and record what its service will forget; return a line for each thing ended.

    The attempts in *seen*, a status of just now, are recorded too.
    """
    if seen is not None:
        attempt_history.look(of, seen, time.time())
    memory = of.memory()
    if memory.status is not None or memory.deleted or not engine.is_made(of.plan, memory):
        return ()
    return reconciler(connect(of)[1], of.run)()


def is_known(found: Status) -> bool:
    """Return whether the service, or the journal, has answered for *found*."""
    return not found.reason.startswith(UNKNOWN.format(""))


def full_status(of: Record) -> Status:
    """Return the status of a run with its nodes, as far as the service knows them."""
    memory = of.memory()
    return with_nodes(of, memory, known_status(of, memory))
