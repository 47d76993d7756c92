"""The partitions of AWS: the prefix of ARNs in a region, and the domain of its services.

https://docs.aws.amazon.com/whitepapers/latest/aws-fault-isolation-boundaries/partitions.html
"""

from __future__ import annotations

from typing import NamedTuple


class Partition(NamedTuple):
    id: str
    domain: str


STANDARD = Partition("aws", "amazonaws.com")
# By the beginning of the region's name.
OTHERS = {
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
    return next((OTHERS[begin] for begin in OTHERS if region.startswith(begin)), STANDARD)
