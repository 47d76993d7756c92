"""What attempts have cost: to the cent, by outcome, and with what is unknown counted apart."""

from __future__ import annotations

import random
from decimal import Decimal

import pytest

from runspec_jobs.machines.choice import ChosenMachine
from runspec_jobs.machines.estimate import Offer
from runspec_jobs.machines.machine import make_unknown
from runspec_jobs.machines.spent import (
    Outcome,
    Part,
    Rate,
    Rates,
    Span,
    compute_spent,
    read_part,
    read_rates,
    read_spans,
    sum_spent,
    write_part,
    write_rates,
    write_spans,
    write_spent,
)

HOUR = 3600.0
PRICES = {"small": 97, "large": 1_234, "huge": 98_321}  # thousandths of a USD for an hour
ONE = Rates(node_usd_hour=2.0)
N1, N2, N3, N8 = map(Decimal, (1, 2, 3, 8))


def history(seed: int) -> list[Span]:
    """Return a random history: tasks with nodes, whose attempts follow each other after pauses."""
    dice = random.Random(seed)
    found = []
    for task in range(dice.randint(1, 5)):
        for node in range(dice.randint(1, 4)):
            now = dice.randint(1_700_000_000_000, 1_700_100_000_000)
            for attempt in range(1, dice.randint(1, 6) + 1):
                now += dice.randint(0, 600_000)
                began, now = now, now + dice.randint(0, dice.choice((5_000, 90_000_000)))
                machine, outcome = dice.choice([*PRICES, "new"]), dice.choice(list(Outcome))
                ends = {"seen_s" if outcome is Outcome.RUNNING else "ended_s": now / 1000}
                found.append(
                    Span(task, node, attempt, outcome, began / 1000, machine=machine, **ends)
                )
    dice.shuffle(found)
    return found


def counted(spans: list[Span], since: int) -> tuple[dict[Outcome, int], dict[Outcome, int]]:
    """Return cents, and milliseconds without a price, by outcome: clocks tick from each event to the next one.

    Between two events, each outcome has machines of each kind running; only whole numbers are used.
    """
    events = []
    for one in spans:
        end = one.seen_s if one.outcome is Outcome.RUNNING else one.ended_s
        assert one.began_s is not None
        assert end is not None
        events.append((round(one.began_s * 1000), +1, one.outcome, one.machine))
        events.append((round(end * 1000), -1, one.outcome, one.machine))
    events.sort(key=lambda event: event[0])
    running: dict[tuple[Outcome, str], int] = {}
    thousandths, unpriced = dict.fromkeys(Outcome, 0), dict.fromkeys(Outcome, 0)
    before = since
    for at, more, outcome, machine in events:
        if at > before:
            for (whose, which), count in running.items():
                ticks = count * (at - before)
                thousandths[whose] += ticks * PRICES.get(which, 0)
                unpriced[whose] += 0 if which in PRICES else ticks
            before = at
        running[outcome, machine] = running.get((outcome, machine), 0) + more
    each = 3_600_000 * 10  # milliseconds of an hour, thousandths of a USD in a cent
    cents = {o: (2 * n + each) // (2 * each) for o, n in thousandths.items()}  # rounds half up
    return cents, unpriced


def cents(usd: Decimal) -> int:
    return int((usd * 100).quantize(Decimal(1), "ROUND_HALF_UP"))


def test_a_thousand_random_histories_agree_with_a_simulation_to_the_cent() -> None:
    priced = Rates({name: Rate(usd / 1000) for name, usd in PRICES.items()})

    for seed in range(1000):
        spans = history(seed)
        since = random.Random(seed).choice((0, 1_700_050_000_000))
        found = compute_spent(spans, priced, since / 1000 if since else None)
        by_simulation, unpriced = counted(spans, since)

        for outcome in Outcome:
            part = found.get(outcome, Part())
            assert cents(part.most_usd) == cents(part.least_usd) == by_simulation[outcome], seed
            assert round(part.unpriced_hours * 3_600_000) == unpriced[outcome], seed
        assert sum_spent(found).attempts == (len(spans) if not since else sum_spent(found).attempts)
        read = read_spans(write_spans(spans))
        assert compute_spent(read, priced, since / 1000 if since else None) == found


def test_reclaimed_and_failed_attempts_are_apart() -> None:
    spans = [
        Span(0, 0, 1, Outcome.RECLAIMED, 0.0, HOUR),
        Span(0, 0, 2, Outcome.FAILED, HOUR, 3 * HOUR),
        Span(0, 0, 3, Outcome.SUCCEEDED, 3 * HOUR, 6 * HOUR),
    ]

    found = compute_spent(spans, ONE)

    assert {o: part.most_usd for o, part in found.items()} == {
        Outcome.SUCCEEDED: 6,
        Outcome.FAILED: 4,
        Outcome.RECLAIMED: 2,
    }
    assert sum_spent(found) == Part(3, Decimal(6), Decimal(12), Decimal(12))


def test_an_unknown_price_is_hours_and_not_0() -> None:
    spans = [
        Span(0, 0, 1, Outcome.SUCCEEDED, 0.0, HOUR, machine="new"),
        Span(0, 1, 1, Outcome.SUCCEEDED, 0.0, HOUR, machine="small"),
    ]
    priced = Rates({"small": Rate(1.5), "new": Rate(None)})

    found = sum_spent(compute_spent(spans, priced))
    of_new = sum_spent(compute_spent(spans[:1], priced))

    assert (found.most_usd, found.unpriced_hours, found.hours) == (Decimal("1.5"), N1, N2)
    assert (of_new.is_priced, write_part(of_new)["most_usd"]) == (False, None)
    assert read_part(write_part(found)) == found


def test_of_several_possible_machines_both_bounds_are_said() -> None:
    spans = [Span(0, 0, 1, Outcome.SUCCEEDED, 0.0, 2 * HOUR)]
    machines = {"a": Rate(1.0), "b": Rate(3.0, share=0.5)}

    found = sum_spent(compute_spent(spans, Rates(machines)))
    of_spot = sum_spent(compute_spent(spans, Rates(machines, spot=True)))
    with_unknown = sum_spent(compute_spent(spans, Rates({**machines, "c": Rate(None)})))

    assert (found.least_usd, found.most_usd, found.at_most) == (N2, N3, False)
    assert of_spot.at_most
    assert (with_unknown.unpriced_hours, with_unknown.is_priced) == (N2, False)


def test_an_attempt_without_an_end_counts_until_the_next_one_began() -> None:
    lost = Span(0, 0, 1, Outcome.RECLAIMED, 0.0, seen_s=0.5 * HOUR)
    spans = [lost, Span(0, 0, 2, Outcome.SUCCEEDED, HOUR, 2 * HOUR)]

    part = compute_spent(spans, ONE)[Outcome.RECLAIMED]
    alone = compute_spent([lost], ONE)[Outcome.RECLAIMED]

    assert (part.most_usd, part.at_most, part.untimed) == (N2, True, 0)
    assert (alone.most_usd, alone.at_most, alone.untimed) == (N1, False, 1)


@pytest.mark.parametrize(
    "span",
    [
        Span(0, 0, 1, Outcome.FAILED),
        Span(0, 0, 1, Outcome.FAILED, None, HOUR),
        Span(0, 0, 1, Outcome.FAILED, HOUR),
    ],
)
def test_an_attempt_of_unknown_length_is_counted_as_such(span: Span) -> None:
    found = sum_spent(compute_spent([span], ONE))

    assert (found.attempts, found.untimed, float(found.hours)) == (1, 1, 0.0)


def test_only_what_came_later_counts_since_a_time() -> None:
    spans = [
        Span(0, 0, 1, Outcome.FAILED, 0.0, HOUR),
        Span(0, 0, 2, Outcome.SUCCEEDED, HOUR, 3 * HOUR),
    ]

    found = compute_spent(spans, ONE, since_s=2 * HOUR)

    assert list(found) == [Outcome.SUCCEEDED]
    assert found[Outcome.SUCCEEDED].most_usd == 2


def test_the_prices_on_record_are_those_of_the_profile_and_else_of_the_catalogue() -> None:
    chosen = [
        ChosenMachine(make_unknown(name), usd, "here", "")
        for name, usd in (("a", 1.0), ("b", None))
    ]
    offer = Offer(chosen, catalogue="of today", shares={"a": 0.25})

    kept = write_rates(offer, {"b": 8.0, "aws-batch": 3.0}, spot=True)
    found = read_rates(kept, "aws-batch")

    assert found.machines == {"a": Rate(1.0, 0.25), "b": Rate(8.0)}
    assert found.find_usd_hour("") == (Decimal("0.25"), N8)
    assert found.find_usd_hour("b") == (N8, N8)
    assert found.find_usd_hour("of another kind") is None
    assert read_rates({}, "local").known is False
    assert read_rates(write_rates(Offer(()), {"local": 1.0}, spot=False), "local").find_usd_hour(
        ""
    ) == (
        N1,
        N1,
    )


def test_json_has_the_sum_and_the_parts() -> None:
    found = write_spent(compute_spent([Span(0, 0, 1, Outcome.CANCELLED, 0.0, 1.0)], ONE))

    assert (found["most_usd"], found["hours"]) == (0.000556, 0.000278)
    assert [part["outcome"] for part in found["parts"]] == ["cancelled"]


def test_attempts_of_no_known_length_have_no_known_price() -> None:
    """Not 0: nothing is known."""
    none, known = Span(0, 0, 1, Outcome.FAILED), Span(0, 1, 1, Outcome.FAILED, 5.0, 5.0)

    assert not sum_spent(compute_spent([none], Rates(node_usd_hour=1.0))).is_priced
    assert sum_spent(compute_spent([none, known], Rates(node_usd_hour=1.0))).is_priced
    assert (
        write_part(sum_spent(compute_spent([none], Rates(node_usd_hour=1.0))))["least_usd"] is None
    )
