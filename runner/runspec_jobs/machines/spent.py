"""What attempts have cost: their times, multiplied by the prices on record of the machines that they may have had.

Times are whole milliseconds and amounts are decimal, so that sums are exact. What is unknown is counted apart and never
as 0: the time of machines without a price, and attempts whose length no service reports.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from enum import StrEnum
from typing import Any

from runspec_agent.base.light_typing import NamedTuple
from runspec_jobs.machines.estimate import Offer

HOUR_MS = 3_600_000
ZERO = Decimal(0)


class Outcome(StrEnum):
    """How an attempt of a node has ended, or that it runs."""

    SUCCEEDED = "succeeded"
    FAILED = "failed"
    RECLAIMED = "reclaimed"
    CANCELLED = "cancelled"
    RUNNING = "running"


class Span(NamedTuple):
    """The time in which one attempt of a node had a machine, in seconds since 1970 by the service's clock.

    *began_s* and *ended_s* are None if the service does not report them. *seen_s* is the last time at which runspec saw
    the attempt running, by the clock of this machine. *machine* is empty if it is not known.
    """

    task: int
    node: int
    attempt: int
    outcome: Outcome
    began_s: float | None = None
    ended_s: float | None = None
    seen_s: float | None = None
    machine: str = ""


class Rate(NamedTuple):
    """The price of an hour of a machine in USD, None if it is unknown, and the share of it that a node has."""

    usd_hour: float | None
    share: float = 1.0


class Rates(NamedTuple):
    """The prices of a run as its record has them.

    *machines* are those that the run may get, by name. *own* are the prices of the profile, by the name of a machine,
    and *node_usd_hour* is its price for a node of the provider, which counts if no machine is known. With *spot*, the
    prices are upper bounds.
    """

    machines: Mapping[str, Rate] = {}
    own: Mapping[str, float] = {}
    node_usd_hour: float | None = None
    spot: bool = False

    @property
    def known(self) -> bool:
        """Whether there is any price."""
        priced = any(rate.usd_hour is not None for rate in self.machines.values())
        return priced or self.node_usd_hour is not None

    def find_usd_hour(self, machine: str) -> tuple[Decimal, Decimal] | None:
        """Return the lowest and the highest price that an hour on *machine* may have; None if it is unknown.

        An empty name stands for any of the machines that the run may get.
        """
        if machine in self.own:
            share = self.machines[machine].share if machine in self.machines else 1.0
            rates = [Rate(self.own[machine], share)]
        elif machine:
            rates = [self.machines.get(machine, Rate(None))]
        else:
            # The service has not said which machine it was.
            rates = list(self.machines.values()) or [Rate(self.node_usd_hour)]
        prices = [_convert_rate(rate) for rate in rates]
        known = [usd for usd in prices if usd is not None]
        return (min(known), max(known)) if len(known) == len(prices) else None


class Part(NamedTuple):
    """What attempts of one outcome have cost.

    The amounts are for the hours with a known price; they differ if the machine is not known. *hours* are all hours,
    and *unpriced_hours* those without a price. *untimed* attempts have no known length, and are counted as far as it is
    known. If *at_most*, less may have been paid: the machines are spot machines, or the end of an attempt is not known
    and the beginning of the next one counts instead.
    """

    attempts: int = 0
    hours: Decimal = ZERO
    least_usd: Decimal = ZERO
    most_usd: Decimal = ZERO
    unpriced_hours: Decimal = ZERO
    untimed: int = 0
    at_most: bool = False

    @property
    def is_priced(self) -> bool:
        """Whether the amounts say anything: they do not if no attempt has a known length and a known price."""
        if not self.hours:
            return self.attempts == 0 or self.untimed < self.attempts
        return self.hours > self.unpriced_hours


Spent = Mapping[Outcome, Part]
"""What a run has cost, by how its attempts ended; outcomes without attempts are left out."""


def compute_spent(spans: Sequence[Span], rates: Rates, since_s: float | None = None) -> Spent:
    """Return what the attempts *spans* have cost, counted from *since_s* on.

    >>> spans = [Span(0, 0, 1, Outcome.RECLAIMED, 0.0, 1800.0), Span(0, 0, 2, Outcome.SUCCEEDED, 1800.0, 9000.0)]
    >>> found = compute_spent(spans, Rates(node_usd_hour=0.5))
    >>> {str(outcome): str(part.most_usd) for outcome, part in found.items()}
    {'succeeded': '1.00', 'reclaimed': '0.25'}
    """
    parts: dict[Outcome, Part] = {}
    for span, length in _measure_spans(spans, since_s):
        parts[span.outcome] = add_parts(
            (parts.get(span.outcome, Part()), _compute_cost(span, length, rates))
        )
    return {outcome: parts[outcome] for outcome in Outcome if outcome in parts}


def sum_spent(spent: Spent) -> Part:
    """Return the sum of the parts of *spent*."""
    return add_parts(spent.values())


def add_parts(parts: Iterable[Part]) -> Part:
    """Return the sum of *parts*."""
    total = Part()
    for part in parts:
        total = Part(
            total.attempts + part.attempts,
            total.hours + part.hours,
            total.least_usd + part.least_usd,
            total.most_usd + part.most_usd,
            total.unpriced_hours + part.unpriced_hours,
            total.untimed + part.untimed,
            total.at_most or part.at_most,
        )
    return total


def combine(several: Iterable[Spent]) -> Spent:
    """Return the sum of what several runs have cost, by outcome."""
    each = list(several)
    return {
        o: add_parts(spent[o] for spent in each if o in spent)
        for o in Outcome
        if any(o in s for s in each)
    }


class _Length(NamedTuple):
    """The length of an attempt as far as it is known; *exact* is None if it is not wholly known."""

    ms: int
    exact: bool | None = True


def _measure_spans(spans: Sequence[Span], since_s: float | None) -> Iterator[tuple[Span, _Length]]:
    begun = {span[:3]: span.began_s for span in spans}
    since_ms = None if since_s is None else _round_ms(since_s)
    for span in spans:
        following = begun.get((span.task, span.node, span.attempt + 1))
        end_s, exact = _end(span, following)
        # The attempt ended before the period.
        if since_ms is not None and end_s is not None and _round_ms(end_s) <= since_ms:
            continue
        if span.began_s is None or end_s is None:
            yield span, _Length(0, None)
        else:
            began_ms = _round_ms(span.began_s)
            began_ms = began_ms if since_ms is None else max(began_ms, since_ms)
            yield span, _Length(max(0, _round_ms(end_s) - began_ms), exact)


def _end(span: Span, following_s: float | None) -> tuple[float | None, bool | None]:
    """Return the end of an attempt, and whether it is exact (True), too late (False) or too early (None)."""
    if span.ended_s is not None:
        return span.ended_s, True
    if span.outcome is Outcome.RUNNING:
        return span.seen_s, True
    if following_s is not None:
        return following_s, False
    return span.seen_s, None


def _compute_cost(span: Span, length: _Length, rates: Rates) -> Part:
    hours, untimed = Decimal(length.ms) / HOUR_MS, int(length.exact is None)
    usd_hour = rates.find_usd_hour(span.machine)
    if usd_hour is None:
        # Counted apart: an unknown price is not a price of 0.
        return Part(1, hours, unpriced_hours=hours, untimed=untimed)
    least, most = (Decimal(length.ms) * usd / HOUR_MS for usd in usd_hour)
    is_bound = (rates.spot and most > 0) or length.exact is False
    return Part(1, hours, least, most, untimed=untimed, at_most=is_bound)


def _convert_rate(rate: Rate) -> Decimal | None:
    return None if rate.usd_hour is None else Decimal(str(rate.usd_hour)) * Decimal(str(rate.share))


def _round_ms(seconds: float) -> int:
    return round(seconds * 1000)


def write_spent(spent: Spent) -> dict[str, Any]:
    """Return *spent* as JSON: the sum, and `parts` by outcome."""
    parts = [{"outcome": str(outcome), **write_part(part)} for outcome, part in spent.items()]
    return {**write_part(sum_spent(spent)), "parts": parts}


def write_part(part: Part) -> dict[str, Any]:
    """Return one part as JSON, with amounts and hours rounded to six digits after the point."""
    shown = {name: _round(value) for name, value in part._asdict().items()}
    return shown if part.is_priced else {**shown, "least_usd": None, "most_usd": None}


def _round(value: Decimal | int) -> float | int | None:
    return round(float(value), 6) if isinstance(value, Decimal) else value


def read_part(content: Mapping[str, Any]) -> Part:
    """Return the part that `write_part` returned; the amounts are rounded. Raises KeyError if it is incomplete."""
    read = {name: content[name] for name in Part._fields}
    amounts = ("hours", "least_usd", "most_usd", "unpriced_hours")
    return Part(**read | {name: Decimal(str(read[name] or 0)) for name in amounts})


def write_rates(offer: Offer, profile_prices: Mapping[str, float], *, spot: bool) -> dict[str, Any]:
    """Return for the record of a run the machines that it may get, in order, with their catalogue and prices.

    *profile_prices* are the prices of the profile, by the names of machines and providers.
    """
    chosen = [
        {
            "name": machine.machine.name,
            "usd_hour": machine.usd,
            "region": machine.region,
            "share": offer.shares.get(machine.machine.name, 1.0),
        }
        for machine in offer.machines
    ]
    return {
        "catalogue": offer.catalogue,
        "chosen": chosen,
        "prices": dict(profile_prices),
        "spot": spot,
    }


def read_rates(kept: Mapping[str, Any], provider: str) -> Rates:
    """Return the prices in the record of a run on *provider*; *kept* is the part `machines` of its facts."""
    profile_prices: Mapping[str, float] = kept.get("prices", {})
    machines = {
        machine["name"]: Rate(machine["usd_hour"], machine.get("share", 1.0))
        for machine in kept.get("chosen", ())
    }
    for name in profile_prices.keys() & machines.keys():
        machines[name] = machines[name]._replace(usd_hour=profile_prices[name])
    return Rates(machines, profile_prices, profile_prices.get(provider), kept.get("spot", False))


def write_spans(spans: Iterable[Span]) -> list[dict[str, Any]]:
    """Return attempts as JSON for the record of a run; what is not known is left out."""
    given = ("", None)
    return [{k: v for k, v in span._asdict().items() if v not in given} for span in spans]


def read_spans(content: Iterable[Mapping[str, Any]]) -> list[Span]:
    """Return the attempts that `write_spans` returned; keys of later versions are ignored.

    An outcome that only a later version of runspec knows counts as a failure. Raises KeyError, TypeError or ValueError
    if `write_spans` did not return them.
    """
    known = frozenset(Outcome)
    read = ({name: fields[name] for name in Span._fields if name in fields} for fields in content)
    return [
        Span(
            **{
                **fields,
                "outcome": Outcome(fields["outcome"])
                if fields["outcome"] in known
                else Outcome.FAILED,
            }
        )
        for fields in read
    ]
