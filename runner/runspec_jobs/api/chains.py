"""Chains: several jobs in one file or folder, each of which starts when the jobs that it needs have ended."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from runspec_agent.base.light_typing import NamedTuple
from runspec_jobs.api.events import Events, OnEvent
from runspec_jobs.api.jobs import Job, Overrides, Params
from runspec_jobs.api.lifecycle import LogLine, Run
from runspec_jobs.engine import planned_run
from runspec_jobs.engine.chain import job_states, jobs as chain_jobs, start_reasons
from runspec_jobs.engine.chain.job_states import (
    NOT_STARTED as NOT_STARTED,
    SKIPPED as SKIPPED,
    JobState,
)
from runspec_jobs.engine.chain.jobs import ChainJobs
from runspec_jobs.engine.chain.scheduler import Listener, Scheduler
from runspec_jobs.engine.outputs.run_inputs import list_provenance
from runspec_jobs.engine.resume import Wanted
from runspec_jobs.errors import RunspecError
from runspec_jobs.load import chain_file
from runspec_jobs.load.chain_file import ChainFile
from runspec_jobs.load.overrides import write_params
from runspec_jobs.provider import Status
from runspec_jobs.spec.needs import Condition as Condition
from runspec_jobs.state import chain_record, run_record
from runspec_jobs.state.chain_record import ChainRecord


@dataclass(frozen=True)
class Chain:
    """The jobs of a chain, read and checked, in an order in which they can run; made by `load_chain`.

    An output of a job that has not run yet is planned with the id `JOB-000000`.
    """

    file: ChainFile
    chained: ChainJobs

    @property
    def name(self) -> str:
        """The name of the chain: that of its file or folder."""
        return self.file.name

    @property
    def jobs(self) -> Mapping[str, Job]:
        """Its jobs, in an order in which they can run."""
        return {name: Job(inputs) for name, inputs in self.chained.inputs.items()}

    def needs(self, job: str) -> dict[str, Condition]:
        """Return the jobs of the chain that *job* needs, with how each must have ended."""
        return self.chained.needs(job)

    def list_copied(self, job: str) -> list[str]:
        """Return the mounts of *job* whose files this machine copies, because the jobs save to different stores."""
        return self.chained.list_copied(job)

    def waits_by_service(self, job: str) -> list[str]:
        """Return the jobs that *job* needs for which its own service can wait, without this machine."""
        return self.chained.waits_by_service(job)

    def is_paired(self, job: str, parent: str) -> bool:
        """Return whether each task of *job* may start when the task of its own number of *parent* has succeeded."""
        return self.chained.is_paired(job, parent)


class JobStatus(NamedTuple):
    """One job of a chain. *state* is a `State`, `skipped` or `not-started`; *run* is None if it has no run.

    *job* is its name, *reason* why it is in that state, *needs* are the jobs before it, and *status* is the run's.
    """

    job: str
    state: str
    reason: str
    needs: Mapping[str, str]
    run: Run | None
    status: Status | None = None


def _as_status(one: JobState) -> JobStatus:
    run = None if one.record is None else Run(one.record)
    return JobStatus(one.job, one.state, one.reason, one.needs, run, one.status)


def list_inputs(run: Run) -> list[str]:
    """Return a line for each thing of another run that *run* has read: which run, which save or task, its content."""
    return [f"{name}: {text}" for name, text in list_provenance(run.record)]


@dataclass(frozen=True)
class ChainRun:
    """A chain that was applied."""

    record: ChainRecord

    @property
    def name(self) -> str:
        """The name of the chain."""
        return self.record.name

    @property
    def jobs(self) -> Mapping[str, Run | None]:
        """The newest run of each job, in the order of the jobs; None if it has not started or was destroyed."""
        found = {job: job_states.find_record(self.record, job) for job in self.record.needs}
        return {job: None if one is None else Run(one) for job, one in found.items()}

    def status(self) -> list[JobStatus]:
        """Return the status of each job. Raises the errors of services that do not answer."""
        return [_as_status(one) for one in job_states.read_all_states(self.record)]

    def cancel(self, *, on_event: OnEvent | None = None) -> list[JobStatus]:
        """Start no more jobs, cancel those that run, and wait until they have ended. Calling it again is safe.

        A chain that has ended stays as it is; an event says so.
        """
        with chain_record.hold_off_applies(self.record) as alone:
            if alone and (ends := _list_ends(self.record)):
                # Nobody may have waited for its runs, and ended what they do not need any more.
                lines = [
                    line
                    for end in ends
                    if end.run is not None and end.status is not None
                    for line in end.run.reconcile(end.status)
                ]
                for line in (*lines, f"nothing of the chain {self.name} runs"):
                    Events(on_event).note(line)
                return ends
        _end_each(chain_record.note_want(self.record, "cancel"), _cancel, on_event)
        return self.status()

    def destroy(self, *, on_event: OnEvent | None = None) -> None:
        """Cancel the chain, and delete all runs of its jobs, with their outputs. Calling it again is safe."""
        ended = _end_each(chain_record.note_want(self.record, "destroy"), _destroy, on_event)
        chain_record.forget_earlier(ended)


def load_chain(
    path: str | Path,
    *,
    provider: str | None = None,
    settings: Sequence[str] = (),
    params: Params = (),
    only: Sequence[str] = (),
    until: Sequence[str] = (),
    on_event: OnEvent | None = None,
) -> Chain:
    """Read and check the jobs of the file or folder at *path*.

    *provider* replaces the provider of every job. *settings* such as `train:cluster.nodes=4` replace or add fields of
    one job, and without the name of a job those of all; *params* such as `{"train:size": "7b"}` are values of the
    parameters of one job, and without its name of all jobs that have them. With *only*, the chain has those jobs
    alone, and needs the last runs of the others; with *until*, it has those jobs and all that they need. Raises
    InvalidSpec with the problems of all jobs, and UsageError if the file cannot be read, or there is no job or
    parameter of such a name.
    """
    file = chain_file.read_chain(Path(path))
    overrides = Overrides(provider, settings, params=write_params(params))
    return Chain(file, chain_jobs.read_jobs(file, overrides, only, until, Events(on_event)))


def foresee_resumed(chain: Chain, *, on_event: OnEvent | None = None) -> Chain:
    """Return *chain* as `apply_chain` with `resume` would start it, for the plans of its jobs; nothing is started."""
    reporter, jobs = Events(on_event), chain.chained
    wanted = Wanted(needed=False)
    inputs = {
        name: planned_run.foresee(made, reporter, wanted) for name, made in jobs.inputs.items()
    }
    return replace(chain, chained=replace(jobs, inputs=inputs))


def explain_starts(chain: Chain) -> dict[str, str]:
    """Return why `apply_chain` would start jobs of *chain* again, by name; no service is asked."""
    record = chain_record.current(ChainRecord(chain.name, chain.file.path.resolve(), {}))
    return {} if record is None else start_reasons.foresee_starts(chain.chained, record)


def get_chain(name: str) -> ChainRun | None:
    """Return the chain on record with that name, or of that file or folder; None if there is none."""
    record = chain_record.find(name)
    return None if record is None else ChainRun(record)


def read_want(chain: ChainRun) -> str:
    """Return what was asked last of a chain: `run`, `cancel` or `destroy`."""
    return (chain_record.current(chain.record) or chain.record).want


def _list_ends(chain: ChainRecord) -> list[JobStatus]:
    """Return how the jobs of a chain have ended; nothing if anything of it may run, or has not started."""
    now = chain_record.current(chain) or chain
    states = job_states.read_all_states(now)
    read = {one.record.run for one in states if one.record is not None}
    others = (Run(_find_run(run)) for run in (*now.earlier, *now.runs.values()) if run not in read)
    # After destroy, its jobs have no runs.
    left = [one for one in states if not one.is_over and (one.record or now.want != "destroy")]
    if left or any(map(_may_run, others)):
        return []
    return [_as_status(one) for one in states]


def _find_run(run: str) -> run_record.Record:
    return run_record.Record(run_record.find_runs_folder() / run)


def _end_each(
    record: ChainRecord, end: Callable[[Run, OnEvent | None], None], on_event: OnEvent | None
) -> ChainRecord:
    """End the runs of a chain, the last jobs first, and return the record as it was then.

    If a service fails, the runs of the others are ended all the same, and the first error is raised at the end.
    """
    errors: list[RunspecError] = []
    for job in reversed(list(record.needs)):
        # An apply that is starting the job goes on until it has; one that comes later sees that it must not.
        with run_record.lock_name(job, Events(on_event).wait):
            record = chain_record.current(record) or record
    # Children first: a service might otherwise start one when its parent is cancelled.
    newest = [record.runs[job] for job in record.needs if job in record.runs]
    for run in reversed((*record.earlier, *newest)):
        try:
            end(Run(_find_run(run)), on_event)
        except RunspecError as exc:
            errors.append(exc)
    if errors:
        raise errors[0]
    return record


def _cancel(run: Run, on_event: OnEvent | None) -> None:
    if _may_run(run):
        run.cancel(on_event=on_event)


def _may_run(run: Run) -> bool:
    """Return whether a run may be alive, as far as the record of it says."""
    if not run.record.folder.exists():
        return False
    if run_record.find_damage(run.record):
        return True
    memory = run.record.read_memory()
    return memory.status is None and not memory.deleted


def _destroy(run: Run, on_event: OnEvent | None) -> None:
    if run.record.folder.exists():
        run.destroy(on_event=on_event)


def apply_chain(
    chain: Chain,
    *,
    detach: bool = False,
    new: bool = False,
    resume: bool = False,
    on_line: Callable[[str, LogLine], None] | None = None,
    on_status: Callable[[JobStatus], None] | None = None,
    on_event: OnEvent | None = None,
    confirm: Callable[[], None] = lambda: None,
) -> list[JobStatus]:
    """Start each job of *chain* when the jobs that it needs have ended, and return how all have ended.

    A job that has already succeeded is not started again, unless its spec or the content of what it mounts has
    changed; *new* starts all again. With *detach*, only jobs are started that can start now; calling it again goes on.
    *on_line* gets each line of a job's log, and *on_status* each job when it starts and when it has ended.

    Calling it again after a crash at any moment makes nothing twice. Raises Conflict if a job is alive with another
    spec, after the jobs that run have ended, and the errors of services.
    """
    jobs = chain.chained
    needs = {job: {name: str(how) for name, how in of.items()} for job, of in jobs.every.items()}
    path, events = chain.file.path.resolve(), Events(on_event)
    see = on_status or (lambda status: None)
    listener = Listener(
        on_line or (lambda job, line: None), lambda one: see(_as_status(one)), events, confirm
    )
    wanted = Wanted(needed=False) if resume else None
    with chain_record.hold_for_apply(chain.name, path, events.wait):
        before = chain_record.current(ChainRecord(chain.name, path, needs))
        skipped = {} if before is None else job_states.find_skipped(before)
        record = chain_record.keep(chain.name, path, needs, jobs.inputs)
        scheduler = Scheduler(
            jobs, record, listener, new=new, detach=detach, wanted=wanted, skipped=skipped
        )
        return [_as_status(one) for one in scheduler.run()]
