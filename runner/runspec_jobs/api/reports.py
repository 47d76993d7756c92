"""Reports: the tasks of a run ranked by its metric, and the sizes of a job compared."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from runspec_agent.base.light_typing import NamedTuple
from runspec_jobs.api import listing
from runspec_jobs.api.events import Events, OnEvent
from runspec_jobs.api.lifecycle import Membership, Run, Status
from runspec_jobs.engine import clients, early_stop
from runspec_jobs.engine.outputs.run_inputs import list_provenance
from runspec_jobs.engine.status import read_full_status
from runspec_jobs.engine.wait import is_whole, note_followed
from runspec_jobs.errors import RunspecError, UsageError
from runspec_jobs.load import source
from runspec_jobs.load.source import InvalidSpec
from runspec_jobs.logs import follow, log_end, measured_tasks
from runspec_jobs.provider import Spec, State
from runspec_jobs.report import ranking, scaling_law, tables
from runspec_jobs.report.metric_extraction import Measured
from runspec_jobs.report.page import frame
from runspec_jobs.report.page.run_page import Changed, FailedLog, RunReport as RunReport
from runspec_jobs.report.page.timeline import Clock
from runspec_jobs.report.ranking import Placed as Placed
from runspec_jobs.report.scaling_law import (
    Asked as Asked,
    Baseline,
    Point,
    Scaled as Scaled,
    Series as Series,
)
from runspec_jobs.spec.metric import Metric as Metric
from runspec_jobs.state import atomic_io, attempt_history, run_group, written_files
from runspec_jobs.state.run_record import Record

FORMAT = "runspec.scaling/v1"
NO_METRIC = "the spec has no metric"
ADD_METRIC = "add metric: {name, goal, pattern}; for this run, pass the changed spec as --spec FILE"
POINTS_BYTES = 16 << 20
FAILED_TASKS = 10  # of a page, each with the end of its log


class Sizes(NamedTuple):
    """Measurements at several sizes, as they are or as they compare."""

    title: str
    notes: Sequence[str]
    series: Sequence[Scaled]


class Stopped(NamedTuple):
    """The task that is the best so far, and the others, which were asked to stop."""

    best: int
    rest: set[int]


def choose_metric(spec: Spec, other: Path | None = None) -> Metric:
    """Return the metric of the spec, or of the spec in the file *other*.

    Raises UsageError if there is none, and InvalidSpec if the other spec has errors.
    """
    metric = spec.metric
    if other is not None:
        text = source.read_file(other)
        read, problems = source.validate_text(text)
        if read is None or any(p.severity == "error" for p in problems):
            if text.document is not None:
                text.add_problems(problems)
            raise InvalidSpec(text)
        metric = read.metric
    if metric is None:
        raise UsageError(NO_METRIC, ADD_METRIC)
    return metric


def rank_tasks(run: Run, metric: Metric, status: Status) -> list[Placed]:
    """Return all tasks of *run*, whose status is *status*, the best by *metric* first."""
    client, spec = run.connect(), run.spec
    tasks = measured_tasks.measure_tasks(run.record, client, spec, metric, status)
    return list(ranking.rank_tasks(metric, tasks))


def gather_report(
    run: Run,
    status: Status,
    metric: Metric | None,
    ranking: Sequence[Placed],
    known: Membership | None,
    now_s: float,
) -> RunReport:
    """Return everything that the page of *run* shows, without a request.

    *ranking* is its ranking by *metric*, *known* its membership changes, and *now_s* the time in seconds since 1970.
    """
    record, spec, memory = run.record, run.spec, run.record.read_memory()
    plan, done = record.plan, memory.done_at
    # The last step submits the job, so the wait for a machine begins when it is done.
    last = plan.steps[-1].id if plan.steps else ""
    clock = Clock(memory.born or None, done.get(last), memory.ended_at, now_s)
    return RunReport(
        run.id,
        run.provider,
        status,
        run.shape,
        clock,
        {step.id: step.title for step in plan.steps},
        {s.id: done[s.id] - memory.begun_at[s.id] for s in plan.steps if s.id in done},
        record.job.decode("utf-8", "replace"),
        plan.digest,
        list(_describe_request(spec)),
        metric,
        ranking,
        known and Changed(*known),
        record.machines,
        record.sources,
        read=list_provenance(record),
        places=list(_list_places(memory.about)),
    )


def read_failed_logs(run: Run, status: Status) -> list[FailedLog]:
    """Return the last lines of the first tasks that failed; none if the service does not give them."""
    if not any(node.state is State.FAILED for node in status.nodes):
        return []
    try:
        ends = log_end.read_failed_ends(run.connect(), run.id, status, FAILED_TASKS)
    except RunspecError:  # a report without logs is better than none
        return []
    return [FailedLog(*end) for end in ends]


def _list_places(about: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield where a run keeps its files."""
    yield from ((name, str(about[name])) for name in ("outputs", "logs") if about.get(name))


def _describe_request(spec: Spec) -> Iterator[tuple[str, str]]:
    """Yield what a spec asks for, for people."""
    if spec.container.image:
        yield "image", spec.container.image
    if spec.cluster.bought != "on-demand":
        yield "capacity", spec.cluster.bought


def follow_metric(
    run: Run,
    metric: Metric | None,
    *,
    timeout_s: float | None = None,
    on_event: OnEvent | None = None,
    sleep: Callable[[float], None] = time.sleep,
) -> Status:
    """Wait for the end of *run* without its log, and stop tasks early as *metric* says."""
    record, client, tell = run.record, run.connect(), Events(on_event).wait
    # Asked before following: what counts is whether jobs were missing while the others ran.
    whole = is_whole(record)
    keeper = attempt_history.Keeper(record, time.time)
    with early_stop.make_stopper(record, client, metric, tell) as stopper:

        def seen(status: Status) -> None:
            keeper(status)
            if stopper is not None:
                stopper.note_states(status)

        show = (lambda line: None) if stopper is None else stopper.read_line
        slept = early_stop.watch_sleep(sleep, stopper)
        status = follow.follow(
            client,
            record.run,
            show,
            tell=tell,
            timeout_s=timeout_s,
            reconcile=clients.make_reconciler(client, record.run),
            seen=seen,
            sleep=slept,
        )
    with record.open_journal(tell) as journal:
        note_followed(record.run, journal, status, whole)
    return status


def stop_rest(
    run: Run, ranking: Sequence[Placed], status: Status, *, on_event: OnEvent | None = None
) -> Stopped:
    """Stop all tasks except the best so far. Raises UsageError if none is known."""
    best = next((p for p in ranking if p.place is not None), None)
    if best is None:
        hint = f"wait, or cancel all tasks with runspec cancel {run.id}"
        raise UsageError("no task has a value of the metric yet", hint)
    number = best.task.number
    rest = early_stop.list_left(status, len(ranking)) - {number}
    if rest:
        tell = Events(on_event).wait
        early_stop.stop(run.record, run.connect(), rest, f"task {number} is the best so far", tell)
    return Stopped(number, rest)


def list_stopped_tasks(run: Run) -> list[int]:
    """Return the tasks that were stopped early."""
    return sorted(run.record.read_memory().stopped)


def is_group(name: str) -> bool:
    """Return whether *name* means a spec with `scaling`, which was applied."""
    return run_group.find(name) is not None


def compare_sizes(name: str, asked: Asked, spec: Path | None = None) -> Sizes:
    """Compare the newest run of each size of the spec called *name*, by its metric or that of the file *spec*.

    Raises UsageError if there is no such spec with `scaling`, or if *asked* names a size that was not measured.
    """
    group = run_group.find(name)
    if group is None:
        raise UsageError(f"there is no spec '{name}' with scaling", "see runspec list")
    metric = choose_metric(group, spec)
    points = [_point(size, record, metric) for size, record in run_group.find_runs(group).items()]
    assert group.scaling is not None, "BUG: a group has sizes"
    unit, whole = group.scaling.unit, group.cluster.gpus or max(group.scaling.sizes)
    per_node = 1 if unit == "nodes" else whole  # a process has its share of the node
    series = Series(group.name, unit, tuple(points), _find_baseline(group, metric), per_node)
    return Sizes(group.name, (), _scale([series], asked))


def read_sizes(path: Path, asked: Asked) -> Sizes:
    """Compare the measurements in a file in the format of `report --json`."""
    try:
        with path.open("rb") as file:
            # A wrong file, such as a data set, should not be read into memory as a whole.
            content = json.loads(file.read(POINTS_BYTES))
        if content["format"] != FORMAT:
            raise ValueError(f"its format is not {FORMAT}")
        series = [scaling_law.read_series(fields) for fields in content["series"]]
        notes = [str(note) for note in content.get("notes", ())]
        title = str(content.get("title", path.stem))
    except OSError as exc:
        raise UsageError(f"cannot read {path}: {(exc.strerror or str(exc)).lower()}") from exc
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as exc:
        why = exc.args[0] if exc.args else "it is not JSON"
        why = f"'{why}' is missing" if isinstance(exc, KeyError) else why
        message = f"cannot read measurements from {path}: {why}"
        raise UsageError(message, "specs/scaling/ has an example") from exc
    return Sizes(title, notes, _scale(series, asked))


def write_sizes(sizes: Sizes) -> dict[str, Any]:
    """Return a comparison as JSON, in the format that `read_sizes` reads."""
    shown = [scaling_law.write_report(report) for report in sizes.series]
    return {"format": FORMAT, "title": sizes.title, "notes": list(sizes.notes), "series": shown}


def is_sensible(number: float) -> bool:
    """Return whether *number* can be a size, a price or a count: finite and above 0."""
    return scaling_law.is_sensible(number)


def write_page(path: Path, page: Callable[[], str], run: str = "", *, force: bool = False) -> None:
    """Write the HTML that *page* returns about *run* to the file *path*.

    Raises UsageError if that is a folder, and Conflict if it is a file that no report has written, or that has
    changed since, unless *force* is true.
    """
    if path.is_dir():
        raise UsageError(f"--html: {path} is a folder", "name a file in the folder")
    # An unchanged page of an earlier report may be replaced; a file that somebody has edited may not.
    if not _is_page(path) or written_files.has_changed(path):
        free = {path: ""}
        written_files.demand_free(free, "report", run, force=force, way_out="name another file")
    with atomic_io.translate_os_errors(path), atomic_io.write_file(path) as file:
        file.write(page().encode())
    written_files.note(path.parent, "report", run, [path])


def _is_page(path: Path) -> bool:
    """Return whether *path* is a file that begins as the pages of runspec do."""
    if path.is_symlink() or not path.is_file():
        return False
    with atomic_io.translate_os_errors(path, "read"), path.open("rb") as file:
        return file.read(len(frame.HEAD)) == frame.HEAD.encode()


def _scale(series: Sequence[Series], asked: Asked) -> list[Scaled]:
    reports = [scaling_law.make_report(series, asked) for series in series]
    for report in reports:
        if report.base is None and asked.base is not None:
            measured = ", ".join(f"{p.size:g}" for p in report.series.points if p.throughput)
            raise UsageError(
                f"--baseline: there is no measurement of size {asked.base:g}",
                f"measured sizes: {measured}",
            )
    return reports


def _point(size: int, record: Record | None, metric: Metric) -> Point:
    if record is None:
        return Point(size, None, "not applied yet")
    status = read_full_status(record)
    state = listing.choose_shown_state(record, record.read_memory(), status)
    if state == listing.NOT_STARTED:
        return Point(size, None, status.reason, f"{record.run} {state}")
    client = Run(record).connect()
    (task,) = measured_tasks.measure_tasks(record, client, record.spec, metric, status)
    measured = task.measured
    if measured.value is not None and not scaling_law.is_sensible(measured.value):
        measured = Measured(None, f"{metric.name} is {measured.value:g}")
    why = measured.why if measured.value is None else ""
    note = record.run if status.state is State.SUCCEEDED else f"{record.run} {state}"
    return Point(size, measured.value, why, note)


def _find_baseline(group: Spec, metric: Metric) -> Baseline:
    assert group.scaling is not None, "BUG: a group has sizes"
    wanted = group.container.requirements
    packages = wanted if isinstance(wanted, str) else ", ".join(wanted or ())
    return Baseline(
        gpus_per_node=group.cluster.gpus or 0,
        processes_per_node=group.processes_per_node if group.scaling.unit == "nodes" else None,
        batch=group.scaling.batch,
        data=group.scaling.data,
        software=group.scaling.software or group.container.image or packages or None,
        provider=group.provider,
        metric=f"{metric.name}: {tables.describe_measurement(metric)}",
    )
