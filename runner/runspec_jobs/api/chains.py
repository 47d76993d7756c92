"""Chains: several jobs in one file or folder, each of which starts when the jobs that it needs have ended."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from runspec_agent.base.light_typing import NamedTuple
from runspec_jobs.api import lifecycle
from runspec_jobs.api.events import Events, OnEvent
from runspec_jobs.api.jobs import Job, compare_specs
from runspec_jobs.api.lifecycle import LogLine, Run
from runspec_jobs.api.specs import InvalidSpec, SourceFile
from runspec_jobs.engine import apply as engine
from runspec_jobs.engine.outputs import copies
from runspec_jobs.engine.resume import Wanted
from runspec_jobs.engine.source_runs import find_run, meets, place_of, source_run, unended_run
from runspec_jobs.engine.start_run import changed_inputs
from runspec_jobs.errors import RunspecError, UsageError
from runspec_jobs.load import chain_file, inputs
from runspec_jobs.load.chain_file import ChainFile
from runspec_jobs.load.inputs import PlanInputs
from runspec_jobs.load.overrides import Overrides, apply_overrides
from runspec_jobs.load.run_mounts import MountedRun, SourceRun
from runspec_jobs.plan import model
from runspec_jobs.plan.model import PREVIEW, Plan
from runspec_jobs.provider import Parent, Spec, State, Status, SupportsParents
from runspec_jobs.spec.chain_rules import ancestors, conditions, in_order, parents
from runspec_jobs.spec.needs import Condition as Condition, RunOutput
from runspec_jobs.state import chain_record, run_record
from runspec_jobs.state.chain_record import ChainRecord

SHOWN = 3  # the most changed fields that are named
CANCELLED = "the chain was cancelled"
SKIPPED, NOT_STARTED = "skipped", "not-started"  # in place of a `State`


@dataclass(frozen=True)
class Chain:
    """The jobs of a chain, read and checked, in an order in which they can run; made by `load_chain`.

    An output of a job that has not run yet is planned with the id `JOB-000000`.
    """

    file: ChainFile
    jobs: Mapping[str, Job]
    provider: str | None = None

    @property
    def name(self) -> str:
        return self.file.name

    def needs(self, job: str) -> dict[str, Condition]:
        """Return the jobs of the chain that *job* needs, with how each must have ended."""
        return parents(self.jobs[job].spec, self._specs)

    def list_copied(self, job: str) -> list[str]:
        """Return the mounts of *job* whose files this machine copies, because the jobs save to different stores."""
        spec, facts = self.jobs[job].spec, self.jobs[job].inputs.facts
        return [m.name for m in spec.mounts if m.of_run is not None and m.name in facts.sources]

    def waits_by_service(self, job: str) -> list[str]:
        """Return the jobs that *job* needs for which its own service can wait, without this machine."""
        own = self.jobs[job].inputs
        place, provider = _waiting_place(own), own.provider
        if place is None or not isinstance(provider, SupportsParents):
            return []
        by_client = {
            mount.of_run.job
            for mount in own.spec.mounts
            if mount.of_run is not None and (mount.of_run.best or mount.name in own.facts.sources)
        }
        able = [
            name
            for name, how in self.needs(job).items()
            if _waiting_place(self.jobs[name].inputs) == place
            and str(how) in provider.conditions
            and name not in by_client
        ]
        return able[: provider.most_parents]

    @property
    def _specs(self) -> dict[str, Spec]:
        return {name: job.spec for name, job in self.jobs.items()}


class JobStatus(NamedTuple):
    """One job of a chain. *state* is a `State`, `skipped` or `not-started`; *run* is None if it has no run."""

    job: str
    state: str
    reason: str
    needs: Mapping[str, str]
    run: Run | None
    status: Status | None = None


def list_inputs(run: Run) -> list[str]:
    """Return a line for each output of another run that *run* mounts: which run, which task, and its content."""
    lines = []
    for mount, one in run.record.read_memory().about.get("inputs", {}).items():
        of = MountedRun(**one)
        task = "" if of.task is None else f", task {of.task}"
        content = f", content {of.digest[:12]}" if of.digest else ""
        lines.append(f"{mount}: output {of.output} of {of.run}{task}{content}")
    return lines


@dataclass(frozen=True)
class ChainRun:
    """A chain that was applied."""

    record: ChainRecord

    @property
    def name(self) -> str:
        return self.record.name

    @property
    def jobs(self) -> Mapping[str, Run | None]:
        """The newest run of each job, in the order of the jobs; None if it has not started or was destroyed."""
        return {job: _run_of(self.record, job) for job in self.record.needs}

    def status(self) -> list[JobStatus]:
        """Return the status of each job. Raises the errors of services that do not answer."""
        ends: dict[str, JobStatus] = {}
        for job, run in self.jobs.items():
            ends[job] = _skipped(_status(self.record, job, run), ends)
        return list(ends.values())

    def cancel(self, *, on_event: OnEvent | None = None) -> list[JobStatus]:
        """Start no more jobs, cancel those that run, and wait until they have ended. Calling it again is safe."""
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
    only: Sequence[str] = (),
    until: Sequence[str] = (),
    on_event: OnEvent | None = None,
) -> Chain:
    """Read and check the jobs of the file or folder at *path*.

    *provider* replaces the provider of every job. *settings* such as `train:cluster.nodes=4` replace or add fields of
    one job, and without the name of a job those of all. With *only*, the chain has those jobs alone, and needs the
    last runs of the others; with *until*, it has those jobs and all that they need. Raises InvalidSpec with the
    problems of all jobs, and UsageError if the file cannot be read, or there is no job of such a name.
    """
    file = chain_file.read_chain(Path(path))
    events = Events(on_event)
    texts = [_override(text, provider, settings) for text in file.texts]
    wrong = [text for text in texts if text.failed or text.document is None]
    if wrong:
        raise InvalidSpec(*wrong)
    specs, failed = [], []
    for text in texts:
        try:
            specs.append(inputs.parse_spec(text))
        except InvalidSpec:
            failed.append(text)
    if not failed:
        chain_file.complain_of_chain(replace(file, texts=tuple(texts)), specs)
        failed = [text for text in texts if text.failed]
    if failed:
        raise InvalidSpec(*failed)
    by_name = {spec.name: spec for spec in specs}
    wanted = _wanted(by_name, only, until)
    _demand_jobs(settings, by_name)
    gathered: dict[str, PlanInputs] = {}

    def preview(name: str) -> SourceRun:
        if name in gathered:
            preview_inputs = gathered[name]
            place = place_of(preview_inputs.provider, preview_inputs.spec, preview_inputs.facts)
            return SourceRun(f"{name}-{PREVIEW}", preview_inputs.spec, place, lambda: None)
        return find_run(name, events)

    refused: list[InvalidSpec] = []
    for name in in_order(by_name):
        text = texts[specs.index(by_name[name])]
        text.diagnostics.clear()
        if not parents(by_name[name], by_name).keys() <= gathered.keys():
            continue  # the problems of a job that it needs come first
        try:
            gathered[name] = inputs.gather(text, file.base, events.progress, provider, preview)
        except InvalidSpec as exc:
            refused.append(exc)
    if refused:
        each = {(text.name, *text.diagnostics): text for exc in refused for text in exc.texts}
        raise type(refused[0])(*each.values())
    jobs = {name: Job(made) for name, made in gathered.items() if name in wanted}
    chain = Chain(file, jobs, provider)
    return replace(chain, jobs={name: _with_parents(chain, name) for name in jobs})


def _with_parents(chain: Chain, name: str) -> Job:
    """Return a job as it is planned: with the jobs that its service waits for."""
    made, needs = chain.jobs[name].inputs, chain.needs(name)
    parents = []
    for other in chain.waits_by_service(name):
        parent_inputs = chain.jobs[other].inputs
        plan = model.make_plan(
            parent_inputs.provider, parent_inputs.spec, model.PREVIEW, parent_inputs.facts
        )
        parents.append(_parent(plan, needs[other]))
    return Job(replace(made, facts=made.facts._replace(parents=tuple(parents))))


def _override(text: SourceFile, provider: str | None, settings: Sequence[str]) -> SourceFile:
    """Return a job with the settings for it, and those for all jobs."""
    value = None if text.document is None else text.document.value
    name = value.get("name") if isinstance(value, dict) else None
    own = []
    for setting in settings:
        job, colon, _ = setting.partition("=")[0].partition(":")
        if not colon:
            own.append(setting)
        elif job == name:
            own.append(setting.removeprefix(f"{job}:"))
    return apply_overrides(text, Overrides(provider, own))


def _demand_jobs(settings: Sequence[str], jobs: Collection[str]) -> None:
    """Raise UsageError for a setting of a job that the chain does not have."""
    for setting in settings:
        job, colon, _ = setting.partition("=")[0].partition(":")
        if colon and job not in jobs:
            raise UsageError(f"the chain has no job '{job}'", f"its jobs: {', '.join(jobs)}")


def _wanted(jobs: Mapping[str, Spec], only: Sequence[str], until: Sequence[str]) -> set[str]:
    for name in (*only, *until):
        if name not in jobs:
            raise UsageError(f"the chain has no job '{name}'", f"its jobs: {', '.join(jobs)}")
    if not only and not until:
        return set(jobs)
    return {*only, *until}.union(*(ancestors(name, jobs) for name in until))


def _waiting_place(inputs: PlanInputs) -> str | None:
    provider = inputs.provider
    if not isinstance(provider, SupportsParents):
        return None
    return provider.waiting_place(inputs.spec, inputs.facts)


def get_chain(name: str) -> ChainRun | None:
    """Return the chain on record with that name, or of that file or folder; None if there is none."""
    record = chain_record.find(name)
    return None if record is None else ChainRun(record)


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
            end(Run(run_record.Record(run_record.find_runs_folder() / run)), on_event)
        except RunspecError as exc:
            errors.append(exc)
    if errors:
        raise errors[0]
    return record


def _cancel(run: Run, on_event: OnEvent | None) -> None:
    if run.record.folder.exists() and (
        run_record.find_damage(run.record) or run.record.read_memory().status is None
    ):
        run.cancel(on_event=on_event)


def _destroy(run: Run, on_event: OnEvent | None) -> None:
    if run.record.folder.exists():
        run.destroy(on_event=on_event)


def _run_of(record: ChainRecord, job: str) -> Run | None:
    run = record.runs.get(job)
    known_record = None if run is None else run_record.Record(run_record.find_runs_folder() / run)
    if (
        known_record is None
        or not known_record.folder.exists()
        or run_record.find_damage(known_record)
        or known_record.read_memory().deleted
    ):
        return None
    return Run(known_record)


def _skipped(status: JobStatus, ends: Mapping[str, JobStatus]) -> JobStatus:
    """Return *status* as skipped if its service ended it because another job has not ended as it needs."""
    if status.status is None or not status.status.state.terminal or status.state == State.SUCCEEDED:
        return status
    for name, how in status.needs.items():
        end = ends.get(name)
        if end is not None and _is_over(end) and not _has_met(Condition(how), end):
            return status._replace(state=SKIPPED, reason=f"{name} has {end.state}")
    return status


def _is_over(end: JobStatus) -> bool:
    return end.state == SKIPPED or (end.status is not None and end.status.state.terminal)


def _status(record: ChainRecord, job: str, run: Run | None) -> JobStatus:
    needs = record.needs[job]
    if run is None:
        why = f"needs {', '.join(needs)}" if needs else ""
        return JobStatus(job, NOT_STARTED, why, needs, None)
    status = run.status()
    return JobStatus(job, str(status.state), status.reason, needs, run, status)


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
    needs = {job: {name: str(how) for name, how in chain.needs(job).items()} for job in chain.jobs}
    record = chain_record.keep(chain.name, chain.file.path.resolve(), needs)
    hear = on_line or (lambda job, line: None)
    see = on_status or (lambda status: None)
    wanted = Wanted(needed=False) if resume else None
    scheduler = _Scheduler(chain, record, new, wanted, detach, hear, see, on_event, confirm)
    return scheduler.run()


class _NotStarted(RunspecError):
    """The chain was cancelled, or another apply of it has started the job."""

    def __init__(self) -> None:
        super().__init__("the job is not started")


class _Scheduler:
    """Starts the jobs of one chain, and follows each in a thread of its own."""

    def __init__(
        self,
        chain: Chain,
        record: ChainRecord,
        new: bool,
        wanted: Wanted | None,
        detach: bool,
        on_line: Callable[[str, LogLine], None],
        on_status: Callable[[JobStatus], None],
        on_event: OnEvent | None,
        confirm: Callable[[], None],
    ) -> None:
        self.chain, self.record, self.new, self.detach = chain, record, new, detach
        self.known = dict(record.runs)  # but for those that another apply has started meanwhile
        self.wanted = wanted
        self.on_line, self.on_status, self.on_event = on_line, on_status, on_event
        self.confirm = confirm
        self.done: dict[str, JobStatus] = {}
        self.running: dict[str, Run] = {}
        self.held: dict[str, JobStatus] = {}  # that have ended before jobs that they need
        self.ends: queue.Queue[tuple[str, Status | BaseException]] = queue.Queue()
        self.error: BaseException | None = None

    def run(self) -> list[JobStatus]:
        while True:
            self._start_ready()
            if not self.running or self.detach:
                break
            self._take_end()
        if self.error is not None:
            raise self.error
        return [self.done.get(job) or self._left(job) for job in self.chain.jobs]

    def _left(self, job: str) -> JobStatus:
        run = self.running.get(job)
        if run is None:
            needs = self.record.needs[job]
            return JobStatus(job, NOT_STARTED, f"needs {', '.join(needs)}", needs, None)
        return JobStatus(job, str(State.WAITING), "", self.record.needs[job], run)

    def _start_ready(self) -> None:
        """Start every job whose needs are met, and settle those that can never start."""
        again = True
        while again and self.error is None:
            again = False
            for job in self.chain.jobs:
                if job in self.done or job in self._unsettled():
                    continue
                why = self._why_never(job)
                if why:
                    self._settle(JobStatus(job, SKIPPED, why, self.record.needs[job], None))
                    again = True
                elif self._is_ready(job):
                    try:
                        # A job that has ended long ago may have made others ready.
                        again = self._start(job) or again
                    except RunspecError as exc:
                        self.error = exc
                        return

    def _status_of(self, job: str) -> JobStatus | None:
        """Return how a job that another one needs has ended, also one that is not of this apply; None if it has not."""
        if job in self.chain.jobs:
            return self.done.get(job)
        run = _run_of(self.record, job)
        return None if run is None else _status(self.record, job, run)

    def _is_ready(self, job: str) -> bool:
        """Return whether a job can be submitted: its service waits for the jobs that have not ended."""
        # A job that may not have to run again is not submitted before its parents have ended: only then their
        # outputs can be compared with those that it has read.
        by_service = [] if self._may_be_done(job) else self.chain.waits_by_service(job)
        return all(
            name in self.running and name in by_service if end is None else _has_met(how, end)
            for name, how, end in self._ends(job)
        )

    def _may_be_done(self, job: str) -> bool:
        """Return whether a job need not run again if the jobs that run now save what they did before."""
        run = None if self.new or self.detach else _run_of(self.record, job)
        status = None if run is None else run.record.read_memory().status
        return status is not None and status.state is State.SUCCEEDED

    def _ends(self, job: str) -> list[tuple[str, Condition, JobStatus | None]]:
        needs = self.chain.needs(job).items()
        return [(name, how, self._status_of(name)) for name, how in needs]

    def _why_never(self, job: str) -> str:
        """Return why a job cannot start any more, or an empty string."""
        now = chain_record.current(self.record)
        if now is None or now.want != "run":
            return CANCELLED
        for name, how in self.chain.needs(job).items():
            end = self._status_of(name)
            if end is not None and _is_over(end) and not _has_met(how, end):
                return f"{name} {'was' if end.state == SKIPPED else 'has'} {end.state}"
        return ""

    def _start(self, job: str) -> bool:
        """Start a job; return whether it has already ended, so that others may be ready."""
        made, copied = self._gathered(job)
        parents = [
            _parent(self.running[name].record.plan, how)
            for name, how, end in self._ends(job)
            if end is None
        ]
        made = replace(made, facts=made.facts._replace(parents=tuple(parents)))
        why = self._why_now(job, made)
        needs = self.record.needs[job]
        run = self._apply(job, made)
        # The copy is in the store of the job by now.
        for folder in copied:
            copies.remove(folder)
        if run is None:
            self._settle(JobStatus(job, SKIPPED, CANCELLED, needs, None))
            return True
        if run.ended is not None:
            ended = run.ended
            self._settle(JobStatus(job, str(ended.state), ended.reason, needs, run, ended))
            return True
        self.running[job] = run
        self.on_status(JobStatus(job, str(State.WAITING), why, needs, run))
        if not self.detach:
            # A thread for each job, because each waits for requests of its own service.
            threading.Thread(target=self._follow, args=(job, run), daemon=True).start()
        return False

    def _apply(self, job: str, made: PlanInputs) -> Run | None:
        """Start the run of a job, or return the one that another apply has started; None if it is not wanted."""

        def note_run(run: str) -> None:
            self.record = chain_record.note_run(self.record, job, run, self.known.get(job))
            if self.record.want != "run" or self.record.runs.get(job) != run:
                raise _NotStarted

        while True:
            try:
                run = lifecycle.start(
                    Job(made),
                    self.wanted,
                    new=self.new,
                    on_event=self.on_event,
                    confirm=self.confirm,
                    note_run=note_run,
                )
            except _NotStarted:
                if self.record.want != "run":
                    return None
                other = _run_of(self.record, job)
                if (
                    other is None
                ):  # its apply was killed before it made anything, or it was destroyed
                    self.known[job] = self.record.runs[job]
                    continue
                status = other.status()
                run = replace(other, ended=status if status.state.terminal else None)
            self.known[job] = run.id
            return run

    def _why_now(self, job: str, made: PlanInputs) -> str:
        """Return why a job is started: it has not succeeded before, or something has changed since."""
        before = _run_of(self.record, job)
        memory = None if before is None else before.record.read_memory()
        if before is None or memory is None:
            return ""
        if memory.status is None:
            return "it goes on"
        if memory.status.state is not State.SUCCEEDED:
            return f"{before.id} has {memory.status.state}"
        if self.new:
            return "all are started again"
        if mounts := changed_inputs(before.record, made):
            runs = {made.mounted_runs[mount].run for mount in mounts}
            return f"what it reads from {', '.join(sorted(runs))} has changed"
        changes = compare_specs(Job(made)) or []
        fields = ", ".join(change.path for change in changes[:SHOWN])
        more = f" and {len(changes) - SHOWN} more" if len(changes) > SHOWN else ""
        return f"changed: {fields}{more}" if fields else ""

    def _gathered(self, job: str) -> tuple[PlanInputs, list[Path]]:
        """Return *job* with the outputs of the runs that it mounts, and the folders that were copied for it."""
        planned = self.chain.jobs[job].inputs
        copied: list[Path] = []
        if all(mount.scheme != "run" for mount in planned.spec.mounts):
            return planned, copied
        events = Events(self.on_event)

        def find(name: str) -> SourceRun:
            if name not in self.record.needs:
                return find_run(name, events)
            if name in self.running:
                return unended_run(self.running[name].record)
            run = _run_of(self.record, name)
            if run is None:
                raise UsageError(f"the job '{name}' has no run")
            source = source_run(run.record, conditions(planned.spec)[name], events)
            return replace(source, copy=partial(_copied, source, copied))

        text = replace(planned.text, diagnostics=[])
        made = inputs.gather(text, planned.base, events.progress, self.chain.provider, find)
        return made, copied

    def _follow(self, job: str, run: Run) -> None:
        try:
            status = run.wait(on_line=partial(self.on_line, job), on_event=self.on_event)
            self.ends.put((job, status))
        except BaseException as exc:  # noqa: BLE001 - the thread of the caller raises it
            self.ends.put((job, exc))

    def _take_end(self) -> None:
        """Wait until a job has ended."""
        job, end = self.ends.get()
        run = self.running.pop(job)
        if isinstance(end, BaseException):
            self.error = self.error or end
            return
        needs = self.record.needs[job]
        # Held back: how it counts depends on the ends of its parents, which another thread may report later.
        self.held[job] = JobStatus(job, str(end.state), end.reason, needs, run, end)
        # A service may end a job before this machine has noticed how its parents have ended.
        again = True
        while again:
            again = False
            for name in self.chain.jobs:
                if name in self.held and not self.held[name].needs.keys() & self._unsettled():
                    self._settle(_skipped(self.held.pop(name), self.done))
                    again = True

    def _unsettled(self) -> set[str]:
        return {*self.running, *self.held}

    def _settle(self, status: JobStatus) -> None:
        self.done[status.job] = status
        self.on_status(status)


def _has_met(how: Condition, end: JobStatus) -> bool:
    if end.state == SKIPPED:
        return how is Condition.ENDED  # as for a service, for which it was cancelled
    return end.status is not None and meets(how, end.status)


def _parent(plan: Plan, how: Condition) -> Parent:
    """Return the run of *plan*, which has not ended, as one that a service waits for."""
    steps = tuple(step.id for step in plan.steps if engine.is_submitting(step, plan))
    return Parent(plan.run, str(how), steps)


def _copied(source: SourceRun, copied: list[Path], output: RunOutput) -> Path:
    assert source.copy is not None, "BUG: a run that has ended cannot be copied"
    folder = source.copy(output)
    copied.append(folder)
    return folder
