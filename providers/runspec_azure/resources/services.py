"""The prices of Azure for storage, requests, addresses and gateways."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

from runspec_jobs.provider import NOT_READ, ListedPrices, ServicePrice, read_services, service_price


def azure_price(item: str, region: str | None, listed: ListedPrices = NOT_READ) -> ServicePrice:
    """Return the price of *item* in *region*, which may be unknown; a price of *listed* comes first.

    Raises KeyError for an item that is not in the table.
    """
    return service_price(_prices(), item, region, listed)


@cache
def _prices() -> tuple[ServicePrice, ...]:
    text = Path(__file__).with_name("azure_services.json").read_bytes()
    return read_services(json.loads(text)["table"])
