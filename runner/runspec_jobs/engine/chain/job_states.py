"""How the jobs of a chain are, and whether that is what the jobs after them need."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from runspec_agent.base.light_typing import NamedTuple
from runspec_jobs.engine.source_runs import meets
from runspec_jobs.engine.status import read_full_status
from runspec_jobs.provider import State, Status
from runspec_jobs.spec.needs import Condition
from runspec_jobs.state import run_record
from runspec_jobs.state.chain_record import ChainRecord
from runspec_jobs.state.run_record import Record

SKIPPED, NOT_STARTED = "skipped", "not-started"  # in place of a `State`


def describe_end(name: str, state: str) -> str:
    """Return how a job or a run has ended, as a clause.

    >>> describe_end("train", "failed"), describe_end("train", "cancelled")
    ('train has failed', 'train was cancelled')
    """
    return f"{name} {'was' if state in (SKIPPED, State.CANCELLED) else 'has'} {state}"


class JobState(NamedTuple):
    """One job of a chain. *state* is a `State`, `skipped` or `not-started`; *record* is None if it has no run.

    *needs* has the condition for each job that it needs.
    """

    job: str
    state: str
    reason: str
    needs: Mapping[str, str]
    record: Record | None = None
    status: Status | None = None

    @property
    def is_over(self) -> bool:
        """Whether the job has ended, or will never start."""
        return self.state == SKIPPED or (self.status is not None and self.status.state.terminal)

    def has_met(self, how: Condition) -> bool:
        """Return whether the job has ended as another job demands."""
        if self.state == SKIPPED:
            return how is Condition.ENDED  # as for a service, for which it was cancelled
        return self.status is not None and meets(how, self.status)


def find_record(chain: ChainRecord, job: str) -> Record | None:
    """Return the newest run of a job; None if it has none, or if that was destroyed or cannot be read."""
    run = chain.runs.get(job)
    record = None if run is None else run_record.Record(run_record.find_runs_folder() / run)
    if (
        record is None
        or not record.folder.exists()
        or run_record.find_damage(record)
        or record.read_memory().deleted
    ):
        return None
    return record


def read_all_states(
    chain: ChainRecord, read: Callable[[Record], Status | None] = read_full_status
) -> list[JobState]:
    """Return how each job of a chain is, in order. Raises the errors of *read*, as of services that do not answer."""
    ends: dict[str, JobState] = {}
    for job in chain.needs:
        one = mark_skipped(read_state(chain, job, find_record(chain, job), read), ends)
        if job in chain.skipped and (one.status is None or one.is_over):
            # A run that it has is of an earlier apply.
            one = JobState(job, SKIPPED, chain.skipped[job], one.needs)
        ends[job] = one
    return list(ends.values())


def find_skipped(chain: ChainRecord) -> dict[str, str]:
    """Return why jobs were skipped in the last apply of them, by name, as far as the records say it."""
    states = read_all_states(chain, lambda record: record.read_memory().status)
    return {one.job: one.reason for one in states if one.state == SKIPPED}


def read_state(
    chain: ChainRecord,
    job: str,
    record: Record | None,
    read: Callable[[Record], Status | None] = read_full_status,
) -> JobState:
    """Return how a job is whose newest run is *record*, and the status of that run what *read* returns."""
    status = None if record is None else read(record)
    if status is None:
        return describe_unstarted(chain, job)
    return JobState(job, str(status.state), status.reason, chain.needs[job], record, status)


def describe_unstarted(chain: ChainRecord, job: str) -> JobState:
    """Return the state of a job without a run."""
    needs = chain.needs[job]
    return JobState(job, NOT_STARTED, f"needs {', '.join(needs)}" if needs else "", needs)


def mark_skipped(one: JobState, ends: Mapping[str, JobState]) -> JobState:
    """Return *one* as skipped if its service ended it because another job has not ended as it needs."""
    if one.status is None or not one.status.state.terminal or one.state == State.SUCCEEDED:
        return one
    if any(node.state is State.SUCCEEDED for node in one.status.nodes):
        return one  # a task that needed one task alone has run
    for name, how in one.needs.items():
        end = ends.get(name)
        if end is not None and end.is_over and not end.has_met(Condition(how)):
            return one._replace(state=SKIPPED, reason=describe_end(name, end.state))
    return one
