"""The cases that are compared: the job as an elastic job, as a gang on the same machines, and on on-demand machines."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from runspec_agent.base.light_typing import NamedTuple
from runspec_jobs.diagnostics.problem import Problem
from runspec_jobs.simulate.fleet import Dice
from runspec_jobs.simulate.runs import Job, Outcome, simulate_elastic, simulate_gang
from runspec_jobs.simulate.trace import Trace
from runspec_jobs.spec.model import Spec
from runspec_jobs.spec.models.machines import Capacity

STAYS = "on-demand"
POOLS: Mapping[Capacity, tuple[str, ...]] = {
    Capacity.ON_DEMAND: (STAYS,),
    Capacity.SPOT: ("spot",),
    Capacity.SPOT_THEN_ON_DEMAND: ("spot", STAYS),
}


class Case(NamedTuple):
    """One case to simulate, on *least* to *most* nodes, which are equal for a gang."""

    kind: str
    least: int
    most: int
    job: Job

    def run(self, trace: Trace, dice: Dice) -> Outcome:
        if self.kind == "elastic":
            return simulate_elastic(self.job, self.least, self.most, trace, dice)
        return simulate_gang(self.job, self.most, trace, dice)


class Spread(NamedTuple):
    """The distribution of a value over many runs: its mean, and its 10th and 90th percentile."""

    mean: float
    low: float
    high: float


class Result(NamedTuple):
    """The result of a case in *runs* runs. *time_s* is over the runs that finished, all other values over all runs."""

    case: Case
    runs: int
    finished: int
    why: str
    time_s: Spread | None
    cost: Spread
    mean_s: float
    node_h: float
    losses: float
    redone_s: float
    idle_s: float


def count_wanted(spec: Spec, trace: Trace) -> tuple[dict[str, int], list[Problem]]:
    """Return the number of nodes of each pool in *trace* that *spec* may use according to its capacity."""
    asked = (spec.cluster.pool,) if spec.cluster.pool else POOLS[spec.cluster.capacity]
    there = {name: spec.cluster.nodes.max for name in asked if name in trace.pools}
    if there:
        return there, []
    names = " or ".join(f"'{name}'" for name in asked)
    message = f"there is no pool {names}, which the spec needs for capacity: {spec.cluster.bought}"
    return {}, [
        Problem(("pools",), message, "rename a pool, or choose one: --take POOL=NODES", at="key")
    ]


def list_cases(spec: Spec, job: Job, trace: Trace, fixed: int | None) -> Iterator[Case]:
    """Yield the cases; the others are compared with the last one."""
    nodes = spec.cluster.nodes
    yield Case("elastic", nodes.min if nodes.elastic else 1, nodes.max, job)
    count = fixed or nodes.max
    enough = sum(job.take.values()) >= count
    # A gang needs all of its nodes at once. Where the elastic job may take fewer, the gang would wait for ever,
    # so the case answers what it would cost if it got them.
    take = job.take if enough else dict.fromkeys(job.take, count)
    yield Case("fixed", count, count, job._replace(take=take))
    # The same gang on machines that nobody reclaims, as the price of certainty.
    if STAYS in trace.pools and set(job.take) != {STAYS}:
        yield Case("fixed", count, count, job._replace(take={STAYS: count}))


def simulate_case(case: Case, trace: Trace, dices: Iterable[Dice]) -> Result:
    """Simulate *case* once with each of *dices*."""
    all_ = [case.run(trace, dice) for dice in dices]
    done = [outcome for outcome in all_ if not outcome.why]
    count = len(all_)
    return Result(
        case,
        count,
        len(done),
        next((outcome.why for outcome in all_ if outcome.why), ""),
        _spread([outcome.time_s for outcome in done]) if done else None,
        _spread([outcome.cost for outcome in all_]),
        sum(outcome.time_s for outcome in all_) / count,
        sum(outcome.node_s for outcome in all_) / 3600 / count,
        sum(outcome.losses for outcome in all_) / count,
        sum(outcome.redone_s for outcome in all_) / count,
        sum(outcome.idle_s for outcome in all_) / count,
    )


def _spread(values: list[float]) -> Spread:
    ordered = sorted(values)
    last = len(ordered) - 1
    # Positions are rounded towards the ends, so that few runs give a wide range rather than a narrow one.
    return Spread(sum(ordered) / len(ordered), ordered[last // 10], ordered[last - last // 10])
