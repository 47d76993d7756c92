"""Prints what a job may cost, and asks before an apply that may cost much."""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Sequence
from typing import Any

from runspec_jobs.api.jobs import (
    Estimate,
    Exposure,
    Job,
    PricedMachine,
    StandingCost,
    compute_exposure,
    estimate,
)
from runspec_jobs.cli import output
from runspec_jobs.diagnostics.render import escape_control
from runspec_jobs.errors import UsageError
from runspec_jobs.report.numbers import format_usd

SHOWN = 4  # machines; --json lists all
UNKNOWN_USD = 1.0  # what an hour of a machine counts that has no known price anywhere


def lines(found: Estimate) -> Iterator[str]:
    """Yield an estimate as lines of text."""
    yield "\ncost"
    if not is_charged(found):
        yield escape_control(f"     {found.unbounded}")
        return
    for number, one in enumerate(found.machines[:SHOWN]):
        head = f"{machines(found)} x " if number == 0 else "or "
        each = "each " if found.at_once > 1 else ""
        spot = "" if one.spot_usd_hour is None else f", {format_usd(one.spot_usd_hour)} on spot"
        yield escape_control(
            f"     {head}{one.name}: {each}{hourly(one.usd_hour)}{spot} ({one.why})"
        )
    if len(found.machines) > SHOWN:
        yield f"     or one of {len(found.machines) - SHOWN} more: --json lists all"
    yield f"     {rate(found)}"
    yield f"     {bound(found)}"
    if found.standing:
        yield "     also while nothing runs:"
    for standing in found.standing:
        yield escape_control(f"       {price(standing)}: {standing.what}")
    yield from (f"     {line}" for line in _with_standing([found]))
    if found.alternatives:
        yield f"     {_others(found)}"
    if found.catalogue:
        age = f", {_age(found.listed_on)}" if found.listed_on else ""
        yield escape_control(f"     prices: {found.catalogue}{age}")


def price(standing: StandingCost) -> str:
    """Return the price of a standing cost as text."""
    if standing.usd_gb_month is not None:
        return f"{standing.usd_gb_month:g} USD a GB and month"
    return hourly(standing.usd_hour)


def summary(found: Estimate) -> Iterator[str]:
    """Yield the lines that `apply` prints: all that `plan` does, except machines after the first and unknown prices."""
    named = ""
    if found.machines:
        more = f" or {len(found.machines) - 1} more" if len(found.machines) > 1 else ""
        named = f"{machines(found)} x {found.machines[0].name}{more}, "
    whole = rate(found) if found.at_once > 1 else rate(found).removeprefix("in all: ")
    yield escape_control(f"cost: {named}{whole}; {bound(found)}")
    for standing in found.standing:
        if standing.usd_hour is not None:
            yield escape_control(f"also while nothing runs: {standing.what}: {price(standing)}")
    yield from _with_standing([found])
    if found.alternatives:
        yield _others(found)


def _with_standing(found: Sequence[Estimate]) -> Iterator[str]:
    """Yield what the jobs may cost with what stays after them, if anything does."""
    of, stays = compute_exposure(found), any(cost.hours for one in found for cost in one.standing)
    if stays and of.usd is not None:
        yield f"at most with what stays, which counts for a day at least: {format_usd(of.usd)}"


def is_charged(found: Estimate) -> bool:
    """Return whether anything is known to cost money; not so on a cluster for whose nodes the profile has no price."""
    return bool(found.machines or found.standing)


def _others(found: Estimate) -> str:
    others = ", ".join(f"{one.name} {hourly(one.usd_hour)}" for one in found.alternatives)
    return escape_control(f"other machines{', each' if found.at_once > 1 else ''}: {others}")


def machines(found: Estimate) -> str:
    """Return how many machines run at once: a range if nodes may share them, or the job is elastic."""
    most = f"{found.at_once:,}"
    return most if found.fewest >= found.at_once else f"{found.fewest:,} to {most}"


def hourly(amount: float | None) -> str:
    return "price unknown" if amount is None else f"{format_usd(amount)} an hour"


def rate(found: Estimate) -> str:
    """Return the price of an hour of all machines at once, as text."""
    least, most = found.least_usd_hour, found.most_usd_hour
    if most is None or least is None:
        return "in all: unknown" if least is None else f"in all: at least {hourly(least)}"
    several = (
        f"{format_usd(least).removesuffix(' USD')} to {format_usd(most)} an hour"
        if most > least
        else hourly(most)
    )
    return f"in all: {several}{_on_spot(found)}"


def _on_spot(found: Estimate) -> str:
    """Return what spot machines cost in place of those on demand, as text."""
    if found.spot_usd_hour is None:
        return ", less on spot machines" if found.work.spot else ""
    when = f"by prices of {found.listed_on}, {_age(found.listed_on)}"
    return f", or {format_usd(found.spot_usd_hour)} on spot machines {when}"


def _age(day: str) -> str:
    """Return how long ago a day was, as text."""
    try:
        days = (datetime.datetime.now(datetime.UTC).date() - datetime.date.fromisoformat(day)).days
    except ValueError:
        return "of an unknown age"
    return "today" if days <= 0 else "1 day ago" if days == 1 else f"{days:,} days ago"


def bound(found: Estimate) -> str:
    """Return the most that the job can cost, or the reason why there is no limit, as text."""
    work = found.work
    if found.bound_usd is None:
        known = found.most_usd_hour is not None and work.timeout_s is None
        what = f"at most: {'no limit' if known else 'unknown'}, because {found.unbounded}"
        return what + _instead(compute_exposure([found]))
    assert work.timeout_s is not None, "BUG: there is no bound without a timeout"
    parts = [_length(work.timeout_s), *_times(work.attempts, "attempt")]
    parts += [*_times(work.nodes, "node"), *_times(work.tasks, "task")]
    caveat = f"; {found.caveat}" if found.caveat else ""
    spot = (
        ""
        if found.at_spot_usd is None
        else f", or {format_usd(found.at_spot_usd)} by the spot prices"
    )
    return f"at most: {format_usd(found.bound_usd)} ({' x '.join(parts)}{caveat}){spot}"


def _instead(found: Exposure) -> str:
    """Return what is known in place of the most that jobs can cost."""
    if found.near_usd is not None:
        return f"; {format_usd(found.near_usd)} by the prices of {found.near_region}"
    if found.machine_hours is None:
        return ""
    return f"; {found.machine_hours:,.4g} machine hours"


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


def to_json(found: Estimate | None) -> dict[str, Any] | None:
    """Return an estimate as JSON, or None if there is none."""
    if found is None:
        return None
    of = compute_exposure([found])
    return {
        "machines": _machines(found.machines),
        "alternatives": _machines(found.alternatives),
        "at_once": found.at_once,
        "fewest_at_once": found.fewest,
        "least_usd_hour": found.least_usd_hour,
        "most_usd_hour": found.most_usd_hour,
        "bound_usd": found.bound_usd,
        "unbounded": found.unbounded,
        "caveat": found.caveat,
        "machine_hours": of.machine_hours,
        "near_usd": of.near_usd,
        "near_region": of.near_region,
        "standing_usd": of.standing_usd,
        "standing": [one._asdict() for one in found.standing],
        "catalogue": found.catalogue,
        "spot_usd_hour": found.spot_usd_hour,
        "at_spot_usd": found.at_spot_usd,
        "listed_on": found.listed_on,
    }


def _machines(found: Sequence[PricedMachine]) -> list[dict[str, Any]]:
    return [one._asdict() for one in found]


def limit(text: str | None) -> float | None:
    """Return the number of `--max-usd`. Raises UsageError if it is not an amount."""
    if text is None:
        return None
    try:
        amount = float(text)
    except ValueError:
        amount = -1.0
    if not 0 <= amount < float("inf"):
        raise UsageError(f"--max-usd: '{text}' is not an amount of USD", "write --max-usd 50")
    return amount


def demand_below(jobs: Sequence[Job], most_usd: float | None) -> None:
    """Raise UsageError if *jobs* may cost more than *most_usd* together, or if that is not known.

    Spot machines count by their price on demand, which is the most that they can cost.
    """
    found = [one for one in map(estimate, jobs) if one is not None]
    if not found or most_usd is None:
        return
    of = compute_exposure(found)
    if of.usd is None:
        hint = "add a timeout to the spec, or a price to `prices` in the profile"
        what = f"--max-usd: the cost has no known limit: {of.unbounded}{_instead(of)}"
        raise UsageError(escape_control(what), hint)
    if of.usd > most_usd:
        jobs_ = "the job" if len(found) == 1 else f"the {len(found)} jobs"
        what = f"--max-usd: {jobs_} may cost {format_usd(of.usd)}, and {format_usd(most_usd)} are allowed"
        hint = (
            "shorten timeout, or ask for fewer nodes, tasks, retry.attempts or retry.spot_attempts"
        )
        if of.usd - of.standing_usd <= most_usd:
            what += f"; {format_usd(of.standing_usd)} of it are for what stays beside the job"
            hint = "runspec plan lists it; what stays until it is deleted counts for a day at least"
        raise UsageError(what, hint)


def together(jobs: Sequence[Job]) -> Iterator[str]:
    """Yield a line on the most that several jobs can cost in all; none for one job, or if nothing is charged."""
    found = [one for one in map(estimate, jobs) if one is not None and is_charged(one)]
    if len(found) > 1:
        of = compute_exposure(found)
        unknown = f"unknown, because {of.unbounded}{_instead(of)}"
        most = unknown if of.usd is None else format_usd(of.usd - of.standing_usd)
        yield escape_control(f"all {len(found)} jobs at most: {most}")
        yield from map(escape_control, _with_standing(found))


class Confirmation:
    """Tells what each of several jobs may cost before it starts, and asks once if that is much in all.

    If *quiet*, nothing is told unless a person is asked.
    """

    def __init__(self, jobs: Sequence[Job], *, yes: bool, quiet: bool) -> None:
        self._jobs, self._yes, self._quiet = jobs, yes, quiet
        self._told: set[str] = set()

    def __call__(self, job: Job) -> None:
        """Tell what *job* may cost. Raises UsageError if the answer to the question is no."""
        found = estimate(job)
        if found is None or not is_charged(found) or job.spec.name in self._told:
            return
        is_first = not self._told
        self._told.add(job.spec.name)
        asks = is_first and not self._yes and output.at_terminal() and is_much(self._jobs)
        if self._quiet and not asks:
            return
        for line in (*summary(found), *(together(self._jobs) if is_first else ())):
            output.tell(line)
        question = "start it?" if len(self._jobs) == 1 else "start them?"
        if asks and not output.agreed(question):
            raise UsageError("not confirmed: nothing was started", "--yes starts it without asking")


def is_much(jobs: Sequence[Job]) -> bool:
    """Return whether jobs may cost more than the user wants to spend unasked.

    Machines with GPUs whose price is unknown are always much. Others count by the prices of the nearest region, and an
    hour as 1 USD where no price is known at all.
    """
    found = [(one, of) for of in jobs if (one := estimate(of)) is not None and is_charged(one)]
    of, limit_usd = compute_exposure([one for one, _ in found]), jobs[0].confirm_above_usd
    if of.usd is not None:
        return of.usd > limit_usd
    if of.machine_hours is None:
        return True
    if any(job.spec.cluster.gpus for one, job in found if one.bound_usd is None):
        return True
    usd_ = of.machine_hours * UNKNOWN_USD if of.near_usd is None else of.near_usd
    return usd_ > limit_usd
