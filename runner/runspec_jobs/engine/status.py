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


def read_known_status(record: Record, memory: RunState) -> Status:
    """Return the status of a run: from its journal if it has ended, else from its service.

    Without an answer, its state is waiting, and the reason says so. Raise CredentialsError if the service refuses the
    login, which is not to look like a run that waits.
    """
    if memory.status is not None or memory.deleted:
        return memory.status or Status(State.GONE)
    hint = "" if engine.is_made(record.plan, memory) else explain_unfinished(memory)
    # Nothing was submitted, so the service need not be asked.
    if hint and not engine.is_submitted(record.plan, memory):
        return Status(State.WAITING, hint)
    try:
        _, client, _ = connect(record)
        status = client.state(record.run)
        return status if not hint else _adjust_partial(status, hint)
    except (CredentialsError, Damaged):
        raise
    except RunspecError as exc:
        return Status(State.WAITING, UNKNOWN.format(exc.message))


def explain_unfinished(memory: RunState) -> str:
    """Return why a run is not submitted completely, and what to do."""
    if memory.refused:
        return f"its apply was refused: {memory.refused}"
    return f"its apply was interrupted or is still running; {REPEAT}"


def _adjust_partial(status: Status, hint: str) -> Status:
    """Return the status of a run whose last jobs are not submitted: unless cancelled, it has not ended."""
    if status.state is State.CANCELLED:
        return status
    if status.state is State.GONE:  # another machine has destroyed the jobs that were submitted
        return Status(State.WAITING, hint)
    if status.state.terminal:
        return Status(State.RUNNING, hint, None, status.nodes)
    return status._replace(reason=hint)


def add_nodes(record: Record, memory: RunState, status: Status) -> Status:
    """Return the status with its nodes from the service, if it has none and the service knows them."""
    if status.nodes or memory.deleted or not engine.is_submitted(record.plan, memory):
        return status
    try:
        with registry.translate_import_errors():
            _, client, _ = connect(record)
            return status._replace(nodes=client.state(record.run).nodes)
    except RunspecError:  # the journal has the end of the run, which is what was asked for
        return status


def reconcile(record: Record, seen: Status | None = None) -> Sequence[str]:
    """End what a run does not need, and record what its service will forget; return a line for each thing ended.

    The attempts in *seen*, a status of just now, are recorded too.
    """
    if seen is not None:
        attempt_history.look(record, seen, time.time())
    memory = record.read_memory()
    if memory.status is not None or memory.deleted or not engine.is_submitted(record.plan, memory):
        return ()
    return make_reconciler(connect(record)[1], record.run)()


def is_known(status: Status) -> bool:
    """Return whether the service, or the journal, has answered for *status*."""
    return not status.reason.startswith(UNKNOWN.format(""))


def read_full_status(record: Record) -> Status:
    """Return the status of a run with its nodes, as far as the service knows them."""
    memory = record.read_memory()
    return add_nodes(record, memory, read_known_status(record, memory))


def read_used(record: Record, status: Status, most: int | None) -> Used | None:
    """Return what the nodes of a run used, of *most* nodes or all; None if it has not started or was deleted.

    *status* is its status. One or two requests list and read the records; if that fails, `why` says so.
    """
    memory = record.read_memory()
    known = status.state not in (State.WAITING, State.GONE)
    if not known or memory.deleted or not engine.is_submitted(record.plan, memory):
        return None
    try:
        wanted, client = record.spec.cluster, connect(record)[1]
        asked = Asked(wanted.cpus, wanted.memory, wanted.disk_bytes, wanted.gpus)
        if not isinstance(client, SupportsUsage):
            why = f"no usage: jobs of '{record.plan.provider}' have no agent that samples"
            return Used(asked, why=why)
        usage = client.usage(record.run, most)
    except RunspecError as exc:
        return Used(Asked(), why=f"not known: {exc.message}")
    return Used(asked, usage.nodes, usage.total, "" if usage.nodes else _explain_unsampled(status))


def _explain_unsampled(status: Status) -> str:
    """Return why a run has no samples, if it was not just too short."""
    if not status.state.terminal:
        return "no samples yet"
    times = [
        (attempt.began_s, attempt.ended_s) for node in status.nodes for attempt in node.attempts
    ]
    long = any(began and ended and ended - began > SAMPLED_S for began, ended in times)
    return "not sampled: see runspec docs usage" if long else ""
