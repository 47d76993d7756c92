"""The instance types of EC2, which AWS Batch and ParallelCluster rent."""

from __future__ import annotations

from functools import cache

from runspec_jobs.provider import Catalogue, read_catalogue


@cache
def ec2_catalogue() -> Catalogue:
    """Return the instance types of EC2. The table is read when a plan needs it, which takes some milliseconds."""
    from runspec_ec2 import ec2_table

    return read_catalogue(ec2_table.VERSION, ec2_table.TABLE, ec2_table.OFFERED)
