"""`runspec simulate`: estimates the time and cost of a job."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel

from runspec_jobs.cli import output
from runspec_jobs.diagnostics.problem import did_you_mean
from runspec_jobs.diagnostics.render import flawed, plain
from runspec_jobs.document import reader
from runspec_jobs.errors import OK, UsageError
from runspec_jobs.load import source
from runspec_jobs.simulate import compare, price_table, scaling, trace
from runspec_jobs.simulate.compare import Result, Spread
from runspec_jobs.simulate.fleet import Dice
from runspec_jobs.simulate.progress import Costs
from runspec_jobs.simulate.runs import Job
from runspec_jobs.spec import validate
from runspec_jobs.spec.model import Spec
from runspec_jobs.spec.types import SECONDS, seconds

M = TypeVar("M", bound=BaseModel)
RUNS = 200  # if something is drawn at random
MOST = 1000  # nodes; a run of 256 for two hours takes half a second


@dataclass(frozen=True)
class SimulateOptions:
    """The options of `simulate`; *samples* is the number of all epochs together."""

    file: Path
    prices: Path
    scaling: Path
    samples: int
    series: str | None
    fixed: int | None
    take: str | None
    join: str
    loss: str
    checkpoint: str | None
    runs: int | None
    seed: int
    as_json: bool


def simulate(options: SimulateOptions) -> int:
    texts = [source.read_file(options.file), _trace_text(options.prices)]
    texts.append(source.read_file(options.scaling))
    spec, prices = _spec(texts[0]), _trace(texts[1])
    measured = _measured(options, texts[2], spec)
    take: Mapping[str, int] = {}
    if spec is not None and prices is not None and measured is not None:
        take = _take(options, spec, prices, texts[1])
    if wrong := [text for text in texts if text.failed]:
        raise source.InvalidSpec(*wrong)
    assert spec and prices and measured, "BUG: a file that could not be read has no diagnostic"
    asked = Job(
        options.samples, measured.curve, _costs(options, spec), take, spec.retry.spot_attempts
    )
    compared = list(compare.cases(spec, asked, prices, options.fixed))
    runs = options.runs or (RUNS if _drawn(prices, compared) else 1)
    results = [compare.result(case, prices, _dices(options.seed, runs)) for case in compared]
    if options.as_json:
        output.out_json(_json(options, asked, results))
    else:
        for line in view(asked, results, measured.measured_to, prices.about):
            output.out(line)
    return OK


def _measured(
    options: SimulateOptions, text: source.SourceFile, spec: Spec | None
) -> scaling.Series | None:
    read = _read(text, scaling.Scaling)
    if read is None:
        return None
    found, problems = scaling.chosen(read, options.series, _most(options, spec))
    text.complain(problems)
    return found


def _most(options: SimulateOptions, spec: Spec | None) -> int:
    most: int = max(spec.cluster.nodes.max if spec is not None else 1, options.fixed or 1)
    if most > MOST:
        raise UsageError(f"cannot simulate {most:,} nodes", f"the largest number is {MOST:,}")
    return most


def _trace_text(path: Path) -> source.SourceFile:
    """Return the file of prices; a CSV table is converted to the document that it would be in YAML."""
    text = source.read_file(path)
    if path.suffix == ".csv":
        text.diagnostics = []
        try:
            text.document = price_table.read(text.data)
        except reader.YamlError as exc:
            text.document, text.diagnostics = None, flawed(text.name, exc.flaws)
    return text


def _spec(text: source.SourceFile) -> Spec | None:
    if text.document is None:
        return None
    spec, problems = validate.spec(text.document)
    text.complain(problems)
    return spec


def _trace(text: source.SourceFile) -> trace.Trace | None:
    found = _read(text, trace.Trace)
    if found is not None:
        text.complain(trace.broken(found))
    return found


def _read(text: source.SourceFile, kind: type[M]) -> M | None:
    if text.document is None:
        return None
    found, problems = validate.model(kind, text.document.value)
    text.complain(problems)
    return found


def _take(
    options: SimulateOptions, spec: Spec, prices: trace.Trace, text: source.SourceFile
) -> Mapping[str, int]:
    """Return the number of nodes of each pool that the job may use: from `--take`, or else from its capacity."""
    if options.take is None:
        take, problems = compare.wanted(spec, prices)
        text.complain(problems)
        return take
    take = {}
    for word in options.take.split(","):
        name, _, count = word.partition("=")
        if not count.isdecimal() or not int(count):
            hint = "write --take on-demand=2,spot=4"
            raise UsageError(f"--take: '{word}' is not POOL=N with N of at least 1", hint)
        if name in take:
            raise UsageError(f"--take: the pool '{name}' is used twice", "name each pool once")
        if name not in prices.pools:
            hint = did_you_mean(name, prices.pools) or f"pools: {', '.join(prices.pools)}"
            raise UsageError(f"--take: {options.prices} has no pool '{name}'", hint)
        take[name] = int(count)
    return take


def _costs(options: SimulateOptions, spec: Spec) -> Costs:
    saved = [output.sync for output in spec.outputs if output.sync is not None]
    every = _seconds(options, "checkpoint") if options.checkpoint else min(saved, default=None)
    if every == 0:
        raise UsageError("the time between two saves must be more than 0", "write --checkpoint 5m")
    return Costs(_seconds(options, "join"), _seconds(options, "loss"), every)


def _seconds(options: SimulateOptions, name: str) -> float:
    value = getattr(options, name)
    try:
        return float(seconds(value))
    except ValueError as exc:  # the notation is that of durations in specs
        what = f"--{name}: '{value}' is not a length of time"
        raise UsageError(what, "write it as 90s, 10m, 2h or 1h30m") from exc


def _drawn(prices: trace.Trace, compared: Iterable[compare.Case]) -> bool:
    pools = {prices.pools[name] for case in compared for name in case.job.take}
    return any(pool.losses_per_hour or pool.wait for pool in pools)


def _dices(seed: int, runs: int) -> Iterator[Dice]:
    """Yield the random numbers of each run: equal ones for each case, so that cases differ in nothing else."""
    for number in range(runs):
        yield random.Random(f"{seed}/{number}").random  # noqa: S311 - not used for secrets


def view(
    asked: Job, results: Sequence[Result], measured_to: float | None, about: str | None
) -> Iterator[str]:
    """Yield *results* as lines of text; each is compared with the last."""
    curve, costs = asked.curve, asked.costs
    counts = sorted(
        {1, *(result.case.least for result in results), *(r.case.most for r in results)}
    )
    speeds = ", ".join(f"{curve.samples_per_s(n):,.0f}/s on {n}" for n in counts)
    yield f"work     {asked.samples:,.0f} samples; {speeds} node{'s' * (counts != [1])}"
    if measured_to is not None and measured_to < counts[-1]:
        yield f"         above {measured_to:g} nodes: not measured, but extrapolated by Amdahl's law"
    saved = "never" if costs.checkpoint_s is None else f"every {_long(costs.checkpoint_s)}"
    join, loss = _long(costs.join_s), _long(costs.loss_s)
    yield f"changes  {join} without work after a node joined, {loss} after one left or was lost"
    yield f"saves    {saved}"
    if about:
        yield f"prices   {plain(about)}"
    wide = max(len(_name(result.case)) for result in results)
    yield f"\n{'':{wide}} {'time':>22} {'cost':>24} {'nodes':>6} {'losses':>7} {'redone':>7} {'idle':>7}"
    for result in results:
        yield from _row(result, results[-1], wide)


def _name(case: compare.Case) -> str:
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


def _json(options: SimulateOptions, asked: Job, results: Sequence[Result]) -> dict[str, Any]:
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
