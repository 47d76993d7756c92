"""The prices of Azure for storage, requests, addresses and gateways."""

from __future__ import annotations

from functools import cache

from runspec_jobs.provider import ServicePrice, read_services, service_price


def azure_price(item: str, region: str | None) -> ServicePrice:
    """Return the price of *item* in *region*, which may be unknown.

    Raises KeyError for an item that is not in the table.
    """
    return service_price(_prices(), item, region)


@cache
def _prices() -> tuple[ServicePrice, ...]:
    from runspec_azure.resources import service_table

    return read_services(service_table.TABLE)
