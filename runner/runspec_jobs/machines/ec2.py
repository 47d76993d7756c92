"""The machines of EC2, which several providers rent: they are here because no provider imports another."""

from __future__ import annotations

from functools import cache

from runspec_jobs.machines.machine import Catalogue, read


@cache
def ec2_catalogue() -> Catalogue:
    """Return the instance types of EC2. The table is read when a plan needs it, which takes some milliseconds."""
    from runspec_jobs.machines import ec2_table

    return read(ec2_table.VERSION, ec2_table.TABLE, ec2_table.OFFERED)
