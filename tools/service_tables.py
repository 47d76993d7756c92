"""Reads the prices of storage, requests, gateways, addresses and Fargate from the public lists: see tools/catalogue.

https://docs.aws.amazon.com/awsaccountbilling/latest/aboutv2/using-the-aws-price-list-bulk-api.html
https://learn.microsoft.com/rest/api/cost-management/retail-prices/azure-retail-prices
"""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import IO, Any, NamedTuple

from machine_cells import number
from machines_azure import LIST as AZURE_LIST, pages
from machines_ec2 import after_preface

from runspec_aws.price_list import SERVICES as AWS, is_usage
from runspec_azure.resources.price_list import SERVICES as AZURE, metered
from runspec_jobs.machines.service import ServicePrice, read_services

Fetched = Callable[[str], IO[bytes]]
AWS_LIST = (
    "https://pricing.us-east-1.amazonaws.com/offers/v1.0/aws/{offer}/current/{region}/index.csv"
)


FILES = {
    "aws-services": "providers/runspec_ec2/aws_services.json",
    "azure-services": "providers/runspec_azure/resources/azure_services.json",
}


class Found(NamedTuple):
    """The price of an item in a region, and the list that states it."""

    item: str
    region: str
    usd: float
    source: str


def aws_prices(lines: Iterable[str], source: str) -> Iterator[Found]:
    """Yield the prices in a list of AWS in CSV: those on demand of the first GB or request."""
    for row in csv.DictReader(after_preface(lines)):
        usd = float(row["PricePerUnit"] or 0)
        is_first = not float(row["StartingRange"] or 0)
        if (row["TermType"], row["Currency"]) == ("OnDemand", "USD") and is_first and usd > 0:
            for item, usage in AWS.items():
                if row["serviceCode"] == usage.offer and is_usage(row["usageType"], usage):
                    yield Found(item, row["Region Code"], usd * usage.times, source)


def azure_prices(found: Iterable[Mapping[str, Any]]) -> Iterator[Found]:
    """Yield the prices in pages of Azure's retail prices: those of the first GB or request."""
    for item, region, usd in metered(one for page in found for one in page["Items"]):
        yield Found(item, region, usd, AZURE_LIST)


def fetched_prices(kind: str, regions: Iterable[str], fetched: Fetched) -> Iterator[Found]:
    """Yield the prices of *regions* from the public lists."""
    for region in regions:
        if kind == "aws-services":
            for offer in sorted({usage.offer for usage in AWS.values()}):
                address = AWS_LIST.format(offer=offer, region=region)
                with fetched(address) as answer:
                    yield from aws_prices((line.decode() for line in answer), address)
        else:
            for product in sorted({meter.product for meter in AZURE.values()}):
                wanted = f"productName eq '{product}' and armRegionName eq '{region}'"
                yield from azure_prices(pages(wanted, fetched))
    if kind == "azure-services":
        yield from azure_prices(pages("productName eq 'NAT Gateway'", fetched))


def saved_prices(kind: str, file: Path) -> Iterator[Found]:
    """Yield the prices in a list that was saved: AWS's CSV, or pages of Azure's JSON, one in each line."""
    if kind == "aws-services":
        text = file.read_text()
        offers = {
            row["serviceCode"] for row in csv.DictReader(after_preface(text.splitlines(True)))
        }
        source = AWS_LIST.format(offer=min(offers, default="AmazonEC2"), region="{}")
        for one in aws_prices(text.splitlines(True), source):
            yield one._replace(source=one.source.format(one.region))
    else:
        yield from azure_prices(map(json.loads, file.read_text().splitlines()))


def unanimous(found: Iterable[Found]) -> Iterator[Found]:
    """Yield each item of each region once, and print those that have several prices, which are left out."""
    prices: dict[tuple[str, str], set[Found]] = {}
    for one in found:
        prices.setdefault((one.item, one.region), set()).add(one)
    for (item, region), several in prices.items():
        if len({one.usd for one in several}) == 1:
            yield min(several)
        else:
            print(f"{item}: the list has several prices in {region}, and all are left out")


def merged(table: Iterable[str], found: Iterable[Found], day: str) -> list[str]:
    """Return *table* with the prices *found*, of *day*: each in the place of its former one, or after its item."""
    rows = list(read_services(table))
    for one in found:
        there = [n for n, row in enumerate(rows) if row.item == one.item]
        own = [n for n in there if rows[n].region == one.region]
        unit = rows[there[0]].unit
        row = ServicePrice(one.item, one.region, round(one.usd, 9), unit, day, one.source)
        rows[own[0] if own else there[-1] + 1 : own[0] + 1 if own else there[-1] + 1] = [row]
    return [_line(row) for row in rows]


def _line(row: ServicePrice) -> str:
    return "|".join((row.item, row.region, number(row.usd, 9), *row[3:6]))


def make(found: Iterable[Found], day: str, there: Path, output: Path) -> int:
    """Write the table of the file *there* anew to *output*, and return how many prices it has."""
    data = json.loads(there.read_text())
    table = merged(data["table"], unanimous(found), day)
    read_services(table)
    output.write_text(print_json({**data, "table": table}))
    return len(table)


def print_json(data: Mapping[str, Any]) -> str:
    """Return the text of a data file, which has a line for each row of its table."""
    return json.dumps(data, indent=1, ensure_ascii=False) + "\n"
