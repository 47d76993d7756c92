"""Writes the page that compares a job at several sizes. All functions are pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape

from runspec_jobs.report.page.axis import Axis
from runspec_jobs.report.page.frame import draw_table, list_facts, make_page
from runspec_jobs.report.page.svg import Line, Spot, draw_plot
from runspec_jobs.report.scaling_law import Scaled
from runspec_jobs.report.tables import list_scaling_facts, make_scaling_table

STEPS = 60  # of a curve


def make_scaling_page(title: str, reports: Sequence[Scaled], notes: Sequence[str] = ()) -> str:
    """Return the page of scaling reports."""
    body = [f"<p>{escape(note)}</p>" for note in notes]
    for report in reports:
        body += [f"<h2>{escape(report.series.name)}</h2>", list_facts(list_scaling_facts(report))]
        body += [
            draw_table(make_scaling_table(report)),
            '<div class="plots">',
            *_draw_plots(report),
            "</div>",
        ]
    return make_page(title, body)


def _draw_plots(report: Scaled) -> Iterator[str]:
    known = [row for row in report.rows if row.throughput]
    if report.base is None or not known:
        return
    low, high = report.base, max(row.size for row in report.rows)
    low = min(low, *(row.size for row in report.rows)) if len(report.rows) > 1 else low
    across = Axis(report.series.unit, low, high, log=True, twos=True)
    # At equal distances on a logarithmic axis.
    sizes = [low * (high / low) ** (n / STEPS) for n in range(STEPS + 1)]
    base_throughput = next(row.throughput for row in known if row.size == report.base) or 1.0
    ideal = [(size, base_throughput * size / report.base) for size in sizes]
    measured = [(row.size, row.throughput or 0.0) for row in known]
    law = [(s, t) for s in sizes if report.fit and (t := report.fit.compute_throughput(s))]
    yield _draw_figure("samples a second", across, measured, law, ideal, log=True)

    base = report.base

    def share(spots: Sequence[Spot]) -> list[Spot]:
        return [(size, value / base_throughput * base / size) for size, value in spots]

    yield _draw_figure("efficiency", across, share(measured), share(law), share(ideal), log=False)


def _draw_figure(
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
    return draw_plot(f"{title} by {across.title}", across, up, lines)
