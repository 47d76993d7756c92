"""The status of a run: from its journal if it has ended, else from its service."""

from __future__ import annotations

import time
from collections.abc import Sequence

from runspec_jobs.engine import apply as engine
from runspec_jobs.engine.clients import connect, make_reconciler
from runspec_jobs.errors import CredentialsError, Damaged, RunspecError
from runspec_jobs.load import registry
from runspec_jobs.provider import State, Status, SupportsUsage
from runspec_jobs.report.usage import Asked, Used
from runspec_jobs.state import attempt_history
from runspec_jobs.state.journal import RunState
from runspec_jobs.state.run_record import Record

SAMPLED_S = 5.0  # an attempt of that length has samples
REPEAT = "if interrupted, run the same apply again to continue it"
UNKNOWN = "its state is not known now: {}"


def read_known_status(of: Record, memory: RunState) -> Status:
    """Return the status of a run: from its journal if it has ended, else from its service.

    Without an answer, its state is waiting, and the reason says so. Raise CredentialsError if the service refuses the
    login, which is not to look like a run that waits.
    """
    if memory.status is not None or memory.deleted:
        return memory.status or Status(State.GONE)
    hint = "" if engine.is_made(of.plan, memory) else explain_unfinished(memory)
    if hint and not engine.is_submitted(of.plan, memory):
        return Status(State.WAITING, hint)
    try:
        _, client, _ = connect(of)
        found = client.state(of.run)
        return found if not hint else _adjust_partial(found, hint)
    except (CredentialsError, Damaged):
        raise
    except RunspecError as exc:
        return Status(State.WAITING, UNKNOWN.format(exc.message))


def explain_unfinished(memory: RunState) -> str:
    """Return why a run is not submitted completely, and what to do."""
    if memory.refused:
        return f"its apply was refused: {memory.refused}"
    return f"its apply was interrupted or is still running; {REPEAT}"


def _adjust_partial(found: Status, hint: str) -> Status:
    """Return the status of a run whose last jobs are not submitted: unless cancelled, it has not ended."""
    if found.state is State.CANCELLED:
        return found
    if found.state is State.GONE:  # another machine has destroyed the jobs that were submitted
        return Status(State.WAITING, hint)
    if found.state.terminal:
        return Status(State.RUNNING, hint, None, found.nodes)
    return found._replace(reason=hint)


def add_nodes(of: Record, memory: RunState, found: Status) -> Status:
    """Return the status with its nodes from the service, if it has none and the service knows them."""
    if found.nodes or memory.deleted or not engine.is_submitted(of.plan, memory):
        return found
    try:
        with registry.translate_import_errors():
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
    memory = of.read_memory()
    if memory.status is not None or memory.deleted or not engine.is_submitted(of.plan, memory):
        return ()
    return make_reconciler(connect(of)[1], of.run)()


def is_known(found: Status) -> bool:
    """Return whether the service, or the journal, has answered for *found*."""
    return not found.reason.startswith(UNKNOWN.format(""))


def read_full_status(of: Record) -> Status:
    """Return the status of a run with its nodes, as far as the service knows them."""
    memory = of.read_memory()
    return add_nodes(of, memory, read_known_status(of, memory))


def read_used(of: Record, status: Status, most: int | None) -> Used | None:
    """Return what the nodes of a run used, of *most* nodes or all; None if it has not started or was deleted.

    *status* is its status. One or two requests list and read the records; if that fails, `why` says so.
    """
    memory = of.read_memory()
    known = status.state not in (State.WAITING, State.GONE)
    if not known or memory.deleted or not engine.is_submitted(of.plan, memory):
        return None
    try:
        wanted, client = of.spec.cluster, connect(of)[1]
        asked = Asked(wanted.cpus, wanted.memory, wanted.disk, wanted.gpus)
        if not isinstance(client, SupportsUsage):
            why = f"no usage: jobs of '{of.plan.provider}' have no agent that samples"
            return Used(asked, why=why)
        found = client.usage(of.run, most)
    except RunspecError as exc:
        return Used(Asked(), why=f"not known: {exc.message}")
    return Used(asked, found.nodes, found.total, "" if found.nodes else _explain_unsampled(status))


def _explain_unsampled(status: Status) -> str:
    """Return why a run has no samples, if it was not just too short."""
    if not status.state.terminal:
        return "no samples yet"
    times = [(one.began_s, one.ended_s) for node in status.nodes for one in node.attempts]
    long = any(began and ended and ended - began > SAMPLED_S for began, ended in times)
    return "not sampled: see docs/usage.md" if long else ""
