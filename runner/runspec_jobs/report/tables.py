"""Makes the tables and facts of reports, for terminals and HTML pages alike. All functions are pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from runspec_agent.base.light_typing import NamedTuple
from runspec_jobs.provider import MembershipChange
from runspec_jobs.report import elastic_costs
from runspec_jobs.report.ranking import Placed, explain
from runspec_jobs.report.scaling_law import Fit, Row, Scaled, Series
from runspec_jobs.spec.metric import Metric

Cell = float | str | None
NOT_SAID = "not said"


class Table(NamedTuple):
    """Rows under titles; a cell is a number, a text, or None."""

    titles: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]


def make_drawn_table(tasks: Sequence[Mapping[str, str]]) -> Table:
    """Return a table of the parameter values of each task."""
    names = list(tasks[0]) if tasks else []
    return Table(("task", *names), tuple((i, *task.values()) for i, task in enumerate(tasks)))


def make_ranking_table(metric: Metric, ranking: Sequence[Placed]) -> Table:
    """Return a table of the tasks of a sweep in the order of their ranks, with all their values.

    The column `why` is there if a task has no number or no place.
    """
    whys = any(explain(p.task) for p in ranking)
    # All tasks of a sweep have the same parameters.
    names = list(ranking[0].task.values) if ranking else []
    rows = tuple(
        (
            p.place,
            p.task.number,
            *(p.task.values[name] for name in names),
            p.task.measured.value,
            p.task.state,
            *([explain(p.task)] if whys else []),
        )
        for p in ranking
    )
    return Table(("place", "task", *names, metric.name, "state", *(["why"] if whys else [])), rows)


def make_changes_table(changes: Sequence[MembershipChange], when: elastic_costs.When) -> Table:
    """Return a table of the membership changes in order, with the cost of each."""
    rows = tuple(
        (
            cost.change.task,
            cost.change.generation,
            when(cost.change.at),
            elastic_costs.format_nodes(cost.change),
            elastic_costs.get_seconds(cost),
            elastic_costs.get_steps(cost),
            elastic_costs.describe_nodes(cost.change),
        )
        for cost in elastic_costs.compute_costs(changes)
    )
    cost = "s without a step", "steps done again"
    return Table(("task", "generation", "when", "nodes", *cost, "nodes and reasons"), rows)


def list_changes_facts(changes: Sequence[MembershipChange]) -> Iterator[tuple[str, str]]:
    """Yield the total cost of all membership changes."""
    total = elastic_costs.sum_costs(changes)
    yield "changes of nodes", f"{total.changes:,}"
    if total.changes:
        gap, again = elastic_costs.format_totals(total)
        yield "without a step", gap
        yield "steps done again", again


def describe_measurement(metric: Metric) -> str:
    """Return in one line how the metric was measured."""
    if metric.table is not None:
        return f"{metric.key or metric.column} in {metric.file}, {metric.take}"
    where = metric.file or "the log"
    how = f"the pattern {metric.pattern}" if metric.pattern else f"the {metric.reader} table"
    column = f", column {metric.column}" if metric.column else ""
    return f"{how} in {where}{column}, {metric.take}"


def make_scaling_table(report: Scaled) -> Table:
    """Return a table of the sizes in order, with columns for prices and times if they were requested."""
    asked = report.asked
    priced, timed = asked.price_per_node_hour is not None, asked.samples is not None
    titles = [report.series.unit, "samples/s", "speed-up", "efficiency %", "by the law"]
    titles += ["cost per million"] if priced else []
    titles += ["hours"] if timed else []
    titles += ["cost"] if priced and timed else []
    rows = []
    for row in report.rows:
        percent = None if row.efficiency is None else round(row.efficiency * 100, 2)
        cells: list[Cell] = [row.size, row.throughput, row.speedup, percent, row.expected]
        cells += [row.cost_per_million] if priced else []
        cells += [row.hours] if timed else []
        cells += [row.cost] if priced and timed else []
        remarks = (row.why, _describe_slowdown(report, row), row.note)
        rows.append((*cells, "; ".join(text for text in remarks if text)))
    return Table((*titles, "remarks"), tuple(rows))


def _describe_slowdown(report: Scaled, row: Row) -> str:
    if report.base is None or row.speedup is None or not row.speedup < 1 or row.size < report.base:
        return ""
    return f"slower than {report.base:g} {_format_unit(report.series, report.base)}"


def list_scaling_facts(report: Scaled) -> Iterator[tuple[str, str]]:
    """Yield what the numbers were measured on, and the law that fits them."""
    series = report.series
    yield "baseline", _describe_baseline(report)
    yield "batch", NOT_SAID if series.baseline.batch is None else f"{series.baseline.batch:,}"
    yield "data", series.baseline.data or NOT_SAID
    yield "software", series.baseline.software or NOT_SAID
    if series.baseline.provider:
        yield "provider", series.baseline.provider
    if series.baseline.metric:
        yield "measured", series.baseline.metric
    yield "law", _describe_law(report)
    if report.asked.price_per_node_hour is not None:
        yield (
            "price",
            f"{report.asked.price_per_node_hour:g} per node and hour, as given on the command line",
        )
    if report.asked.samples is not None:
        yield (
            "samples",
            f"{report.asked.samples:,.0f}; hours without a measured speed are the law's",
        )
    if series.source:
        yield "source", series.source


def _describe_baseline(report: Scaled) -> str:
    if report.base is None:
        return "none: no size has a number to compare with"
    return (
        f"{report.base:g} {_format_unit(report.series, report.base)}{_describe_node(report.series)}"
    )


def _format_unit(series: Series, count: float) -> str:
    if count != 1:
        return series.unit
    return series.unit.removesuffix("es" if series.unit == "processes" else "s")


def _describe_node(series: Series) -> str:
    baseline = series.baseline
    gpus = (
        "GPUs a node: not said"
        if baseline.gpus_per_node is None
        else f"{baseline.gpus_per_node} GPUs a node"
    )
    each = baseline.processes_per_node
    return f"; {gpus}" + (f", {each} processes a node" if each is not None else "")


def _describe_law(report: Scaled) -> str:
    law = report.fit
    if law is None:
        return "none: at least two sizes with a throughput are needed"
    unit_text = f"{law.base:g} {_format_unit(report.series, law.base)}"
    return (
        f"T(n) = n r / (1 + a (n - 1)), n in units of {unit_text}: r = {law.rate:,.4g} samples/s, "
        f"a = {law.lost:.5f}, {_describe_parallel(law, report.series.unit)}; fitted to {law.points} sizes, "
        f"at most {law.worst:.1%} off"
    )


def _describe_parallel(law: Fit, unit: str) -> str:
    """Return what the law says of the work: outside of 0 to 1, *a* is no part of it."""
    if law.parallel is not None:
        return f"parallel part {law.parallel:.3%}"
    return "faster than linear" if law.lost < 0 else f"slower with more {unit}"
