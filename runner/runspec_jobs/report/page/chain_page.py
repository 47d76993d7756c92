"""Writes the page of a chain: a drawing of its jobs, when each ran, what each read, and what it cost. All pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from html import escape

from runspec_agent.base.light_typing import NamedTuple
from runspec_jobs.report.numbers import format_seconds
from runspec_jobs.report.page.frame import (
    cut,
    draw_table,
    drop_empty_columns,
    list_facts,
    make_page,
)
from runspec_jobs.report.page.svg import format_percent
from runspec_jobs.report.page.timeline import When
from runspec_jobs.report.tables import Table

WIDE, HIGH = 150, 46  # of the box of a job, in units of the drawing
ACROSS, DOWN = 70, 22  # between two boxes
LETTERS = 19  # of a name in a box
ROW = 26  # pixels of a job's bar


class ReportedJob(NamedTuple):
    """One job of a chain. Times are seconds since 1970, or None if they are not known.

    *reads* has a line for each output of another run that it mounted: which run, and the digest of the content.
    """

    name: str
    state: str
    needs: Sequence[str]
    run: str = ""
    provider: str = ""
    reason: str = ""
    began_s: float | None = None
    ended_s: float | None = None
    ran_s: float | None = None
    cost: str = ""
    reads: Sequence[str] = ()


def make_chain_page(chain: str, file: str, jobs: Sequence[ReportedJob], when: When) -> str:
    """Return the page of a *chain*; *when* formats a time for the reader."""
    states = {state: sum(job.state == state for job in jobs) for state in {j.state for j in jobs}}
    counts = ", ".join(f"{count} {state}" for state, count in sorted(states.items()))
    facts = [("file", file), ("jobs", counts)]
    body = [list_facts(facts), "<h2>Jobs</h2>", draw_jobs(jobs), *_draw_times(jobs, when)]
    body += ["<h2>Runs</h2>", draw_table(drop_empty_columns(_list_jobs(jobs)))]
    reads = Table(
        ("job", "has read"), tuple((job.name, line) for job in jobs for line in job.reads)
    )
    if reads.rows:
        body += ["<h2>What was read</h2>", draw_table(reads)]
    return make_page(f"chain {chain}", body)


def _list_jobs(jobs: Sequence[ReportedJob]) -> Table:
    rows = tuple(
        (
            job.name,
            job.state,
            job.run,
            job.provider,
            None if job.ran_s is None else format_seconds(job.ran_s),
            job.cost,
            job.reason,
        )
        for job in jobs
    )
    return Table(("job", "state", "run", "provider", "duration", "cost", "reason"), rows)


def draw_jobs(jobs: Sequence[ReportedJob]) -> str:
    """Return a drawing of *jobs*, each to the right of those that it needs, with a line from each of these."""
    places = place_jobs(jobs)
    wide = max(column for column, _ in places.values()) * (WIDE + ACROSS) + WIDE
    high = max(row for _, row in places.values()) * (HIGH + DOWN) + HIGH
    size = f'width="{wide + 2}" height="{high + 2}" viewBox="-1 -1 {wide + 2} {high + 2}"'
    said = "; ".join(
        f"{job.name} {job.state}" + (f", needs {', '.join(job.needs)}" if job.needs else "")
        for job in jobs
    )
    return "\n".join(
        [
            '<div class="wide">',
            f'<svg class="chain" role="img" {size}>',
            f"<desc>{escape(said)}</desc>",
            *_draw_edges(jobs, places),
            *(line for job in jobs for line in _draw_box(job, places[job.name])),
            "</svg></div>",
        ]
    )


def place_jobs(jobs: Sequence[ReportedJob]) -> dict[str, tuple[int, int]]:
    """Return the column and the row of each job; a job is in the column after the last of those that it needs.

    >>> place_jobs([ReportedJob("a", "x", []), ReportedJob("b", "x", ["a"]), ReportedJob("c", "x", ["a"])])
    {'a': (0, 0), 'b': (1, 0), 'c': (1, 1)}
    """
    places: dict[str, tuple[int, int]] = {}
    rows: dict[int, int] = {}
    for job in jobs:
        column = max((places[need][0] + 1 for need in job.needs if need in places), default=0)
        places[job.name] = (column, rows.get(column, 0))
        rows[column] = places[job.name][1] + 1
    return places


def _draw_edges(
    jobs: Sequence[ReportedJob], places: Mapping[str, tuple[int, int]]
) -> Iterator[str]:
    for job in jobs:
        x, y = _corner(places[job.name])
        for need in job.needs:
            if need in places:
                left, top = _corner(places[need])
                start, end = f"{left + WIDE} {top + HIGH / 2}", f"{x} {y + HIGH / 2}"
                bend = (left + WIDE + x) / 2
                curve = f"C {bend} {top + HIGH / 2} {bend} {y + HIGH / 2} {end}"
                yield f'<path class="edge" d="M {start} {curve}"/>'


def _corner(place: tuple[int, int]) -> tuple[int, int]:
    column, row = place
    return column * (WIDE + ACROSS), row * (HIGH + DOWN)


def _draw_box(job: ReportedJob, place: tuple[int, int]) -> Iterator[str]:
    x, y = _corner(place)
    yield f'<g class="job {escape(job.state)}"><title>{escape(job.run or job.name)}</title>'
    yield f'<rect x="{x}" y="{y}" width="{WIDE}" height="{HIGH}" rx="5"/>'
    yield f'<text x="{x + 9}" y="{y + 19}">{escape(cut(job.name, LETTERS))}</text>'
    took = "" if job.ran_s is None else f", {format_seconds(job.ran_s)}"
    yield f'<text class="mute" x="{x + 9}" y="{y + 36}">{escape(job.state + took)}</text></g>'


def _draw_times(jobs: Sequence[ReportedJob], when: When) -> Iterator[str]:
    """Yield when each job began and ended, as bars on one line of time."""
    spans = [
        (job, job.began_s, job.began_s + (job.ran_s or 0.0) if job.ended_s is None else job.ended_s)
        for job in jobs
        if job.began_s is not None
    ]
    if not spans:
        return
    first, last = min(b for _, b, _ in spans), max(e for _, _, e in spans)
    whole = max(last - first, 1e-9)
    yield "<h2>When</h2>"
    yield f'<p class="note">{escape(when(first))} to {escape(when(last))}, {format_seconds(last - first)}</p>'
    yield f'<svg class="times" role="img" width="100%" height="{ROW * len(spans)}">'
    for row, (job, began, ended) in enumerate(spans):
        x, wide = format_percent((began - first) / whole), format_percent((ended - began) / whole)
        is_text = f"{job.name}: {when(began)} to {when(ended)}"
        yield f'<g class="job {escape(job.state)}"><title>{escape(is_text)}</title>'
        yield f'<rect x="{x}" y="{row * ROW + 2}" width="{wide}" height="{ROW - 6}" rx="3"/>'
        yield f'<text x="6" y="{row * ROW + 17}">{escape(cut(job.name, 40))}</text></g>'
    yield "</svg>"
