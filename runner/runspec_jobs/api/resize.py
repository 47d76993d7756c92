"""Gives nodes of an elastic run back while it goes on, and asks for them again.

The journal has the nodes that are to be away before any request is sent, so that a command that was killed and is
repeated chooses the same ones. What is true is in the store of the run, where other machines see it too.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from functools import partial
from typing import NamedTuple

from runspec_jobs.engine import apply as engine
from runspec_jobs.engine.clients import connect, count_nodes, read_spec
from runspec_jobs.engine.reporter import Reporter
from runspec_jobs.engine.resume import format_command
from runspec_jobs.engine.status import explain_unfinished
from runspec_jobs.errors import Conflict, Unavailable, UnknownOutcome, UsageError
from runspec_jobs.logs.outage import make_pauses
from runspec_jobs.provider import Released, Request, Seat, State, Status, SupportsRelease
from runspec_jobs.provider.node_ends import AWAY as AWAY
from runspec_jobs.state.journal import Journal
from runspec_jobs.state.run_record import Record

LEAVE_S = 900.0  # the longest time for nodes to save and leave
Choose = Callable[[set[Seat], set[Seat]], set[Seat]]  # from the nodes that are away, and that run


class Size(NamedTuple):
    """How many nodes of an elastic run are asked for, how many run, and which were released."""

    asked: int
    present: int
    released: Sequence[Seat]


def measure(record: Record, status: Status) -> Size | None:
    """Return the size of a run with that *status*; None if the run is not elastic, or has no nodes in its status."""
    spec = read_spec(record)
    if spec is None or not spec.cluster.nodes.elastic or not status.nodes or status.state.terminal:
        return None
    away = tuple(sorted(node[:2] for node in status.nodes if node.reason == AWAY))
    nodes, tasks = count_nodes(record)
    return Size(nodes * tasks - len(away), len(_running(status)), away)


def resize(
    record: Record,
    count: int,
    task: int | None,
    reporter: Reporter,
    sleep: Callable[[float], None] = time.sleep,
) -> Status:
    """Have *count* nodes of each task, or of *task* alone, and return the status when all others have left.

    Raises UsageError if the run is not elastic, has ended, or may not have so many nodes.
    """
    tasks, bounds = _demand_elastic(record, task), record.spec.cluster.nodes
    if not bounds.min <= count <= bounds.max:
        what = f"{record.run} may have {bounds.min} to {bounds.max} nodes (got {count})"
        raise UsageError(what, "its spec says so: cluster.nodes")

    def choose(away: set[Seat], running: set[Seat]) -> set[Seat]:
        each = (_chosen(each, bounds.max, count, away, running) for each in tasks)
        return {seat for seat in away if seat[0] not in tasks}.union(*each)

    return _change(record, choose, reporter, sleep)


def _chosen(
    task: int, most: int, count: int, away: set[Seat], running: set[Seat]
) -> Iterable[Seat]:
    """Return the nodes of *task* that are away when *count* of *most* are asked for.

    Nodes that run stay if possible, and so do those with the lowest numbers.
    """
    seats = [(task, rank) for rank in range(most)]
    return sorted(seats, key=lambda seat: (seat in away, seat not in running, seat))[count:]


def release(
    record: Record,
    nodes: Collection[int],
    task: int | None,
    reporter: Reporter,
    sleep: Callable[[float], None] = time.sleep,
) -> Status:
    """Have *nodes* of each task, or of *task* alone, leave; return the status when they have left.

    Raises UsageError if there are no such nodes, or if too few would be left.
    """
    tasks, bounds = _demand_elastic(record, task), record.spec.cluster.nodes
    unknown = sorted(node for node in set(nodes) if not 0 <= node < bounds.max)
    if unknown:
        what = f"{record.run} has no node {unknown[0]}"
        raise UsageError(what, f"its nodes are 0 to {bounds.max - 1}: see runspec status")

    def choose(away: set[Seat], _: set[Seat]) -> set[Seat]:
        chosen = away | {(each, node) for each in tasks for node in nodes}
        left = bounds.max - max(Counter(seat[0] for seat in chosen).values(), default=0)
        if left < bounds.min:
            least = f"{bounds.min} node{'s' * (bounds.min != 1)}"
            what = f"{record.run} needs {least}, and {left} would be left"
            raise UsageError(what, f"ask for more nodes first: runspec resize {record.run} N")
        return chosen

    return _change(record, choose, reporter, sleep)


def _demand_elastic(record: Record, task: int | None) -> Sequence[int]:
    """Return the tasks to change: all, or *task* alone. Raise UsageError if the run has no nodes that may leave."""
    if not record.spec.cluster.nodes.elastic:
        what = f"{record.run} is not elastic: all of its nodes run from the beginning to the end"
        raise UsageError(what, "a job with cluster.nodes: {min: 1, max: 4} is elastic")
    _, tasks = count_nodes(record)
    if task is not None and not 0 <= task < tasks:
        raise UsageError(f"{record.run} has no task {task}", f"its tasks are 0 to {tasks - 1}")
    return range(tasks) if task is None else [task]


def _change(
    record: Record, choose: Choose, reporter: Reporter, sleep: Callable[[float], None]
) -> Status:
    client = connect(record)[1]
    if not isinstance(client, SupportsRelease):
        what = f"'{record.plan.provider}' cannot give nodes of a job back"
        raise Unavailable(what, f"runspec cancel {record.run} ends all of them")
    hands = engine.ApplyContext(client, reporter, sleep=sleep)
    with record.open_journal(reporter.wait) as journal:
        status = _demand_alive(record, journal, hands)
        answers, steps = journal.memory.answers, record.plan.steps

        def submits(operation: str) -> Sequence[Request]:
            found = (step.do for step in steps if step.do.operation == operation)
            return [engine.fill_request(do, answers) for do in found]

        ask = partial(client.release, record.run, submits=submits)
        found, resizing = ask((), ()), journal.memory.resizing
        before = set(found.away) if resizing is None else resizing
        away = choose(before, _running(status))
        back = {*found.away, *journal.memory.returning} - away
        if back and found.never_back:
            way = format_command(record)
            hint = f"runspec cancel {record.run}, and then {way}, which has all nodes"
            raise Unavailable(found.never_back, hint)
        if resizing != away or back != journal.memory.returning:
            journal.add("resize", away=sorted(away), back=sorted(back))
    return _carry_out(record, partial(ask, away, back), away, hands, reporter)


def _demand_alive(record: Record, journal: Journal, hands: engine.ApplyContext) -> Status:
    """Return the status of a run that has not ended. Raise UsageError if it has, or was not submitted."""
    memory = journal.memory
    if not engine.is_made(record.plan, memory):
        raise UsageError(f"{record.run} has not started: {explain_unfinished(memory)}")
    status = memory.status or hands.client.state(record.run)
    if memory.want != "run" or status.state.terminal:
        state = status.state if status.state.terminal else f"to be ended: {memory.want}"
        raise UsageError(f"{record.run} is {state}: its nodes cannot be changed any more")
    return status


def _carry_out(
    record: Record,
    ask: Callable[[], Released],
    away: set[Seat],
    hands: engine.ApplyContext,
    reporter: Reporter,
) -> Status:
    """Repeat the requests until the nodes have left, and those that come back are asked for; or the run has ended."""
    end, pauses = hands.clock() + LEAVE_S, make_pauses(engine.LOOK_S, engine.LONGEST_LOOK_S)
    while True:
        with record.open_journal(reporter.wait) as journal:
            if journal.memory.resizing != away:
                what = f"another command has changed the nodes of {record.run} meanwhile"
                raise Conflict(what, f"runspec status {record.run} shows them")
            found = engine.retry(ask, hands)
            status = hands.client.state(record.run)
            if status.state.terminal or (not found.leaving and set(found.away) == away):
                journal.add("resized")
                return status
        if hands.clock() > end:
            left = ", ".join(str(rank) for _, rank in sorted(found.leaving))
            what = f"nodes of {record.run} have not left yet: {left}"
            raise UnknownOutcome(what, "run the same command again")
        hands.sleep(next(pauses))


def _running(status: Status) -> set[Seat]:
    return {node[:2] for node in status.nodes if node.state is State.RUNNING}
