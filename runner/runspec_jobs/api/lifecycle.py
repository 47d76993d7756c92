"""Runs: starting, finding, following and ending them, and reading what they have written."""

from __future__ import annotations

import contextlib
import importlib
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from runspec_agent.base.light_typing import NamedTuple
from runspec_jobs.api import resize as resizing
from runspec_jobs.api.events import Events, OnEvent
from runspec_jobs.api.jobs import Job, demand_below, demand_one_size, take_job
from runspec_jobs.api.resize import AWAY as AWAY, Size as Size
from runspec_jobs.api.specs import Source
from runspec_jobs.engine import (
    apply as engine,
    clients,
    end,
    log_lines,
    named_run,
    planned_run,
    rescue,
    resume as resuming,
    save_logs as saving,
    source_runs,
    start_run,
    status as standing,
    wait as waiting,
)
from runspec_jobs.engine.log_lines import LogLine as LogLine
from runspec_jobs.engine.outputs import fetch as copying, layout as output_layout, publish
from runspec_jobs.engine.resume import Way as Way
from runspec_jobs.engine.save_logs import SavedLog as SavedLog, SavedLogs as SavedLogs
from runspec_jobs.engine.status import is_known as is_known
from runspec_jobs.engine.wait import suggest_commands as suggest_commands
from runspec_jobs.errors import Damaged, RunspecError, Unavailable, UsageError
from runspec_jobs.load.inputs import resolve_runs
from runspec_jobs.logs import follow as log, measured_tasks, metric_watch
from runspec_jobs.logs.follow import (
    Line as Line,
    format_prefix as format_prefix,
    show_line as show_line,
)
from runspec_jobs.logs.log_end import LogEnd as LogEnd, log_end
from runspec_jobs.logs.metric_watch import Best as Best, Watcher
from runspec_jobs.logs.select import ALL as ALL, Selection as Selection
from runspec_jobs.machines.spent import Outcome as Outcome, Part as Part, Spent as Spent
from runspec_jobs.provider import (
    Attempt as Attempt,
    Client,
    MembershipChange,
    NodeStatus as NodeStatus,
    OutputFile as OutputFile,
    Spec,
    State as State,
    Status as Status,
    SupportsMembershipChanges,
    SupportsOutputs,
)
from runspec_jobs.provider.saved_outputs import select_with_content
from runspec_jobs.report import task_rows
from runspec_jobs.report.ranking import Task as Task
from runspec_jobs.report.usage import Used as Used
from runspec_jobs.spec.metric import Metric
from runspec_jobs.state import attempt_history, origin, run_group, run_record
from runspec_jobs.state.run_record import Record


class Membership(NamedTuple):
    """The membership changes of an elastic run, or the reason why they are not known."""

    changes: Sequence[MembershipChange]
    unknown: str = ""


@dataclass(frozen=True)
class Run:
    """One run on record. Runs are equal if their ids are.

    *ended* is the status that `apply` has found if the run had already ended, else None.
    """

    record: Record
    ended: Status | None = field(default=None, compare=False)
    _connected: Client | None = field(default=None, compare=False, repr=False)

    def __reduce__(self) -> tuple[type[Run], tuple[Record, Status | None]]:
        """Leave the connection out of what is pickled or copied."""
        # A client holds sockets and locks, and is made again when it is needed.
        return Run, (self.record, self.ended)

    def __repr__(self) -> str:
        """Return the id, and the state if the run has ended; no service is asked."""
        # A repr must not raise: notebooks and debuggers call it.
        with contextlib.suppress(RunspecError):
            memory = self.record.read_memory()
            state = "destroyed" if memory.deleted else memory.status and str(memory.status.state)
            return f"<Run {self.id} on {self.provider}{f': {state}' if state else ''}>"
        return f"<Run {self.id}: its record is damaged>"

    def _repr_html_(self) -> str:
        from runspec_jobs.diagnostics.html_table import make_html_table  # no command needs it

        rows: list[tuple[str, object]] = []
        with contextlib.suppress(RunspecError):
            rows = [
                ("spec", self.file or self.name),
                ("began", datetime.fromtimestamp(self.began, UTC).astimezone()),
            ]
            status = self.record.read_memory().status
            rows += [("state", status.state), ("reason", status.reason)] if status else []
        return make_html_table(repr(self)[1:-1], ("", ""), rows)

    @property
    def id(self) -> str:
        """Its id, such as mnist-7k2m9p."""
        return self.record.run

    @property
    def name(self) -> str:
        """The name of its spec."""
        return self.record.name

    @property
    def provider(self) -> str:
        """The name of its provider. Raises Damaged if no file of the record has it."""
        return rescue.find_provider_name(self.record) or self.record.plan.provider

    @property
    def spec(self) -> Spec:
        """The spec as it was applied. Raises Damaged if this version of runspec cannot read it."""
        return self.record.spec.model_copy(update={"provider": self.provider})

    @property
    def params(self) -> Mapping[str, str]:
        """The parameters of the spec with the values of this run; empty if the spec of its record cannot be read."""
        spec = self._read_spec_with(b"params")
        return {} if spec is None else spec.params

    @property
    def ports(self) -> Mapping[str, int]:
        """The ports of the spec by their names; empty if the spec of its record cannot be read."""
        spec = self._read_spec_with(b"ports")
        return {} if spec is None else spec.ports

    @property
    def ttl_s(self) -> int | None:
        """How many seconds after its end this machine destroys the run; None if it does not."""
        return run_record.find_ttl(self.id)

    def _read_spec_with(self, field: bytes) -> Spec | None:
        """Return the spec if its text has the word *field*: reading a spec takes longer than finding that out."""
        try:
            return self.record.spec if field in self.record.job else None
        except Damaged:
            return None

    @property
    def shape(self) -> tuple[int, int]:
        """The number of nodes of each task, and the number of tasks."""
        return clients.count_nodes(self.record)

    @property
    def wanted(self) -> str:
        """What the last command wanted of it: "run", "cancel" or "destroy"."""
        return self.record.read_memory().want

    @property
    def destroyed(self) -> bool:
        """Whether the run was destroyed, or forgotten; false if its record cannot be read."""
        return not run_record.find_damage(self.record) and self.record.read_memory().deleted

    @property
    def file(self) -> Path | None:
        """The file of its spec; None if the spec was no file, or an earlier version of runspec started the run."""
        return origin.read_origin(self.record).file

    def status(self) -> Status:
        """Return the status with all nodes: from the journal if the run has ended, else from the service.

        This changes nothing. If the service does not answer, the state is `waiting` and the reason says so. Raises
        CredentialsError if the service refuses the login, for example because it has expired.
        """
        return standing.read_full_status(self.record)

    def compute_cost(self, status: Status | None = None) -> Spent | None:
        """Return what the attempts on record have cost, by outcome; None if the run has no price.

        *status*, which `status` has just returned, is counted too. No request is sent. Raises Damaged if the record of
        the attempts cannot be read.
        """
        return attempt_history.compute_cost(self.record, status, time.time())

    @property
    def began(self) -> float:
        """When `apply` began, in seconds since 1970."""
        return self.record.read_memory().born

    def find_best(self) -> Best | None:
        """Return the best value of the metric that was seen while the run was followed; None if none was seen."""
        return metric_watch.read_recorded_best(self.record)

    def measure_seconds(self, status: Status | None = None) -> float | None:
        """Return the seconds from the first start of a node to the end of the run, or until now; None if unknown.

        *status*, which `status` has just returned, is counted too. No request is sent.
        """
        return attempt_history.measure_seconds(self.record.read_memory(), status, time.time())

    def read_usage(self, status: Status, most: int | None = None) -> Used | None:
        """Return what the nodes used, of the first *most* or all; None if the run has not started or was deleted.

        *status* is what `status` has returned. If the service does not answer, `Used.why` says so.
        """
        return standing.read_used(self.record, status, most)

    def reconcile(self, seen: Status | None = None) -> Sequence[str]:
        """End what the run does not need, such as nodes that wait while their job is over; return a line for each.

        Also record what the service will forget, such as the end of a Slurm job, and the attempts in *seen*, which
        `status` has just returned. `wait`, `follow` and `cancel` do the
        same; a run that nobody waits for needs it now and then. Raises the errors of the service.
        """
        return standing.reconcile(self.record, seen)

    def logs(
        self,
        *,
        node: int | None = None,
        task: int | None = None,
        follow: bool = False,
        tail: int | None = None,
        grep: str | None = None,
        since: datetime | timedelta | None = None,
        timestamps: bool = False,
    ) -> Iterator[LogLine]:
        """Yield the lines of the log so far, one node after the other; with *follow*, until the run has ended.

        A followed log is yielded as it comes, with the nodes mixed: also, about once a second, the current text of a
        line that overwrites itself, with `ended` false. Closing the iterator ends the following. With
        *grep*, only lines are yielded in which that regular expression is found; with *tail*, of those that are there
        already only the last ones of each node; with *since*, only lines that were printed after a time, or no longer
        ago than a length of time. With it and with *timestamps*, lines have times. Raises UsageError if the run has no
        such node or task, or *grep* is no regular expression or takes too long for a line, and Unavailable if the
        provider has no times.
        """
        selection = log_lines.make_selection(tail, grep, since, timestamps)
        if follow:
            wanted, client = self._choose_streams(node, task), self.connect()
            yield from log_lines.follow_lines(self.record, client, wanted, selection)
            return
        yield from log_lines.join_parts(self.log_parts(node=node, task=task, selection=selection))

    def log_parts(
        self,
        *,
        node: int | None = None,
        task: int | None = None,
        selection: Selection = ALL,
    ) -> Iterator[Line]:
        """Yield the log so far, one node after the other, as bytes and with lines of more than 1 MiB in parts."""
        wanted, timed = self._choose_streams(node, task), selection.needs_times
        parts = log.read_everything(self.connect(), self.id, wanted, timed=timed)
        yield from parts if selection.is_all else log_lines.select_lines(parts, selection)

    def log_end(self, status: Status, *, reads: bool = True) -> LogEnd | None:
        """Return the last lines of the node that made it fail, as *status* has it; without *reads*, the node alone."""
        return log_end(self.connect if reads else None, self.id, status)

    def save_logs(
        self,
        target: str | Path,
        *,
        node: int | None = None,
        task: int | None = None,
        follow: bool = False,
        timeout_s: float | None = None,
        force: bool = False,
        on_event: OnEvent | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> SavedLogs:
        """Save an exact copy of each log to *target*, a file or, for several nodes or tasks, a folder.

        With *follow*, continue until the run has ended. A copy that was interrupted is continued. Raises TimedOut
        after *timeout_s* seconds, and Conflict if a file of the user would be replaced, unless *force* is true.
        """
        want = saving.Wanted(
            Path(target), self._choose_streams(node, task), follow, timeout_s, force
        )
        return saving.save(self.record, self.connect(), want, Events(on_event), sleep)

    def wait(
        self,
        *,
        timeout_s: float | None = None,
        on_line: Callable[[LogLine], None] | None = None,
        on_event: OnEvent | None = None,
    ) -> Status:
        """Wait until the run has ended, and return its status; *on_line* gets every line of the log.

        It also gets the current text of a line that overwrites itself, as `logs` does, with `ended` false.
        Tasks are stopped early if the metric of the spec says so, and outputs are published. Raises TimedOut after
        *timeout_s* seconds; the run goes on then.
        """
        memory = self.record.read_memory()
        # The journal has the end: no service is asked.
        if memory.status is not None and on_line is None:
            return memory.status
        joined = log_lines.Joined(on_line or (lambda line: None))
        status = self.follow(
            joined, on_unfinished=joined.take_unfinished, timeout_s=timeout_s, on_event=on_event
        )
        joined.flush()
        return status

    def follow(
        self,
        on_part: Callable[[Line], None],
        *,
        on_unfinished: Callable[[Line], None] | None = None,
        on_status: Callable[[Status], None] = lambda status: None,
        on_metric: Callable[[int, float], None] = lambda task, value: None,
        selection: Selection = ALL,
        node: int | None = None,
        task: int | None = None,
        timeout_s: float | None = None,
        on_event: OnEvent | None = None,
        stops: bool = True,
        publishes: bool = True,
        sleep: Callable[[float], None] = time.sleep,
    ) -> Status:
        """Wait as `wait` does, but pass on the lines of *selection* as `log_parts` yields them.

        *on_unfinished* gets the current text of a line that has not ended, such as a progress bar, when it changes: a
        carriage return, if it overwrites an earlier one, and at most 4 KiB of text. *on_part* gets all of it later.
        *on_status* gets each status, and *on_metric* a task with each number that it has printed for the spec's metric.
        Without *stops*, no task is stopped early; without *publishes*, no output is published. *sleep* is called with
        the seconds between two requests, and may raise an error to end the following.
        """
        return waiting.wait(
            self.record,
            self._connected or self.connect(),
            waiting.View(on_part, on_unfinished, selection, self._choose_streams(node, task)),
            Events(on_event),
            watcher=Watcher(on_status, on_metric),
            timeout_s=timeout_s,
            answered=self._connected is not None,
            stops=stops,
            publishes=publishes,
            sleep=sleep,
        )

    def metrics(self, metric: Metric | None = None) -> list[Task]:
        """Return every task with the values of *metric*, by default the spec's. Raises UsageError if there is none."""
        spec = self.record.spec
        metric = metric or spec.metric
        if metric is None:
            raise UsageError("the spec has no metric", "add metric: {name, goal, pattern}")
        client = self.connect()
        return measured_tasks.measure_tasks(self.record, client, spec, metric, self.status())

    def rows(self) -> list[dict[str, Any]]:
        """Return a row for each task: its number, parameters, state, metric, seconds and cost in USD.

        Parameters whose values are all numbers are numbers. The metric has the name of the spec's, and is left out if
        there is none; `seconds` and `usd` are None if they are not known. The cost is the most that the attempts can
        have cost.
        """
        status, metric = self.status(), self.record.spec.metric
        if metric is not None:
            client = self.connect()
            tasks = measured_tasks.measure_tasks(
                self.record, client, self.record.spec, metric, status
            )
        else:
            tasks = measured_tasks.list_tasks(self.record.spec, status)
        spent = attempt_history.compute_task_costs(self.record, status, time.time())
        return task_rows.make_rows(tasks, metric.name if metric else None, spent)

    def frame(self) -> Any:
        """Return `rows` as a pandas.DataFrame, with the number of the task as its index.

        Raises Unavailable if pandas is not installed.
        """
        try:
            pandas = importlib.import_module("pandas")
        except ImportError as exc:
            raise Unavailable(
                "frame() needs pandas, which is not installed", "pip install pandas, or use rows()"
            ) from exc
        return pandas.DataFrame(self.rows()).set_index("task")

    def membership(self) -> Membership | None:
        """Return the membership changes; None, without a request, if the run is not elastic or was not made."""
        record = self.record
        spec, memory = clients.read_spec(record), record.read_memory()
        elastic = spec is not None and spec.cluster.nodes.elastic
        if not elastic or memory.deleted or not engine.is_made(record.plan, memory):
            return None
        try:
            client = self.connect()
            if isinstance(client, SupportsMembershipChanges):
                return Membership(client.changes(record.run))
        except RunspecError as exc:
            return Membership((), exc.message)
        return Membership((), f"'{self.provider}' does not report them")

    def outputs(
        self,
        *,
        output: str | None = None,
        save: int | None = None,
        task: int | None = None,
        path: str | None = None,
    ) -> list[OutputFile]:
        """Return the saved files of all outputs and saves, without their content.

        With *output*, *save*, *task* or *path*, a pattern as for `fetch`, only those files are returned. Raises
        Unavailable if the provider cannot read outputs, and UsageError if no file matches *path*.
        """
        self.demand_node(None, task)
        saved = select_with_content(self._get_reader(self.connect()).outputs(self.id))
        files = [
            file
            for file in saved
            if output in (None, file.output)
            and save in (None, file.save)
            and task in (None, file.task)
        ]
        return files if path is None else copying.select_matching(files, self.id, path)

    def find_best_task(self) -> int:
        """Return the number of the task with the best value of the metric. Raises UsageError if there is none."""
        if self.record.spec.metric is None:
            raise UsageError("the spec has no metric", "add metric: {name, goal, pattern}")
        return source_runs.best_task(self.record)

    def find_way_on(self, status: Status) -> Way | None:
        """Return the command that goes on from the last save of the run; None if there is none.

        *status* is what `status` has returned. The run must have ended without success, and have saved something.
        """
        return resuming.find_way_on(self.record, status)

    def fetch(
        self,
        to: str | Path,
        *,
        output: str | None = None,
        save: int | None = None,
        task: int | None = None,
        best: bool = False,
        path: str | None = None,
        force: bool = False,
        on_event: OnEvent | None = None,
    ) -> dict[Path, OutputFile]:
        """Copy the newest save of every output, or the one of number *save*, into the folder *to*; return the files.

        With *task*, only its files are copied, and with *best*, those of the task with the best value of the metric.
        *path* is a pattern such as `model/*.pt`, in which `*` stands for any text, for the path in an output, also with
        the name of the output before it.

        A sweep has a folder `task-N` for each task, and several nodes have a folder `node-N` each. Folders and links
        are made too, and *on_event* is told what could not be saved.

        Raises UsageError if there is no such output or save, Conflict if a link in *to* leads out of it or, unless
        *force* is true, files of the user would be replaced, and RemoteError if a file does not have the content that
        was saved.
        """
        self._demand_outputs()
        self.demand_node(None, task)
        if best:
            task = self.find_best_task()
        events = Events(on_event)
        client = self.connect()
        move = events.progress(f"fetch {self.id}")
        layout = output_layout.make_layout(self.record.spec)
        fetched = copying.fetch(
            self._get_reader(client),
            self.id,
            output,
            save,
            Path(to),
            move,
            layout,
            task=task,
            pattern=path,
            force=force,
        )
        if fetched:
            publish.finish(self.record, client, events.wait)
        for line in output_layout.describe_losses(fetched.values()):
            events.wait(f"{self.id}: {line}")
        return {path: file for path, file in fetched.items() if file.kind == "file"}

    def cancel(self, *, on_event: OnEvent | None = None) -> Status:
        """Cancel the run, wait until it has ended, and return its status. Raises UnknownOutcome after five minutes."""
        return end.cancel(self.record, Events(on_event))

    def resize(
        self, nodes: int, *, task: int | None = None, on_event: OnEvent | None = None
    ) -> Status:
        """Have the elastic run go on with *nodes* nodes, and return its status when the others have saved and left.

        Nodes that are to come back are asked for. Raises UsageError if the spec does not allow so many, or if the run
        is not elastic or has ended. Calling it again is safe.
        """
        return resizing.resize(self.record, nodes, task, Events(on_event))

    def release(
        self, nodes: Collection[int], *, task: int | None = None, on_event: OnEvent | None = None
    ) -> Status:
        """Have *nodes* of the elastic run leave, and return its status when they have saved and left.

        They stay away until `resize` asks for more nodes than there are. Raises the errors of `resize`.
        """
        return resizing.release(self.record, nodes, task, Events(on_event))

    def size(self, status: Status) -> Size | None:
        """Return how many nodes are asked for and run; None if the run is not elastic, or has ended."""
        return resizing.measure(self.record, status)

    def destroy(self, *, on_event: OnEvent | None = None) -> None:
        """Cancel the run and delete what was made for it alone, its outputs too. Calling it again is safe."""
        end.destroy(self.record, Events(on_event))

    def forget(self, *, on_event: OnEvent | None = None) -> list[str]:
        """Record the run as destroyed without asking its service; return what it may have left there, as texts.

        This is for a run whose service is gone. If it can be reached again, `cleanup.list_orphans` finds what is left.
        """
        return end.forget(self.record, Events(on_event))

    def connect(self) -> Client:
        """Return the provider's client for this run."""
        return clients.connect(self.record)[1]

    def demand_node(self, node: int | None, task: int | None) -> None:
        """Raise UsageError if the run has no such node or task; None means any."""
        if node is None and task is None:
            return
        for noun, number, count in zip(("node", "task"), (node, task), self.shape, strict=True):
            if number is not None and not 0 <= number < count:
                many = f"{count} {noun}s, numbered from 0" if count > 1 else f"only {noun} 0"
                raise UsageError(f"there is no {noun} {number}", f"the run has {many}")

    def _demand_outputs(self) -> None:
        if not self.record.spec.outputs:
            message = f"{self.id} has no outputs: its spec names none"
            raise UsageError(message, f"runspec logs {self.id} shows what it printed")

    def _choose_streams(self, node: int | None, task: int | None) -> log.Wanted:
        self.demand_node(node, task)
        return log.choose_streams(node, task)

    def _get_reader(self, client: Client) -> SupportsOutputs:
        if not isinstance(client, SupportsOutputs):
            raise Unavailable(f"'{self.provider}' cannot read outputs")
        return client


def apply(
    job: Job | Source,
    *,
    detach: bool = True,
    new: bool = False,
    resume: bool | str = False,
    max_usd: float | None = None,
    on_event: OnEvent | None = None,
    confirm: Callable[[], None] = lambda: None,
) -> Run:
    """Start the run of *job*, or continue or return the one that it already has; *new* starts one in any case.

    *job* may also be a spec, as `load` takes it. With *max_usd*, a job that may cost more, or that has no known limit,
    is refused by UsageError.

    With *resume*, the outputs of a new run begin with the last save of the last run of the spec, which has failed or
    was cancelled. A text such as "mnist-7k2m9p:3" names another run and, after the colon, the number of a save.

    *confirm* is called before a new run is started, and may raise an error to start none; `estimate` says what it
    may cost.

    Calling it again after a crash at any moment makes nothing twice. With *detach* false, wait until the run has ended.
    Raises Conflict if a run of that name is alive with another spec, UnknownOutcome if a service did not answer (call
    again), UsageError if the spec has `scaling` (apply each of `job.sizes()`) or there is nothing to resume, and the
    errors of the service.
    """
    job = take_job(job)
    demand_below([job], max_usd)
    wanted = _parse_wanted(job, resume)
    return start(job, wanted, detach=detach, new=new, on_event=on_event, confirm=confirm)


def foresee(job: Job, *, resume: bool | str, on_event: OnEvent | None = None) -> Job:
    """Return *job* as `apply` with *resume* would start it, for its plan; nothing is started.

    The saves of the run that it goes on from are listed. *on_event* is told if `apply` would start no run. Raises
    UsageError if there is nothing to resume.
    """
    wanted = _parse_wanted(job, resume)
    if wanted is None:
        return job
    made = planned_run.foresee(job.inputs, Events(on_event), wanted)
    return replace(job, inputs=made)


def _parse_wanted(job: Job, resume: bool | str) -> resuming.Wanted | None:
    """Return what a new run of *job* is to begin with, as `resume` of `apply` says."""
    if isinstance(resume, str):
        wanted = resuming.parse(resume)
        if job.group is not None:
            refusal = (
                f"'{wanted.run}' is one run, and {job.group.spec.name} has a job for each size"
            )
            raise UsageError(refusal, "resume each size from its own last run: apply --resume")
        return wanted
    # Other sizes may not have begun yet.
    return resuming.Wanted(needed=job.group is None) if resume else None


def start(
    job: Job,
    wanted: resuming.Wanted | None,
    *,
    detach: bool = True,
    new: bool = False,
    on_event: OnEvent | None = None,
    confirm: Callable[[], None] = lambda: None,
    note_run: Callable[[str], None] = lambda run: None,
) -> Run:
    """Do what `apply` does; a new run begins with the saves that are *wanted*, if any.

    *note_run* gets the id of the run before anything is made for it, and may raise an error as well.
    """
    demand_one_size(job)
    if job.group is None:
        run_group.forget(job.spec.name)  # from now on the name means this run
    else:
        run_group.keep(job.group.spec, job.group.text.applied)
    events = Events(on_event)
    inputs = resolve_runs(job.inputs, lambda name: source_runs.find_run(name, events))
    client = inputs.provider.connect(inputs.facts)
    started = start_run.start(
        inputs,
        client,
        events,
        new=new,
        confirm=confirm,
        note_run=note_run,
        wanted=wanted,
    )
    run = Run(started.record, started.status, started.client)
    if not detach:
        run.wait(on_event=on_event)
    return run


def get(
    name: str, *, destroyed: bool = False, alive: bool = False, on_event: OnEvent | None = None
) -> Run:
    """Return the run with the id *name*, or for the name of a spec its newest run.

    Runs of specs in the current folder come first, then those of folders below it, then all others; with *alive*, the
    newest that is alive, if there is one. Raises UsageError if there is none, or if it was destroyed, unless
    *destroyed* is true.
    """
    find = named_run.run if destroyed else named_run.find_kept
    return Run(find(name, Events(on_event).note, alive=alive))


def get_all(name: str, *, on_event: OnEvent | None = None) -> list[Run]:
    """Return the run that *name* means, or the newest run of each size if it is a spec with `scaling`.

    Destroyed runs count. Raises UsageError if there is none, or if it is not clear which is the newest.
    """
    return [Run(record) for record in end.resolve_name(name, Events(on_event).note)]


def explain_doubt(name: str, run: Run) -> str:
    """Return why a user may not mean *run* by *name*, such as its folder; nothing if that is clear."""
    return named_run.explain_doubt(name, run.record)


def runs(name: str | None = None) -> list[Run]:
    """Return the runs on record that are not destroyed, oldest first; only those of the spec *name* if it is given.

    Records that cannot be read are left out; `runspec list` shows them.
    """
    if name is not None:
        return [Run(record) for record in run_record.list_runs(name)]
    readable = (record for record in run_record.list_all() if not run_record.find_damage(record))
    return [Run(record) for record in readable if not record.read_memory().deleted]
