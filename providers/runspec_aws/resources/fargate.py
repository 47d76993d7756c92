"""The sizes of tasks on Fargate, and what a task costs: vCPUs, memory, disk above 20 GB and a public address.

https://aws.amazon.com/fargate/pricing/
"""

from __future__ import annotations

from runspec_aws.options import AwsOptions
from runspec_ec2 import aws_price
from runspec_jobs.provider import NOT_READ, ListedPrices, ServicePrice

# vCPUs and the allowed memory in MiB: lowest, highest, step.
# https://docs.aws.amazon.com/batch/latest/APIReference/API_ResourceRequirement.html
SIZES: tuple[tuple[float, int, int, int], ...] = (
    (0.25, 512, 2048, 512),
    (0.5, 1024, 4096, 1024),
    (1, 2048, 8192, 1024),
    (2, 4096, 16384, 1024),
    (4, 8192, 30720, 1024),
    (8, 16384, 61440, 4096),
    (16, 32768, 122880, 8192),
)
FREE_GB = 20  # of disk, for each task
LEAST_GB = 21  # that a task with a disk of its own requests: see `decision`


def choose_size(cpus: float, memory_mib: int) -> tuple[str, int] | None:
    """Return the smallest size that holds *cpus* and *memory_mib*, as vCPUs and MiB, or None."""
    for have, low, high, step in SIZES:
        if have >= cpus and high >= memory_mib:
            return f"{have:g}", max(low, low + -(-(memory_mib - low) // step) * step)
    return None


def hourly(
    cpus: float,
    memory_mib: int,
    disk_gb: int,
    options: AwsOptions,
    listed: ListedPrices = NOT_READ,
) -> tuple[float | None, ServicePrice]:
    """Return the price of an hour of a task in USD, or None if it is unknown, and the price of its vCPUs.

    Each part counts in proportion, by the second; a GB of memory is 1024 MiB.
    """
    amounts = {
        "fargate vcpu": cpus,
        "fargate memory": memory_mib / 1024,
        "fargate storage": disk_gb - FREE_GB,
        "public ipv4": 1 if options.public_ip else 0,
    }
    prices = {item: aws_price(item, options.region, listed) for item in amounts}
    parts = [
        None if one.usd is None else one.usd * amounts[item]
        for item, one in prices.items()
        if amounts[item]
    ]
    known = [part for part in parts if part is not None]
    return sum(known) if len(known) == len(parts) else None, prices["fargate vcpu"]
