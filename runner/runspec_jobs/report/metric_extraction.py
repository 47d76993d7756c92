"""Extracts the metric of a task from its log or its output file, or the reason why it has none."""

from __future__ import annotations

import csv
import io
import json
import math
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from runspec_agent.base.light_typing import NamedTuple
from runspec_jobs.report.log_tables import COLUMNS, get_row_key, make_table, strip_line
from runspec_jobs.spec.metric import Metric
from runspec_jobs.spec.regex_safety import GROUP

LINE_CHARACTERS = 4096  # of each line that are searched, since the time of a search grows with them
NO_NUMBER = "the text that was found is not a number"
Finds = Callable[[str], float | str | None]


class Measured(NamedTuple):
    """The metric of a task, or *why* it has none. *among* is how many *numbers* were found."""

    value: float | None
    why: str = ""
    among: int = 0
    numbers: Sequence[float] = ()


class MetricExtractor:
    """Collects the numbers in one log, line by line."""

    def __init__(self, metric: Metric) -> None:
        self.metric = metric
        self.numbers: list[float] = []
        self.nothing = "it printed nothing"
        self._wrong = ""
        self._found = (
            self._find_in_table(metric) if metric.reader else self._find_by_pattern(metric)
        )

    def read_line(self, text: str) -> None:
        """Search the next line as a terminal shows it; only the start of a very long line is searched."""
        if (value := self._found(strip_line(text)[:LINE_CHARACTERS])) is None:
            return
        try:
            self.numbers.append(_read_number(value))
        except ValueError:
            self._wrong = NO_NUMBER

    def get_measured(self) -> Measured:
        """Return the metric according to the lines so far."""
        if self._wrong:
            return Measured(None, self._wrong)
        return choose_number(self.metric, self.numbers, self.nothing)

    def _find_by_pattern(self, metric: Metric) -> Finds:
        assert metric.pattern is not None, "BUG: a metric without a source was accepted"
        pattern = re.compile(metric.pattern)
        group = GROUP if GROUP in pattern.groupindex else 1

        def find(line: str) -> str | None:
            self.nothing = "no line matches the pattern"
            match = pattern.search(line)
            return match[group] if match is not None else None

        return find

    def _find_in_table(self, metric: Metric) -> Finds:
        assert metric.reader is not None, "BUG: no table without a reader"
        read = make_table(metric.reader)
        column = get_row_key(metric.reader, metric.column or COLUMNS[metric.reader])
        self.nothing = f"the log has no {metric.reader} table"

        def find(line: str) -> float | None:
            row = read.read_row(line)
            if row is not None and column not in row:
                self.nothing = f"the {metric.reader} table has no column '{column}'"
            return None if row is None else row.get(column)

        return find


def measure_text(metric: Metric, lines: Iterable[str]) -> Measured:
    """Return the metric in *lines*, which are those of a log or of a text file."""
    finder = MetricExtractor(metric)
    for line in lines:
        finder.read_line(line)
    return finder.get_measured()


def measure_file(metric: Metric, text: str) -> Measured:
    """Return the metric in *text*, the content of the file that the metric names."""
    match metric.table:
        case ".json":
            return _measure_json(metric, [text])
        case ".jsonl":
            return _measure_json(metric, text.splitlines())
        case ".csv":
            try:
                rows = list(csv.DictReader(io.StringIO(text)))
            except csv.Error:
                return Measured(None, f"{metric.file} is not CSV")
            named = [row[metric.column] for row in rows if row.get(metric.column)]
            return _choose_number(metric, named, f"{metric.file} has no column '{metric.column}'")
        case _:
            return measure_text(metric, text.splitlines())


def _measure_json(metric: Metric, texts: Iterable[str]) -> Measured:
    values: list[Any] = []
    for text in texts:
        if not text.strip():
            continue
        try:
            value = json.loads(text)
        except (ValueError, RecursionError):
            return Measured(None, f"{metric.file} is not JSON")
        values += _get_values(value, metric.key or "")
    return _choose_number(metric, values, f"{metric.file} has no '{metric.key}'")


def _get_values(value: Any, key: str) -> list[Any]:
    """Return the values at the dotted *key*: all items if it is a list, one value otherwise, none if it is missing."""
    for part in key.split("."):
        if isinstance(value, dict) and part in value:
            value = value[part]
        elif isinstance(value, list) and part.isdecimal() and int(part) < len(value):
            value = value[int(part)]
        else:
            return []
    return value if isinstance(value, list) else [value]


def _choose_number(metric: Metric, values: Sequence[Any], nothing: str) -> Measured:
    numbers = []
    for value in values:
        try:
            numbers.append(_read_number(value))
        except (TypeError, ValueError, OverflowError):  # no float is as large as an int may be
            return Measured(None, NO_NUMBER)
    return choose_number(metric, numbers, nothing)


def _read_number(value: Any) -> float:
    """Return *value* as a number. Raises ValueError for what only Python takes for one, such as true and 1_0."""
    if isinstance(value, bool) or (
        isinstance(value, str) and (not value.isascii() or "_" in value)
    ):
        raise ValueError(value)
    return float(value)


def choose_number(metric: Metric, numbers: Sequence[float], nothing: str) -> Measured:
    """Return the metric chosen from *numbers* by `take`; nan and infinity are skipped unless the last one counts."""
    if not numbers:
        return Measured(None, nothing)
    # A loss that was nan once and recovered still has a best value.
    real = [number for number in numbers if math.isfinite(number)]
    if not real or (metric.take == "last" and not math.isfinite(numbers[-1])):
        return Measured(None, f"the number is {numbers[-1]}", len(numbers), numbers)
    best = max(real) if metric.goal == "max" else min(real)
    by_take = {"last": real[-1], "best": best, "median": _compute_median(real)}
    return Measured(by_take[metric.take], "", len(numbers), numbers)


def _compute_median(numbers: Sequence[float]) -> float:
    ordered, half = sorted(numbers), len(numbers) // 2
    # Halved before they are added: the sum of two large numbers may be infinite.
    return ordered[half] if len(ordered) % 2 else ordered[half - 1] / 2 + ordered[half] / 2
