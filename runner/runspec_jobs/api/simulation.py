"""Estimates the time and cost of a job from prices, interruptions and measured speeds."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel

from runspec_agent.base.light_typing import NamedTuple
from runspec_jobs.api.specs import InvalidSpec, SourceFile
from runspec_jobs.diagnostics.problem import did_you_mean
from runspec_jobs.diagnostics.render import locate_flaws
from runspec_jobs.document import reader
from runspec_jobs.errors import UsageError
from runspec_jobs.load import source
from runspec_jobs.load.overrides import Overrides, Params, apply_overrides, write_params
from runspec_jobs.simulate import compare, price_table, scaling, trace
from runspec_jobs.simulate.compare import Case as Case, Result as Result, Spread as Spread
from runspec_jobs.simulate.fleet import Dice
from runspec_jobs.simulate.progress import Costs
from runspec_jobs.simulate.runs import Job
from runspec_jobs.spec import validate
from runspec_jobs.spec.model import Spec
from runspec_jobs.spec.types import SECONDS as SECONDS

M = TypeVar("M", bound=BaseModel)
SimulatedJob = Job
RUNS = 200  # if something is drawn at random
MOST = 1000  # the most nodes: simulating 256 of them for two hours takes half a second


@dataclass(frozen=True)
class Question:
    """What to simulate: the files of spec, prices and speeds, and what they do not say.

    *samples* is the number of all epochs together, *fixed* the nodes of the jobs of fixed size, *take* the most nodes
    of each pool. *join_s*, *loss_s* and *checkpoint_s* are in seconds: the time without work after a node joined, and
    after one left or was lost, and the time between two saves.
    """

    spec: Path
    prices: Path
    scaling: Path
    samples: int
    series: str | None = None
    fixed: int | None = None
    take: Mapping[str, int] | None = None
    join_s: float = 10.0
    loss_s: float = 15.0
    checkpoint_s: float | None = None
    runs: int | None = None
    seed: int = 0
    params: Params = ()


class Answer(NamedTuple):
    """The job that was simulated and the results of each case, of which the last is the one to compare with.

    *measured_to* is the largest number of nodes whose speed was measured, if it is known; *about* describes the prices.
    """

    work: SimulatedJob
    results: Sequence[Result]
    measured_to: float | None
    about: str | None


def simulate(question: Question) -> Answer:
    """Estimate time and cost of the job at fixed sizes and, if the spec has a range of nodes, elastic.

    Raises InvalidSpec, whose `texts` have the problems of all three files, and UsageError.
    """
    overrides = Overrides(params=write_params(question.params))
    asked = apply_overrides(source.read_file(question.spec), overrides)
    texts = [asked, _trace_text(question.prices)]
    texts.append(source.read_file(question.scaling))
    spec, prices = _read_spec(texts[0]), _trace(texts[1])
    measured = _choose_series(question, texts[2], spec)
    take: Mapping[str, int] = {}
    if spec is not None and prices is not None and measured is not None:
        take = _take(question, spec, prices, texts[1])
    if wrong := [text for text in texts if text.failed]:
        raise InvalidSpec(*wrong)
    assert spec and prices and measured, "BUG: a file that could not be read has no diagnostic"
    costs = _compute_costs(question, spec)
    work = SimulatedJob(question.samples, measured.curve, costs, take, spec.retry.spot_attempts)
    compared = list(compare.list_cases(spec, work, prices, question.fixed))
    runs = question.runs or (RUNS if _draw_prices(prices, compared) else 1)
    results = [
        compare.simulate_case(case, prices, _make_dices(question.seed, runs)) for case in compared
    ]
    return Answer(work, results, measured.measured_to, prices.about)


def _choose_series(
    question: Question, text: SourceFile, spec: Spec | None
) -> scaling.Series | None:
    read = _read(text, scaling.Scaling)
    if read is None:
        return None
    most: int = max(spec.cluster.nodes.max if spec is not None else 1, question.fixed or 1)
    if most > MOST:
        raise UsageError(f"cannot simulate {most:,} nodes", f"the largest number is {MOST:,}")
    series, problems = scaling.choose_series(read, question.series, most)
    text.add_problems(problems)
    return series


def _trace_text(path: Path) -> SourceFile:
    """Return the file of prices; a CSV table is converted to the document that it would be in YAML."""
    text = source.read_file(path)
    if path.suffix == ".csv":
        text.diagnostics = []
        try:
            text.document = price_table.read(text.data)
        except reader.YamlError as exc:
            text.document, text.diagnostics = None, locate_flaws(text.name, exc.flaws)
    return text


def _read_spec(text: SourceFile) -> Spec | None:
    if text.document is None:
        return None
    spec, problems = validate.parse_spec(text.document)
    text.add_problems(problems)
    return spec


def _trace(text: SourceFile) -> trace.Trace | None:
    parsed = _read(text, trace.Trace)
    if parsed is not None:
        text.add_problems(trace.find_broken(parsed))
    return parsed


def _read(text: SourceFile, kind: type[M]) -> M | None:
    if text.document is None:
        return None
    model, problems = validate.parse_model(kind, text.document.value)
    text.add_problems(problems)
    return model


def _take(
    question: Question, spec: Spec, prices: trace.Trace, text: SourceFile
) -> Mapping[str, int]:
    """Return the number of nodes of each pool that the job may use: those asked for, or else from its capacity."""
    if question.take is None:
        take, problems = compare.count_wanted(spec, prices)
        text.add_problems(problems)
        return take
    for name in question.take:
        if name not in prices.pools:
            hint = did_you_mean(name, prices.pools) or f"pools: {', '.join(prices.pools)}"
            raise UsageError(f"--take: {question.prices} has no pool '{name}'", hint)
    return question.take


def _compute_costs(question: Question, spec: Spec) -> Costs:
    saved = [output.sync for output in spec.outputs if output.sync is not None]
    every = question.checkpoint_s if question.checkpoint_s is not None else min(saved, default=None)
    if every == 0:
        raise UsageError("the time between two saves must be more than 0", "write --checkpoint 5m")
    return Costs(question.join_s, question.loss_s, every)


def _draw_prices(prices: trace.Trace, compared: Iterable[Case]) -> bool:
    pools = {prices.pools[name] for case in compared for name in case.job.take}
    return any(pool.losses_per_hour or pool.wait for pool in pools)


def _make_dices(seed: int, runs: int) -> Iterator[Dice]:
    """Yield the random numbers of each run: equal ones for each case, so that cases differ in nothing else."""
    for number in range(runs):
        yield random.Random(f"{seed}/{number}").random  # noqa: S311 - not used for secrets
