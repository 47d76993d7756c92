"""Starts each job of a chain when the jobs that it needs have ended, and follows all at once."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial

from runspec_agent.base.light_typing import NamedTuple
from runspec_jobs.engine import apply as engine, clients, start_run, wait as waiting
from runspec_jobs.engine.chain.job_states import (
    SKIPPED,
    JobState,
    describe_end,
    describe_unstarted,
    find_record,
    mark_skipped,
    read_state,
)
from runspec_jobs.engine.chain.jobs import ChainJobs, make_parent
from runspec_jobs.engine.chain.start_reasons import explain_start
from runspec_jobs.engine.log_lines import Joined, LogLine
from runspec_jobs.engine.reporter import Reporter
from runspec_jobs.engine.resume import Wanted
from runspec_jobs.engine.source_runs import find_run, source_run, unended_run
from runspec_jobs.engine.start_run import Started
from runspec_jobs.engine.status import read_full_status
from runspec_jobs.errors import RunspecError, UsageError
from runspec_jobs.load.inputs import PlanInputs, resolve_runs
from runspec_jobs.load.run_mounts import SourceRun
from runspec_jobs.plan import model
from runspec_jobs.provider import Client, State, Status
from runspec_jobs.spec.chain_rules import conditions
from runspec_jobs.spec.needs import Condition
from runspec_jobs.state import chain_record, run_group
from runspec_jobs.state.chain_record import ChainRecord
from runspec_jobs.state.run_record import Record

CANCELLED = "the chain was cancelled"


@dataclass(frozen=True)
class Listener:
    """What the caller hears: each line of a job's log, and each job when it starts and when it has ended.

    *confirm* is called before a job is started, and may raise an error.
    """

    line: Callable[[str, LogLine], None]
    status: Callable[[JobState], None]
    reporter: Reporter
    confirm: Callable[[], None] = lambda: None


class _NotStarted(RunspecError):
    """The chain was cancelled, or another apply of it has started the job."""

    def __init__(self) -> None:
        super().__init__("the job is not started")


class _Begun(NamedTuple):
    """The run of a job: with the client that has just answered for it, or with the status with which it has ended."""

    record: Record
    client: Client | None = None
    ended: Status | None = None


class Scheduler:
    """Starts the jobs of one chain, and follows each in a thread of its own.

    With *detach*, only the jobs are started that can start now; with *new*, all are started again. A run begins with
    the saves that are *wanted*, if any. *skipped* says why jobs were skipped in the apply before.
    """

    def __init__(
        self,
        chain: ChainJobs,
        record: ChainRecord,
        listener: Listener,
        *,
        new: bool,
        detach: bool,
        wanted: Wanted | None,
        skipped: Mapping[str, str],
    ) -> None:
        self.chain, self.record, self.listener = chain, record, listener
        self.new, self.detach, self.wanted = new, detach, wanted
        self.skipped = skipped
        self.known = dict(record.runs)  # but for those that another apply has started meanwhile
        self.done: dict[str, JobState] = {}
        self.running: dict[str, Record] = {}
        self.held: dict[str, JobState] = {}  # that have ended before jobs that they need
        self.ends: queue.Queue[tuple[str, Status | BaseException]] = queue.Queue()
        self.error: BaseException | None = None

    def run(self) -> list[JobState]:
        """Return how all jobs have ended. Raises the first error of a job when those that run have ended.

        Raises CredentialsError before the first job starts if one that is still to start has no secret.
        """
        for job, made in self.chain.inputs.items():
            if self._must_start(job):
                plan = model.make_plan(made.provider, made.spec, model.PREVIEW, made.facts)
                engine.demand_secrets(plan.steps)
        while True:
            self._start_ready()
            if not self.running or self.detach:
                break
            self._take_end()
        if self.error is not None:
            raise self.error
        return [self.done.get(job) or self._describe_left(job) for job in self.chain.inputs]

    def _describe_left(self, job: str) -> JobState:
        record = self.running.get(job)
        if record is None:
            return describe_unstarted(self.record, job)
        return JobState(job, str(State.WAITING), "", self.record.needs[job], record)

    def _start_ready(self) -> None:
        """Start every job whose needs are met, and settle those that can never start."""
        again = True
        while again and self.error is None:
            again = False
            for job in self.chain.inputs:
                if job in self.done or job in self._unsettled():
                    continue
                why = self._why_never(job)
                if why:
                    self._settle(JobState(job, SKIPPED, why, self.record.needs[job]))
                    again = True
                elif self._is_ready(job):
                    try:
                        # A job that has ended long ago may have made others ready.
                        again = self._start(job) or again
                    except RunspecError as exc:
                        self.error = exc
                        return

    def _find_end(self, job: str) -> JobState | None:
        """Return how a job that another one needs has ended, also one that is not of this apply; None if it has not."""
        if job in self.chain.inputs:
            return self.done.get(job)
        record = find_record(self.record, job)
        return None if record is None else read_state(self.record, job, record)

    def _is_ready(self, job: str) -> bool:
        """Return whether a job can be submitted: its service waits for the jobs that have not ended."""
        # A job that may not have to run again is not submitted before its parents have ended: only then their
        # outputs can be compared with those that it has read.
        by_service = [] if self._may_be_done(job) else self.chain.waits_by_service(job)
        return all(
            name in self.running and name in by_service if end is None else end.has_met(how)
            for name, how, end in self._list_ends(job)
        )

    def _must_start(self, job: str) -> bool:
        """Return whether a job has no run yet, or one that has failed or was cancelled."""
        record = None if self.new else find_record(self.record, job)
        status = None if record is None else record.read_memory().status
        return record is None or (status is not None and status.state is not State.SUCCEEDED)

    def _may_be_done(self, job: str) -> bool:
        """Return whether a job need not run again if the jobs that run now save what they did before."""
        record = None if self.new or self.detach else find_record(self.record, job)
        status = None if record is None else record.read_memory().status
        return status is not None and status.state is State.SUCCEEDED

    def _list_ends(self, job: str) -> list[tuple[str, Condition, JobState | None]]:
        needs = self.chain.needs(job).items()
        return [(name, how, self._find_end(name)) for name, how in needs]

    def _why_never(self, job: str) -> str:
        """Return why a job cannot start any more, or an empty string."""
        now = chain_record.current(self.record)
        if now is None or now.want != "run":
            return CANCELLED
        for name, how, end in self._list_ends(job):
            if end is not None and end.is_over and not end.has_met(how):
                return describe_end(name, end.state)
        return ""

    def _start(self, job: str) -> bool:
        """Start a job; return whether it has already ended, so that others may be ready."""
        made = self._resolve(job)
        parents = [
            make_parent(self.running[name].plan, how, paired=self.chain.is_paired(job, name))
            for name, how, end in self._list_ends(job)
            if end is None
        ]
        made = replace(made, facts=made.facts._replace(parents=tuple(parents)))
        before = find_record(self.record, job)
        why = explain_start(before, made, self.skipped.get(job, ""), new=self.new)
        needs = self.record.needs[job]
        begun = self._begin(job, made)
        if begun is None:
            self._settle(JobState(job, SKIPPED, CANCELLED, needs))
            return True
        if begun.ended is not None:
            state = str(begun.ended.state)
            self._settle(JobState(job, state, begun.ended.reason, needs, begun.record, begun.ended))
            return True
        self.running[job] = begun.record
        self.listener.status(JobState(job, str(State.WAITING), why, needs, begun.record))
        if not self.detach:
            # A thread for each job, because each waits for requests of its own service.
            threading.Thread(target=self._follow, args=(job, begun), daemon=True).start()
        return False

    def _begin(self, job: str, made: PlanInputs) -> _Begun | None:
        """Start the run of a job, or return the one that another apply has started; None if it is not wanted."""
        while True:
            try:
                started = self._start_run(job, made)
                begun = _Begun(started.record, started.client, started.status)
            except _NotStarted:
                if self.record.want != "run":
                    return None
                other = find_record(self.record, job)
                if other is None:
                    # Its apply was killed before it made anything, or it was destroyed.
                    self.known[job] = self.record.runs[job]
                    continue
                status = read_full_status(other)
                begun = _Begun(other, ended=status if status.state.terminal else None)
            self.known[job] = begun.record.run
            return begun

    def _start_run(self, job: str, made: PlanInputs) -> Started:
        def note_run(run: str) -> None:
            self.record = chain_record.note_run(self.record, job, run, self.known.get(job))
            if self.record.want != "run" or self.record.runs.get(job) != run:
                raise _NotStarted

        run_group.forget(made.spec.name)  # from now on the name means this run
        return start_run.start(
            made,
            made.provider.connect(made.facts),
            self.listener.reporter,
            new=self.new,
            confirm=self.listener.confirm,
            note_run=note_run,
            wanted=self.wanted,
        )

    def _resolve(self, job: str) -> PlanInputs:
        """Return *job* with the outputs of the runs that it mounts."""
        planned = self.chain.inputs[job]

        def find(name: str) -> SourceRun:
            if name not in self.chain.inputs:
                return find_run(name, self.listener.reporter)
            if name in self.running:
                return unended_run(self.running[name])
            record = find_record(self.record, name)
            if record is None:
                raise UsageError(f"the job '{name}' has no run")
            return source_run(record, conditions(planned.spec)[name])

        return resolve_runs(planned, find)

    def _follow(self, job: str, begun: _Begun) -> None:
        joined = Joined(partial(self.listener.line, job))
        try:
            status = waiting.wait(
                begun.record,
                begun.client or clients.connect(begun.record)[1],
                waiting.View(joined),
                self.listener.reporter,
                answered=begun.client is not None,
                publishes=True,
            )
            joined.flush()
            self.ends.put((job, status))
        except BaseException as exc:  # noqa: BLE001 - the thread of the caller raises it
            self.ends.put((job, exc))

    def _take_end(self) -> None:
        """Wait until a job has ended."""
        job, end = self.ends.get()
        record = self.running.pop(job)
        if isinstance(end, BaseException):
            self.error = self.error or end
            return
        needs = self.record.needs[job]
        # Held back: how it counts depends on the ends of its parents, which another thread may report later.
        self.held[job] = JobState(job, str(end.state), end.reason, needs, record, end)
        # A service may end a job before this machine has noticed how its parents have ended.
        again = True
        while again:
            again = False
            for name in self.chain.inputs:
                if name in self.held and not self.held[name].needs.keys() & self._unsettled():
                    self._settle(mark_skipped(self.held.pop(name), self.done))
                    again = True

    def _unsettled(self) -> set[str]:
        return {*self.running, *self.held}

    def _settle(self, one: JobState) -> None:
        if one.state == SKIPPED and one.record is None and one.reason != CANCELLED:
            self.record = chain_record.note_skip(self.record, one.job, one.reason)
        self.done[one.job] = one
        self.listener.status(one)
