"""The tables of docs/elastic-costs.md, simulated anew."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Mapping
from statistics import mean
from typing import NamedTuple

import yaml

from runspec_jobs.simulate.fleet import Dice
from runspec_jobs.simulate.progress import Costs
from runspec_jobs.simulate.runs import Job, Outcome, simulate_elastic, simulate_gang
from runspec_jobs.simulate.scaling import Scaling
from runspec_jobs.simulate.throughput import Curve
from runspec_jobs.simulate.trace import Trace
from tests.support.root import ROOT

TRACES = ROOT / "docs" / "traces"
IMAGENET_90 = 90 * 1_281_167
PRICE = 24.48
RUNS = 200
ELASTIC = Costs(join_s=10, loss_s=15, checkpoint_s=300)


class Table(NamedTuple):
    """A header and rows, as Markdown writes them."""

    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    def __str__(self) -> str:
        lines = [self.header, ("---",) * len(self.header), *self.rows]
        return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def curve() -> Curve:
    text = (TRACES / "resnet50-p3.yaml").read_text()
    return Scaling.model_validate(yaml.safe_load(text)).curve


def dices() -> Iterator[Dice]:
    for seed in range(RUNS):
        yield random.Random(seed).random


def work(costs: Costs, take: Mapping[str, int]) -> Job:
    return Job(IMAGENET_90, curve(), costs, take)


def stays(nodes: int) -> Outcome:
    pool = {"on-demand": {"price": PRICE, "nodes": nodes}}
    trace = Trace.model_validate({"pools": pool})
    return simulate_gang(work(Costs(), {"on-demand": nodes}), nodes, trace, random.random)


def spot(nodes: int, rate: float, price: float) -> Trace:
    pool = {"price": PRICE * price, "nodes": nodes, "losses_per_hour": rate, "wait": 34 * 60}
    return Trace.model_validate(
        {"pools": {"on-demand": {"price": PRICE, "nodes": 12}, "spot": pool}}
    )


def percent(values: Iterable[float], base: float) -> str:
    return f"{100 * (mean(values) / base - 1):+.0f} %".replace("-", "−")


def both(found: list[Outcome], base: Outcome) -> tuple[str, str]:
    assert not any(one.why for one in found), "some did not finish"
    time = percent([one.time_s for one in found], base.time_s)
    return time, percent([one.cost for one in found], base.cost)


def gangs() -> Table:
    """8 spot machines at 30 % of the price, as a gang and elastic, against 8 that stay."""
    rows = []
    for rate in (0.05, 0.1, 0.3, 1.0):
        trace, job = spot(8, rate, 0.3), work(ELASTIC, {"spot": 8})
        cells = ["never ends in practice"]
        if rate < 1:
            cells = [
                ", ".join(both([simulate_gang(job, 8, trace, dice) for dice in dices()], stays(8)))
            ]
        for costs in (ELASTIC, Costs(120, 120, 600)):
            changed = job._replace(costs=costs)
            runs = [simulate_elastic(changed, 1, 8, trace, dice) for dice in dices()]
            cells.append(", ".join(both(runs, stays(8))))
        rows.append((f"{rate} an hour", *cells))
    head = (
        "each is lost",
        "gang: time, cost",
        "elastic: 10 to 15 s, saved every 5 min",
        "elastic: 2 min, saved every 10 min",
    )
    return Table(head, tuple(rows))


def scheduled(pool: str, price: float) -> Outcome:
    """One machine that stays and up to 11 of *pool*, at *price* of what the first costs."""
    given = yaml.safe_load((TRACES / "dynamic-training.yaml").read_text())
    given["pools"][pool]["price"] *= price
    trace = Trace.model_validate(given)
    job = work(ELASTIC, {"on-demand": 1, pool: 11})
    return simulate_elastic(job, 1, 12, trace, random.Random(0).random)


def dynamic() -> Table:
    """1 to 12 machines over 90 epochs, against 4 that stay."""
    base, rows = stays(4), []
    for pool in ("few", "wave", "many"):
        same = scheduled(pool, 1.0)
        time, cost = both([same], base)
        costs = [both([scheduled(pool, price)], base)[1] for price in (0.6, 0.4, 0.3)]
        nodes = f"{same.node_s / same.time_s:.1f}"
        rows.append((pool, nodes, time, cost, *costs))
    head = (
        *("schedule", "machines, mean", "time", "cost at the same price"),
        *("at 60 %", "at 40 %", "at 30 %"),
    )
    return Table(head, tuple(rows))


TABLES = {"gangs": gangs, "dynamic": dynamic}
