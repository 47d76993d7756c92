"""The most that several jobs can cost together with what stays beside them, and what is known if a price is not."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from runspec_agent.base.light_typing import NamedTuple
from runspec_jobs.machines.estimate import HOUR_S, Estimate, StandingCost, Work


class Exposure(NamedTuple):
    """What jobs may cost in USD: *usd* is the most, or None for the reason in *unbounded*.

    *standing_usd* is the part of it for what counts although no job runs. If *usd* is None because a price is unknown,
    *near_usd* is the most by the prices of *near_region* in its place, if these are known. *machine_hours* is None if a
    job has no timeout.
    """

    usd: float | None
    unbounded: str
    standing_usd: float
    near_usd: float | None
    near_region: str
    machine_hours: float | None


class _Part(NamedTuple):
    """One addend: in USD, or by the prices of another region; both are None if neither is known."""

    usd: float | None
    why: str
    near_usd: float | None
    near_region: str


def compute_exposure(estimates: Sequence[Estimate]) -> Exposure:
    """Return what the jobs of *estimates* may cost together; what they share counts once."""
    jobs = [_compute_job(estimate) for estimate in estimates]
    standing = list(_compute_standing(estimates))
    parts = [*jobs, *standing]
    unknown = [part for part in parts if part.usd is None]
    # A sum of known and of neighbouring prices is better than none, as long as it is marked as such.
    near = [part.near_usd if part.usd is None else part.usd for part in parts]
    hours = [_count_machine_hours(estimate.work) for estimate in estimates]
    known_hours = [count for count in hours if count is not None]
    return Exposure(
        None if unknown else sum(part.usd or 0.0 for part in parts),
        unknown[0].why if unknown else "",
        sum(part.usd or 0.0 for part in standing),
        None if None in near or not unknown else sum(amount or 0.0 for amount in near),
        next((part.near_region for part in unknown if part.near_region), ""),
        sum(known_hours) if len(known_hours) == len(hours) else None,
    )


def _compute_job(estimate: Estimate) -> _Part:
    if estimate.bound_usd is not None or (hours := _count_machine_hours(estimate.work)) is None:
        return _Part(estimate.bound_usd, estimate.unbounded, None, "")
    prices = [
        (machine.near_usd_hour, machine.near_region)
        if machine.usd_hour is None
        else (machine.usd_hour, "")
        for machine in estimate.machines
    ]
    known = [(usd, region) for usd, region in prices if usd is not None]
    if not known or len(known) < len(prices):
        return _Part(None, estimate.unbounded, None, "")
    # The dearest machine that the job may get.
    usd, _ = max(known)
    return _Part(None, estimate.unbounded, usd * hours, next((r for _, r in known if r), ""))


def _compute_standing(estimates: Sequence[Estimate]) -> Iterator[_Part]:
    counted: dict[str, tuple[StandingCost, float]] = {}
    for estimate in estimates:
        for cost in estimate.standing:
            if cost.hours is not None:
                _, before = counted.get(cost.what, (cost, 0.0))
                # By its name: several jobs share one queue or file system, which is paid for once.
                counted[cost.what] = cost, max(before, cost.hours, _count_hours(estimate.work))
    for cost, hours in counted.values():
        near = None if cost.near_usd_hour is None else cost.near_usd_hour * hours
        if cost.usd_hour is not None:
            yield _Part(cost.usd_hour * hours, "", None, "")
        elif cost.hours:  # otherwise it is there in any case, and its price is beside the point
            yield _Part(None, f"the price of {cost.what} is unknown", near, cost.near_region)


def _count_hours(work: Work) -> float:
    """Return how many hours a job may last from its first attempt to its last; 0 without a timeout."""
    # At most *parallel* tasks run at once; queues and file systems cost money until the last task has ended.
    rounds = math.ceil(work.tasks / max(1, work.parallel))
    return (work.timeout_s or 0.0) / HOUR_S * work.attempts * rounds


def _count_machine_hours(work: Work) -> float | None:
    if work.timeout_s is None:
        return None
    return work.timeout_s / HOUR_S * work.attempts * work.nodes * work.tasks
