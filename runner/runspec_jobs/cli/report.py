"""`runspec report`: ranks the tasks of a sweep, compares sizes of a job, or prints costs of membership changes."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from runspec_jobs.cli import apply, node_table, output
from runspec_jobs.cli.node_table import Known
from runspec_jobs.diagnostics.render import plain
from runspec_jobs.engine import apply as engine, clients, early_stop, named_run
from runspec_jobs.engine.measured_tasks import measured_tasks
from runspec_jobs.engine.status import full_status
from runspec_jobs.engine.wait import ways
from runspec_jobs.errors import DETACHED, OK, UsageError
from runspec_jobs.load import source
from runspec_jobs.load.source import InvalidSpec
from runspec_jobs.logs import follow
from runspec_jobs.provider import Client, Spec, State, Status
from runspec_jobs.report import elastic_costs, ranking, scaling_law, tables
from runspec_jobs.report.metric_extraction import Measured
from runspec_jobs.report.ranking import Placed
from runspec_jobs.report.scaling_law import Asked, Baseline, Point, Scaled, Series
from runspec_jobs.spec.metric import Metric
from runspec_jobs.state import atomic_io, run_group
from runspec_jobs.state.run_record import Record

POINTS_BYTES = 16 << 20
OF_A_RUN = ("follow", "stop_rest", "timeout")
ENDED_BADLY = (str(State.FAILED), str(State.CANCELLED))
OF_SIZES = ("baseline", "price_per_node_hour", "samples")


@dataclass(frozen=True)
class ReportOptions:
    """The options of `report`."""

    run: str | None
    html: Path | None
    spec: Path | None
    points: Path | None
    follow: bool
    stop_rest: bool
    baseline: str | None
    price_per_node_hour: str | None
    samples: str | None
    timeout: str | None
    as_json: bool


def report(options: ReportOptions) -> int:
    asked = _asked(options)
    if options.points is not None:
        _refuse(options, ("run", "spec", *OF_A_RUN), "--points FILE")
        title, notes, series = _points(options.points)
        return _sizes(title, notes, series, asked, options)
    if options.run is None:
        raise UsageError("no run given", "name a run (see runspec list), or use --points FILE")
    if (group := run_group.find(options.run)) is not None:
        _refuse(
            options, OF_A_RUN, f"{options.run}, which has several sizes, each with a run of its own"
        )
        return _sizes(group.name, (), [_measured(group, options)], asked, options)
    _refuse(options, OF_SIZES, f"{options.run}, which has no sizes to compare")
    return _run(named_run.kept(options.run, output.tell), options)


def _refuse(options: ReportOptions, names: Sequence[str], what: str) -> None:
    """Raise UsageError for the first of *names* that is on the command line: it has no effect with *what*."""
    for name in names:
        if getattr(options, name):
            given = options.run if name == "run" else f"--{name.replace('_', '-')}"
            raise UsageError(f"{given} cannot be used with {what}", f"remove {given}")


def _asked(options: ReportOptions) -> Asked:
    return Asked(
        _number(options.baseline, "--baseline"),
        _number(options.price_per_node_hour, "--price-per-node-hour"),
        _number(options.samples, "--samples"),
    )


def _number(text: str | None, option: str) -> float | None:
    if text is None:
        return None
    try:
        found = float(text)
    except ValueError:
        found = 0.0
    if not scaling_law.sensible(found):
        raise UsageError(f"{option}: '{text}' is not a number above 0")
    return found


def _metric(spec: Spec, options: ReportOptions) -> Metric:
    """Return the metric of the spec, or of the spec in `--spec`."""
    found = spec.metric
    if options.spec is not None:
        text = source.read_file(options.spec)
        other, problems = source.validated(text)
        if other is None or any(p.severity == "error" for p in problems):
            if text.document is not None:
                text.complain(problems)
            raise InvalidSpec(text)
        found = other.metric
    if found is None:
        hint = (
            "add metric: {name, goal, pattern}; for this run, pass the changed spec as --spec FILE"
        )
        raise UsageError("the spec has no metric", hint)
    return found


# A run


def _run(of: Record, options: ReportOptions) -> int:
    """Report on one run: its tasks by the metric, and its membership changes."""
    spec = of.spec
    elastic = spec.cluster.nodes.elastic
    if elastic and spec.metric is None and options.spec is None and not options.stop_rest:
        return _changes_alone(of, options)
    metric = _metric(spec, options)
    _, client, _ = clients.connect(of)
    if options.follow and not _follow(of, client, metric, options):
        return DETACHED
    status = full_status(of)
    found = ranking.ranked(metric, measured_tasks(of, client, spec, metric, status))
    if options.stop_rest:
        _stop_rest(of, client, found, status, len(found), options)
    known = node_table.changes(of, of.memory())
    _write_page(options, lambda: _pages().ranking_page(of.run, metric, found, _section(known)))
    if options.as_json:
        ranks = _ranks(of, status, metric, found)
        output.out_json({**ranks, **node_table.changes_json(known)})
    else:
        output.print_table(tables.ranking(metric, found))
        if known is not None:
            output.out("")
            _show(known)
    return OK


def _ranks(
    of: Record, status: Status, metric: Metric, found: Sequence[Placed]
) -> Mapping[str, Any]:
    measured = {"name": metric.name, "goal": metric.goal, "measured": tables.measured_by(metric)}
    rows = [ranking.row(placed) for placed in found]
    stopped = sorted(of.memory().stopped)
    what = {"run": of.run, "state": status.state, "metric": measured, "stopped": stopped}
    return {**what, "tasks": rows}


def _changes_alone(of: Record, options: ReportOptions) -> int:
    """Report on the membership changes of an elastic job without a metric."""
    if options.follow and not _follow(of, clients.connect(of)[1], None, options):
        return DETACHED
    known = node_table.changes(of, of.memory())
    _write_page(options, lambda: _pages().page(of.run, _section(known)))
    if options.as_json:
        output.out_json(
            {"run": of.run, "state": full_status(of).state, **node_table.changes_json(known)}
        )
    else:
        _show(known)
    return OK


def _show(known: Known | None) -> None:
    if known is None:
        output.tell("the run was not submitted")
        return
    if known.unknown:
        output.out(plain(f"changes of nodes: {elastic_costs.NOT_KNOWN}: {known.unknown}"))
        return
    for name, text in tables.changes_facts(known.changes):
        output.out(f"{name}: {text}")
    output.print_table(tables.changes(known.changes, node_table.when))


def _section(known: Known | None) -> Iterable[str]:
    if known is None:
        return ()
    found: Iterable[str] = _pages().changes_section(known.changes, known.unknown, node_table.when)
    return found


def _follow(of: Record, client: Client, metric: Metric | None, options: ReportOptions) -> bool:
    """Wait for the end of a run without printing its log; return False if Ctrl-C ended the wait."""
    limit_s = apply.wait_limit(options.timeout)
    try:
        with (
            output.interruptible() as sleep,
            early_stop.stopper(of, client, metric, output.tell) as stopper,
        ):
            show = early_stop.both(lambda line: None, stopper)
            slept = early_stop.watched(sleep, stopper)
            status = follow.follow(
                client, of.run, show, tell=output.tell, timeout_s=limit_s, sleep=slept
            )
    except KeyboardInterrupt:
        output.tell(f"interrupted; the job goes on. {ways(of.run)}")
        return False
    with of.opened(output.tell) as journal:
        engine.note_end(journal, status)
    return True


def _stop_rest(
    of: Record,
    client: Client,
    found: Sequence[Placed],
    status: Status,
    count: int,
    options: ReportOptions,
) -> None:
    kept = (p for p in found if p.place is not None and p.task.state not in ENDED_BADLY)
    best = next(kept, None)  # a failed task has no better result to wait for
    if best is None:
        hint = f"wait, or cancel all tasks with runspec cancel {of.run}"
        raise UsageError("no task has a value of the metric yet", hint)
    rest = early_stop.left(status, count) - {best.task.number}
    if rest:
        early_stop.stop(
            of, client, rest, f"task {best.task.number} is the best so far", output.tell
        )
    if not options.as_json:
        tasks_s = "1 task" if len(rest) == 1 else f"{len(rest)} tasks"
        output.tell(f"stopping {tasks_s}; task {best.task.number} is the best so far")


# Sizes


def _sizes(
    title: str, notes: Sequence[str], series: Sequence[Series], asked: Asked, options: ReportOptions
) -> int:
    found = [scaling_law.scaled(one, asked) for one in series]
    for one in found:
        if one.base is None and asked.base is not None:
            sizes = ", ".join(f"{p.size:g}" for p in one.series.points if p.throughput)
            raise UsageError(
                f"--baseline: there is no measurement of size {asked.base:g}",
                f"measured sizes: {sizes}",
            )
    _write_page(options, lambda: _pages().scaling_page(title, found, notes))
    if options.as_json:
        shown = [scaling_law.to_json(one) for one in found]
        output.out_json({"format": FORMAT, "title": title, "notes": list(notes), "series": shown})
        return OK
    output.out(plain(title))
    for one in found:
        _print_sizes(one)
    return OK


FORMAT = "runspec.scaling/v1"


def _print_sizes(found: Scaled) -> None:
    output.out(f"\n{plain(found.series.name)}")
    for name, text in tables.scaling_facts(found):
        output.out(f"  {name + ':':10} {plain(text)}")
    output.print_table(tables.scaling(found))


def _points(path: Path) -> tuple[str, list[str], list[Series]]:
    """Read the title, notes and measurements from a file in the format of `report --json`."""
    try:
        with path.open("rb") as file:
            found = json.loads(file.read(POINTS_BYTES))
        if found["format"] != FORMAT:
            raise ValueError(f"its format is not {FORMAT}")
        series = [scaling_law.from_json(one) for one in found["series"]]
        notes = [str(note) for note in found.get("notes", ())]
        return str(found.get("title", path.stem)), notes, series
    except OSError as exc:
        raise UsageError(f"cannot read {path}: {(exc.strerror or str(exc)).lower()}") from exc
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as exc:
        why = exc.args[0] if exc.args else "it is not JSON"
        why = f"'{why}' is missing" if isinstance(exc, KeyError) else why
        what = f"cannot read measurements from {path}: {why}"
        raise UsageError(what, "specs/scaling/ has an example") from exc


def _measured(group: Spec, options: ReportOptions) -> Series:
    """Return the metric of the newest run of each size of a group."""
    metric = _metric(group, options)
    points = [_point(size, of, metric) for size, of in run_group.runs(group).items()]
    return Series(group.name, "nodes", tuple(points), _baseline(group, metric))


def _point(size: int, of: Record | None, metric: Metric) -> Point:
    if of is None:
        return Point(size, None, "not applied yet")
    _, client, _ = clients.connect(of)
    status = full_status(of)
    (task,) = measured_tasks(of, client, of.spec, metric, status)
    found = task.measured
    if found.value is not None and not scaling_law.sensible(found.value):
        found = Measured(None, f"{metric.name} is {found.value:g}")
    why = found.why if found.value is None else ""
    note = of.run if status.state is State.SUCCEEDED else f"{of.run} {status.state}"
    return Point(size, found.value, why, note)


def _baseline(group: Spec, metric: Metric) -> Baseline:
    assert group.scaling is not None, "BUG: a group has sizes"
    wanted = group.container.requirements
    packages = wanted if isinstance(wanted, str) else ", ".join(wanted or ())
    return Baseline(
        gpus_per_node=group.cluster.gpus or 0,
        processes_per_node=group.processes_per_node,
        batch=group.scaling.batch,
        data=group.scaling.data,
        software=group.scaling.software or group.container.image or packages or None,
        provider=group.provider,
        metric=f"{metric.name}: {tables.measured_by(metric)}",
    )


# Ways to show it


def _pages() -> Any:
    from runspec_jobs.report import html  # only for --html

    return html


def _write_page(options: ReportOptions, page: Any) -> None:
    if options.html is None:
        return
    path = options.html
    if path.is_dir():
        raise UsageError(f"--html: {path} is a folder", "name a file in the folder")
    with atomic_io.translate_os_errors(path), atomic_io.replaced(path) as file:
        file.write(page().encode())
    if not options.as_json:
        output.tell(f"wrote {path}")
