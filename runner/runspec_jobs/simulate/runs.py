"""Simulates one run from start to end, event by event, as a pure function of its arguments."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from runspec_agent.base import limits
from runspec_agent.base.light_typing import NamedTuple
from runspec_agent.elastic.policy import Bounds, Timing
from runspec_jobs.simulate.fleet import NEVER, Changes, Dice, Fleet
from runspec_jobs.simulate.members import Elastic
from runspec_jobs.simulate.progress import Costs, Work
from runspec_jobs.simulate.throughput import Curve
from runspec_jobs.simulate.trace import Trace

PATIENCE = 100  # a run is given up after this many times its duration on all nodes without losses


class Job(NamedTuple):
    """A job to simulate: *take* is the most nodes of each pool that it may use, in the order of preference."""

    samples: float
    curve: Curve
    costs: Costs
    take: Mapping[str, int]
    tries: float = NEVER


class Outcome(NamedTuple):
    """The result of a run. *why* says why it did not finish, or is empty; times are in seconds."""

    why: str
    time_s: float
    cost: float
    node_s: float
    losses: int
    redone_s: float
    idle_s: float


ELASTIC_TIMING = Timing.of(limits.ELASTIC_BEAT_S, limits.SIMULATED_GRACE_S)


class Side(Protocol):
    """The reaction of a job to changes of its machines: a gang or an elastic job."""

    work: Work
    why: str

    def take_step(self, now_s: float, changes: Changes) -> None:
        """Apply *changes*, and do everything that is due at *now_s*."""

    def find_next_time(self) -> float:
        """Return the time of the next action that is due, apart from the end of the work."""


class Gang:
    """A job with a fixed number of nodes, which stops when it loses one of them."""

    def __init__(self, work: Work, nodes: int, tries: float) -> None:
        self.work, self.nodes, self.tries = work, nodes, tries
        self.why = ""
        self.up: set[int] = set()
        self.starts_s = NEVER
        self.restarts = 0

    def take_step(self, now_s: float, changes: Changes) -> None:
        began = self.work.speed > 0 or self.starts_s < NEVER
        if changes.lost:
            self.work.stop(now_s, told=all(lost.told for lost in changes.lost))
            self.up -= {lost.node for lost in changes.lost}
            self.starts_s = NEVER
            self.restarts += began
            if self.restarts >= self.tries:
                self.why = f"all {self.tries} attempts were reclaimed"
        self.up |= set(changes.up)
        if not self.work.speed and self.starts_s == NEVER and len(self.up) == self.nodes:
            self.starts_s = now_s + (self.work.costs.loss_s if self.restarts else 0.0)
        if self.starts_s <= now_s:
            self.work.start(now_s, self.nodes)
            self.starts_s = NEVER

    def find_next_time(self) -> float:
        return self.starts_s


def simulate_gang(job: Job, nodes: int, trace: Trace, dice: Dice) -> Outcome:
    """Simulate *job* on a fixed number of *nodes*."""
    # A gang counts its attempts as a whole, so its nodes have no limit of their own.
    fleet = Fleet(trace, job.take, nodes, NEVER, dice)
    side = Gang(Work(job.samples, job.curve, job.costs), nodes, job.tries)
    return _run_to_end(side, fleet, _limit_s(job, nodes))


def simulate_elastic(
    job: Job, least: int, most: int, trace: Trace, dice: Dice, timing: Timing = ELASTIC_TIMING
) -> Outcome:
    """Simulate *job* on *least* to *most* nodes, which join and leave."""
    fleet = Fleet(trace, job.take, most, job.tries, dice)
    side = Elastic(Work(job.samples, job.curve, job.costs), Bounds(least, most), timing)
    return _run_to_end(side, fleet, _limit_s(job, most))


def _limit_s(job: Job, nodes: int) -> float:
    return PATIENCE * job.samples / job.curve.compute_throughput(nodes)


def _run_to_end(side: Side, fleet: Fleet, limit_s: float) -> Outcome:
    """Apply one event after the other until the work is done, or cannot be done any more."""
    now_s = idle_s = 0.0
    losses = 0
    while True:
        changes = fleet.apply_events(now_s)
        losses += len(changes.lost)
        # Checked before the next step, which would pay for time after the end.
        if side.work.finished:
            break
        side.take_step(now_s, changes)
        # Nothing happens between two events, so time jumps from one to the next.
        next_s = min(side.find_next_time(), side.work.find_next_time(now_s), fleet.find_next_time())
        if not side.why and next_s > limit_s:
            side.why = (
                "too few machines or attempts are left"
                if next_s == NEVER
                else "it takes more than 100 times as long as without losses"
            )
        if side.why:
            break
        fleet.pay(next_s - now_s)
        idle_s += 0.0 if side.work.speed else next_s - now_s
        side.work.advance(next_s - now_s)
        now_s = next_s
    work = side.work
    return Outcome(side.why, now_s, fleet.cost, fleet.node_s, losses, work.redone_s, idle_s)
