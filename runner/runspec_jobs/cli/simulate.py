"""`runspec simulate`: estimates the time and cost of a job."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from runspec_jobs.api import simulation
from runspec_jobs.api.simulation import SECONDS, Case, Question, Result, SimulatedJob, Spread
from runspec_jobs.api.specs import parse_seconds
from runspec_jobs.cli import output
from runspec_jobs.diagnostics.render import escape_control
from runspec_jobs.errors import OK, UsageError
from runspec_jobs.options.start_verbs import SimulateOptions


def simulate(options: SimulateOptions) -> int:
    result = simulation.simulate(_question(options))
    if options.as_json:
        output.out_json("runspec.simulation/v1", _json(options, result.work, result.results))
    else:
        for line in view(result.work, result.results, result.measured_to, result.about):
            output.out(line)
    return OK


def _question(options: SimulateOptions) -> Question:
    return Question(
        options.file,
        options.prices,
        options.scaling,
        options.samples * options.epochs,
        series=options.series,
        fixed=options.fixed,
        take=None if options.take is None else _take(options.take),
        join_s=_seconds("join", options.join),
        loss_s=_seconds("loss", options.loss),
        checkpoint_s=None
        if options.checkpoint is None
        else _seconds("checkpoint", options.checkpoint),
        runs=options.runs,
        seed=options.seed,
        params=options.params,
    )


def _take(text: str) -> Mapping[str, int]:
    """Return the number of nodes of each pool in `--take`."""
    take: dict[str, int] = {}
    for word in text.split(","):
        name, _, count = word.partition("=")
        if not count.isdecimal() or not int(count):
            hint = "write --take on-demand=2,spot=4"
            raise UsageError(f"--take: '{word}' is not POOL=N with N of at least 1", hint)
        if name in take:
            raise UsageError(f"--take: the pool '{name}' is used twice", "name each pool once")
        take[name] = int(count)
    return take


def _seconds(name: str, value: str) -> float:
    try:
        return float(parse_seconds(value))
    except ValueError as exc:  # the notation is that of durations in specs
        what = f"--{name}: '{value}' is not a length of time"
        raise UsageError(what, "write it as 90s, 10m, 2h or 1h30m") from exc


def view(
    asked: SimulatedJob, results: Sequence[Result], measured_to: float | None, about: str | None
) -> Iterator[str]:
    """Yield *results* as lines of text; each is compared with the last."""
    curve, costs = asked.curve, asked.costs
    counts = sorted(
        {1, *(result.case.least for result in results), *(r.case.most for r in results)}
    )
    speeds = ", ".join(f"{curve.compute_throughput(n):,.0f}/s on {n}" for n in counts)
    yield f"work     {asked.samples:,.0f} samples; {speeds} node{'s' * (counts != [1])}"
    if measured_to is not None and measured_to < counts[-1]:
        yield f"         above {measured_to:g} nodes: not measured, but extrapolated by Amdahl's law"
    saved = "never" if costs.checkpoint_s is None else f"every {_long(costs.checkpoint_s)}"
    join, loss = _long(costs.join_s), _long(costs.loss_s)
    yield f"changes  {join} without work after a node joined, {loss} after one left or was lost"
    yield f"saves    {saved}"
    if about:
        yield f"prices   {escape_control(about)}"
    wide = max(len(_name(result.case)) for result in results)
    yield f"\n{'':{wide}} {'time':>22} {'cost':>24} {'nodes':>6} {'losses':>7} {'redone':>7} {'idle':>7}"
    for result in results:
        yield from _row(result, results[-1], wide)


def _name(case: Case) -> str:
    nodes = f"{case.least}..{case.most}" if case.kind == "elastic" else str(case.most)
    pools = ", ".join(f"{name} {count}" for name, count in case.job.take.items())
    return f"{case.kind} {nodes} ({pools})"


def _row(result: Result, base: Result, wide: int) -> Iterator[str]:
    time = cost = "-"
    if result.time_s is not None:
        time = f"{_long(result.time_s.mean)}{_against(result.time_s, base.time_s, result is base)}"
        paid = (
            base.cost if base.time_s is not None else None
        )  # the cost of unfinished runs says nothing
        cost = f"{result.cost.mean:,.2f}{_against(result.cost, paid, result is base)}"
    mean = result.node_h / (result.mean_s / 3600) if result.mean_s else 0.0
    yield (
        f"{_name(result.case):{wide}} {time:>22} {cost:>24} {mean:6.1f}"
        f" {result.losses:7.1f} {_long(result.redone_s):>7} {_long(result.idle_s):>7}"
    )
    if result.finished < result.runs:
        missing = result.runs - result.finished
        yield f"    {missing} of {result.runs} did not finish: {result.why}"


def _against(value: Spread, base: Spread | None, itself: bool) -> str:
    if itself or base is None or not base.mean:
        return ""
    return f" {100 * (value.mean / base.mean - 1):+.0f} %"


def _long(seconds_: float) -> str:
    """Return a duration as text.

    >>> [_long(s) for s in (0, 9.4, 300, 5070, 200_000)]
    ['0s', '9s', '5m', '1h24m', '2d7h']
    """
    left, parts = round(seconds_), []
    for unit, size in SECONDS.items():
        count, left = divmod(left, size)
        if count:
            parts.append(f"{count}{unit}")
    return "".join(parts[:2]) or "0s"


def _json(
    options: SimulateOptions, asked: SimulatedJob, results: Sequence[Result]
) -> dict[str, Any]:
    return {
        "samples": asked.samples,
        "samples_per_s": [[p.nodes, p.samples_per_s] for p in asked.curve.points],
        "seed": options.seed,
        "costs": asked.costs._asdict(),
        "cases": [_case_json(result) for result in results],
    }


def _case_json(result: Result) -> dict[str, Any]:
    case = result.case
    nodes = {"min": case.least, "max": case.most}
    spreads = {"time_s": result.time_s, "cost": result.cost}
    rest = {k: v for k, v in result._asdict().items() if k not in ("case", *spreads)}
    shown = {name: spread and spread._asdict() for name, spread in spreads.items()}
    return {"kind": case.kind, "nodes": nodes, "take": dict(case.job.take), **shown, **rest}
