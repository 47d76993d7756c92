"""What 1,000 random runs cost agrees with a bill of their machines, whatever a service reports, whenever it is asked.

The runs have tasks and nodes that fail, are reclaimed, or join and leave as in an elastic job. The bill is made from
what truly happened, in whole numbers; the cost from what the statuses say.
"""

from __future__ import annotations

import contextlib
import json
import random
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import NamedTuple

import pytest

from runspec_jobs.machines.spent import (
    Outcome,
    Part,
    Rate,
    Rates,
    Span,
    compute_spent,
    read_spans,
    sum_spent,
    write_part,
    write_spans,
)
from runspec_jobs.provider import Attempt, NodeStatus, State, Status
from runspec_jobs.state import attempt_history, journal
from runspec_jobs.state.attempt_history import merge_spans
from runspec_jobs.state.run_record import Record
from tests.faults.chosen import ALL

SEEDS = 1000 if ALL else 300
HOUR = 3_600_000  # milliseconds
CODES = {"succeeded": 0, "failed": 1, "cancelled": 143, "reclaimed": None}
STATES = {
    "succeeded": State.SUCCEEDED,
    "failed": State.FAILED,
    "cancelled": State.CANCELLED,
    "reclaimed": State.FAILED,
}


class Try(NamedTuple):
    """An attempt as it truly was, in milliseconds since 1970."""

    number: int
    began: int
    ended: int
    how: str


History = Mapping[tuple[int, int], Sequence[Try]]  # by task and node


def history(dice: random.Random) -> History:
    """Return the attempts of each node; nodes of an elastic job join late, leave, and come back."""
    elastic, begin = dice.random() < 0.4, 1_700_000_000_000 + dice.randint(0, 10**9)
    return {
        (task, node): list(tries(dice, begin, elastic=elastic and node > 0))
        for task in range(dice.randint(1, 3))
        for node in range(dice.randint(1, 4))
    }


def tries(dice: random.Random, begin: int, *, elastic: bool) -> Iterator[Try]:
    now, number = begin + dice.randint(0, 4 * HOUR if elastic else HOUR // 60), 0
    while True:
        number += 1
        began, now = now, now + dice.randint(1, dice.choice((5_000, HOUR, 30 * HOUR)))
        again = number < 5 and dice.random() < 0.5
        ends = ("failed", "reclaimed") if again else ("succeeded", "failed", "cancelled")
        yield Try(number, began, now, dice.choice((*ends, "reclaimed") if elastic else ends))
        if not again:
            return
        now += dice.randint(0, dice.choice((0, 60_000, 3 * HOUR)))


def status(of: History, at: int, *, timed: bool) -> Status:
    """Return what a service says at a time; not *timed*, it has the times of the last attempt of a node alone."""
    nodes = [node_status(place, each, at, timed=timed) for place, each in of.items()]
    over = all(node.state.terminal for node in nodes)
    return Status(State.SUCCEEDED if over else State.RUNNING, "", None, tuple(nodes))


def node_status(place: tuple[int, int], each: Sequence[Try], at: int, *, timed: bool) -> NodeStatus:
    past = [one for one in each if one.ended <= at]
    runs = next((one for one in each if one.began <= at < one.ended), None)
    ended = tuple(
        Attempt(
            one.number,
            CODES[one.how],
            "",
            one.how == "reclaimed",
            *((one.began / 1000, one.ended / 1000) if timed or one is each[-1] else (None, None)),
        )
        for one in past
    )
    if runs is not None:
        return NodeStatus(*place, runs.number, State.RUNNING, "", None, ended, runs.began / 1000)
    if len(past) == len(each):
        last = each[-1]
        return NodeStatus(*place, last.number, STATES[last.how], "", CODES[last.how], ended)
    return NodeStatus(*place, max(1, len(past)), State.WAITING, "", None, ended)


class Prices(NamedTuple):
    """Prices of an hour in thousandths of a USD, and the eighths of the machine that a node requests."""

    known: Sequence[int]
    eighths: int
    unknown: bool
    spot: bool

    @property
    def rates(self) -> Rates:
        share = self.eighths / 8
        rows = {f"m{n}": Rate(usd / 1000, share) for n, usd in enumerate(self.known)}
        return Rates(rows | ({"new": Rate(None)} if self.unknown else {}), spot=self.spot)


def prices(dice: random.Random) -> Prices:
    known = [dice.randint(1, 100_000) for _ in range(dice.choice((1, 1, 2, 3)))]
    return Prices(known, dice.choice((8, 8, 1, 3)), dice.random() < 0.15, dice.random() < 0.3)


def bill(
    of: History, at: int, since: int, price: Prices, *, timed: bool
) -> tuple[Mapping[Outcome, tuple[int, int]], Mapping[Outcome, int]]:
    """Return the cheapest and the dearest cents that each outcome may have cost up to *at*, and its milliseconds.

    Not *timed*, an attempt that another one followed is charged until that began.
    """
    used: dict[Outcome, int] = defaultdict(int)
    for each in of.values():
        for one, following in zip(each, [*each[1:], None], strict=True):
            if one.began > at:
                continue
            end, outcome = min(one.ended, at), Outcome(one.how)
            if one.ended > at:
                outcome = Outcome.RUNNING
            elif following is not None and not timed:
                end = following.began
            used[outcome] += max(0, end - max(one.began, since))
    each_usd = sorted(price.known)
    least, most = each_usd[0] * price.eighths, each_usd[-1] * price.eighths
    whole = HOUR * 8 * 10  # milliseconds of an hour, eighths, thousandths of a USD in a cent
    cents = {
        outcome: tuple((2 * ms * usd + whole) // (2 * whole) for usd in (least, most))
        for outcome, ms in used.items()
    }
    return {outcome: (both[0], both[1]) for outcome, both in cents.items()}, used


def looks(dice: random.Random, of: History, *, timed: bool) -> list[int]:
    """Return the times at which runspec asks: often enough to see each attempt, unless the service tells all."""
    each = [one for tries in of.values() for one in tries]
    first, last = min(one.began for one in each), max(one.ended for one in each)
    some = [dice.randint(first, last) for _ in range(dice.randint(0, 4))]
    if not timed:
        some += [dice.randint(one.began, one.ended - 1) for one in each]
    end = dice.choice((last, last + HOUR, dice.randint(first, last)))
    if not timed and end < last:  # what has just begun is known by its next look
        end = last
    return [*sorted(at for at in some if at < end), end]


def cents(usd: Decimal) -> int:
    return int((usd * 100).quantize(Decimal(1), "ROUND_HALF_UP"))


def agrees(
    seed: int, spans: Sequence[Span], of: History, at: int, price: Prices, *, timed: bool
) -> None:
    since = random.Random(seed + 1).choice((0, 0, at - 2 * HOUR))
    found = compute_spent(spans, price.rates, since / 1000 if since else None)
    charged, used = bill(of, at, since, price, timed=timed)
    for outcome in Outcome:
        part, both = found.get(outcome, Part()), charged.get(outcome, (0, 0))
        if price.unknown:
            assert round(part.unpriced_hours * HOUR) == used.get(outcome, 0), (seed, outcome)
            assert part.most_usd == 0
        else:
            assert (cents(part.least_usd), cents(part.most_usd)) == both, (seed, outcome)
        assert round(part.hours * HOUR) == used.get(outcome, 0), (seed, outcome)
    assert sum_spent(found).untimed == 0, seed
    if not since:
        begun = sum(one.began <= at for each in of.values() for one in each)
        assert sum_spent(found).attempts == begun, seed


@pytest.mark.parametrize("timed", [True, False], ids=["all-times", "times-of-the-last"])
def test_random_runs_cost_what_their_machines_are_billed_for(timed: bool) -> None:
    for seed in range(SEEDS):
        dice = random.Random(seed)
        of, price = history(dice), prices(dice)
        spans: list[Span] = []

        for at in looks(dice, of, timed=timed):
            spans = merge_spans(spans, status(of, at, timed=timed), at / 1000)
            spans = read_spans(json.loads(json.dumps(write_spans(spans))))

        agrees(seed, spans, of, at, price, timed=timed)


def test_the_records_of_random_runs_have_the_same_amounts(tmp_path: Path) -> None:
    """Whoever asked the service wrote the journal; another process reads it and the prices, and nothing else."""
    for seed in range(20):
        dice = random.Random(seed)
        of, price = history(dice), prices(dice)
        record = recorded(tmp_path / f"job-{seed:06}", price)
        end = max(one.ended for each in of.values() for one in each)
        for at in [*looks(dice, of, timed=True), end]:
            with record.open_journal() as opened:
                attempt_history.keep(opened, status(of, at, timed=True), at / 1000)

        found = attempt_history.compute_cost(record)

        charged, _ = bill(of, end, 0, price, timed=True)
        assert found is not None
        kept = record.read_memory().cost
        assert kept == write_part(sum_spent(found)), seed
        if not price.unknown:
            amounts = {
                o: (cents(part.least_usd), cents(part.most_usd)) for o, part in found.items()
            }
            assert amounts == charged, seed


def recorded(folder: Path, price: Prices) -> Record:
    """Return a record that has prices and no attempts."""
    folder.mkdir()
    rows = [
        {"name": name, "usd_hour": rate.usd_hour, "region": "here", "share": rate.share}
        for name, rate in price.rates.machines.items()
    ]
    machines = {"chosen": rows, "prices": {}, "spot": price.spot}
    plan = {"provider": "slurm", "run": folder.name, "digest": "sha256:0", "steps": []}
    (folder / "facts.json").write_text(json.dumps({"machines": machines}))
    (folder / "plan.json").write_text(json.dumps(plan))
    with contextlib.closing(journal.Journal(folder)) as opened:
        opened.add("born", run=folder.name, digest="sha256:0")
    return Record(folder)
