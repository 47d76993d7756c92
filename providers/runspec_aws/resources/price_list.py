"""Reads the prices of EC2 from AWS's price list and the spot prices of a region, with the user's login.

https://docs.aws.amazon.com/aws-cost-management/latest/APIReference/API_pricing_GetProducts.html and
https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_DescribeSpotPriceHistory.html
"""

from __future__ import annotations

import datetime
import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import boto3

from runspec_aws.errors import LOGIN, translated
from runspec_aws.options import AwsOptions
from runspec_aws.session import timed_connections
from runspec_aws.session.clients import PATIENT
from runspec_aws.session.partition import partition
from runspec_jobs.provider import (
    CredentialsError,
    ListedPrices,
    RemoteError,
    Unavailable,
    UsageError,
)

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


def read(options: AwsOptions) -> ListedPrices:
    """Return the prices of the region of *options*. Raises the errors of `Client.call`."""
    if options.region is None:
        raise UsageError(
            "the profile has no `region`", "add providers: {aws-batch: {region: NAME}}"
        )
    if partition(options.region).id != "aws":
        what = f"AWS's price list of {options.region} is not in USD, or not in this partition"
        raise Unavailable(what, "write what machines cost to `prices` in the profile")
    with translated("the credentials"):
        session = boto3.Session(profile_name=options.account_profile, region_name=options.region)
        if session.get_credentials() is None:
            raise CredentialsError("there are no AWS credentials on this machine", LOGIN)
    pricing = session.client("pricing", region_name=AT, config=PATIENT)
    ec2 = session.client("ec2", config=PATIENT)
    for client in (pricing, ec2):
        timed_connections.use(client)
    with translated("the prices"):
        on_demand = on_demand_prices(products(pricing, options.region))
        spot = spot_prices(ec2)
    return ListedPrices(on_demand, spot, SOURCE)


def products(pricing: Any, region: str) -> Iterator[str]:
    """Yield the products of the price list that are machines with Linux in *region*, as JSON."""
    wanted = {"regionCode": region, **WANTED}
    filters = [{"Type": "TERM_MATCH", "Field": k, "Value": v} for k, v in wanted.items()]
    pages = pricing.get_paginator("get_products").paginate(ServiceCode="AmazonEC2", Filters=filters)
    for page in pages:
        yield from page["PriceList"]


def on_demand_prices(found: Iterable[str]) -> dict[str, float]:
    """Return the price of an hour on demand by instance type; the highest if a type has several."""
    prices: dict[str, float] = {}
    try:
        for text in found:
            one = json.loads(text)
            name = one["product"]["attributes"].get("instanceType")
            for usd in _usd(one["terms"].get("OnDemand", {})) if name else ():
                prices[name] = max(usd, prices.get(name, 0.0))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as exc:
        raise RemoteError(f"AWS's price list cannot be read: {type(exc).__name__}: {exc}") from exc
    return prices


def _usd(terms: Mapping[str, Any]) -> Iterator[float]:
    for term in terms.values():
        for price in term["priceDimensions"].values():
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
        for one in page["SpotPriceHistory"]:
            name, usd = one["InstanceType"], float(one["SpotPrice"])
            prices[name] = max(usd, prices.get(name, 0.0))
    return prices
