"""The phases of a run and the attempts of its nodes over time, as tables and as bars. All functions are pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from html import escape

from runspec_agent.base.light_typing import NamedTuple
from runspec_jobs.provider import Attempt, NodeStatus, State
from runspec_jobs.report.numbers import format_seconds
from runspec_jobs.report.page import svg
from runspec_jobs.report.page.axis import Axis
from runspec_jobs.report.tables import Cell, Table

LANES = 40  # the most nodes that are drawn
ROWS = 200  # the most attempts in the table
ROW_PX, BAR_PX = 22, 14
TITLE = "Each node over time"
When = Callable[[float], str]
LOOKS = {  # what an attempt or a phase came to, with its look in the picture
    "prepared": "bar prepared",
    "waited": "bar waited",
    "ran": "bar ran",
    "succeeded": "bar succeeded",
    "failed": "bar failed",
    "reclaimed": "bar reclaimed",
    "cancelled": "bar cancelled",
    "running": "bar going",
}


class Clock(NamedTuple):
    """When this machine did what, in seconds since 1970; None means that it is not known."""

    began_s: float | None
    submitted_s: float | None
    ended_s: float | None  # when the end was noticed
    now_s: float  # when the report was made


class Bar(NamedTuple):
    """A phase of a run, or an attempt: what it came to, and its time in seconds since 1970."""

    what: str
    began_s: float
    ended_s: float


class Lane(NamedTuple):
    """A row of bars."""

    name: str
    bars: tuple[Bar, ...]


def judge_attempt(node: NodeStatus, attempt: Attempt) -> str:
    """Return what an attempt came to, as a word of LOOKS."""
    if attempt.reclaimed:
        return "reclaimed"
    is_last = (
        bool(node.attempts) and attempt is node.attempts[-1] and attempt.number == node.attempt
    )
    # The state of the node says more than an exit code, such as that it was cancelled.
    if is_last and node.state.terminal and node.state is not State.GONE:
        return str(node.state)
    return "succeeded" if attempt.exit_code == 0 else "failed"


def list_phases(clock: Clock, nodes: Sequence[NodeStatus], *, ended: bool) -> tuple[Bar, ...]:
    """Return the phases of a run that are known: it was prepared, it waited for machines, and it ran.

    The attempts are timed by the clocks of the service, so a phase that would be shorter than nothing is left out.
    """
    attempts = [attempt for node in nodes for attempt in node.attempts]
    began = [attempt.began_s for attempt in attempts if attempt.began_s is not None]
    last = [attempt.ended_s for attempt in attempts if attempt.ended_s is not None]
    going = any(not node.state.terminal for node in nodes) or not ended
    # The service's own time, if it reports one: this machine may have noticed the end hours later.
    end_s = clock.now_s if going else max(last, default=clock.ended_s)
    first_s = min(began, default=None)
    phases = [
        ("prepared", clock.began_s, clock.submitted_s),
        ("waited", clock.submitted_s, first_s),
    ]
    phases.append(("ran", first_s, end_s))
    return tuple(
        Bar(name, a, b) for name, a, b in phases if a is not None and b is not None and b > a
    )


def make_lanes(
    bars: Sequence[Bar], nodes: Sequence[NodeStatus], shape: tuple[int, int]
) -> list[Lane]:
    """Return a lane with the phases, and one for each node with attempts that have times."""
    first = [Lane("run", tuple(bars))] if bars else []
    return [*first, *(lane for node in nodes if (lane := _make_lane(node, shape)).bars)]


def _make_lane(node: NodeStatus, shape: tuple[int, int]) -> Lane:
    bars = tuple(
        Bar(judge_attempt(node, attempt), attempt.began_s, max(attempt.began_s, attempt.ended_s))
        for attempt in node.attempts
        if attempt.began_s is not None and attempt.ended_s is not None
    )
    return Lane(label_node(node, shape), bars)


def label_node(node: NodeStatus, shape: tuple[int, int]) -> str:
    """Return the name of a node in a run of *shape*: the number of nodes of each task, and of tasks."""
    task = [f"task {node.task}"] if shape[1] > 1 or shape[0] == 1 else []
    rank = [f"node {node.rank}"] if shape[0] > 1 else []
    return " ".join([*task, *rank])


def choose_nodes(nodes: Sequence[NodeStatus], most: int) -> list[NodeStatus]:
    """Return at most *most* of *nodes* in their order: first those that failed or were tried again, then the first."""

    def is_dull(node: NodeStatus) -> bool:
        return node.attempt <= 1 and node.state is not State.FAILED

    # A stable sort: within both groups the order of nodes stays.
    kept = sorted(nodes, key=is_dull)[:most]
    return sorted(kept, key=lambda node: (node.task, node.rank))


def draw_lanes(lanes: Sequence[Lane]) -> str:
    """Return the lanes as a figure, or an empty text if there is nothing to draw."""
    bars = [bar for lane in lanes for bar in lane.bars]
    if not bars:
        return ""
    zero = min(bar.began_s for bar in bars)
    span = max(bar.ended_s for bar in bars) - zero
    across = Axis("time since the start", 0.0, span or 1.0, unit="s")
    height, room = len(lanes) * ROW_PX, max(len(lane.name) for lane in lanes) + 1
    parts = [
        f"<figure><figcaption>{TITLE}</figcaption>",
        f'<svg class="area" style="--room:{room}ch;height:{height}px" role="img" aria-label="{TITLE}">',
        "<desc>Each row is a node; the table below has the same times.</desc>",
        *svg.draw_bottom_grid(across, svg.WHOLE),
    ]
    for number, lane in enumerate(lanes):
        parts += _draw_lane(number, lane, across, zero)
    parts.append(f'<text x="50%" y="100%" dy="36" text-anchor="middle">{across.title}</text></svg>')
    return "\n".join([*parts, _draw_legend(bars), "</figure>"])


def _draw_lane(number: int, lane: Lane, across: Axis, zero: float) -> Iterator[str]:
    top = number * ROW_PX + (ROW_PX - BAR_PX) // 2
    middle = top + BAR_PX - 3
    yield f'<text x="-8" y="{middle}" text-anchor="end">{escape(lane.name)}</text>'
    for bar in lane.bars:
        left, right = across.share(bar.began_s - zero), across.share(bar.ended_s - zero)
        tooltip = escape(f"{lane.name} {bar.what}, {format_seconds(bar.ended_s - bar.began_s)}")
        yield (
            f'<rect class="{LOOKS[bar.what]}" x="{svg.format_percent(left)}" y="{top}" '
            f'width="{svg.format_percent(max(right - left, 0.003))}" height="{BAR_PX}"><title>{tooltip}</title></rect>'
        )


def _draw_legend(bars: Sequence[Bar]) -> str:
    shown = {bar.what for bar in bars}
    each = "".join(
        f"<li>{_draw_key(look)}{word}</li>" for word, look in LOOKS.items() if word in shown
    )
    return f'<ul class="legend">{each}</ul>'


def _draw_key(look: str) -> str:
    rect = f'<rect class="{look}" x="2" y="1" width="20" height="10"/>'
    return f'<svg class="key" viewBox="0 0 24 12" aria-hidden="true">{rect}</svg>'


def list_phase_facts(bars: Sequence[Bar]) -> Iterator[tuple[str, str]]:
    for bar in bars:
        yield bar.what, format_seconds(bar.ended_s - bar.began_s)


def make_step_table(titles: Mapping[str, str], took_s: Mapping[str, float]) -> Table:
    """Return a table of the steps that were done, by their titles, and the time that each took."""
    rows = tuple((titles.get(step, step), format_seconds(s)) for step, s in took_s.items())
    return Table(("step", "took"), rows)


def make_attempt_table(nodes: Sequence[NodeStatus], shape: tuple[int, int], when: When) -> Table:
    """Return a table of the attempts of *nodes* that have ended, and of the nodes that have not."""
    rows = [(label_node(node, shape), *row) for node in nodes for row in _list_rows(node, when)]
    return Table(
        ("node", "attempt", "state", "exit code", "began", "took", "why"), tuple(rows[:ROWS])
    )


def _list_rows(node: NodeStatus, when: When) -> Iterator[tuple[Cell, ...]]:
    for attempt in node.attempts:
        began = None if attempt.began_s is None else when(attempt.began_s)
        known = attempt.began_s is not None and attempt.ended_s is not None
        took = (
            format_seconds(max(0.0, (attempt.ended_s or 0.0) - (attempt.began_s or 0.0)))
            if known
            else None
        )
        state, code = judge_attempt(node, attempt), attempt.exit_code
        yield attempt.number, state, code, began, took, attempt.reason
    if not node.attempts or not node.state.terminal:
        yield node.attempt, str(node.state), node.exit_code, None, None, node.reason
