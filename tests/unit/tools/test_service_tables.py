"""tools/catalogue makes the tables of storage, gateways and Fargate from the public lists of AWS and Azure."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import machine_tables
import pytest
import service_tables
from machine_tables import main
from service_tables import FILES, Found, aws_prices, merged, unanimous

from runspec_aws.price_list import SERVICES as AWS
from runspec_azure.resources.price_list import SERVICES as AZURE, Meter
from runspec_jobs.machines.service import read_services

# In the form of https://docs.aws.amazon.com/awsaccountbilling/latest/aboutv2/reading-service-price-list-file-for-services.html
PREFACE = (
    '"FormatVersion","v1.0"\n"Publication Date","2026-10-06T00:00:00Z"\n"OfferCode","AmazonECS"\n'
)
COLUMNS = {
    "SKU": "A",
    "TermType": "OnDemand",
    "StartingRange": "0",
    "Unit": "hours",
    "PricePerUnit": "0.0465600000",
    "Currency": "USD",
    "serviceCode": "AmazonECS",
    "usageType": "EUW2-Fargate-vCPU-Hours:perCPU",
    "Region Code": "eu-west-2",
}


def listed(*rows: dict[str, str]) -> str:
    lines = [list(COLUMNS), *(list({**COLUMNS, **row}.values()) for row in rows)]
    return PREFACE + "".join(",".join(f'"{cell}"' for cell in line) + "\n" for line in lines)


def found(*rows: dict[str, str]) -> list[tuple[str, str, float]]:
    every = aws_prices(listed(*rows).splitlines(True), "https://list")
    return [(one.item, one.region, round(one.usd, 9)) for one in every]


def test_a_list_of_aws_has_the_price_of_a_usage_type() -> None:
    puts = {"serviceCode": "AmazonS3", "usageType": "EU-Requests-Tier1", "PricePerUnit": "0.000005"}

    assert found({}) == [("fargate vcpu", "eu-west-2", 0.04656)]
    assert found({"usageType": "Fargate-GB-Hours"})[0][0] == "fargate memory"
    assert found(puts) == [("s3 puts", "eu-west-2", 0.005)]


@pytest.mark.parametrize(
    "own",
    [
        {"TermType": "Reserved"},
        {"Currency": "CNY"},
        {"PricePerUnit": "0.0000000000"},
        {"StartingRange": "51200"},
        {"usageType": "EUW2-Fargate-Windows-vCPU-Hours:perCPU"},
        {"usageType": "EUW2-SpotUsage-Fargate-vCPU-Hours:perCPU"},
        {"serviceCode": "AmazonEKS"},
    ],
)
def test_other_prices_of_aws_are_left_out(own: dict[str, str]) -> None:
    assert found(own) == []


def item(meter: Meter, **own: Any) -> dict[str, Any]:
    return {
        "serviceName": meter.service,
        "productName": meter.product,
        "skuName": meter.sku or "Standard",
        "meterName": f"Standard {meter.name}",
        "unitOfMeasure": meter.unit,
        "type": "Consumption",
        "tierMinimumUnits": 0.0,
        "retailPrice": 0.05,
        "armRegionName": "westus",
        **own,
    }


@pytest.mark.parametrize("name", AZURE)
def test_a_meter_of_azure_has_the_price_of_an_item(name: str) -> None:
    meter = AZURE[name]
    pages = [{"Items": [item(meter), item(meter, armRegionName="Global")]}]

    prices = list(service_tables.azure_prices(pages))

    assert [(one.item, one.region) for one in prices] == [(name, "westus"), (name, "global")]
    assert {round(one.usd, 9) for one in prices} == {round(0.05 * meter.times, 9)}


@pytest.mark.parametrize(
    "own",
    [
        {"type": "Reservation"},
        {"tierMinimumUnits": 51200.0},
        {"retailPrice": 0.0},
        {"unitOfMeasure": "1 GB"},
        {"skuName": "Cool LRS"},
        {"productName": "Premium Block Blob"},
        {"meterName": "Hot LRS Early Delete"},
    ],
)
def test_other_prices_of_azure_are_left_out(own: dict[str, Any]) -> None:
    pages = [{"Items": [item(AZURE["blob storage"], **own)]}]

    assert list(service_tables.azure_prices(pages)) == []


def test_a_price_takes_the_place_of_its_former_one_and_a_new_region_comes_last() -> None:
    table = ["a|here|1|hour|2024-01-01|https://x", "b|here||GB|2024-01-01|https://x"]
    prices = [Found("a", "here", 1.5, "https://y"), Found("a", "there", 2.0, "https://y")]

    assert merged(table, prices, "2026-12-01") == [
        "a|here|1.5|hour|2026-12-01|https://y",
        "a|there|2|hour|2026-12-01|https://y",
        "b|here||GB|2024-01-01|https://x",
    ]


def test_an_item_with_several_prices_is_left_out_and_named(
    capsys: pytest.CaptureFixture[str],
) -> None:
    several = [
        Found("a", "here", 1.0, "x"),
        Found("a", "here", 2.0, "x"),
        Found("b", "here", 1.0, "x"),
    ]

    assert [one.item for one in unanimous(several)] == ["b"]
    assert "a: the list has several prices in here" in capsys.readouterr().out


def table(file: Path) -> dict[tuple[str, str], tuple[float | None, str, str]]:
    rows = read_services(json.loads(file.read_text())["table"])
    return {(row.item, row.region): (row.usd, row.date, row.source) for row in rows}


def test_a_saved_list_makes_a_table(tmp_path: Path) -> None:
    saved, made = tmp_path / "list.csv", tmp_path / "made.json"
    saved.write_text(listed({"Region Code": "eu-west-1"}, {"PricePerUnit": "0.05"}))

    command = f"aws-services --prices {saved} --version 2026-12-01 --output {made}"
    assert main(command.split()) == 0

    before, after = table(machine_tables.ROOT / FILES["aws-services"]), table(made)
    source = service_tables.AWS_LIST.format(offer="AmazonECS", region="eu-west-1")
    assert after["fargate vcpu", "eu-west-1"] == (0.04656, "2026-12-01", source)
    assert after["fargate vcpu", "eu-west-2"][:2] == (0.05, "2026-12-01")
    changed = {("fargate vcpu", "eu-west-1"), ("fargate vcpu", "eu-west-2")}
    assert {key: row for key, row in after.items() if key not in changed} == {
        key: row for key, row in before.items() if key not in changed
    }


def test_the_lists_of_all_offers_and_regions_are_fetched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def fetched(address: str) -> io.BytesIO:
        asked.append(address)
        return io.BytesIO(listed().encode())

    monkeypatch.setattr(machine_tables, "fetched", fetched)
    assert (
        main(["aws-services", "--regions", "eu-north-1", "--output", str(tmp_path / "made.json")])
        == 0
    )

    regions = {urlsplit(one).path.split("/")[-2] for one in asked}
    offers = {urlsplit(one).path.split("/")[4] for one in asked}
    assert regions == {"us-east-1", "eu-west-2", "eu-north-1"}
    assert offers == {usage.offer for usage in AWS.values()}


def test_the_pages_of_azure_are_fetched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def fetched(address: str) -> io.BytesIO:
        asked.append(parse_qs(urlsplit(address).query)["$filter"][0])
        there = [item(AZURE["nat gateway"], armRegionName="Global", retailPrice=0.06)]
        return io.BytesIO(json.dumps({"Items": there}).encode())

    monkeypatch.setattr(machine_tables, "fetched", fetched)
    made = tmp_path / "made.json"
    assert main(["azure-services", "--version", "2026-12-01", "--output", str(made)]) == 0

    assert table(made)["nat gateway", "global"][:2] == (0.06, "2026-12-01")
    wanted = (
        "productName eq 'Blob Storage' and armRegionName eq 'westus' and priceType eq 'Consumption'"
    )
    assert wanted in asked
