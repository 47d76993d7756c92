"""Reads prices of a region from AWS's price list, and its spot prices, with the user's login.

https://docs.aws.amazon.com/aws-cost-management/latest/APIReference/API_pricing_GetProducts.html and
https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_DescribeSpotPriceHistory.html
"""

from __future__ import annotations

import contextlib
import datetime
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import boto3

from runspec_agent.base.light_typing import NamedTuple
from runspec_aws.errors import LOGIN, translated
from runspec_aws.naming import partition
from runspec_aws.options import AwsOptions
from runspec_aws.session import PATIENT, time_connections
from runspec_jobs.provider import CredentialsError, RemoteError, Unavailable, UsageError
from runspec_jobs.provider.machines import ListedPrices

# The price list is served in few regions; this one has all prices of the partition `aws`:
# https://docs.aws.amazon.com/general/latest/gr/billing.html#billing-pricing
AT = "us-east-1"
SOURCE = "pricing:GetProducts, ec2:DescribeSpotPriceHistory"
# Attributes of https://docs.aws.amazon.com/awsaccountbilling/latest/aboutv2/reading-service-price-list-file-for-services.html
WANTED = {
    "operatingSystem": "Linux",
    "tenancy": "Shared",
    "capacitystatus": "Used",
    "preInstalledSw": "NA",
}
SPOT = "Linux/UNIX"


class Usage(NamedTuple):
    """A usage type of a price list, without its region; *times* converts its unit to that of the table of services.

    *only* limits the list to a part that has it, because that of AmazonEC2 is long.
    """

    offer: str
    type: str
    times: float = 1
    only: tuple[tuple[str, str], ...] = ()


NAT = (("productFamily", "NAT Gateway"),)
DISK = (("volumeApiName", "gp3"),)
# The usage types of bills, such as EUW2-Fargate-GB-Hours; those of us-east-1 may have no region.
SERVICES = {
    "fargate vcpu": Usage("AmazonECS", "Fargate-vCPU-Hours:perCPU"),
    "fargate memory": Usage("AmazonECS", "Fargate-GB-Hours"),
    "fargate storage": Usage("AmazonECS", "Fargate-EphemeralStorage-GB-Hours"),
    "fargate arm vcpu": Usage("AmazonECS", "Fargate-ARM-vCPU-Hours:perCPU"),
    "fargate arm memory": Usage("AmazonECS", "Fargate-ARM-GB-Hours"),
    "nat gateway": Usage("AmazonEC2", "NatGateway-Hours", only=NAT),
    "nat data": Usage("AmazonEC2", "NatGateway-Bytes", only=NAT),
    "public ipv4": Usage("AmazonVPC", "PublicIPv4:InUseAddress"),
    "ebs gp3": Usage("AmazonEC2", "EBS:VolumeUsage.gp3", only=DISK),
    "s3 storage": Usage("AmazonS3", "TimedStorage-ByteHrs"),
    "s3 puts": Usage("AmazonS3", "Requests-Tier1", 1000),
    "s3 gets": Usage("AmazonS3", "Requests-Tier2", 1000),
    "log ingestion": Usage("AmazonCloudWatch", "DataProcessing-Bytes"),
    "log storage": Usage("AmazonCloudWatch", "TimedStorage-ByteHrs"),
}


def is_usage(name: str, usage: Usage) -> bool:
    """Return whether *name* is the type of *usage* in some region.

    >>> [is_usage(name, SERVICES["nat gateway"]) for name in ("EUW2-NatGateway-Hours", "EU-NatGateway-Prvd-Hours")]
    [True, False]
    """
    return re.fullmatch(rf"([A-Z]+\d*-)?{re.escape(usage.type)}", name) is not None


def read(options: AwsOptions) -> ListedPrices:
    """Return the prices of the region of *options*. Raises the errors of `Client.call`."""
    if options.region is None:
        raise UsageError(
            "the profile has no `region`", "add providers: {aws-batch: {region: NAME}}"
        )
    if partition(options.region).id != "aws":
        message = f"AWS's price list of {options.region} is not in USD, or not in this partition"
        raise Unavailable(message, "write what machines cost to `prices` in the profile")
    with translated("the credentials"):
        session = boto3.Session(profile_name=options.account_profile, region_name=options.region)
        if session.get_credentials() is None:
            raise CredentialsError("there are no AWS credentials on this machine", LOGIN)
    pricing = session.client("pricing", region_name=AT, config=PATIENT)
    ec2 = session.client("ec2", config=PATIENT)
    for client in (pricing, ec2):
        time_connections(client)
    with translated("the prices"):
        on_demand = on_demand_prices(products(pricing, options.region, "AmazonEC2", WANTED))
        spot = spot_prices(ec2)
        services: dict[str, float] = {}
        for offer, only in dict.fromkeys(
            (service.offer, service.only) for service in SERVICES.values()
        ):
            services |= service_prices(products(pricing, options.region, offer, dict(only)), offer)
    return ListedPrices(on_demand, spot, SOURCE, services=services)


def products(pricing: Any, region: str, offer: str, only: Mapping[str, str]) -> Iterator[str]:
    """Yield the products of the price list of *offer* in *region* that have the attributes *only*, as JSON."""
    wanted = {"regionCode": region, **only}
    filters = [{"Type": "TERM_MATCH", "Field": k, "Value": v} for k, v in wanted.items()]
    pages = pricing.get_paginator("get_products").paginate(ServiceCode=offer, Filters=filters)
    for page in pages:
        yield from page["PriceList"]


def service_prices(lines: Iterable[str], offer: str) -> dict[str, float]:
    """Return by item what is sold besides machines: the price of the first GB or request, the highest of several."""
    prices: dict[str, float] = {}
    items = {item: usage for item, usage in SERVICES.items() if usage.offer == offer}
    with _readable():
        for product in map(json.loads, lines):
            name = product["product"]["attributes"].get("usagetype", "")
            for item, usage in items.items():
                if is_usage(name, usage):
                    for usd in _first(product["terms"].get("OnDemand", {})):
                        prices[item] = max(usd * usage.times, prices.get(item, 0.0))
    return prices


def on_demand_prices(lines: Iterable[str]) -> dict[str, float]:
    """Return the price of an hour on demand by instance type; the highest if a type has several."""
    prices: dict[str, float] = {}
    with _readable():
        for product in map(json.loads, lines):
            name = product["product"]["attributes"].get("instanceType")
            for usd in _usd(product["terms"].get("OnDemand", {})) if name else ():
                prices[name] = max(usd, prices.get(name, 0.0))
    return prices


@contextlib.contextmanager
def _readable() -> Iterator[None]:
    try:
        yield
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as exc:
        raise RemoteError(f"AWS's price list cannot be read: {type(exc).__name__}: {exc}") from exc


def _dimensions(terms: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    for term in terms.values():
        yield from term["priceDimensions"].values()


def _first(terms: Mapping[str, Any]) -> Iterator[float]:
    for price in _dimensions(terms):
        usd = float(price["pricePerUnit"].get("USD", 0))
        if usd > 0 and not float(price.get("beginRange", 0)):
            yield usd


def _usd(terms: Mapping[str, Any]) -> Iterator[float]:
    for price in _dimensions(terms):
        usd = float(price["pricePerUnit"].get("USD", 0))
        if price["unit"] == "Hrs" and usd > 0:
            yield usd


def spot_prices(ec2: Any) -> dict[str, float]:
    """Return the spot price now by instance type, in the zone where it is highest."""
    now = datetime.datetime.now(datetime.UTC)
    pages = ec2.get_paginator("describe_spot_price_history").paginate(
        ProductDescriptions=[SPOT], StartTime=now, EndTime=now
    )
    prices: dict[str, float] = {}
    for page in pages:
        for price in page["SpotPriceHistory"]:
            name, usd = price["InstanceType"], float(price["SpotPrice"])
            prices[name] = max(usd, prices.get(name, 0.0))
    return prices
