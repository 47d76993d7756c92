"""The instance types of EC2, which AWS Batch and ParallelCluster rent."""

from __future__ import annotations

from functools import cache

from runspec_jobs.provider import Catalogue, Machine, read_catalogue


@cache
def ec2_catalogue() -> Catalogue:
    """Return the instance types of EC2. The table is read when a plan needs it, which takes some milliseconds."""
    from runspec_ec2 import ec2_table

    table = ec2_table.TABLE
    return read_catalogue(ec2_table.VERSION, table, ec2_table.OFFERED, read_generation)


def read_generation(machine: Machine) -> int:
    """Return the number of the generation in the family of an instance type; 0 if it has none.

    https://docs.aws.amazon.com/ec2/latest/instancetypes/instance-type-names.html

    >>> [read_generation(ec2_catalogue().named(name)) for name in ("m7i.large", "u-12tb1.112xlarge")]
    [7, 0]
    """
    digits = "".join(filter(str.isdigit, machine.family.partition("-")[0][:3]))
    return int(digits) if digits else 0
