"""Plots the metric of the tasks of a run: as it went on, and by each parameter. All functions are pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from html import escape

from runspec_jobs.report.numbers import format_number, shorten_text
from runspec_jobs.report.page.axis import Axis, is_drawable, make_axis
from runspec_jobs.report.page.frame import cut, note
from runspec_jobs.report.page.svg import Line, Spot, draw_plot
from runspec_jobs.report.page.thinning import choose_evenly, thin
from runspec_jobs.report.ranking import Placed
from runspec_jobs.report.tables import Table
from runspec_jobs.spec.metric import Metric

# So that no page has much more than 2 MB, however many tasks, numbers and parameters there are.
CURVES, POINTS, FEWEST, MANY = 1000, 80_000, 32, 600  # curves, their points in all, and of each
FIGURES, DOTS = 24, 3_000  # the most plots by a parameter, and the most dots in all of them
FEW = 5  # curves that have a look of their own
PARAMETER_SPAN = 20.0  # quotient of a parameter's values from which its axis is logarithmic
LISTED = 50  # tasks in the table of numbers
TOLD = 120  # characters of the text on a curve or a dot


def draw_curves(metric: Metric, ranking: Sequence[Placed]) -> str:
    """Return a plot of the numbers of each task in their order, or an empty text if no task has two of them.

    The best task of *ranking*, which must be in the order of places, is on top of the others.
    """
    best = find_best(ranking)
    shown = [p for p in ranking if len(p.task.measured.numbers) > 1]
    kept = [shown[i] for i in range(min(len(shown), CURVES))]
    # All curves share the points that a page may have.
    each = min(MANY, max(FEWEST, POINTS // max(1, len(kept))))
    spots = [(p, thin(p.task.measured.numbers, each)) for p in kept]
    up = make_axis(metric.name, (y for _, some in spots for _, y in some))
    if up is None:
        return ""
    lines = [
        line
        # SVG draws later lines over earlier ones, so the best comes last.
        for p, some in reversed(spots)
        if (line := _make_curve(p, some, up, len(kept), p is best)).spots
    ]
    if not lines:
        return ""
    last = max(x for line in lines for x, _ in line.spots)
    across = Axis("values in their order", 1.0, max(2.0, last))
    hidden = sum(len(some) for _, some in spots) - sum(len(line.spots) for line in lines)
    desc = f"{len(lines)} curves of {metric.name}; the table of numbers has their extremes"
    return draw_plot(f"{metric.name} as it went on", across, up, lines, desc) + "".join(
        [*_note_left_out(hidden, up), *_note_more(len(shown) - len(kept), "curves")]
    )


def _make_curve(placed: Placed, spots: Sequence[Spot], up: Axis, count: int, is_best: bool) -> Line:
    drawn = tuple((x, y) for x, y in spots if is_drawable(y, log=up.log))
    task = f"task {placed.task.number}"
    tooltip = (describe_task(placed),)
    if is_best:
        return Line(f"{task}, the best" if count > 1 else task, drawn, "best", told=tooltip)
    if count <= FEW:
        return Line(task, drawn, f"line{(placed.place or count) - 1}", told=tooltip)
    return Line("other tasks", drawn, "many", told=tooltip)


def find_best(ranking: Sequence[Placed]) -> Placed | None:
    """Return the task that is marked as the best in plots and in the table: of equal ones the first."""
    return next((p for p in ranking if p.place == 1), None)


def describe_task(placed: Placed) -> str:
    """Return a task with its parameters in a line."""
    values = ", ".join(f"{k}={shorten_text(v)}" for k, v in placed.task.values.items())
    return cut(": ".join(filter(None, (f"task {placed.task.number}", values))), TOLD)


def _note_left_out(count: int, up: Axis) -> Iterator[str]:
    if count:
        values = "value" if count == 1 else "values"
        where = "a logarithmic axis has no 0" if up.log else "they are too large"
        yield note(f"{count:,} {values} not drawn: {where}")


def _note_more(count: int, noun: str) -> Iterator[str]:
    if count > 0:
        yield note(f"{count:,} more {noun} are not drawn; runspec report --json has all tasks")


def list_numbers(ranking: Sequence[Placed]) -> Table:
    """Return a table of the numbers that were found for each task: their count and their extremes, the best first."""
    rows = []
    for p in ranking:
        spots = thin(p.task.measured.numbers, len(p.task.measured.numbers))
        if len(spots) > 1:
            ys = [y for _, y in spots]
            rows.append((p.task.number, p.task.measured.among, ys[0], min(ys), max(ys), ys[-1]))
    return Table(("task", "numbers", "first", "lowest", "highest", "last"), tuple(rows[:LISTED]))


def draw_by_parameters(metric: Metric, ranking: Sequence[Placed]) -> list[str]:
    """Return a plot of the metric by each parameter that has several values, all of them numbers."""
    known = [p for p in ranking if p.task.measured.value is not None]
    ranges = {
        name: at
        for name in (list(known[0].task.values) if known else [])
        if (at := _get_values(name, known)) is not None
    }
    most = max(100, DOTS // max(1, len(ranges)))
    some = [known[i] for i in choose_evenly(len(known), most)]
    drawn = [_draw_by(metric, name, at, some) for name, at in list(ranges.items())[:FIGURES]]
    return [plot for plot in drawn if plot]


def _get_values(name: str, ranking: Sequence[Placed]) -> Mapping[int, float] | None:
    """Return the value of a parameter for each task, or None if a plot by it would say nothing."""
    try:
        values = {p.task.number: float(p.task.values[name]) for p in ranking}
    except ValueError:
        return None
    # A parameter that never changes explains nothing.
    several = len(set(values.values())) > 1 and all(map(is_drawable, values.values()))
    return values if several else None


def _draw_by(metric: Metric, name: str, at: Mapping[int, float], ranking: Sequence[Placed]) -> str:
    across = make_axis(name, at.values(), PARAMETER_SPAN)
    up = make_axis(metric.name, (p.task.measured.value or 0.0 for p in ranking))
    if across is None or up is None:
        return ""
    spots = [(p, at[p.task.number], p.task.measured.value or 0.0) for p in ranking]
    first = find_best(ranking)
    drawn = [
        spot
        for spot in spots
        if is_drawable(spot[1], log=across.log) and is_drawable(spot[2], log=up.log)
    ]
    lines = [
        Line(
            called,
            tuple((x, y) for p, x, y in drawn if (p is first) == best),
            look,
            True,
            tuple(_describe(p, metric) for p, _, _ in drawn if (p is first) == best),
        )
        for called, look, best in (("a task", "measured", False), ("the best", "best", True))
    ]
    lines = [line for line in lines if line.spots]
    if not lines:
        return ""
    hidden = "".join(_note_left_out(len(spots) - len(drawn), up if up.log else across))
    desc = f"{len(drawn)} tasks; the table of tasks has their numbers"
    return draw_plot(f"{metric.name} by {name}", across, up, lines, desc) + hidden


def _describe(placed: Placed, metric: Metric) -> str:
    return (
        f"{describe_task(placed)}: {metric.name} {format_number(placed.task.measured.value or 0.0)}"
    )


def draw_best(metric: Metric, ranking: Sequence[Placed]) -> Iterator[str]:
    """Yield a line on the best task, if there are several."""
    best = [p for p in ranking if p.place == 1]
    if len(ranking) < 2 or not best:
        return
    value = format_number(best[0].task.measured.value or 0.0)
    others = f" ({len(best) - 1:,} more have the same value)" if len(best) > 1 else ""
    text = f"★ The best is {describe_task(best[0])}, with {metric.name} {value}{others}."
    yield f"<p>{escape(text)}</p>"
