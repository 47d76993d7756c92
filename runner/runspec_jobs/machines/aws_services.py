"""The prices of AWS for storage, requests, addresses, gateways and Fargate."""

from __future__ import annotations

from functools import cache

from runspec_jobs.machines.service import ServicePrice, read_services, service_price


def aws_price(item: str, region: str | None) -> ServicePrice:
    """Return the price of *item* in *region*, which may be unknown.

    Raises KeyError for an item that is not in the table.
    """
    return service_price(_prices(), item, region)


@cache
def _prices() -> tuple[ServicePrice, ...]:
    from runspec_jobs.machines import aws_service_table

    return read_services(aws_service_table.TABLE)
