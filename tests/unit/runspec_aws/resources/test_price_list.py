"""Prices of EC2 are read from AWS's price list as its documentation describes it.

https://docs.aws.amazon.com/aws-cost-management/latest/APIReference/API_pricing_GetProducts.html
"""

from __future__ import annotations

import json
from typing import Any

import boto3
import pytest
from botocore.stub import ANY, Stubber

from runspec_aws import price_list
from runspec_aws.options import AwsOptions
from runspec_jobs.provider import RemoteError, Unavailable, UsageError


@pytest.fixture(autouse=True)
def keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIAIOSFODNN7EXAMPLE")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")


def product(name: str, *prices: tuple[str, str], unit: str = "Hrs") -> str:
    """Return a product as the service describes it, with a price per unit in each currency given."""
    dimensions = {
        f"SKU.JRTCKXETXF.{n}": {"unit": unit, "pricePerUnit": {currency: usd}}
        for n, (currency, usd) in enumerate(prices)
    }
    return json.dumps(
        {
            "product": {"productFamily": "Compute Instance", "attributes": {"instanceType": name}},
            "serviceCode": "AmazonEC2",
            "terms": {
                "OnDemand": {"SKU.JRTCKXETXF": {"priceDimensions": dimensions}},
                "Reserved": {
                    "SKU.X": {
                        "priceDimensions": {"a": {"unit": "Quantity", "pricePerUnit": {"USD": "9"}}}
                    }
                },
            },
        }
    )


def stubbed(*pages: dict[str, Any]) -> Any:
    client = boto3.client("pricing", region_name="us-east-1")
    stub = Stubber(client)
    wanted = {
        "regionCode": "eu-west-1",
        "operatingSystem": "Linux",
        "tenancy": "Shared",
        "capacitystatus": "Used",
        "preInstalledSw": "NA",
    }
    for number, page in enumerate(pages):
        expected = {
            "ServiceCode": "AmazonEC2",
            "Filters": [{"Type": "TERM_MATCH", "Field": k, "Value": v} for k, v in wanted.items()],
            **({"NextToken": ANY} if number else {}),
        }
        stub.add_response("get_products", page, expected)
    stub.activate()
    return client


def test_all_pages_of_the_price_list_are_read_for_linuxon_demand_prices() -> None:
    client = stubbed(
        {"PriceList": [product("m5.large", ("USD", "0.107"))], "NextToken": "more"},
        {
            "PriceList": [
                product("m5.large", ("USD", "0.1")),
                product("free", ("USD", "0.0000000000")),
                product("days", ("USD", "3"), unit="Days"),
                product("yuan", ("CNY", "3")),
            ]
        },
    )

    found = price_list.on_demand_prices(
        price_list.products(client, "eu-west-1", "AmazonEC2", price_list.WANTED)
    )

    assert found == {"m5.large": 0.107}


def used(usage: str, *tiers: tuple[str, str]) -> str:
    """Return the product of a usage type, with the beginning and the price of each tier."""
    dimensions = {
        str(n): {"unit": "GB-Mo", "beginRange": begin, "pricePerUnit": {"USD": usd}}
        for n, (begin, usd) in enumerate(tiers)
    }
    terms = {"OnDemand": {"SKU.JRTCKXETXF": {"priceDimensions": dimensions}}}
    return json.dumps({"product": {"attributes": {"usagetype": usage}}, "terms": terms})


def test_the_price_list_has_the_first_price_of_what_is_sold_besides_machines() -> None:
    found = [
        used("EU-TimedStorage-ByteHrs", ("51200", "0.033"), ("0", "0.023")),
        used("EU-TimedStorage-GDA-ByteHrs", ("0", "0.001")),
        used("EU-Requests-Tier1", ("0", "0.000005")),
        used("EU-NatGateway-Hours", ("0", "0.048")),
        used("EU-Requests-Tier2", ("0", "0")),
    ]

    assert price_list.service_prices(found, "AmazonS3") == {"s3 storage": 0.023, "s3 puts": 0.005}
    assert price_list.service_prices(found, "AmazonEC2") == {"nat gateway": 0.048}


def test_every_list_of_services_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def products(pricing: Any, region: str, offer: str, only: dict[str, str]) -> list[str]:
        asked.append((offer, tuple(only.items())))
        return [used("EUC1-NatGateway-Hours", ("0", "0.05"))] if "NAT" in str(only) else []

    monkeypatch.setattr(price_list, "products", products)
    monkeypatch.setattr(price_list, "spot_prices", lambda ec2: {})

    assert price_list.read(AwsOptions(region="eu-central-1")).services == {"nat gateway": 0.05}
    offers = {(usage.offer, usage.only) for usage in price_list.SERVICES.values()}
    assert sorted(asked) == sorted({*offers, ("AmazonEC2", tuple(price_list.WANTED.items()))})


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"product": 1}', "[" * 100_000])
def test_a_product_that_cannot_be_read_is_an_error_in_words(text: str) -> None:
    with pytest.raises(RemoteError, match="AWS's price list cannot be read"):
        price_list.on_demand_prices([text])
    with pytest.raises(RemoteError, match="AWS's price list cannot be read"):
        price_list.service_prices([text], "AmazonS3")


def test_the_spot_price_is_that_of_the_dearest_zone() -> None:
    client = boto3.client("ec2", region_name="eu-west-1")
    stub = Stubber(client)
    prices = [("a", "0.1"), ("a", "0.3"), ("b", "0.2")]
    history = [
        {"InstanceType": "m5.large" if n == "a" else "g5.xlarge", "SpotPrice": usd}
        for n, usd in prices
    ]
    expected = {"ProductDescriptions": ["Linux/UNIX"], "StartTime": ANY, "EndTime": ANY}
    stub.add_response("describe_spot_price_history", {"SpotPriceHistory": history}, expected)
    stub.activate()

    assert price_list.spot_prices(client) == {"m5.large": 0.3, "g5.xlarge": 0.2}


def test_without_a_region_or_outside_of_the_partition_nothing_is_asked() -> None:
    with pytest.raises(UsageError, match="no `region`"):
        price_list.read(AwsOptions())
    with pytest.raises(Unavailable, match="cn-north-1"):
        price_list.read(AwsOptions(region="cn-north-1"))
