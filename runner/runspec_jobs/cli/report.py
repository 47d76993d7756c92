"""`runspec report`: ranks the tasks of a sweep, compares sizes of a job, or prints costs of membership changes."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from runspec_jobs.api import listing, reports
from runspec_jobs.api.chains import ChainRun, get_chain
from runspec_jobs.api.lifecycle import Membership, Run, Status, get, suggest_commands
from runspec_jobs.api.reports import Asked, Metric, Placed, Scaled, Sizes
from runspec_jobs.cli import destroy, output, spending
from runspec_jobs.cli.views import node_table
from runspec_jobs.diagnostics.render import escape_control
from runspec_jobs.errors import DETACHED, OK, UsageError
from runspec_jobs.options.watch_verbs import ReportOptions
from runspec_jobs.report import elastic_costs, ranking, tables, usage
from runspec_jobs.report.usage import Used

OF_A_RUN = ("follow", "stop_rest", "timeout")
OF_SIZES = ("baseline", "price_per_node_hour", "samples")


def report(options: ReportOptions) -> int:
    asked = Asked(
        _number(options.baseline, "--baseline"),
        _number(options.price_per_node_hour, "--price-per-node-hour"),
        _number(options.samples, "--samples"),
    )
    if options.points is not None:
        _refuse(options, ("run", "spec", *OF_A_RUN), "--points FILE")
        return _sizes(reports.read_sizes(options.points, asked), options)
    if options.run is None:
        raise UsageError("no run given", "name a run (see runspec list), or use --points FILE")
    if (chain := get_chain(options.run)) is not None:
        _refuse(options, (*OF_A_RUN, *OF_SIZES, "spec"), f"{options.run}, which is a chain")
        return _report_chain(chain, options)
    if reports.is_group(options.run):
        _refuse(
            options, OF_A_RUN, f"{options.run}, which has several sizes, each with a run of its own"
        )
        return _sizes(reports.compare_sizes(options.run, asked, options.spec), options)
    _refuse(options, OF_SIZES, f"{options.run}, which has no sizes to compare")
    of = get(options.run, on_event=output.tell_event)
    if options.stop_rest:
        destroy.demand_meant(options.run, [of], "report RUN --stop-rest")
    return _run(of, options)


def _refuse(options: ReportOptions, names: Sequence[str], what: str) -> None:
    """Raise UsageError for the first of *names* that is on the command line: it has no effect with *what*."""
    for name in names:
        if getattr(options, name):
            given = options.run if name == "run" else f"--{name.replace('_', '-')}"
            raise UsageError(f"{given} cannot be used with {what}", f"remove {given}")


def _number(text: str | None, option: str) -> float | None:
    if text is None:
        return None
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not reports.is_sensible(number):
        raise UsageError(f"{option}: '{text}' is not a number above 0")
    return number


# A chain


def _report_chain(chain: ChainRun, options: ReportOptions) -> int:
    """Print the status of a chain, or write its page."""
    from runspec_jobs.cli import chain as of_chain

    ends = chain.status()
    _write_page(options, lambda: of_chain.make_page(chain, ends))
    return of_chain.status_of_chain(chain, as_json=options.as_json)


# A run


def _run(of: Run, options: ReportOptions) -> int:
    """Report on one run: its tasks by the metric, and its membership changes."""
    metric = _metric(of, options)
    if options.follow and not _follow(of, metric, options):
        return DETACHED
    status = of.status()
    ranking = reports.rank_tasks(of, metric, status) if metric is not None else []
    if options.stop_rest:
        _stop_rest(of, ranking, status, options)
    known = of.membership()
    used = of.read_usage(status)
    _write_page(options, lambda: _page(of, status, metric, ranking, known, used))
    if metric is None:
        return _without_metric(of, status, known, used, options)
    if options.as_json:
        ranks = _ranks(of, status, metric, ranking)
        more = _cost_and_usage(of, status, used)
        output.out_json("runspec.ranking/v1", {**ranks, **more, **node_table.changes_json(known)})
        return OK
    output.print_table(tables.make_ranking_table(metric, ranking))
    _print_cost(of, status, used)
    if known is not None:
        output.out("")
        _show(known)
    return OK


def _metric(of: Run, options: ReportOptions) -> Metric | None:
    """Return the metric to report by, or None if there is none and the command needs none."""
    if of.spec.metric is None and options.spec is None and not options.stop_rest:
        return None
    return reports.choose_metric(of.spec, options.spec)


def _page(
    of: Run,
    status: Status,
    metric: Metric | None,
    ranking: Sequence[Placed],
    known: Membership | None,
    used: Used | None,
) -> str:
    from runspec_jobs.report.page import run_page  # only for --html

    about = reports.gather_report(of, status, metric, ranking, known, time.time())
    lines = (
        line.strip().partition(": ") for line in spending.spent_lines(spending.of_run(of, status))
    )
    spent = [(name, text) for name, _, text in lines]
    ends = reports.read_failed_logs(of, status)
    return run_page.run_page(about._replace(usage=used, spent=spent, ends=ends), node_table.when)


def _ranks(of: Run, status: Status, metric: Metric, found: Sequence[Placed]) -> Mapping[str, Any]:
    measured = {
        "name": metric.name,
        "goal": metric.goal,
        "measured": tables.describe_measurement(metric),
    }
    rows = [ranking.write_row(placed) for placed in found]
    stopped = reports.list_stopped_tasks(of)
    what = {"run": of.id, "state": status.state, "metric": measured, "stopped": stopped}
    return {**what, "tasks": rows}


def _without_metric(
    of: Run,
    status: Status,
    known: Membership | None,
    used: Used | None,
    options: ReportOptions,
) -> int:
    """Report on a run whose spec has no metric: the membership changes of an elastic job, or else its state."""
    if options.as_json:
        document = {"run": of.id, "state": status.state, **_cost_and_usage(of, status, used)}
        if known is not None:
            output.out_json("runspec.changes/v1", {**document, **node_table.changes_json(known)})
        else:
            more = {"reason": status.reason, "exit_code": status.exit_code}
            output.out_json("runspec.report/v1", {**document, **more})
        return OK
    if known is not None:
        _show(known)
        _print_cost(of, status, used)
        return OK
    if options.html is None:
        output.tell(f"{reports.NO_METRIC}, so nothing is compared; {reports.ADD_METRIC}")
    for line in (
        *node_table.head(of.id, listing.summarize(of, status).state, status),
        *node_table.lines(status.nodes),
    ):
        output.out(line)
    _print_cost(of, status, used)
    return OK


def _cost_and_usage(of: Run, status: Status, used: Used | None) -> dict[str, Any]:
    cost = spending.spent_json(spending.of_run(of, status))
    return {"cost": cost, "usage": usage.write_usage(used)}


def _print_cost(of: Run, status: Status, used: Used | None) -> None:
    for line in spending.spent_lines(spending.of_run(of, status)):
        output.out(line.removeprefix("  "))
    for line in usage.format_lines(used):
        output.out(escape_control(line))


def _show(known: Membership) -> None:
    if known.unknown:
        output.out(escape_control(f"changes of nodes: {elastic_costs.NOT_KNOWN}: {known.unknown}"))
        return
    for name, text in tables.list_changes_facts(known.changes):
        output.out(f"{name}: {text}")
    output.print_table(tables.make_changes_table(known.changes, node_table.when))


def _follow(of: Run, metric: Metric | None, options: ReportOptions) -> bool:
    """Wait for the end of a run without printing its log; return False if Ctrl-C ended the wait."""
    try:
        with output.interruptible() as sleep:
            reports.follow_metric(
                of, metric, timeout_s=options.timeout, on_event=output.tell_event, sleep=sleep
            )
    except KeyboardInterrupt:
        output.tell(f"interrupted; the job goes on. {suggest_commands(of.id)}")
        return False
    return True


def _stop_rest(of: Run, ranking: Sequence[Placed], status: Status, options: ReportOptions) -> None:
    best, rest = reports.stop_rest(of, ranking, status, on_event=output.tell_event)
    if not options.as_json:
        tasks_s = "1 task" if len(rest) == 1 else f"{len(rest)} tasks"
        output.tell(f"stopping {tasks_s}; task {best} is the best so far")


# Sizes


def _sizes(sizes: Sizes, options: ReportOptions) -> int:
    _write_page(options, lambda: _scaling_page(sizes))
    if options.as_json:
        output.out_json(reports.FORMAT, reports.write_sizes(sizes))
        return OK
    output.out(escape_control(sizes.title))
    for series in sizes.series:
        _print_sizes(series)
    return OK


def _print_sizes(scaled: Scaled) -> None:
    output.out(f"\n{escape_control(scaled.series.name)}")
    for name, text in tables.list_scaling_facts(scaled):
        output.out(f"  {name + ':':10} {escape_control(text)}")
    output.print_table(tables.make_scaling_table(scaled))


# Pages


def _scaling_page(sizes: Sizes) -> str:
    from runspec_jobs.report.page import scaling_page  # only for --html

    return scaling_page.make_scaling_page(sizes.title, sizes.series, sizes.notes)


def _write_page(options: ReportOptions, page: Callable[[], str]) -> None:
    if options.html is None:
        return
    reports.write_page(options.html, page, options.run or "", force=options.force)
    if not options.as_json:
        output.tell(f"wrote {options.html}")
