"""Prices of EC2 are read from AWS's price list as its documentation describes it.

https://docs.aws.amazon.com/aws-cost-management/latest/APIReference/API_pricing_GetProducts.html
"""

from __future__ import annotations

import json
from typing import Any

import boto3
import pytest
from botocore.stub import ANY, Stubber

from runspec_aws.options import AwsOptions
from runspec_aws.resources import price_list
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

    found = price_list.on_demand_prices(price_list.products(client, "eu-west-1"))

    assert found == {"m5.large": 0.107}


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"product": 1}', "[" * 100_000])
def test_a_product_that_cannot_be_read_is_an_error_in_words(text: str) -> None:
    with pytest.raises(RemoteError, match="AWS's price list cannot be read"):
        price_list.on_demand_prices([text])


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
