"""The attempts of a run in its journal: services forget them, and what they cost is computed from them."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator, Sequence

from runspec_jobs.errors import Damaged, Newer
from runspec_jobs.machines import spent
from runspec_jobs.machines.spent import Outcome, Rates, Span, Spent
from runspec_jobs.provider import Attempt, NodeStatus, State, Status
from runspec_jobs.provider.node_ends import AWAY
from runspec_jobs.state.journal import Journal, RunState
from runspec_jobs.state.run_record import Record

OUTCOMES = {State.SUCCEEDED: Outcome.SUCCEEDED, State.CANCELLED: Outcome.CANCELLED}
SEEN_EVERY_S = 300.0  # that attempts still run is noted again after this time
FIRST_AFTER_S = 30.0  # of following: a run that ends sooner is noted at its end alone
Key = tuple[int, int, int]


WRITE_EVERY_S = (
    10.0  # of changes of nodes while a run is followed; each look reads the whole journal
)


def read_spans(memory: RunState) -> list[Span]:
    """Return the attempts on record, ordered by task, node and number. Raises Damaged if they cannot be read."""
    with _read("attempts"):
        return spent.read_spans(memory.attempts[key] for key in sorted(memory.attempts))


def read_rates(record: Record) -> Rates:
    """Return the prices that the run was planned with. Raises Damaged if they cannot be read."""
    with _read("prices"):
        return spent.read_rates(record.machines, record.plan.provider)


@contextlib.contextmanager
def _read(part: str) -> Iterator[None]:
    try:
        yield
    except (KeyError, TypeError, ValueError, AttributeError) as exc:
        raise Damaged(f"the {part} in its record cannot be read") from exc


def compute_cost(
    record: Record, status: Status | None = None, seen_s: float = 0.0, since_s: float | None = None
) -> Spent | None:
    """Return what the attempts of a run have cost since *since_s*, or None if it has no price at all.

    *status* is newer than the record, and was seen at *seen_s*; nothing is written. Raises Damaged if the record
    cannot be read.
    """
    priced = read_rates(record)
    if not priced.known:
        return None
    known = read_spans(record.read_memory())
    spans = known if status is None else merge_spans(known, status, seen_s)
    return spent.compute_spent(spans, priced, since_s)


def compute_task_costs(
    record: Record, status: Status, seen_s: float
) -> dict[int, tuple[float | None, float | None]]:
    """Return the seconds from the first start to the last end of each task, and the most that it has cost in USD.

    None stands for what is not known. A task without a known attempt is left out.
    """
    spans = merge_spans(read_spans(record.read_memory()), status, seen_s)
    priced = read_rates(record)
    by_task: dict[int, list[Span]] = {}
    for span in spans:
        by_task.setdefault(span.task, []).append(span)
    return {
        task: (_measure_task(of), _compute_usd(of, priced) if priced.known else None)
        for task, of in by_task.items()
    }


def _measure_task(spans: Sequence[Span]) -> float | None:
    began = [span.began_s for span in spans if span.began_s is not None]
    ended = [at for span in spans if (at := span.ended_s or span.seen_s) is not None]
    return max(ended) - min(began) if began and ended else None


def _compute_usd(spans: Sequence[Span], priced: Rates) -> float | None:
    part = spent.sum_spent(spent.compute_spent(spans, priced))
    return float(part.most_usd) if part.is_priced else None


def measure_seconds(memory: RunState, status: Status | None, now_s: float) -> float | None:
    """Return the seconds from the first start of a node to the end of a run, or to *now_s*; None if unknown.

    *status* is newer than the record. If no service has reported a start, the submission of the job counts.
    """
    is_over = memory.status is not None or (status is not None and status.state.terminal)
    if memory.status is not None or status is None:
        # Nothing is newer. A list may have many such runs, so what they need not have is not made.
        kept = memory.attempts.values()
        began = [event["began_s"] for event in kept if "began_s" in event]
        ended = [event["ended_s"] for event in kept if "ended_s" in event]
    else:
        spans = merge_spans(read_spans(memory), status, now_s)
        began = [span.began_s for span in spans if span.began_s is not None]
        ended = [span.ended_s for span in spans if span.ended_s is not None]
    began = began or sorted(memory.done_at.values())[-1:]
    if not began or (is_over and not ended and memory.ended_at is None):
        return None
    end_s = (max(ended) if ended else memory.ended_at or now_s) if is_over else now_s
    return max(0.0, end_s - min(began))


def may_grow(memory: RunState) -> bool:
    """Return whether a run may have cost more than its record says: it ran when it was last seen, or never was seen."""
    if memory.status is not None or memory.deleted or not memory.attempted:
        return False
    spans = read_spans(memory)
    return not spans or any(span.outcome is Outcome.RUNNING for span in spans)


def keep(journal: Journal, status: Status, seen_s: float) -> None:
    """Write the attempts in *status*, which was seen at *seen_s*, to the journal, with what all have cost so far.

    Only attempts of which something new is known are written, or that attempts still run.
    """
    before = {span[:3]: span for span in read_spans(journal.memory)}
    spans = merge_spans(list(before.values()), status, seen_s)
    new = [span for span in spans if _drop_time(before.get(span[:3])) != _drop_time(span)]
    if new:
        journal.add("attempts", attempts=spent.write_spans(new), **_sum(journal, spans))
    elif any(
        ((span.seen_s or 0) - (before[span[:3]].seen_s or 0) >= SEEN_EVERY_S) for span in spans
    ):
        journal.add("seen")


def _sum(journal: Journal, spans: Sequence[Span]) -> dict[str, object]:
    """Return what *spans* have cost as a field of an event; no field if there is no price, or it cannot be read."""
    try:
        priced = read_rates(Record(journal.path.parent))
    except (Damaged, Newer):
        return {}
    if not priced.known:
        return {}
    return {"cost": spent.write_part(spent.sum_spent(spent.compute_spent(spans, priced)))}


class Keeper:
    """Writes the attempts of a run to its journal while the run is followed, whenever its nodes have changed."""

    def __init__(self, record: Record, clock: Callable[[], float]) -> None:
        self.of, self.clock = record, clock
        self._nodes: tuple[NodeStatus, ...] = ()
        self._begun_s, self._kept_s = clock(), -math.inf

    def __call__(self, status: Status) -> None:
        """Write the attempts in *status*, except those of a run that has ended: who notes its end writes them."""
        now = self.clock()
        # A short run is written once, at its end.
        if now - self._begun_s < FIRST_AFTER_S:
            return
        since_s = now - self._kept_s
        is_new = since_s >= (SEEN_EVERY_S if status.nodes == self._nodes else WRITE_EVERY_S)
        if status.nodes and is_new and not status.state.terminal:
            self._nodes, self._kept_s = status.nodes, now
            look(self.of, status, now)


def look(record: Record, status: Status, seen_s: float) -> None:
    """Write the attempts in *status* to the journal, if it can be written now."""

    def write(opened: Journal) -> None:
        if not opened.memory.deleted:
            keep(opened, status, seen_s)

    if status.nodes:
        record.note(write)


def merge_spans(known: Sequence[Span], status: Status, seen_s: float) -> list[Span]:
    """Return the attempts in *known* and *status*, which is newer and was seen at *seen_s*.

    Services forget attempts, and times of attempts, so what is known stays. An attempt that ran and of which *status*
    says nothing more has ended at an unknown time.
    """
    by_key: dict[Key, Span] = {span[:3]: span for span in known}
    # A service may report equal nodes as one entry with a count.
    each = [
        node._replace(rank=node.rank + n) for node in status.nodes for n in range(node.machines)
    ]
    for node in each:
        for span in _list_spans(node, seen_s):
            by_key[span[:3]] = _join_spans(by_key.get(span[:3]), span)
    places = {node[:2]: node for node in each}
    for key, span in by_key.items():
        if span.outcome is Outcome.RUNNING:
            by_key[key] = span._replace(
                outcome=_judge_afterwards(span, places.get(key[:2]), status)
            )
    return [by_key[key] for key in sorted(by_key)]


def _list_spans(node: NodeStatus, seen_s: float) -> Iterator[Span]:
    for attempt in node.attempts:
        outcome = _judge_outcome(node, attempt)
        yield Span(node.task, node.rank, attempt.number, outcome, attempt.began_s, attempt.ended_s)
    if node.state is State.RUNNING and all(
        attempt.number != node.attempt for attempt in node.attempts
    ):
        yield Span(node.task, node.rank, node.attempt, Outcome.RUNNING, node.began_s, seen_s=seen_s)


def _judge_outcome(node: NodeStatus, attempt: Attempt) -> Outcome:
    if attempt.reclaimed:
        return Outcome.RECLAIMED
    if attempt.reason == AWAY:
        return Outcome.CANCELLED
    is_last = attempt.number == node.attempt and node.state.terminal
    if attempt.exit_code == 0 or (is_last and node.state is State.SUCCEEDED):
        return Outcome.SUCCEEDED
    return OUTCOMES.get(node.state, Outcome.FAILED) if is_last else Outcome.FAILED


def _join_spans(before: Span | None, now: Span) -> Span:
    """Return *now* with the times that only *before* has; an attempt that has ended does not run again."""
    if before is None:
        return now
    if now.outcome is Outcome.RUNNING and before.outcome is not Outcome.RUNNING:
        return before
    times = ("began_s", "ended_s", "seen_s")
    kept = {name: getattr(before, name) for name in times if getattr(now, name) is None}
    return now._replace(**kept, machine=now.machine or before.machine)


def _judge_afterwards(span: Span, node: NodeStatus | None, status: Status) -> Outcome:
    """Return how an attempt ended that ran before and is not among the ended attempts, or that it still runs."""
    # The node has begun another attempt, so this one has failed, whatever the service has forgotten.
    if node is not None and node.attempt != span.attempt:
        return Outcome.FAILED
    if node is not None:  # a job of Slurm that is suspended waits, and then goes on
        is_over = node.state.terminal
        return OUTCOMES.get(node.state, Outcome.FAILED) if is_over else Outcome.RUNNING
    if status.state.terminal:
        return OUTCOMES.get(status.state, Outcome.FAILED)
    return Outcome.RUNNING


def _drop_time(span: Span | None) -> Span | None:
    """Return *span* without the time at which it was seen."""
    return None if span is None else span._replace(seen_s=None)
