"""The table of `list`: a line for each run, with as many columns as the terminal has room for."""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from runspec_agent.base.light_typing import NamedTuple
from runspec_jobs.api.listing import UNREADABLE, Summary
from runspec_jobs.cli import output, spending
from runspec_jobs.diagnostics.render import count_columns, escape_control
from runspec_jobs.report.numbers import format_number, format_seconds

GAP = 2
COLOURS = {"running": 36, "succeeded": 32, "failed": 31, "unreadable": 31, "waiting": 33}
COMMIT = 10  # characters of a commit


class Column(NamedTuple):
    """A column of the table. Of the *rank*s, the lowest ones are shown at a narrow terminal."""

    title: str
    rank: int
    text: Callable[[Summary, float], str]


def age(row: Summary, now_s: float) -> str:
    """Return how long ago a run was started, in its largest unit."""
    if row.began is None:
        return "-"
    count, unit = format_seconds(max(0.0, now_s - row.began)).split()[:2]
    return f"{count.partition('.')[0]} {unit}"


def nodes(row: Summary) -> str:
    """Return the number of nodes of a run; of a sweep, of each task."""
    if row.node_count is None or row.task_count is None:
        return "-"
    return f"{row.task_count:,} x {row.node_count}" if row.task_count > 1 else f"{row.node_count:,}"


def metric(row: Summary) -> str:
    """Return the best value of the metric on record."""
    best = row.metric
    return "-" if best is None else f"{best['name']} {format_number(best['value'])}"


def file(row: Summary) -> str:
    """Return the path of the spec, from the present folder if it is below that."""
    if row.file is None:
        return "-"
    return row.file.removeprefix(f"{os.getcwd()}/")


COLUMNS = (
    Column("run", 0, lambda row, now_s: row.run),
    Column("provider", 7, lambda row, now_s: row.provider or "-"),
    Column("state", 1, lambda row, now_s: row.state),
    Column("age", 2, age),
    Column(
        "duration", 3, lambda row, now_s: "-" if row.ran_s is None else format_seconds(row.ran_s)
    ),
    Column("nodes", 6, lambda row, now_s: nodes(row)),
    Column("metric", 4, lambda row, now_s: metric(row)),
    Column("cost", 5, lambda row, now_s: spending.short(row.cost) or "-"),
    Column("spec", 8, lambda row, now_s: file(row)),
    Column("commit", 9, lambda row, now_s: (row.commit or "-")[:COMMIT]),
    Column("outputs", 10, lambda row, now_s: row.outputs or "-"),
    Column("logs", 11, lambda row, now_s: row.logs or "-"),
)


def lines(rows: Sequence[Summary]) -> Iterator[str]:
    """Yield the table as lines: at a terminal those columns that have room, otherwise all of them."""
    now_s = time.time()
    cells = [[escape_control(column.text(row, now_s)) for column in COLUMNS] for row in rows]
    titles = [column.title for column in COLUMNS]
    widths = [max(map(_width, column)) for column in zip(titles, *cells, strict=True)]
    at_terminal = sys.stdout.isatty()
    room = shutil.get_terminal_size().columns if at_terminal else None
    # A pipe gets all columns, so that a script does not depend on the terminal of whoever wrote it.
    shown = _shown(widths, room)
    widths[0] = min(widths[0], room) if room is not None else widths[0]
    coloured = output.coloured()
    yield _line([COLUMNS[i].title for i in shown], [widths[i] for i in shown], bold=coloured)
    for row, line in zip(rows, cells, strict=True):
        yield _line(
            [line[i] for i in shown],
            [widths[i] for i in shown],
            state=row.state if coloured else "",
        )
        if row.state == UNREADABLE:
            yield f"  why: {escape_control(row.reason)}"


def about(row: Summary) -> Iterator[str]:
    """Yield what `status` says of a run before its cost and its nodes: what is not known is left out."""
    now_s = time.time()
    known = {
        "provider": row.provider,
        "started": None if row.began is None else f"{age(row, now_s)} ago, {_when(row.began)}",
        "duration": None if row.ran_s is None else format_seconds(row.ran_s),
        "asked for": _asked(row),
        "metric": None if row.metric is None else _metric(row.metric),
        "goes on from": None if row.resumed is None else _resumed(row.resumed),
        "logs": row.logs,
        "outputs": row.outputs,
        "spec": row.file,
        "commit": row.commit,
    }
    for title, text in known.items():
        if text is not None:
            yield escape_control(f"  {title}: {text}")


def _when(at: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(at))


def _asked(row: Summary) -> str | None:
    if row.node_count is None or row.task_count is None:
        return None
    of_task = f"{row.node_count:,} node{'s' * (row.node_count != 1)}"
    return f"{row.task_count:,} tasks of {of_task}" if row.task_count > 1 else of_task


def _resumed(resumed: Mapping[str, Any]) -> str:
    save = resumed["save"]
    content = f", content {resumed['content'][:12]}" if resumed["content"] else ""
    return f"{resumed['run']}, {f'save {save}' if save else 'its last save'}{content}"


def _metric(best: Mapping[str, Any]) -> str:
    return f"{best['name']} {format_number(best['value'])} (task {best['task']})"


def _shown(widths: Sequence[int], room: int | None) -> list[int]:
    """Return the numbers of the columns that have room, in order."""
    if room is None:
        return list(range(len(COLUMNS)))
    shown: list[int] = []
    used = -GAP
    for i in sorted(range(len(COLUMNS)), key=lambda i: COLUMNS[i].rank):
        used += GAP + widths[i]
        if used > room and shown:
            break
        shown.append(i)
    return sorted(shown)


def _line(
    cells: Sequence[str], widths: Sequence[int], *, state: str = "", bold: bool = False
) -> str:
    """Return a line of the table, with the *state* in its colour if it is given."""
    padded = [
        f"{cell}{' ' * (width - _width(cell))}" for cell, width in zip(cells, widths, strict=True)
    ]
    if bold:
        padded = [f"\x1b[1m{cell}\x1b[0m" for cell in padded]
    elif state in COLOURS and state in cells:
        at = cells.index(state)
        # Colours have no width: they come after the padding.
        padded[at] = padded[at].replace(state, f"\x1b[{COLOURS[state]}m{state}\x1b[0m")
    return (" " * GAP).join(padded).rstrip()


def _width(text: str) -> int:
    return len(text) if text.isascii() else count_columns(text)
