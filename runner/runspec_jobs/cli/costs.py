"""Prints what a job may cost, and asks before an apply that may cost much."""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Sequence
from typing import Any

from runspec_jobs.api import jobs
from runspec_jobs.api.jobs import (
    Estimate,
    Job,
    PricedMachine,
    StandingCost,
    compute_exposure,
    describe_instead,
    estimate,
)
from runspec_jobs.cli import output
from runspec_jobs.diagnostics.render import escape_control
from runspec_jobs.errors import UsageError
from runspec_jobs.report.numbers import format_usd

SHOWN = 4  # the most machines that are printed; --json lists all of them
UNKNOWN_USD = 1.0  # the price by which machines without a known price are sorted


def lines(cost: Estimate) -> Iterator[str]:
    """Yield an estimate as lines of text."""
    yield "\ncost"
    if not is_charged(cost):
        yield escape_control(f"     {cost.unbounded}")
        return
    for number, one in enumerate(cost.machines[:SHOWN]):
        head = f"{machines(cost)} x " if number == 0 else "or "
        each = "each " if cost.at_once > 1 else ""
        spot = "" if one.spot_usd_hour is None else f", {format_usd(one.spot_usd_hour)} on spot"
        gpus = f" with {one.gpus}" if one.gpus else ""
        yield escape_control(
            f"     {head}{one.name}{gpus}: {each}{hourly(one.usd_hour)}{spot} ({one.why})"
        )
    if len(cost.machines) > SHOWN:
        yield f"     or one of {len(cost.machines) - SHOWN} more: --json lists all"
    yield f"     {rate(cost)}"
    yield f"     {bound(cost)}"
    if cost.standing:
        yield "     also while nothing runs:"
    for standing in cost.standing:
        yield escape_control(f"       {price(standing)}: {standing.what}")
    yield from (f"     {line}" for line in _with_standing([cost]))
    if cost.alternatives:
        yield f"     {_others(cost)}"
    if cost.catalogue:
        age = f", {_age(cost.listed_on)}" if cost.listed_on else ""
        yield escape_control(f"     prices: {cost.catalogue}{age}")


def price(standing: StandingCost) -> str:
    """Return the price of a standing cost as text."""
    if standing.usd_gb_month is not None:
        return f"{standing.usd_gb_month:g} USD a GB and month"
    return hourly(standing.usd_hour)


def summary(cost: Estimate) -> Iterator[str]:
    """Yield the lines that `apply` prints: all that `plan` does, except machines after the first and unknown prices."""
    named = ""
    if cost.machines:
        more = f" or {len(cost.machines) - 1} more" if len(cost.machines) > 1 else ""
        named = f"{machines(cost)} x {cost.machines[0].name}{more}, "
    whole = rate(cost) if cost.at_once > 1 else rate(cost).removeprefix("in all: ")
    yield escape_control(f"cost: {named}{whole}; {bound(cost)}")
    for standing in cost.standing:
        if standing.usd_hour is not None:
            yield escape_control(f"also while nothing runs: {standing.what}: {price(standing)}")
    yield from _with_standing([cost])
    if cost.alternatives:
        yield _others(cost)


def _with_standing(costs: Sequence[Estimate]) -> Iterator[str]:
    """Yield what the jobs may cost with what stays after them, if anything does."""
    of, stays = compute_exposure(costs), any(cost.hours for one in costs for cost in one.standing)
    if stays and of.usd is not None:
        yield f"at most with what stays, which counts for a day at least: {format_usd(of.usd)}"


def is_charged(cost: Estimate) -> bool:
    """Return whether anything is known to cost money; not so on a cluster for whose nodes the profile has no price."""
    return bool(cost.machines or cost.standing)


def _others(cost: Estimate) -> str:
    others = ", ".join(
        f"{machine.name} {hourly(machine.usd_hour)}" for machine in cost.alternatives
    )
    return escape_control(f"other machines{', each' if cost.at_once > 1 else ''}: {others}")


def machines(cost: Estimate) -> str:
    """Return how many machines run at once: a range if nodes may share them, or the job is elastic."""
    most = f"{cost.at_once:,}"
    return most if cost.fewest >= cost.at_once else f"{cost.fewest:,} to {most}"


def hourly(amount: float | None) -> str:
    return "price unknown" if amount is None else f"{format_usd(amount)} an hour"


def rate(cost: Estimate) -> str:
    """Return the price of an hour of all machines at once, as text."""
    least, most = cost.least_usd_hour, cost.most_usd_hour
    if most is None or least is None:
        return "in all: unknown" if least is None else f"in all: at least {hourly(least)}"
    several = (
        f"{format_usd(least).removesuffix(' USD')} to {format_usd(most)} an hour"
        if most > least
        else hourly(most)
    )
    return f"in all: {several}{_on_spot(cost)}"


def _on_spot(cost: Estimate) -> str:
    """Return what spot machines cost in place of those on demand, as text."""
    if cost.spot_usd_hour is None:
        return ", less on spot machines" if cost.work.spot else ""
    when = f"by prices of {cost.listed_on}, {_age(cost.listed_on)}"
    return f", or {format_usd(cost.spot_usd_hour)} on spot machines {when}"


def _age(day: str) -> str:
    """Return how long ago a day was, as text."""
    try:
        days = (datetime.datetime.now(datetime.UTC).date() - datetime.date.fromisoformat(day)).days
    except ValueError:
        return "of an unknown age"
    return "today" if days <= 0 else "1 day ago" if days == 1 else f"{days:,} days ago"


def bound(cost: Estimate) -> str:
    """Return the most that the job can cost, or the reason why there is no limit, as text."""
    work = cost.work
    if cost.bound_usd is None:
        known = cost.most_usd_hour is not None and work.timeout_s is None
        what = f"at most: {'no limit' if known else 'unknown'}, because {cost.unbounded}"
        return what + describe_instead(compute_exposure([cost]))
    assert work.timeout_s is not None, "BUG: there is no bound without a timeout"
    parts = [_length(work.timeout_s), *_times(work.attempts, "attempt")]
    parts += [*_times(work.nodes, "node"), *_times(work.tasks, "task")]
    caveat = f"; {cost.caveat}" if cost.caveat else ""
    spot = (
        ""
        if cost.at_spot_usd is None
        else f", or {format_usd(cost.at_spot_usd)} by the spot prices"
    )
    return f"at most: {format_usd(cost.bound_usd)} ({' x '.join(parts)}{caveat}){spot}"


def _length(seconds: float) -> str:
    """Return a length of time in hours if it has one, else in minutes or seconds.

    >>> _length(5400), _length(90), _length(2)
    ('1.5 h', '1.5 min', '2 s')
    """
    size, unit = next(one for one in ((3600, "h"), (60, "min"), (0, "s")) if seconds >= one[0])
    return f"{seconds / (size or 1):.4g} {unit}"


def _times(number: int, what: str) -> Iterator[str]:
    if number > 1:
        yield f"{number:,} {what}s"


def to_json(cost: Estimate | None) -> dict[str, Any] | None:
    """Return an estimate as JSON, or None if there is none."""
    if cost is None:
        return None
    of = compute_exposure([cost])
    return {
        "machines": _machines(cost.machines),
        "alternatives": _machines(cost.alternatives),
        "at_once": cost.at_once,
        "fewest_at_once": cost.fewest,
        "least_usd_hour": cost.least_usd_hour,
        "most_usd_hour": cost.most_usd_hour,
        "bound_usd": cost.bound_usd,
        "unbounded": cost.unbounded,
        "caveat": cost.caveat,
        "machine_hours": of.machine_hours,
        "near_usd": of.near_usd,
        "near_region": of.near_region,
        "standing_usd": of.standing_usd,
        "standing": [standing._asdict() for standing in cost.standing],
        "catalogue": cost.catalogue,
        "spot_usd_hour": cost.spot_usd_hour,
        "at_spot_usd": cost.at_spot_usd,
        "listed_on": cost.listed_on,
    }


def _machines(priced: Sequence[PricedMachine]) -> list[dict[str, Any]]:
    return [machine._asdict() for machine in priced]


def demand_below(of: Sequence[Job], most: str | None) -> None:
    """Raise UsageError if jobs may cost more than *most*, the text of `--max-usd`, or if that is no amount."""
    if most is None:
        return
    try:
        amount = float(most)
    except ValueError:
        amount = -1.0
    if not 0 <= amount < float("inf"):
        raise UsageError(f"--max-usd: '{most}' is not an amount of USD", "write --max-usd 50")
    jobs.demand_below(of, amount, "--max-usd")


def together(jobs: Sequence[Job]) -> Iterator[str]:
    """Yield a line on the most that several jobs can cost in all; none for one job, or if nothing is charged."""
    costs = [cost for cost in map(estimate, jobs) if cost is not None and is_charged(cost)]
    if len(costs) > 1:
        of = compute_exposure(costs)
        unknown = f"unknown, because {of.unbounded}{describe_instead(of)}"
        most = unknown if of.usd is None else format_usd(of.usd - of.standing_usd)
        yield escape_control(f"all {len(costs)} jobs at most: {most}")
        yield from map(escape_control, _with_standing(costs))


class Confirmation:
    """Tells what each of several jobs may cost before it starts, and asks once if that is much in all.

    If *quiet*, nothing is told unless a person is asked.
    """

    def __init__(self, jobs: Sequence[Job], *, yes: bool, quiet: bool) -> None:
        self._jobs, self._yes, self._quiet = jobs, yes, quiet
        self._told: set[str] = set()

    def __call__(self, job: Job) -> None:
        """Tell what *job* may cost. Raises UsageError if the answer to the question is no."""
        cost = estimate(job)
        if cost is None or not is_charged(cost) or job.spec.name in self._told:
            return
        is_first = not self._told
        self._told.add(job.spec.name)
        asks = is_first and not self._yes and output.at_terminal() and is_much(self._jobs)
        if self._quiet and not asks:
            return
        for line in (*summary(cost), *(together(self._jobs) if is_first else ())):
            output.tell(line)
        question = "start it?" if len(self._jobs) == 1 else "start them?"
        if asks and not output.agreed(question):
            raise UsageError("not confirmed: nothing was started", "--yes starts it without asking")


def is_much(jobs: Sequence[Job]) -> bool:
    """Return whether jobs may cost more than the user wants to spend unasked.

    Machines with GPUs whose price is unknown are always much. Others count by the prices of the nearest region, and an
    hour as 1 USD where no price is known at all.
    """
    priced = [(one, of) for of in jobs if (one := estimate(of)) is not None and is_charged(one)]
    of, limit_usd = compute_exposure([one for one, _ in priced]), jobs[0].confirm_above_usd
    if of.usd is not None:
        return of.usd > limit_usd
    if of.machine_hours is None:
        return True
    if any(job.spec.cluster.gpus for one, job in priced if one.bound_usd is None):
        return True
    usd_ = of.machine_hours * UNKNOWN_USD if of.near_usd is None else of.near_usd
    return usd_ > limit_usd
