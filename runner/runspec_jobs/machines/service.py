"""Prices of what a provider sells besides machines: storage, requests, addresses and gateways.

The tables are data files with a line for each price: item, region, USD, unit, day and source, with | between them. A
price that no source says is an empty cell, and becomes None.
"""

from __future__ import annotations

from collections.abc import Iterable

from runspec_agent.base.light_typing import NamedTuple
from runspec_jobs.machines.price_list import NOT_READ, ListedPrices

GLOBAL = "global"  # the region of a price that holds in all
MONTH_H = 8760 / 12  # the hours of a month in the price lists: 730


class ServicePrice(NamedTuple):
    """A price in USD for one *unit* of *item*, such as a `GB month`. *usd* is None if it is unknown.

    *region* is where the price holds, or `global`, *date* the day of it as YYYY-MM-DD, and *source* an address. A GB
    is 2^30 bytes.
    *elsewhere* is the price of another region, as text, if that of *region* is unknown.
    """

    item: str
    region: str
    usd: float | None
    unit: str
    date: str
    source: str
    elsewhere: str = ""

    @property
    def note(self) -> str:
        """Where and when the price holds, or what it is elsewhere if it is unknown there, as text."""
        if self.usd is not None:
            where = "all regions" if self.region == GLOBAL else self.region
            return f"price of {where}, {self.date}"
        return f"elsewhere {self.elsewhere}" if self.elsewhere else f"of {self.region}"

    @property
    def usd_shown(self) -> str:
        """The price and its unit as text.

        >>> read_services(["nat data|us-east-1|0.045|GB|2026-08-12|https://example.org"])[0].usd_shown
        '0.045 USD for each GB'
        >>> read_services(["disk|us-east-1||GB month|2026-08-12|https://example.org"])[0].usd_shown
        'an unknown price for each GB month'
        """
        price = "an unknown price" if self.usd is None else f"{self.usd:g} USD"
        return f"{price} for each {self.unit}"


def read_services(table: Iterable[str]) -> tuple[ServicePrice, ...]:
    """Return the prices in the lines of a table. Raises ValueError for a line that has another number of cells."""
    return tuple(_parse_price(line) for line in table)


def service_price(
    prices: Iterable[ServicePrice],
    item: str,
    region: str | None,
    listed: ListedPrices = NOT_READ,
) -> ServicePrice:
    """Return the price of *item* in *region*; unknown, but with the first price of the table, if it has no such line.

    A price of *listed*, which was read for *region*, comes first. Raises KeyError for an item that the table does not
    have.
    """
    matching = [price for price in prices if price.item == item]
    if not matching:
        raise KeyError(item)
    first = matching[0]
    if region is not None and (usd := listed.services.get(item)) is not None:
        return ServicePrice(item, region, usd, first.unit, listed.date, listed.source)
    known = "" if first.usd is None else f"{first.usd:g} USD in {first.region}, {first.date}"
    unknown = first._replace(region=region or "an unknown region", usd=None, elsewhere=known)
    return next((price for price in matching if price.region in (region, GLOBAL)), unknown)


def _parse_price(line: str) -> ServicePrice:
    item, region, usd, unit, date, source = line.split("|")
    return ServicePrice(item, region, float(usd) if usd else None, unit, date, source)
