"""Writes the page of a run: what was measured, its phases and attempts, its cost, and its spec. All pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from html import escape
from itertools import accumulate
from typing import Any, NamedTuple

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
TABLE = 600_000  # of which it has at most this many characters
CELL = 15  # characters of the tags of a cell
SPEC = 200_000  # characters of the spec
MACHINES = 8


class Changed(NamedTuple):
    """The membership changes of an elastic run, or the reason why they are not known."""

    changes: Sequence[MembershipChange]
    unknown: str = ""


class RunReport(NamedTuple):
    """Everything that the page of a run shows, as it was read from its record and its service.

    *shape* is the number of nodes of each task, and of tasks. *took_s* has the seconds that each step took, *machines*
    what the record says of machines and prices, and *sources* the folders that were uploaded. *facts* are further pairs
    of a name and a text about the run, and *spent* such pairs about what it has cost.
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


def run_page(found: RunReport, when: When) -> str:
    """Return the page of a run; *when* formats a time for the reader."""
    body = [*_draw_head(found, when), *_draw_metric(found), *_time(found, when)]
    if found.changed is not None:
        body += draw_changes(found.changed.changes, found.changed.unknown, when)
        body.append(_draw_nodes(found.changed.changes))
    return make_page(
        found.run,
        [*body, *usage_section.draw_usage(found.usage), *_draw_cost(found), *_draw_spec(found)],
    )


def _draw_head(found: RunReport, when: When) -> Iterator[str]:
    status, (nodes, tasks) = found.status, found.shape
    size = (
        f"{_count_words(tasks, 'task')} of {_count_words(nodes, 'node')}"
        if tasks > 1
        else _count_words(nodes, "node")
    )
    state = f'<span class="state {status.state}">{status.state}</span>'
    began = found.clock.began_s
    parts = [found.provider, size, *([] if began is None else [f"began {when(began)}"])]
    yield f'<p class="lead">{state} · {escape(" · ".join(parts))}</p>'
    if not status.state.terminal:
        yield note(
            f"This is what was known at {when(found.clock.now_s)}; the page does not change."
        )
    told = [("why", cut(status.reason, 2000))] if status.reason else []
    told += [("exit code", str(status.exit_code))] if status.exit_code else []
    yield list_facts([*told, *found.facts])


def _count_words(count: int, what: str) -> str:
    return f"{count:,} {what}" if count == 1 else f"{count:,} {what}s"


# What was measured


def _draw_metric(found: RunReport) -> Iterator[str]:
    metric, ranked = found.metric, found.ranking
    if metric is None:
        if found.shape[1] > 1:
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
    if plots := [f"<div>{one}</div>" for one in drawn if one]:
        yield '<div class="plots">'
        yield from plots
        yield "</div>"
    if len(ranked) > 1:
        best = 0 if ranked[0].place == 1 else None
        shown = _take_fitting(drop_empty_columns(make_ranking_table(metric, ranked[:TASKS])))
        yield draw_table(shown, best)
        if len(shown.rows) < len(ranked):
            more = len(ranked) - len(shown.rows)
            yield note(f"{more:,} more tasks: runspec report --json lists all")
    of_curves = metric_plots.list_numbers(ranked)
    if of_curves.rows:
        yield f"<details><summary>The numbers of each task</summary>{draw_table(of_curves)}</details>"


def _take_fitting(found: Table) -> Table:
    """Return the first rows, which have room in the page."""
    sizes = (sum(CELL + min(len(str(cell)), MOST) for cell in row) for row in found.rows)
    count = sum(size <= TABLE for size in accumulate(sizes))
    return found._replace(rows=found.rows[: max(1, count)])


def _explain_goal(metric: Metric) -> str:
    return "the smallest is best" if metric.goal == "min" else "the largest is best"


def _list_only_value(metric: Metric, ranked: Sequence[Placed]) -> Iterator[tuple[str, str]]:
    """Yield the value of the only task, which needs no table."""
    if len(ranked) == 1:
        found = ranked[0].task.measured
        among = f" ({metric.take} of {found.among:,} values)" if found.among > 1 else ""
        yield (
            metric.name,
            found.why if found.value is None else f"{format_number(found.value)}{among}",
        )


# Phases, attempts and reclaims


def _time(found: RunReport, when: When) -> Iterator[str]:
    status, nodes = found.status, found.status.nodes
    phases = timeline.list_phases(found.clock, nodes, ended=status.state.terminal)
    chosen = timeline.choose_nodes(nodes, timeline.LANES)
    picture = timeline.draw_lanes(timeline.make_lanes(phases, chosen, found.shape))
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
        yield draw_table(drop_empty_columns(timeline.make_attempt_table(shown, found.shape, when)))
    if found.took_s:
        steps = timeline.make_step_table(found.titles, found.took_s)
        yield f"<details><summary>What was prepared</summary>{draw_table(steps)}</details>"


def _sum_attempts(nodes: Sequence[NodeStatus]) -> Iterator[tuple[str, str]]:
    over = [(node, one) for node in nodes for one in node.attempts]
    if not over:
        return
    reclaimed = sum(one.reclaimed for _, one in over)
    failed = sum(timeline.judge_attempt(*one) == "failed" for one in over)
    told = [_count_words(len(over), "attempt") + " ended"]
    told += [f"{failed:,} failed"] if failed else []
    told += [f"{reclaimed:,} of spot machines that were reclaimed"] if reclaimed else []
    yield "attempts", ", ".join(told)
    if waiting := sum(node.state is State.WAITING for node in nodes):
        yield "waiting", _count_words(waiting, "node")


def _draw_nodes(found: Sequence[MembershipChange]) -> str:
    """Return a plot of the number of nodes over time, for the first tasks that have changes."""
    tasks = sorted({one.task for one in found})[: metric_plots.FEW]
    if len(found) < 2:
        return ""
    zero = min(one.at for one in found)
    last = max(one.at for one in found) - zero
    across = Axis("time since the first generation", 0.0, last * 1.1 or 1.0, unit="s")
    up = Axis("nodes", 0.0, max(one.nodes for one in found) + 1.0)
    lines = []
    for number, task in enumerate(tasks):
        own = [(one.at - zero, float(one.nodes)) for one in found if one.task == task]
        name = f"task {task}" if len(tasks) > 1 else "nodes"
        lines.append(Line(name, _make_stairs(own, across.high), f"line{number}"))
    desc = "the table above has the same numbers"
    return draw_plot("Nodes over time", across, up, lines, desc, svg.WHOLE)


def _make_stairs(own: Sequence[Spot], end: float) -> tuple[Spot, ...]:
    found: list[Spot] = []
    for x, y in sorted(own):
        if found:
            found.append((x, found[-1][1]))
        found.append((x, y))
    return (*found, (end, found[-1][1]))


# What it cost, and what it was


def _draw_cost(found: RunReport) -> Iterator[str]:
    chosen = found.machines.get("chosen", [])
    if not chosen and not found.spent:
        return
    yield "<h2>Cost</h2>"
    yield list_facts([*found.spent, *_list_prices(found.machines, chosen)])


def _list_prices(
    machines: Mapping[str, Any], chosen: Sequence[Mapping[str, Any]]
) -> Iterator[tuple[str, str]]:
    if not chosen:
        return
    each = [f"{one['name']}: {_format_hourly(one['usd_hour'])}" for one in chosen[:MACHINES]]
    more = len(chosen) - MACHINES
    each += [f"one of {more:,} more"] if more > 0 else []
    yield "machine" if len(chosen) == 1 else "machines", ", or ".join(each)
    if catalogue := machines.get("catalogue"):
        yield "prices", str(catalogue)


def _format_hourly(amount: float | None) -> str:
    return "price unknown" if amount is None else f"{format_usd(amount)} an hour"


def _draw_spec(found: RunReport) -> Iterator[str]:
    yield "<h2>Spec</h2>"
    digests = [("plan", found.digest)]
    for name, source in sorted(found.sources.items()):
        files = f"{_count_words(source.files, 'file')}, {source.bytes:,} bytes"
        digests.append((f"mount {name}", f"{source.digest} ({files})"))
    yield list_facts(digests)
    text = escape(cut(found.spec_text, SPEC))
    yield f"<details><summary>job.yaml</summary><pre>{text}</pre></details>"
