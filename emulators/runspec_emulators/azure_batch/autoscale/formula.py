"""Autoscale formulas evaluated, on samples of a pool.

https://learn.microsoft.com/en-us/azure/batch/batch-automatic-scaling
"""

from __future__ import annotations

import datetime
import math
import operator
import random
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from runspec_emulators.azure_batch.autoscale import grammar
from runspec_emulators.azure_batch.autoscale.grammar import FormulaError, Tree

Delta = datetime.timedelta
SAMPLED = tuple(
    f"${name}"
    for name in (
        "ActiveTasks RunningTasks PendingTasks SucceededTasks FailedTasks CPUPercent "
        "TaskSlotsPerNode CurrentDedicatedNodes CurrentLowPriorityNodes PreemptedNodeCount "
        "UsableNodeCount SampleNodeCount"
    ).split()
)
ALIASES = {
    "$TargetDedicated": "$TargetDedicatedNodes",
    "$TargetLowPriority": "$TargetLowPriorityNodes",
    "$CurrentDedicated": "$CurrentDedicatedNodes",
    "$CurrentLowPriority": "$CurrentLowPriorityNodes",
}
WRITABLE = ("$TargetDedicatedNodes", "$TargetLowPriorityNodes", "$NodeDeallocationOption")
OPTIONS = ("requeue", "terminate", "taskcompletion", "retaineddata")
INTERVALS = {
    "TimeInterval_Zero": Delta(0),
    "TimeInterval_100ns": Delta(microseconds=0.1),
    "TimeInterval_Microsecond": Delta(microseconds=1),
    "TimeInterval_Millisecond": Delta(milliseconds=1),
    "TimeInterval_Second": Delta(seconds=1),
    "TimeInterval_Minute": Delta(minutes=1),
    "TimeInterval_Hour": Delta(hours=1),
    "TimeInterval_Day": Delta(days=1),
    "TimeInterval_Week": Delta(weeks=1),
    "TimeInterval_Year": Delta(days=365),
}
METHODS = ("GetSample", "GetSamplePercent", "GetSamplePeriod", "HistoryBeginTime", "Count")
MEMBERS = ("year", "month", "day", "weekday", "hour", "minute", "second")
OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
}


@dataclass(frozen=True)
class Series:
    """Samples of one variable: (seconds of formula time ago, value), the oldest first."""

    samples: Sequence[tuple[float, float]]
    period_s: float

    def sample(self, *args: Any) -> list[float]:
        """GetSample(count), (begin [, percent]) or (begin, end [, percent]).

        "returns a vector of data samples"; with a percent, "fails if less than this are there",
        and without any sample there is nothing to evaluate.
        """
        if args and isinstance(args[0], float):
            values = [v for _, v in self.samples[-int(args[0]) :]]
        else:
            spans = [a for a in args if isinstance(a, Delta)]
            percents = [a for a in args if isinstance(a, float)]
            if not spans:
                raise FormulaError("GetSample needs a count or a time interval")
            values = [v for _, v in self.within(spans)]
            if percents and self.percent(*spans) < percents[0]:
                raise FormulaError("InsufficientSampleData: there are too few samples")
        if not values:
            raise FormulaError("InsufficientSampleData: there are no samples")
        return values

    def within(self, spans: Sequence[Delta]) -> list[tuple[float, float]]:
        begin = spans[0].total_seconds()
        end = spans[1].total_seconds() if len(spans) > 1 else 0.0
        return [(ago, v) for ago, v in self.samples if end <= ago <= begin]

    def percent(self, *spans: Delta) -> float:
        """GetSamplePercent: "the percentage of samples that are available for a time interval"."""
        begin = spans[0].total_seconds()
        end = spans[1].total_seconds() if len(spans) > 1 else 0.0
        expected = max(1.0, (begin - end) / self.period_s)
        return min(100.0, 100.0 * len(self.within(spans)) / expected)

    def call(self, name: str, args: list[Any]) -> Any:
        if name == "GetSample":
            return self.sample(*args)
        if name == "GetSamplePercent":
            return self.percent(*args)
        if name == "GetSamplePeriod":
            return Delta(seconds=self.period_s)
        if name == "Count":
            return float(len(self.samples))
        oldest = self.samples[0][0] if self.samples else 0.0
        return datetime.datetime.now(datetime.UTC) - Delta(seconds=oldest)


def flat(args: Sequence[Any]) -> list[float]:
    """Return the doubles of a doubleVecList."""
    numbers: list[float] = []
    for arg in args:
        if isinstance(arg, Series):
            raise FormulaError("a service-defined variable must be asked with GetSample")
        numbers += arg if isinstance(arg, list) else [arg]
    if not numbers:
        raise FormulaError("the function needs a value")
    return numbers


def percentile(values: list[float], percent: float) -> float:
    ordered = sorted(values)
    position = (len(ordered) - 1) * percent / 100
    low, high = math.floor(position), math.ceil(position)
    return ordered[low] + (ordered[high] - ordered[low]) * (position - low)


def each(function: Callable[[float], float]) -> Callable[[list[Any]], Any]:
    """Return a function that works on a double or on each of a vector."""
    return lambda args: (
        [function(v) for v in args[0]] if isinstance(args[0], list) else function(args[0])
    )


def moment(args: list[Any]) -> datetime.datetime:
    """time(string): "Returns the time stamp of the current time if no parameters are passed"."""
    if not args or not args[0]:
        return datetime.datetime.now(datetime.UTC)
    try:
        moment = datetime.datetime.fromisoformat(args[0])
    except ValueError as exc:
        raise FormulaError(f"time({args[0]!r}) cannot be read") from exc
    return moment if moment.tzinfo else moment.replace(tzinfo=datetime.UTC)


# The functions in the table of the guide, none of which rounds a number:
# https://learn.microsoft.com/azure/batch/batch-automatic-scaling#functions
FUNCTIONS: dict[str, Callable[[list[Any]], Any]] = {
    "avg": lambda args: statistics.fmean(flat(args)),
    "len": lambda args: float(len(flat(args))),
    "lg": each(math.log2),
    "ln": each(math.log),
    "log": each(math.log10),
    "max": lambda args: max(flat(args)),
    "min": lambda args: min(flat(args)),
    "norm": lambda args: math.sqrt(sum(v * v for v in flat(args))),
    "percentile": lambda args: percentile(args[0], args[1]),
    "rand": lambda _args: random.random(),  # noqa: S311 - the formula's dice
    "range": lambda args: max(flat(args)) - min(flat(args)),
    "std": lambda args: statistics.pstdev(flat(args)),
    "stop": lambda _args: 0.0,
    "sum": lambda args: math.fsum(flat(args)),
    "time": moment,
    "val": lambda args: args[0][int(args[1])],
}


def check(text: str) -> list[tuple[str, Tree]]:
    """Read a formula and see that it has no unknown word; raise FormulaError."""
    statements = grammar.read(text)
    known = {*SAMPLED, *WRITABLE, *ALIASES, *OPTIONS, *INTERVALS}
    for name, tree in statements:
        for kind, word in grammar.names(tree):
            there = {"name": known, "call": FUNCTIONS, "member": {*METHODS, *MEMBERS}}[kind]
            if word not in there:
                raise FormulaError(f"{word!r} is not known")
        if name in SAMPLED or ALIASES.get(name) in SAMPLED or name in INTERVALS:
            raise FormulaError(f"{name!r} is read only")
        if name.startswith("$") and name not in known:
            known.add(name)
        known.add(name)
    return statements


def evaluated(text: str, values: Mapping[str, Any]) -> dict[str, Any]:
    """Evaluate a formula; give all that it assigned. *values* are Series and the current targets."""
    scope: dict[str, Any] = {**INTERVALS, **{o: o for o in OPTIONS}, **values}
    given: dict[str, Any] = {}
    for name, tree in check(text):
        full = ALIASES.get(name, name)
        value = worth(tree, scope)
        if full.startswith("$Target") and not isinstance(value, int | float):
            raise FormulaError(f"{name} must be a number")
        if full == "$NodeDeallocationOption" and value not in OPTIONS:
            raise FormulaError(f"{name} must be one of {', '.join(OPTIONS)}")
        scope[full] = given[full] = value
    return given


def worth(tree: Tree, scope: Mapping[str, Any]) -> Any:
    """Return the value of an expression; raise FormulaError."""
    try:
        return EVALUATE[tree[0]](tree, scope)
    except (TypeError, ValueError, ZeroDivisionError, IndexError, OverflowError) as exc:
        raise FormulaError(f"it cannot be evaluated: {exc}") from exc


def of_name(tree: Tree, scope: Mapping[str, Any]) -> Any:
    name = str(tree[1])
    return scope[ALIASES.get(name, name)]


def of_operator(tree: Tree, scope: Mapping[str, Any]) -> Any:
    mark = tree[1]
    left = worth(tree[2], scope)
    if mark in ("&&", "||"):
        if bool(left) == (mark == "||"):
            return float(bool(left))
        return float(bool(worth(tree[3], scope)))
    right = worth(tree[3], scope)
    if isinstance(left, Series) or isinstance(right, Series):
        raise FormulaError("a service-defined variable must be asked with GetSample")
    if isinstance(left, list) and isinstance(right, list):
        return [OPERATORS[mark](a, b) for a, b in zip(left, right, strict=True)]
    if isinstance(left, list):
        return [OPERATORS[mark](a, right) for a in left]
    if isinstance(right, list):
        return [OPERATORS[mark](left, b) for b in right]
    result = OPERATORS[mark](left, right)
    return float(result) if isinstance(result, bool) else result


def of_unary(tree: Tree, scope: Mapping[str, Any]) -> Any:
    value = worth(tree[2], scope)
    if tree[1] == "!":
        return float(not value)
    return -value if tree[1] == "-" else value


def of_member(tree: Tree, scope: Mapping[str, Any]) -> Any:
    whole, name, args = worth(tree[1], scope), tree[2], tree[3]
    if isinstance(whole, Series) and name in METHODS and args is not None:
        return whole.call(name, [worth(a, scope) for a in args])
    if isinstance(whole, datetime.datetime) and name in MEMBERS and args is None:
        return float(whole.isoweekday() % 7 if name == "weekday" else getattr(whole, name))
    raise FormulaError(f"there is no {name!r} here")


EVALUATE: dict[str, Callable[[Tree, Mapping[str, Any]], Any]] = {
    "value": lambda tree, _scope: tree[1],
    "name": of_name,
    "call": lambda tree, scope: FUNCTIONS[tree[1]]([worth(a, scope) for a in tree[2]]),
    "member": of_member,
    "op": of_operator,
    "unary": of_unary,
    "?": lambda tree, scope: worth(tree[2] if worth(tree[1], scope) else tree[3], scope),
}
