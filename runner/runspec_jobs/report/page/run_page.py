"""Writes the page of a run: what was measured, its phases and attempts, its cost, and its spec. All pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from html import escape
from itertools import accumulate
from typing import Any

from runspec_agent.base.light_typing import NamedTuple
from runspec_jobs.provider import MembershipChange, NodeStatus, Source, State, Status
from runspec_jobs.report.numbers import format_number, format_usd
from runspec_jobs.report.page import metric_plots, svg, timeline, usage_section
from runspec_jobs.report.page.axis import Axis
from runspec_jobs.report.page.frame import (
    MOST,
    cut,
    draw_changes,
    draw_table,
    drop_empty_columns,
    list_facts,
    make_page,
    note,
)
from runspec_jobs.report.page.svg import Line, Spot, draw_plot
from runspec_jobs.report.page.timeline import When
from runspec_jobs.report.ranking import Placed
from runspec_jobs.report.tables import Table, describe_measurement, make_ranking_table
from runspec_jobs.report.usage import Used
from runspec_jobs.spec.metric import Metric

TASKS = 1000  # the most tasks in the table,
TABLE = 600_000  # the most characters of the table
CELL = 15  # characters of the tags of a cell
SPEC = 200_000  # characters of the spec
MOST_LOG = 4_000  # characters of the end of a log
MACHINES = 8


class Changed(NamedTuple):
    """The membership changes of an elastic run, or the reason why they are not known."""

    changes: Sequence[MembershipChange]
    unknown: str = ""


class FailedLog(NamedTuple):
    """The last lines of the log of a failed node; None if they were not read."""

    task: int
    rank: int
    lines: Sequence[str] | None


class RunReport(NamedTuple):
    """Everything that the page of a run shows, as it was read from its record and its service.

    *shape* is the number of nodes of each task, and of tasks. *took_s* has the seconds that each step took, *machines*
    what the record says of machines and prices, and *sources* the folders that were uploaded. *facts* are further pairs
    of a name and a text about the run, *spent* such pairs about what it has cost, *places* about where it keeps its
    files, and *read* about what it has read of other runs. *ends* are the last lines of tasks that failed.
    """

    run: str
    provider: str
    status: Status
    shape: tuple[int, int]
    clock: timeline.Clock
    titles: Mapping[str, str]
    took_s: Mapping[str, float]
    spec_text: str
    digest: str
    facts: Sequence[tuple[str, str]] = ()
    metric: Metric | None = None
    ranking: Sequence[Placed] = ()
    changed: Changed | None = None
    machines: Mapping[str, Any] = {}
    sources: Mapping[str, Source] = {}
    usage: Used | None = None
    spent: Sequence[tuple[str, str]] = ()
    read: Sequence[tuple[str, str]] = ()
    places: Sequence[tuple[str, str]] = ()
    ends: Sequence[FailedLog] = ()


def run_page(report: RunReport, when: When) -> str:
    """Return the page of a run; *when* formats a time for the reader."""
    body = [*_draw_head(report, when), *_draw_failures(report), *_draw_metric(report)]
    body += _time(report, when)
    if report.changed is not None:
        body += draw_changes(report.changed.changes, report.changed.unknown, when)
        body.append(_draw_nodes(report.changed.changes))
    return make_page(
        report.run,
        [*body, *usage_section.draw_usage(report.usage), *_draw_cost(report), *_draw_spec(report)],
    )


def _draw_head(report: RunReport, when: When) -> Iterator[str]:
    status, (nodes, tasks) = report.status, report.shape
    size = (
        f"{_count_words(tasks, 'task')} of {_count_words(nodes, 'node')}"
        if tasks > 1
        else _count_words(nodes, "node")
    )
    state = f'<span class="state {status.state}">{status.state}</span>'
    began = report.clock.began_s
    parts = [report.provider, size, *([] if began is None else [f"began {when(began)}"])]
    yield f'<p class="lead">{state} · {escape(" · ".join(parts))}</p>'
    if not status.state.terminal:
        yield note(
            f"This is what was known at {when(report.clock.now_s)}; the page does not change."
        )
    rows = [("why", cut(status.reason, 2000))] if status.reason else []
    rows += [("exit code", str(status.exit_code))] if status.exit_code else []
    yield list_facts([*rows, *report.facts, *report.places])


def _count_words(count: int, noun: str) -> str:
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


# Why tasks failed


def _draw_failures(report: RunReport) -> Iterator[str]:
    """Yield the last lines of failed tasks, and how many more there are."""
    nodes, tasks = report.shape
    failed = {node.task for node in report.status.nodes if node.state is State.FAILED}
    if not report.ends:
        return
    yield "<h2>Failed</h2>"
    codes = {(n.task, n.rank): n.exit_code for n in report.status.nodes}
    for end in report.ends:
        parts = [f"task {end.task}"] * (tasks > 1) + [f"node {end.rank}"] * (nodes > 1)
        code = codes.get((end.task, end.rank))
        title = f"✗ {', '.join(parts) or 'the job'}" + (f": exit code {code}" if code else "")
        option = f" --task {end.task}" * (tasks > 1) + f" --node {end.rank}" * (nodes > 1)
        yield f'<details open=""><summary>{escape(title)}</summary>'
        if end.lines:
            text = "\n".join(end.lines)
            # Why a program failed is in its last words.
            shown = text if len(text) <= MOST_LOG else f"…{text[1 - MOST_LOG :]}"
            yield f"<pre>{escape(shown)}</pre>"
        else:
            yield note("Its log is empty." if end.lines is not None else "Its log was not read.")
        yield f"{note(f'All of it: runspec logs {report.run}{option}')}</details>"
    if len(failed) > len(report.ends):
        yield note(f"{len(failed) - len(report.ends):,} more failed tasks are not shown.")


# What was measured


def _draw_metric(report: RunReport) -> Iterator[str]:
    metric, ranked = report.metric, report.ranking
    if metric is None:
        if report.shape[1] > 1:
            yield note("The spec has no metric, so its tasks are not compared.")
        return
    yield f"<h2>{escape(metric.name)}</h2>"
    yield from metric_plots.draw_best(metric, ranked)
    yield list_facts(
        [
            *_list_only_value(metric, ranked),
            ("goal", _explain_goal(metric)),
            ("measured", describe_measurement(metric)),
        ]
    )
    drawn = [
        metric_plots.draw_curves(metric, ranked),
        *metric_plots.draw_by_parameters(metric, ranked),
    ]
    if plots := [f"<div>{plot}</div>" for plot in drawn if plot]:
        yield '<div class="plots">'
        yield from plots
        yield "</div>"
    if len(ranked) > 1:
        # Without a place, even the first task has no result.
        best = 0 if ranked[0].place == 1 else None
        shown = _take_fitting(drop_empty_columns(make_ranking_table(metric, ranked[:TASKS])))
        failed = {n for n, placed in enumerate(ranked[:TASKS]) if placed.task.state == State.FAILED}
        yield draw_table(shown, best, failed)
        if len(shown.rows) < len(ranked):
            more = len(ranked) - len(shown.rows)
            yield note(f"{more:,} more tasks: runspec report --json lists all")
    of_curves = metric_plots.list_numbers(ranked)
    if of_curves.rows:
        yield f"<details><summary>The numbers of each task</summary>{draw_table(of_curves)}</details>"


def _take_fitting(table: Table) -> Table:
    """Return the first rows, which have room in the page."""
    sizes = (sum(CELL + min(len(str(cell)), MOST) for cell in row) for row in table.rows)
    # Not cut inside a row: a table whose last row has fewer cells looks damaged.
    count = sum(size <= TABLE for size in accumulate(sizes))
    return table._replace(rows=table.rows[: max(1, count)])


def _explain_goal(metric: Metric) -> str:
    return "the smallest is best" if metric.goal == "min" else "the largest is best"


def _list_only_value(metric: Metric, ranked: Sequence[Placed]) -> Iterator[tuple[str, str]]:
    """Yield the value of the only task, which needs no table."""
    if len(ranked) == 1:
        measured = ranked[0].task.measured
        among = f" ({metric.take} of {measured.among:,} values)" if measured.among > 1 else ""
        yield (
            metric.name,
            measured.why if measured.value is None else f"{format_number(measured.value)}{among}",
        )


# Phases, attempts and reclaims


def _time(report: RunReport, when: When) -> Iterator[str]:
    status, nodes = report.status, report.status.nodes
    phases = timeline.list_phases(report.clock, nodes, ended=status.state.terminal)
    chosen = timeline.choose_nodes(nodes, timeline.LANES)
    picture = timeline.draw_lanes(timeline.make_lanes(phases, chosen, report.shape))
    if not picture and not nodes:
        return
    yield "<h2>Phases and attempts</h2>"
    yield list_facts([*timeline.list_phase_facts(phases), *_sum_attempts(nodes)])
    yield picture
    if len(chosen) < len(nodes):
        yield note(
            f"{len(chosen)} of {len(nodes):,} nodes are shown: those that failed or were tried again, then the first"
        )
    shown = timeline.choose_nodes(nodes, timeline.ROWS)
    if shown:
        attempts = timeline.make_attempt_table(shown, report.shape, when)
        state = attempts.titles.index("state")
        failed = {n for n, row in enumerate(attempts.rows) if row[state] == State.FAILED}
        yield draw_table(drop_empty_columns(attempts), failed=failed)
    if report.took_s:
        steps = timeline.make_step_table(report.titles, report.took_s)
        yield f"<details><summary>What was prepared</summary>{draw_table(steps)}</details>"


def _sum_attempts(nodes: Sequence[NodeStatus]) -> Iterator[tuple[str, str]]:
    over = [(node, attempt) for node in nodes for attempt in node.attempts]
    if not over:
        return
    reclaimed = sum(attempt.reclaimed for _, attempt in over)
    failed = sum(timeline.judge_attempt(*attempts) == "failed" for attempts in over)
    parts = [_count_words(len(over), "attempt") + " ended"]
    parts += [f"{failed:,} failed"] if failed else []
    parts += [f"{reclaimed:,} of spot machines that were reclaimed"] if reclaimed else []
    yield "attempts", ", ".join(parts)
    if waiting := sum(node.state is State.WAITING for node in nodes):
        yield "waiting", _count_words(waiting, "node")


def _draw_nodes(changes: Sequence[MembershipChange]) -> str:
    """Return a plot of the number of nodes over time, for the first tasks that have changes."""
    tasks = sorted({change.task for change in changes})[: metric_plots.FEW]
    if len(changes) < 2:
        return ""
    zero = min(change.at for change in changes)
    last = max(change.at for change in changes) - zero
    across = Axis("time since the first generation", 0.0, last * 1.1 or 1.0, unit="s")
    up = Axis("nodes", 0.0, max(change.nodes for change in changes) + 1.0)
    lines = []
    for number, task in enumerate(tasks):
        sizes = [
            (change.at - zero, float(change.nodes)) for change in changes if change.task == task
        ]
        name = f"task {task}" if len(tasks) > 1 else "nodes"
        stairs: list[Spot] = []
        for x, y in sorted(sizes):
            if stairs:
                # The number of nodes stays the same until it changes: a slope would show nodes that never were.
                stairs.append((x, stairs[-1][1]))
            stairs.append((x, y))
        lines.append(Line(name, (*stairs, (across.high, stairs[-1][1])), f"line{number}"))
    desc = "the table above has the same numbers"
    return draw_plot("Nodes over time", across, up, lines, desc, svg.WHOLE)


# What it cost, and what it was


def _draw_cost(report: RunReport) -> Iterator[str]:
    chosen = report.machines.get("chosen", [])
    yield "<h2>Cost</h2>"
    if not chosen and not report.spent:
        yield note(
            f"No price is known for {report.provider}: set prices: {{{report.provider}: USD}} in the profile, "
            "for an hour of a node."
        )
        return
    yield list_facts([*report.spent, *_list_prices(report.machines, chosen)])


def _list_prices(
    machines: Mapping[str, Any], chosen: Sequence[Mapping[str, Any]]
) -> Iterator[tuple[str, str]]:
    if not chosen:
        return
    each = [
        f"{machine['name']}: {_format_hourly(machine['usd_hour'])}" for machine in chosen[:MACHINES]
    ]
    more = len(chosen) - MACHINES
    each += [f"one of {more:,} more"] if more > 0 else []
    yield "machine" if len(chosen) == 1 else "machines", ", or ".join(each)
    if catalogue := machines.get("catalogue"):
        yield "prices", str(catalogue)


def _format_hourly(amount: float | None) -> str:
    return "price unknown" if amount is None else f"{format_usd(amount)} an hour"


def _draw_spec(report: RunReport) -> Iterator[str]:
    yield "<h2>Spec</h2>"
    digests = [("plan", report.digest)]
    for name, source in sorted(report.sources.items()):
        files = f"{_count_words(source.files, 'file')}, {source.bytes:,} bytes"
        digests.append((f"mount {name}", f"{source.digest} ({files})"))
    yield list_facts([*digests, *report.read])
    text = escape(cut(report.spec_text, SPEC))
    yield f"<details><summary>job.yaml</summary><pre>{text}</pre></details>"
