"""The table: `python -m bench`, or one figure: `python -m bench plan`."""

from __future__ import annotations

import dataclasses
import json
import tempfile
from pathlib import Path
from typing import Annotated

import typer
from typer import Argument, Option

from bench.figures import FIGURES
from bench.installs import environment, ours
from bench.rows import Bench, Row

NAMES = f"{', '.join(FIGURES)}; all if none is given"


def main(
    figure: Annotated[list[str] | None, Argument(help=NAMES)] = None,
    quick: Annotated[bool, Option("--quick", help="5 rounds, and 20 runs for losses")] = False,
    rounds: Annotated[int, Option(metavar="N", help="runs of each command (15)")] = 0,
    losses: Annotated[int, Option(metavar="N", help="runs to lose lines in (1000)")] = 0,
    json_: Annotated[
        Path | None, Option("--json", metavar="FILE", help="write the figures there, too")
    ] = None,
) -> None:
    """Print the figures as they come; exit with 1 if a limit is missed."""
    names = figure or list(FIGURES)
    if unknown := set(names) - set(FIGURES):
        raise typer.BadParameter(f"no such figure: {', '.join(sorted(unknown))}")
    rows: list[Row] = []
    with tempfile.TemporaryDirectory(prefix="runspec-bench-") as folder:
        room = Path(folder)
        bench = Bench(
            runspec=ours(room),
            room=room,
            env=environment(room / "home"),
            rounds=rounds or (5 if quick else 15),
            losses=losses or (20 if quick else 1000),
        )
        print(_line("", "runspec", "peer", "", "ratio", "limit", ""))
        for name in names:
            for row in FIGURES[name](bench):
                print(_shown(row), flush=True)
                rows.append(row)
    if json_ is not None:
        found = [dataclasses.asdict(row) | {"ratio": row.ratio, "ok": row.ok} for row in rows]
        json_.write_text(json.dumps(found, indent=2) + "\n")
    missed = [row for row in rows if row.ok is False]
    print(f"{len(missed)} limits missed" if missed else "all limits hold")
    raise typer.Exit(1 if missed else 0)


def _shown(row: Row) -> str:
    limit = ""
    if row.at_most is not None:
        limit = f"<= {row.at_most:g}"
    elif row.at_least is not None:
        limit = f">= {row.at_least:g}"
    return _line(
        row.what,
        _number(row.ours, row.unit),
        row.peer,
        "" if row.theirs is None else _number(row.theirs, row.unit),
        "" if row.ratio is None else f"{row.ratio:.2f}",
        limit,
        {True: "ok", False: "MISSED", None: ""}[row.ok],
    )


def _number(value: float, unit: str) -> str:
    digits = 3 if unit == "s" else 1 if unit == "MB" else 0
    return f"{value:,.{digits}f} {unit}".rstrip()


def _line(what: str, mine: str, peer: str, theirs: str, ratio: str, limit: str, end: str) -> str:
    line = f"{what:43} {mine:>10}  {peer:16} {theirs:>10} {ratio:>6}  {limit:8} {end}"
    return line.rstrip()


if __name__ == "__main__":
    typer.run(main)
