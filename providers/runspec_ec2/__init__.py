"""The machines of EC2 and the prices of AWS, for all providers whose jobs run on them. It sends no request."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from runspec_agent.base.light_typing import NamedTuple
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


class Volume(NamedTuple):
    """An EBS volume as EC2, AWS Batch and ParallelCluster describe it, and the least size with such IOPS."""

    fields: Mapping[str, str | int]
    least_gib: int = 1


# The tiers of `cluster.disk`; None for a spec without one. gp3 has 3,000 IOPS and 125 MiB/s unless more are asked for,
# and at most 500 IOPS for a GiB; io2 has at most 1,000.
# https://docs.aws.amazon.com/ebs/latest/userguide/general-purpose.html and provisioned-iops.html there
GP3 = Volume({"VolumeType": "gp3"})
VOLUMES: Mapping[str | None, Volume] = {
    None: GP3,
    "low": GP3,
    "medium": GP3,
    "high": Volume({"VolumeType": "gp3", "Iops": 16000, "Throughput": 1000}, 32),
    "best": Volume({"VolumeType": "io2", "Iops": 32000}, 32),
}

VOLUME_COSTS = (
    "EBS charges for the IOPS of such a disk while the machine exists, in addition to the price of the machine: no "
    "total has it, see https://aws.amazon.com/ebs/pricing/"
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
