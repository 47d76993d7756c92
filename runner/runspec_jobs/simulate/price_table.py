"""Reads traces from CSV tables, which price lists and spreadsheets provide."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from runspec_jobs.diagnostics.problem import did_you_mean
from runspec_jobs.document.nodes import NOWHERE, Document, Map, Mark, Seq, Text
from runspec_jobs.document.reader import TEXT_BYTES, SyntaxProblem, YamlError, split_lines

POOL = ("price", "nodes", "boot", "notice", "losses_per_hour", "wait")
COLUMNS = ("time", "pool", "lost", *POOL)


def read(data: bytes) -> Document:
    """Return the table as the document of an equal trace in YAML, with the position of each value in the table.

    The first row of a pool describes it at the start; each later row is an event. A comment after # in the first line
    becomes the field `about`. Raises YamlError if the table is not valid.
    """
    if len(data) > TEXT_BYTES:
        raise YamlError(SyntaxProblem(Mark(1, 1), "the file is larger than 1 MiB"))
    every = split_lines(data)
    rows = [_cells(n, line) for n, line in enumerate(every) if line and line[0] != "#"]
    if not rows:
        raise YamlError(
            SyntaxProblem(Mark(1, 1), "the file is empty", "begin with time,pool,price,nodes")
        )
    names, body = rows[0], rows[1:]
    if flaws := [*_header(names), *_lengths(len(names), body)]:
        raise YamlError(*flaws)
    if flaws := list(_late(names, body)):
        raise YamlError(*flaws)
    value = _tree(names, body)
    if every[0].startswith("# "):
        value[Text("about")] = Text(every[0][2:])
    return Document(value)


def _cells(number: int, line: str) -> list[Text]:
    cells, start = [], 0
    for cell in line.split(","):
        first = start + len(cell) - len(cell.lstrip())
        word = cell.strip()
        cells.append(Text(word, span=(number, first, number, first + len(word))))
        start += len(cell) + 1
    return cells


def _header(names: list[Text]) -> Iterator[SyntaxProblem]:
    for name in names:
        if name not in COLUMNS:
            yield SyntaxProblem(name.mark, f"unknown column '{name}'", did_you_mean(name, COLUMNS))
        elif names.count(name) > 1:
            yield SyntaxProblem(name.mark, f"'{name}' is used twice", "keep one of them")
    for due in ("time", "pool"):
        if due not in names:
            yield SyntaxProblem(names[0].mark, f"there is no column '{due}'")


def _lengths(count: int, body: list[list[Text]]) -> Iterator[SyntaxProblem]:
    for row in body:
        if len(row) != count:
            yield SyntaxProblem(
                row[0].mark, f"this row has {len(row)} values, but the table has {count} columns"
            )


def _late(names: Sequence[str], body: list[list[Text]]) -> Iterator[SyntaxProblem]:
    """Yield an error for each pool whose first row is later than time 0, at which every pool starts."""
    seen = set()
    for row in body:
        time, pool = row[names.index("time")], row[names.index("pool")]
        if pool and pool not in seen and time not in ("0", "0s"):
            yield SyntaxProblem(
                time.mark, f"the first row of '{pool}' is not for time 0", "add a row for time 0"
            )
        seen.add(pool)


def _tree(names: Sequence[str], body: list[list[Text]]) -> Map:
    pools, events = Map(), Seq()
    for row in body:
        cells = {Text(k, span=v.span): v for k, v in zip(names, row, strict=True) if v}
        pool = row[names.index("pool")]
        first = bool(pool) and pool not in pools
        made = Map({k: v for k, v in cells.items() if not (first and k in ("time", "pool"))})
        made.span = (*row[0].span[:2], *row[-1].span[2:])
        if first:
            pools[pool] = made
        else:
            events.append(made)
    whole = Map({Text("pools"): pools, Text("events"): events})
    pools.span = events.span = whole.span = NOWHERE
    return whole
