"""Runs jobs from Python: what the command line does, without printing and without exits.

A walk through it is in docs/python.md. Every error is a `RunspecError` from `runspec_jobs.errors`, with a message and
perhaps a hint. All functions may be called from several threads.

>>> job = load({"apiVersion": "runspec/v1", "name": "hello", "provider": "local", "command": ["echo", "hi"]})
>>> job.spec.name
'hello'
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from runspec_jobs.diagnostics.render import Diagnostic
from runspec_jobs.document.nodes import flow
from runspec_jobs.engine import (
    clients,
    end,
    fetch as copying,
    log_lines,
    measured_tasks,
    named_run,
    publish,
    start_run,
    status as standing,
    wait as waiting,
)
from runspec_jobs.engine.log_lines import LogLine
from runspec_jobs.engine.reporter import Reporter
from runspec_jobs.errors import Unavailable, UsageError
from runspec_jobs.load import source
from runspec_jobs.load.inputs import PlanInputs, at_size, gather
from runspec_jobs.logs import follow as log
from runspec_jobs.plan import model
from runspec_jobs.plan.model import Plan
from runspec_jobs.provider import Client, OutputFile, Progress, Spec, State, Status, SupportsOutputs
from runspec_jobs.report.ranking import Task
from runspec_jobs.spec.types import AS_WRITTEN
from runspec_jobs.state import run_group, run_record
from runspec_jobs.state.run_record import Record

__all__ = [
    "Diagnostic", "Event", "Job", "LogLine", "OutputFile", "Plan", "Run", "Spec", "State", "Status", "Task",
    "apply", "get", "load", "plan", "runs", "validate",
]  # fmt: skip

Source = str | Path | Mapping[str, Any] | Spec


@dataclass(frozen=True)
class Event:
    """What `load`, `apply` and `Run` report while they work.

    *kind* is "note" (a message), "wait" (what has to end first, or an outage), "step" (a step of the plan begins),
    "line" (a line that a tool printed) or "transfer" (*done* of *total* bytes; *total* is 0 if it is not known).
    """

    kind: str
    text: str
    done: int = 0
    total: int = 0


OnEvent = Callable[[Event], None]


@dataclass(frozen=True)
class Job:
    """A spec that was read and checked, with everything that planning it needs; made by `load`."""

    inputs: PlanInputs
    group: PlanInputs | None = None

    @property
    def spec(self) -> Spec:
        return self.inputs.spec

    @property
    def notes(self) -> Sequence[Diagnostic]:
        """Warnings and notes about the spec, with their positions."""
        return tuple(self.inputs.text.diagnostics)

    def sizes(self) -> tuple[Job, ...]:
        """Return a job for each number of nodes in `scaling`, or this job if the spec has no `scaling`."""
        if self.spec.scaling is None:
            return (self,)
        each = (at_size(self.inputs, size) for size in self.spec.scaling.nodes)
        return tuple(Job(one, self.inputs) for one in each)


def load(
    spec: Source,
    *,
    base: str | Path | None = None,
    provider: str | None = None,
    on_event: OnEvent | None = None,
) -> Job:
    """Read and check a spec: the path of a file, a mapping as YAML would give it, or a `Spec`.

    Relative paths in the spec start from *base*: by default the folder of the file, or the current folder. *provider*
    replaces the provider of the spec. The folders to mount are read and hashed; no request is sent, except to the
    schedulers of providers that ask them while planning. Raises InvalidSpec, whose `texts` have all problems with their
    positions, UsageError if the file cannot be read, and Unavailable if the provider is not installed.
    """
    text = read_spec(spec)
    if base is None:
        base = "." if isinstance(spec, Mapping | Spec) else Path(spec).parent
    return Job(gather(text, Path(base), _Events(on_event).progress, provider))


def validate(spec: Source) -> list[Diagnostic]:
    """Return the problems of a spec, without a profile and without any request; an empty list if it is valid.

    Raises UsageError if the file cannot be read.
    """
    text = read_spec(spec)
    _, problems = source.validated(text)
    if text.document is not None:
        text.complain(problems)
    return text.diagnostics


def plan(job: Job) -> Plan:
    """Return the plan of *job*: all requests that `apply` would send, with a placeholder in place of the run id.

    Raises UsageError if the spec has `scaling`: plan each of `job.sizes()`.
    """
    _demand_one(job)
    found = job.inputs
    return model.make_plan(found.provider, found.spec, model.PREVIEW, found.facts)


def apply(
    job: Job, *, detach: bool = True, new: bool = False, on_event: OnEvent | None = None
) -> Run:
    """Start the run of *job*, or continue or return the one that it already has; *new* starts one in any case.

    Calling it again after a crash at any moment makes nothing twice. With *detach* false, wait until the run has ended.
    Raises Conflict if a run of that name is alive with another spec, UnknownOutcome if a service did not answer (call
    again), UsageError if the spec has `scaling` (apply each of `job.sizes()`), and the errors of the service.
    """
    _demand_one(job)
    if job.group is None:
        run_group.forget(job.spec.name)  # from now on the name means this run
    else:
        run_group.keep(job.group.spec, job.group.text.data)
    client = job.inputs.provider.connect(job.inputs.facts)
    started = start_run.start(job.inputs, client, _Events(on_event), new=new)
    run = Run(started.record)
    if not detach:
        run.wait(on_event=on_event)
    return run


def get(name: str, *, on_event: OnEvent | None = None) -> Run:
    """Return the run with the id *name*, or for the name of a spec its newest run that is alive, else its newest run.

    Raises UsageError if there is none, or if it was destroyed.
    """
    return Run(named_run.kept(name, _Events(on_event).note))


def runs(name: str | None = None) -> list[Run]:
    """Return the runs on record that are not destroyed, oldest first; only those of the spec *name* if it is given.

    Records that cannot be read are left out; `runspec list` shows them.
    """
    if name is not None:
        return [Run(of) for of in run_record.of_name(name)]
    readable = (of for of in run_record.all_runs() if not run_record.unreadable(of))
    return [Run(of) for of in readable if not of.memory().deleted]


@dataclass(frozen=True)
class Run:
    """One run on record. Runs are equal if their ids are."""

    record: Record

    @property
    def id(self) -> str:
        return self.record.run

    @property
    def name(self) -> str:
        """The name of its spec."""
        return self.record.name

    @property
    def provider(self) -> str:
        return self.record.plan.provider

    @property
    def spec(self) -> Spec:
        """The spec as it was applied. Raises Damaged if this version of runspec cannot read it."""
        return self.record.spec

    def status(self) -> Status:
        """Return the status with all nodes: from the journal if the run has ended, else from the service.

        If the service does not answer, the state is `waiting` and the reason says so.
        """
        return standing.full_status(self.record)

    def logs(
        self, *, node: int | None = None, task: int | None = None, follow: bool = False
    ) -> Iterator[LogLine]:
        """Yield the lines of the log so far, one node after the other; with *follow*, until the run has ended.

        A followed log is yielded as it comes, with the nodes mixed. Closing the iterator ends the following.
        """
        client = self._client()
        wanted = log.chosen(node, task)
        if follow:
            yield from log_lines.followed(self.record, client, wanted)
            return
        yield from log_lines.whole(log.everything(client, self.id, wanted))

    def wait(
        self,
        *,
        timeout_s: float | None = None,
        on_line: Callable[[LogLine], None] | None = None,
        on_event: OnEvent | None = None,
    ) -> Status:
        """Wait until the run has ended, and return its status; *on_line* gets every line of the log.

        Tasks are stopped early if the metric of the spec says so, and outputs are published. Raises TimedOut after
        *timeout_s* seconds; the run goes on then.
        """
        memory = self.record.memory()
        if memory.status is not None and on_line is None:
            return memory.status
        joined = log_lines.Joined(on_line or (lambda line: None))
        client = self._client()
        events = _Events(on_event)
        status = waiting.wait(
            self.record, client, joined, events, timeout_s=timeout_s, publishes=True
        )
        joined.flush()
        return status

    def metrics(self) -> list[Task]:
        """Return every task with the values of the spec's metric. Raises UsageError if the spec has no metric."""
        spec = self.record.spec
        if spec.metric is None:
            raise UsageError("the spec has no metric", "add metric: {name, goal, pattern}")
        client = self._client()
        return measured_tasks.measured_tasks(self.record, client, spec, spec.metric, self.status())

    def outputs(self) -> list[OutputFile]:
        """Return the saved files of all outputs and saves. Raises Unavailable if the provider cannot read outputs."""
        return list(self._reader(self._client()).outputs(self.id))

    def fetch(
        self,
        to: str | Path,
        *,
        output: str | None = None,
        save: int | None = None,
        on_event: OnEvent | None = None,
    ) -> list[Path]:
        """Copy the newest save of every output, or the one of number *save*, into the folder *to*; return the paths.

        Raises UsageError if there is no such output or save, Conflict if a link in *to* leads out of it, and
        RemoteError if a file does not have the content that was saved.
        """
        events = _Events(on_event)
        client = self._client()
        move = events.progress(f"fetch {self.id}")
        found = copying.fetch(self._reader(client), self.id, output, save, Path(to), move)
        if found:
            publish.finish(self.record, client, events.wait)
        return list(found)

    def cancel(self, *, on_event: OnEvent | None = None) -> Status:
        """Cancel the run, wait until it has ended, and return its status. Raises UnknownOutcome after five minutes."""
        return end.cancel(self.record, _Events(on_event))

    def destroy(self, *, on_event: OnEvent | None = None) -> None:
        """Cancel the run and delete what was made for it alone, its outputs too. Calling it again is safe."""
        end.destroy(self.record, _Events(on_event))

    def _client(self) -> Client:
        return clients.connect(self.record)[1]

    def _reader(self, client: Client) -> SupportsOutputs:
        if not isinstance(client, SupportsOutputs):
            raise Unavailable(f"'{self.provider}' cannot read outputs")
        return client


class _Events(Reporter):
    """Passes on what the engine reports as events."""

    def __init__(self, on_event: OnEvent | None) -> None:
        self._send: OnEvent = on_event or (lambda event: None)

    def note(self, text: str) -> None:
        self._send(Event("note", text))

    def wait(self, text: str) -> None:
        self._send(Event("wait", text))

    def step(self, title: str) -> None:
        self._send(Event("step", title))

    def line(self, text: str) -> None:
        self._send(Event("line", text))

    def progress(self, title: str) -> Progress:
        return lambda done, whole: self._send(Event("transfer", title, done, whole))


def read_spec(spec: Source) -> source.SourceFile:
    """Return the text of a spec, parsed, with its syntax errors. Raises UsageError if the file cannot be read."""
    if isinstance(spec, Mapping | Spec):
        value = spec if isinstance(spec, Mapping) else _mapping(spec)
        return source.read("<spec>", flow(value).encode())
    return source.read_file(Path(spec))


def _mapping(spec: Spec) -> Mapping[str, Any]:
    return spec.model_dump(
        by_alias=True, exclude_defaults=True, context=AS_WRITTEN, warnings="none"
    )


def _demand_one(job: Job) -> None:
    if job.spec.scaling is not None:
        what = f"{job.spec.name} describes a job for each number of nodes in `scaling`"
        raise UsageError(what, "use each of job.sizes()")
