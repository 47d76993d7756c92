"""Writes each report as one HTML page with tables and plots, which loads nothing from elsewhere. All pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from html import escape

from runspec_jobs.provider import MembershipChange
from runspec_jobs.report.elastic_costs import NOT_KNOWN, When
from runspec_jobs.report.ranking import Placed
from runspec_jobs.report.scaling_law import MOST, Scaled
from runspec_jobs.report.svg import Axis, Line, Spot, brief, plot
from runspec_jobs.report.tables import (
    Cell,
    Table,
    changes,
    changes_facts,
    measured_by,
    ranking,
    scaling,
    scaling_facts,
)
from runspec_jobs.spec.metric import Metric

STYLE = """\
:root {
  color-scheme: light dark;
  --ink: #1b1f24; --paper: #fff; --soft: #d0d7de; --a: #0969da; --b: #bc4c00; --c: #57606a;
}
@media (prefers-color-scheme: dark) {
  :root { --ink: #e6edf3; --paper: #0d1117; --soft: #30363d; --a: #58a6ff; --b: #f0883e; --c: #8b949e; }
}
body {
  color: var(--ink); background: var(--paper); font: 15px/1.5 system-ui, sans-serif;
  max-width: 72rem; margin: 2rem auto; padding: 0 1rem;
}
h1 { font-size: 1.5rem; }
h2 { font-size: 1.2rem; margin-top: 2rem; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; margin: 1rem 0; }
th, td { border-bottom: 1px solid var(--soft); padding: .3rem .7rem; text-align: right; }
td { font-variant-numeric: tabular-nums; }
td.word, th.word { text-align: left; }
dl { display: grid; grid-template-columns: max-content auto; gap: .2rem 1rem; }
dd { margin: 0; overflow-wrap: anywhere; }
dt { color: var(--c); }
.plots { display: flex; flex-wrap: wrap; gap: 1.5rem; }
figure { margin: 0; flex: 1 1 24rem; max-width: 36rem; }
svg { width: 100%; height: auto; }
svg text { fill: var(--ink); font: 12px system-ui, sans-serif; }
.grid { stroke: var(--soft); stroke-width: 1; }
polyline { fill: none; stroke-width: 2; }
.measured { fill: var(--a); stroke: var(--paper); }
polyline.law { stroke: var(--b); }
polyline.ideal { stroke: var(--c); stroke-dasharray: 5 4; }
.legend { list-style: none; display: flex; flex-wrap: wrap; gap: 1rem; padding: 0; margin: .2rem 0; }
.key { width: 24px; height: 12px; margin-right: .4rem; }
"""
# The page allows no scripts and no requests, so text from specs and logs can do nothing.
POLICY = "default-src 'none'; style-src 'unsafe-inline'"
STEPS = 60


def page(title: str, body: Iterable[str]) -> str:
    """Return a page; *title* is escaped here, *body* must be escaped already."""
    return "\n".join(
        [
            "<!doctype html>",
            '<html lang="en"><head><meta charset="utf-8">',
            f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<title>{escape(title)}</title>",
            f"<style>\n{STYLE}</style></head><body>",
            f"<h1>{escape(title)}</h1>",
            *body,
            "</body></html>\n",
        ]
    )


def table(found: Table) -> str:
    """Return a table with numbers aligned right and text aligned left; cells that are None are empty."""
    head = "".join(
        _head(title, [row[i] for row in found.rows]) for i, title in enumerate(found.titles)
    )
    body = "\n".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in found.rows)
    inner = f"<thead><tr>{head}</tr></thead><tbody>\n{body}\n</tbody>"
    return f'<div class="wide"><table>{inner}</table></div>'


def _head(title: str, cells: Iterable[Cell]) -> str:
    """Return the header of a column with the alignment of its cells."""
    word = ' class="word"' if any(isinstance(cell, str) for cell in cells) else ""
    return f"<th{word}>{escape(title)}</th>"


def _cell(value: Cell) -> str:
    if isinstance(value, str):
        return f'<td class="word">{escape(value)}</td>'
    return f"<td>{'' if value is None else brief(value)}</td>"


def facts(pairs: Iterable[tuple[str, str]]) -> str:
    each = "".join(f"<dt>{escape(name)}</dt><dd>{escape(text)}</dd>" for name, text in pairs)
    return f"<dl>{each}</dl>"


def scaling_page(title: str, found: Sequence[Scaled], notes: Sequence[str] = ()) -> str:
    """Return the page of scaling reports."""
    body = [f"<p>{escape(note)}</p>" for note in notes]
    for one in found:
        body += [f"<h2>{escape(one.series.name)}</h2>", facts(scaling_facts(one))]
        body += [table(scaling(one)), '<div class="plots">', *_plots(one), "</div>"]
    return page(title, body)


def _plots(found: Scaled) -> Iterator[str]:
    known = [row for row in found.rows if row.throughput]
    if found.base is None or not known:
        return
    low, high = found.base, max(row.size for row in found.rows)
    low = min(low, *(row.size for row in found.rows)) if len(found.rows) > 1 else low
    across = Axis(found.series.unit, low, high, log=True, twos=True)
    sizes = [low * (high / low) ** (n / STEPS) for n in range(STEPS + 1)]
    one = next(row.throughput for row in known if row.size == found.base) or 1.0
    ideal = [(size, one * size / found.base) for size in sizes]
    measured = [(row.size, row.throughput or 0.0) for row in known]
    law = [(s, t) for s in sizes if found.fit and (t := found.fit.throughput(s))]
    yield _figure("samples a second", across, measured, law, ideal, log=True)

    base = found.base

    def share(spots: Sequence[Spot]) -> list[Spot]:
        return [(size, value / one * base / size) for size, value in spots]

    yield _figure("efficiency", across, share(measured), share(law), share(ideal), log=False)


def _figure(
    title: str,
    across: Axis,
    measured: Sequence[Spot],
    law: Sequence[Spot],
    ideal: Sequence[Spot],
    *,
    log: bool,
) -> str:
    heights = [y for spots in (measured, law, ideal) for _, y in spots]
    up = Axis(title, min(heights) if log else 0.0, max(heights) * (1.0 if log else 1.05), log)
    lines = [Line("linear", tuple(ideal), "ideal")]
    lines += [Line("Amdahl's law, fitted", tuple(law), "law")] if law else []
    lines.append(Line("measured", tuple(measured), "measured", dots=True))
    return f"<figure>{plot(f'{title} by {across.title}', across, up, lines)}</figure>"


def ranking_page(
    title: str, metric: Metric, found: Sequence[Placed], more: Iterable[str] = ()
) -> str:
    """Return the page of a ranking, with a plot for each parameter that has only numbers, and *more* sections."""
    names = list(found[0].task.values) if found else []
    plots = [one for name in names if (one := _against(metric, name, found))]
    told = facts(
        [("metric", f"{metric.name}, {metric.goal} is best"), ("measured", measured_by(metric))]
    )
    rows = table(ranking(metric, found))
    return page(title, [told, rows, '<div class="plots">', *plots, "</div>", *more])


def changes_section(found: Sequence[MembershipChange], unknown: str, when: When) -> Iterator[str]:
    """Yield the section on membership changes; *unknown* says why they are not known, or is empty."""
    yield "<h2>Changes of nodes</h2>"
    if unknown:
        yield f"<p>{escape(f'{NOT_KNOWN}: {unknown}')}</p>"
        return
    yield facts(changes_facts(found))
    yield table(changes(found, when))


def _against(metric: Metric, name: str, found: Sequence[Placed]) -> str | None:
    try:
        spots = [
            (float(p.task.values[name]), p.task.measured.value)
            for p in found
            if p.task.measured.value is not None
        ]
    except ValueError:
        return None
    xs, ys = [x for x, _ in spots], [y for _, y in spots]
    if len(set(xs)) < 2 or max(map(abs, (*xs, *ys))) > MOST:
        return None
    log = min(xs) > 0 and max(xs) / min(xs) >= 50
    across = Axis(name, min(xs), max(xs), log)
    room = (max(ys) - min(ys)) * 0.05 or abs(ys[0]) * 0.05 or 1.0
    up = Axis(metric.name, min(ys) - room, max(ys) + room)
    line = Line("a task", tuple(sorted(spots)), "measured", dots=True)
    return f"<figure>{plot(f'{metric.name} by {name}', across, up, [line])}</figure>"
