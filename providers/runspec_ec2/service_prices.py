"""The prices of AWS for storage, requests, addresses, gateways and Fargate."""

from __future__ import annotations

from functools import cache

from runspec_jobs.provider import (
    NOT_READ,
    ListedPrices,
    ServicePrice,
    read_services,
    service_price,
)


def aws_price(item: str, region: str | None, listed: ListedPrices = NOT_READ) -> ServicePrice:
    """Return the price of *item* in *region*, which may be unknown; a price of *listed* comes first.

    Raises KeyError for an item that is not in the table.
    """
    return service_price(_prices(), item, region, listed)


@cache
def _prices() -> tuple[ServicePrice, ...]:
    from runspec_ec2 import aws_service_table

    return read_services(aws_service_table.TABLE)
