"""The machines of EC2 and the prices of AWS, for all providers whose jobs run on them. It sends no request."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

from runspec_jobs.provider.machines import (
    NOT_READ,
    Catalogue,
    ListedPrices,
    Machine,
    ServicePrice,
    read_catalogue,
    read_services,
    service_price,
)


@cache
def ec2_catalogue() -> Catalogue:
    """Return the instance types of EC2. The table is read when a plan needs it, which takes some milliseconds."""
    data = _read("ec2_machines.json")
    return read_catalogue(data["version"], data["table"], data["offered"], read_generation)


def read_generation(machine: Machine) -> int:
    """Return the number of the generation in the family of an instance type; 0 if it has none.

    https://docs.aws.amazon.com/ec2/latest/instancetypes/instance-type-names.html

    >>> [read_generation(ec2_catalogue().named(name)) for name in ("m7i.large", "u-12tb1.112xlarge")]
    [7, 0]
    """
    digits = "".join(filter(str.isdigit, machine.family.partition("-")[0][:3]))
    return int(digits) if digits else 0


def aws_price(item: str, region: str | None, listed: ListedPrices = NOT_READ) -> ServicePrice:
    """Return the price of *item* in *region*, which may be unknown; a price of *listed* comes first.

    The items are storage, requests, addresses, gateways and Fargate. Raises KeyError for one that is not in the table.
    """
    return service_price(_prices(), item, region, listed)


@cache
def _prices() -> tuple[ServicePrice, ...]:
    return read_services(_read("aws_services.json")["table"])


def _read(name: str) -> dict[str, Any]:
    data: dict[str, Any] = json.loads(Path(__file__).with_name(name).read_bytes())
    return data
