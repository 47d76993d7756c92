"""Prices that were read from the price list of a service, for a region and with a date."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from runspec_agent.base.light_typing import NamedTuple


class PriceList(NamedTuple):
    """Which prices a profile needs: those of a *service*, such as `ec2`, in a *region*."""

    service: str
    region: str

    @property
    def key(self) -> str:
        return f"{self.service}/{self.region}"


class ListedPrices(NamedTuple):
    """Prices of machines with Linux in USD an hour, by name: on demand, and of spot machines when they were read.

    *source* is the address that they were read from, and *date* the day, as YYYY-MM-DD. *services* has the prices of
    what is sold besides machines, by the item of the table of services and for its unit.
    """

    usd_hour: Mapping[str, float]
    spot_usd_hour: Mapping[str, float] = {}
    source: str = ""
    date: str = ""
    services: Mapping[str, float] = {}


NOT_READ = ListedPrices({})


def from_json(content: Any) -> ListedPrices:
    """Return prices from JSON. Raises ValueError, KeyError, TypeError or AttributeError if it is something else."""
    return ListedPrices(
        _parse_prices(content["usd_hour"]),
        _parse_prices(content["spot_usd_hour"]),
        str(content["source"]),
        str(content["date"]),
        _parse_prices(content.get("services", {})),  # a file of an earlier version has none
    )


def _parse_prices(content: Mapping[str, Any]) -> dict[str, float]:
    prices = {str(name): float(usd) for name, usd in content.items()}
    return {name: usd for name, usd in prices.items() if usd > 0 and math.isfinite(usd)}
