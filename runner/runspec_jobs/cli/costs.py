"""Prints what a job may cost, and asks before an apply that may cost much."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from runspec_jobs.api.jobs import Estimate, Job, PricedMachine, StandingCost, estimate
from runspec_jobs.cli import output
from runspec_jobs.diagnostics.render import plain
from runspec_jobs.errors import UsageError
from runspec_jobs.report.numbers import usd as usd

SHOWN = 4  # machines; --json lists all


def lines(found: Estimate) -> Iterator[str]:
    """Yield an estimate as lines of text."""
    yield "\ncost"
    if not is_charged(found):
        yield plain(f"     {found.unbounded}")
        return
    for number, one in enumerate(found.machines[:SHOWN]):
        head = f"{count(found)} x " if number == 0 else "or "
        yield plain(f"     {head}{one.name}: {hourly(one.usd_hour)} ({one.why})")
    if len(found.machines) > SHOWN:
        yield f"     or one of {len(found.machines) - SHOWN} more: --json lists all"
    yield f"     {rate(found)}"
    yield f"     {bound(found)}"
    for standing in found.standing:
        yield plain(f"     also while nothing runs: {standing.what}{_price(standing)}")
    if found.alternatives:
        yield f"     {_others(found)}"
    if found.catalogue:
        yield plain(f"     prices: {found.catalogue}")


def _price(standing: StandingCost) -> str:
    """Return the price of a standing cost as text; nothing for one that is unknown."""
    if standing.usd_hour is not None:
        return f": {hourly(standing.usd_hour)}"
    kept = standing.usd_gb_month
    return "" if kept is None else f": {kept:g} USD a GB and month"


def summary(found: Estimate) -> Iterator[str]:
    """Yield the lines that `apply` prints: all that `plan` does, except machines after the first and unknown prices."""
    named = ""
    if found.machines:
        more = f" or {len(found.machines) - 1} more" if len(found.machines) > 1 else ""
        named = f"{count(found)} x {found.machines[0].name}{more}, "
    yield plain(f"cost: {named}{rate(found).removeprefix('in all: ')}; {bound(found)}")
    for standing in found.standing:
        if standing.usd_hour is not None:
            yield plain(f"also while nothing runs: {standing.what}{_price(standing)}")
    if found.alternatives:
        yield _others(found)


def is_charged(found: Estimate) -> bool:
    """Return whether anything is known to cost money; not so on a cluster for whose nodes the profile has no price."""
    return bool(found.machines or found.standing)


def _others(found: Estimate) -> str:
    others = ", ".join(f"{one.name} {hourly(one.usd_hour)}" for one in found.alternatives)
    return plain(f"other machines: {others}")


def count(found: Estimate) -> int:
    """Return how many machines run at once."""
    return found.work.nodes * found.work.parallel


def hourly(amount: float | None) -> str:
    return "price unknown" if amount is None else f"{usd(amount)} an hour"


def rate(found: Estimate) -> str:
    """Return the price of an hour of all machines at once, as text."""
    least, most = found.least_usd_hour, found.most_usd_hour
    if most is None or least is None:
        return "in all: unknown" if least is None else f"in all: at least {hourly(least)}"
    several = (
        f"{usd(least).removesuffix(' USD')} to {usd(most)} an hour"
        if most > least
        else hourly(most)
    )
    return f"in all: {several}{', less on spot machines' if found.work.spot else ''}"


def bound(found: Estimate) -> str:
    """Return the most that the job can cost, or the reason why there is no limit, as text."""
    if found.bound_usd is None:
        return f"at most: unknown, because {found.unbounded}"
    work = found.work
    assert work.timeout_s is not None, "BUG: there is no bound without a timeout"
    parts = [f"{work.timeout_s / 3600:g} h", *_times(work.attempts, "attempt")]
    parts += [*_times(work.nodes, "node"), *_times(work.tasks, "task")]
    return f"at most: {usd(found.bound_usd)} ({' x '.join(parts)})"


def _times(number: int, what: str) -> Iterator[str]:
    if number > 1:
        yield f"{number:,} {what}s"


def to_json(found: Estimate | None) -> dict[str, Any] | None:
    """Return an estimate as JSON, or None if there is none."""
    if found is None:
        return None
    return {
        "machines": _machines(found.machines),
        "alternatives": _machines(found.alternatives),
        "at_once": count(found),
        "least_usd_hour": found.least_usd_hour,
        "most_usd_hour": found.most_usd_hour,
        "bound_usd": found.bound_usd,
        "unbounded": found.unbounded,
        "standing": [one._asdict() for one in found.standing],
        "catalogue": found.catalogue,
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


def demand_below(found: Estimate | None, most_usd: float | None) -> None:
    """Raise UsageError if a job may cost more than *most_usd*, or if that is not known."""
    if found is None or most_usd is None:
        return
    if found.bound_usd is None:
        hint = "add a timeout to the spec, or a price to `prices` in the profile"
        raise UsageError(f"--max-usd: the cost has no known limit: {found.unbounded}", hint)
    if found.bound_usd > most_usd:
        what = (
            f"--max-usd: the job may cost {usd(found.bound_usd)}, and {usd(most_usd)} are allowed"
        )
        raise UsageError(what, "shorten timeout, or ask for fewer attempts, nodes or tasks")


def confirm(job: Job, *, yes: bool, quiet: bool) -> None:
    """Tell what *job* may cost, and ask at a terminal if that is more than the profile's `confirm_above`.

    Raises UsageError if the answer is no.
    """
    found = estimate(job)
    if found is None or not is_charged(found):
        return
    for line in () if quiet else summary(found):
        output.tell(line)
    if yes or quiet or not output.at_terminal() or not _is_much(found, job):
        return
    if not output.agreed("start it?"):
        raise UsageError("not confirmed: nothing was started", "--yes starts it without asking")


def _is_much(found: Estimate, job: Job) -> bool:
    """Return whether a job may cost more than the user wants to spend unasked; CPUs of unknown price are cheap."""
    if found.bound_usd is not None:
        return found.bound_usd > job.confirm_above_usd
    return found.most_usd_hour is not None or bool(job.spec.cluster.gpus)
