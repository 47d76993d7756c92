"""Prints what runs have cost, and the prices that were read from price lists."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from runspec_jobs.api.lifecycle import Outcome, Part, Run, Spent, Status
from runspec_jobs.cli import output
from runspec_jobs.errors import OK, Damaged, Newer
from runspec_jobs.machines import spent
from runspec_jobs.options.watch_verbs import CostOptions, PricesOptions
from runspec_jobs.report.numbers import format_usd
from runspec_jobs.report.tables import Table

if TYPE_CHECKING:
    from runspec_jobs.api.listing import AllSpending

NAMED = 3  # the most runs that a note names


def of_run(of: Run, status: Status) -> Spent | None:
    """Return what a run has cost; None if it has no price, no known attempt, or a damaged record, which is told."""
    try:
        return of.compute_cost(status) or None
    except (Damaged, Newer) as exc:
        output.tell(f"the cost of {of.id} is not known: {exc.message}")
        return None


def spent_json(cost: Spent | None) -> dict[str, Any] | None:
    """Return what a run has cost as JSON."""
    return None if cost is None else spent.write_spent(cost)


def spent_lines(cost: Spent | None) -> Iterator[str]:
    """Yield lines of text on what a run has cost: none if it is not known, several if attempts ended differently."""
    if cost is None:
        return
    so_far = " so far" if Outcome.RUNNING in cost else ""
    yield f"  cost: {amount(spent.sum_spent(cost))}{so_far}"
    if len(cost) > 1:
        for outcome, part in cost.items():
            attempts = "1 attempt" if part.attempts == 1 else f"{part.attempts:,} attempts"
            yield f"    {outcome}: {amount(part)} ({attempts}, {part.hours:.2f} h)"


def amount(part: Part) -> str:
    """Return what attempts have cost as text.

    >>> from decimal import Decimal
    >>> amount(Part(1, Decimal(2), Decimal(3), Decimal(3))), amount(Part(1, Decimal(2), Decimal(3), Decimal(4)))
    ('3.00 USD', '3.00 to 4.00 USD')
    >>> amount(Part(2, Decimal(2), Decimal(3), Decimal(4), Decimal("0.5"), at_most=True))
    'at most 4.00 USD, plus 0.50 h of unknown price'
    """
    more = list(_unknown(part))
    if not part.is_priced:
        return f"unknown: {' and '.join(more)}"
    least, most = format_usd(float(part.least_usd)), format_usd(float(part.most_usd))
    known = most if least == most else f"{least.removesuffix(' USD')} to {most}"
    if part.at_most:
        known = f"at most {most}"
    elif more:
        known = f"at least {least}"
    return f"{known}, plus {' and '.join(more)}" if more else known


def _unknown(part: Part) -> Iterator[str]:
    if part.unpriced_hours:
        yield f"{part.unpriced_hours:.2f} h of unknown price"
    if part.untimed:
        attempts = "1 attempt" if part.untimed == 1 else f"{part.untimed:,} attempts"
        yield f"{attempts} of unknown length"


def short(cost: Mapping[str, Any] | None) -> str:
    """Return a cost as a column of `list`: `<` and `>` stand before bounds, and nothing stands for an unknown cost."""
    part = None if cost is None else spent.read_part(cost)
    return "" if part is None or cost is None or cost["most_usd"] is None else _short(part)


def _short(part: Part) -> str:
    # A column has room for one number: the highest.
    is_upper = part.at_most or part.most_usd > part.least_usd
    is_lower = bool(part.unpriced_hours or part.untimed)
    if is_upper and is_lower:
        return f"~{format_usd(float(part.most_usd))}"
    text = format_usd(float(part.most_usd))
    return (
        text
        if text.startswith("under")
        else f"{'<' if is_upper else '>' if is_lower else ''}{text}"
    )


def cost(options: CostOptions) -> int:
    """Print what the runs on record have cost."""
    from runspec_jobs.api import listing  # `apply`, which says what one run has cost, needs none

    since_s = None if options.since_s is None else time.time() - options.since_s
    by = options.by or "name"
    spending = listing.sum_spending(since_s, by_provider=by == "provider")
    if options.as_json:
        output.out_json("runspec.cost/v1", {"by": by, "since": since_s, **_json(spending)})
        return OK
    if spending.groups:
        output.print_table(_table(spending, by))
    else:
        output.tell("no run on record has a known cost")
    for note in _notes(spending):
        output.tell(note)
    return OK


def _json(spending: AllSpending) -> dict[str, Any]:
    rows = [{**row._asdict(), "cost": spent.write_spent(row.cost)} for row in spending.groups]
    named = {name: list(getattr(spending, name)) for name in ("stale", "unpriced", "unreadable")}
    return {"groups": rows, "total": spent.write_spent(spending.cost), **named}


def _table(spending: AllSpending, by: str) -> Table:
    """Return a row for each group and their sum, with a column for each outcome that occurs."""
    from runspec_jobs.api.listing import Spending

    outcomes = list(spending.cost)
    titles = (by, "runs", "hours", *map(str, outcomes), "in all")
    runs = sum(row.runs for row in spending.groups)
    shown = [*spending.groups, Spending("in all", runs, spending.cost)]
    rows = tuple(
        (
            row.group,
            f"{row.runs:,}",
            f"{spent.sum_spent(row.cost).hours:,.2f}",
            *(_cell(row.cost.get(outcome)) for outcome in outcomes),
            _cell(spent.sum_spent(row.cost)),
        )
        for row in shown
    )
    return Table(titles, rows)


def _cell(part: Part | None) -> str:
    return "-" if part is None else _short(part) if part.is_priced else "unknown"


def _notes(spending: AllSpending) -> Iterator[str]:
    total = spent.sum_spent(spending.cost)
    for more in _unknown(total):
        yield f"not in the amounts: {more}"
    if total.at_most:
        yield "<: spot machines are counted at their price on demand, and lost ones until the next attempt"
    if spending.stale:
        hint = "runspec status RUN brings the cost of a run up to date"
        seen = "it was" if len(spending.stale) == 1 else "they were"
        yield f"may have cost more since {seen} last seen: {_named(spending.stale)}; {hint}"
    if spending.unpriced:
        hint = "runs that start after `prices` is set in the profile have prices"
        yield f"no price on record: {_named(spending.unpriced)}; {hint}"
    if spending.unreadable:
        yield f"the record cannot be read: {_named(spending.unreadable)}; see runspec list --all"


def _named(runs: Sequence[str]) -> str:
    more = f" and {len(runs) - NAMED:,} more" if len(runs) > NAMED else ""
    return f"{', '.join(runs[:NAMED])}{more}"


def prices(options: PricesOptions) -> int:
    """Print which prices are known, with their dates and sources; with `--update`, read them first."""
    from runspec_jobs.api import profiles  # imports what sets up accounts

    read = profiles.read_known_prices
    listed = profiles.update_prices(output.tell_event) if options.update else read()
    if options.as_json:
        lists = [
            {
                "list": key,
                "date": row.date,
                "source": row.source,
                "usd_hour": dict(row.usd_hour),
                "spot_usd_hour": dict(row.spot_usd_hour),
                "services": dict(row.services),
            }
            for key, row in listed.items()
        ]
        output.out_json("runspec.prices/v1", {"lists": lists})
        return OK
    if not listed:
        output.tell("no price list was read: plan uses the prices of the catalogue")
        output.tell("runspec prices --update reads those of the regions in the profile")
        return OK
    rows = tuple(
        (key, len(row.usd_hour), len(row.spot_usd_hour), len(row.services), row.date, row.source)
        for key, row in listed.items()
    )
    output.print_table(Table(("list", "on demand", "spot", "services", "date", "source"), rows))
    return OK
