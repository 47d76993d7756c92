"""Requests in the words of the SDK, the tags of what is made, and the partitions of AWS."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from runspec_agent.base.light_typing import NamedTuple
from runspec_aws.options import AwsOptions
from runspec_jobs.provider import Request

# https://docs.aws.amazon.com/batch/latest/userguide/using-tags.html: 128 and 256 characters.
UNFIT = re.compile(r"[^\w .:/=+@-]", re.ASCII)


def batch(operation: str, **params: Any) -> Request:
    """Return a call of botocore's Batch client."""
    return Request("batch", operation, params)


def s3(operation: str, **params: Any) -> Request:
    return Request("s3", operation, params)


def tags(options: AwsOptions, **own: str) -> dict[str, str]:
    """Return the tags of the profile and of runspec, without characters that tags may not contain."""
    merged: Mapping[str, str] = {**options.tags, **{f"runspec:{k}": v for k, v in own.items()}}
    return {UNFIT.sub("_", k)[:128]: UNFIT.sub("_", v)[:256] for k, v in merged.items()}


# The partitions of AWS: the prefix of ARNs in a region, and the domain of its services.
#
# https://docs.aws.amazon.com/whitepapers/latest/aws-fault-isolation-boundaries/partitions.html


class Partition(NamedTuple):
    id: str
    domain: str


STANDARD_PARTITION = Partition("aws", "amazonaws.com")
# By the beginning of the region's name.
OTHER_PARTITIONS = {
    "cn-": Partition("aws-cn", "amazonaws.com.cn"),
    "us-gov-": Partition("aws-us-gov", "amazonaws.com"),
    "eusc-": Partition("aws-eusc", "amazonaws.eu"),
    "us-iso-": Partition("aws-iso", "c2s.ic.gov"),
    "us-isob-": Partition("aws-iso-b", "sc2s.sgov.gov"),
    "eu-isoe-": Partition("aws-iso-e", "cloud.adc-e.uk"),
    "us-isof-": Partition("aws-iso-f", "csp.hci.ic.gov"),
}


def partition(region: str) -> Partition:
    """Return the partition of *region*.

    >>> partition("cn-north-1")
    Partition(id='aws-cn', domain='amazonaws.com.cn')
    """
    return next(
        (OTHER_PARTITIONS[begin] for begin in OTHER_PARTITIONS if region.startswith(begin)),
        STANDARD_PARTITION,
    )
