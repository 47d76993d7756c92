"""Makes the tables of machines and prices anew: see tools/catalogue."""

from __future__ import annotations

import argparse
import csv
import json
import re
import urllib.request
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, NamedTuple

import service_tables
from machine_cells import Prices, Row, number
from machines_azure import azure_pages, azure_prices, azure_row
from machines_ec2 import ec2_offered, ec2_prices, ec2_types, moto_source

from runspec_jobs.machines.machine import COLUMNS, UNKNOWN, read
from runspec_jobs.machines.service import read_services

ROOT = Path(__file__).resolve().parent.parent
AWS_LIST = (
    "https://pricing.us-east-1.amazonaws.com/offers/v1.0/aws/AmazonEC2/current/{region}/index.csv"
)
TIMEOUT_S = 60.0

# Types that DescribeInstanceTypes no longer lists.
EARLIER = (
    "; types that it no longer lists: the table of 2026-01-22 that kubernetes/autoscaler generates from it, and "
    "https://docs.aws.amazon.com/ec2/latest/instancetypes/pg.html for their GPUs, and ac.html there for those of "
    "dl1"
)


class Target(NamedTuple):
    """A data file of the package, what it is about, and the public list of its prices."""

    file: str
    title: str
    prices: str
    regions: tuple[str, ...]


class Made(NamedTuple):
    """The content of a data file."""

    version: str
    prices_from: str
    machines_from: str
    rows: list[Row]
    offered: Mapping[str, str]
    regions: tuple[str, ...] = ()


TARGETS = {
    "ec2": Target(
        "providers/runspec_ec2/ec2_machines.json",
        "The instance types of EC2 and their prices on demand, with Linux, in USD an hour",
        "the price list of AWS, https://pricing.us-east-1.amazonaws.com/offers/v1.0/aws/AmazonEC2",
        ("us-east-1",),
    ),
    "azure": Target(
        "providers/runspec_azure/resources/vm_sizes.json",
        "The VM sizes of Azure and their prices on demand, with Linux, in USD an hour",
        "the retail prices of Azure, https://prices.azure.com/api/retail/prices",
        tuple(
            "eastus eastus2 southcentralus westus2 westus3 northeurope westeurope uksouth "
            "swedencentral southeastasia japaneast australiaeast".split()
        ),
    ),
}


def fetched(address: str) -> IO[bytes]:
    """Return the answer to a request for *address*."""
    assert address.startswith("https://"), "BUG: the lists are on HTTPS"
    answer: IO[bytes] = urllib.request.urlopen(address, timeout=TIMEOUT_S)  # noqa: S310 - it is HTTPS
    return answer


def prices_of(kind: str, named: str | None, regions: Iterable[str]) -> Prices:
    """Return the prices of *regions* by region and name, from the file *named* or from the public list."""
    if named:
        return prices_in(Path(named), regions)
    if kind == "azure":
        found: Prices = {}
        for region in regions:
            found |= azure_prices(azure_pages(region, fetched))
        return found
    found = {}
    for region in regions:
        with fetched(AWS_LIST.format(region=region)) as answer:
            found[region] = ec2_prices((line.decode() for line in answer), region)
    return found


def prices_in(file: Path, regions: Iterable[str]) -> Prices:
    """Return the prices in a list that was saved: AWS's CSV, Azure's JSON, SkyPilot's CSV, or region,name,usd."""
    text = file.read_text()
    if text.startswith("{"):
        return azure_prices(map(json.loads, text.splitlines()))
    if text.startswith("InstanceType,"):
        return skypilot_prices(text.splitlines())
    if not text.startswith("region,"):
        listed = {region: ec2_prices(text.splitlines(True), region) for region in regions}
        return {region: prices for region, prices in listed.items() if prices}
    found: Prices = {}
    for region, name, usd in list(csv.reader(text.splitlines()))[1:]:
        # A list has 0 for machines whose price is not public.
        found.setdefault(region, {})[name] = number(float(usd), 6) if float(usd) else UNKNOWN
    return found


def skypilot_prices(lines: Iterable[str]) -> Prices:
    """Return the prices on demand in a table `vms.csv` of https://github.com/skypilot-org/skypilot-catalog.

    It has a row for each type and zone, and no price for types that are sold as spot machines only.
    """
    found: Prices = {}
    for row in csv.DictReader(lines):
        if row["Price"]:
            usd = number(float(row["Price"]), 6)
            found.setdefault(row["Region"], {})[row["InstanceType"]] = usd
    return found


def merged(
    rows: Iterable[Row], added: Iterable[Row], prices: Prices, regions: Iterable[str]
) -> list[Row]:
    """Return *rows* with the specifications that *added* has, and the *prices* of the regions in them."""
    found = {row["name"]: dict(row) for row in rows}
    for row in added:
        found[row["name"]] = {**found.get(row["name"], {}), **row}
    wanted = [region for region in regions if region in prices]
    for row in found.values():
        row.update(dict.fromkeys(wanted, ""))
    for region in wanted:
        for name, usd in prices[region].items():
            found.setdefault(name, {"name": name})[region] = usd
    return sorted(found.values(), key=lambda row: row["name"])


def doubted(rows: Iterable[Row], regions: Iterable[str]) -> list[tuple[str, str]]:
    """Put ? for each price that its own list contradicts, and return their machines and regions.

    Within a series, the price of a vCPU is the same for all sizes. A size that costs much more for each vCPU than
    another size of its series, in some regions but not in all, has the price of something else there: lists of Azure
    have Windows machines among those with Linux.
    """
    series: dict[str, list[Row]] = {}
    for row in rows:
        if row.get("cpus"):
            series.setdefault(re.sub(r"\d+(-\d+)?", "#", row["name"], count=1), []).append(row)
    found = []
    for sizes in series.values():
        over = {
            (row["name"], region): _excess(row, sizes, region)
            for row in sizes
            for region in regions
        }
        for row in sizes:
            fair = any(0 < over[row["name"], region] < 1.1 for region in regions)
            for region in (r for r in regions if fair and over[row["name"], r] > 1.4):
                row[region] = UNKNOWN
                found.append((row["name"], region))
    return found


def _excess(row: Row, sizes: Iterable[Row], region: str) -> float:
    """Return how many times the lowest price of a vCPU among *sizes* a vCPU of *row* costs; 0 if it has no price."""
    prices = [_each(r, region) for r in sizes if r.get(region, UNKNOWN) not in ("", UNKNOWN)]
    return 0 if row.get(region, UNKNOWN) in ("", UNKNOWN) else _each(row, region) / min(prices)


def _each(row: Row, region: str) -> float:
    """Return the price of a vCPU; a size such as E16-4ads_v5 costs as much as the one with all 16 vCPUs."""
    whole = re.search(r"(\d+)-\d+", row["name"])
    return float(row[region]) / int(whole[1] if whole else row["cpus"])


def present(target: Target) -> Made:
    """Return what the data file in the package has; nothing if it is not there."""
    file = ROOT / target.file
    if not file.exists():
        return Made("", "", "", [], {}, target.regions)
    data = json.loads(file.read_text())
    head, *lines = data["table"]
    rows = [dict(zip(head.split(","), line.split(","), strict=True)) for line in lines]
    version, prices, machines = data["version"], data["prices_from"], data["machines_from"]
    regions = tuple(head.split(",")[len(COLUMNS) :])
    return Made(version, prices, machines, rows, data["offered"], regions)


def render(target: Target, made: Made) -> str:
    """Return the text of a data file. Raises ValueError if the package could not read it."""
    columns = [*COLUMNS, *(made.regions or target.regions)]
    table = [",".join(columns), *(",".join(row.get(c, "") for c in columns) for row in made.rows)]
    read(made.version, table)
    data = {
        "about": f"{target.title}. `tools/catalogue` makes this file.",
        "version": made.version,
        "prices_from": made.prices_from,
        "machines_from": made.machines_from,
        # The families and machines that a region offers; of a region that is not here, its prices say it.
        "offered": made.offered,
        "table": table,
    }
    return service_tables.print_json(data)


def options() -> argparse.ArgumentParser:
    found = argparse.ArgumentParser(prog="tools/catalogue", description=__doc__)
    found.add_argument("kind", choices=sorted({**TARGETS, **service_tables.FILES}))
    found.add_argument("--regions", help="more regions than the table has, with , between them")
    found.add_argument("--types", help="the answer of aws ec2 describe-instance-types")
    found.add_argument("--skus", help="the answer of az vm list-skus")
    found.add_argument(
        "--prices", help="a saved price list, a vms.csv of SkyPilot, or region,name,usd"
    )
    found.add_argument("--version", help="the day of the prices; the default is today")
    found.add_argument("--prices-from", help="where the file of --prices is from")
    found.add_argument("--output", help="write another file instead of the one in the package")
    return found


def main(arguments: list[str]) -> int:
    asked = options().parse_args(arguments)
    version = asked.version or datetime.now(UTC).date().isoformat()
    if asked.kind in service_tables.FILES:
        return services(asked, version)
    target = TARGETS[asked.kind]
    there = present(target)
    regions = tuple(dict.fromkeys((*there.regions, *more(asked))))
    added, machines_from = machines(asked, there, version)
    rows = merged(there.rows, added, prices_of(asked.kind, asked.prices, regions), regions)
    if asked.kind == "ec2":
        for row in rows:
            row.setdefault("family", row["name"].partition(".")[0])
    for name, region in doubted(rows, regions):
        print(f"{name}: its price in {region} contradicts those of its series, and is left out")
    prices_from = asked.prices_from or f"{target.prices}, {version}"
    offered = ec2_offered(rows) if asked.kind == "ec2" else {}
    made = Made(version, prices_from, machines_from, rows, offered, regions)
    file = Path(asked.output) if asked.output else ROOT / target.file
    file.write_text(render(target, made))
    print(f"{file}: {len(rows)} machines, version {version}")
    return 0


def more(asked: argparse.Namespace) -> tuple[str, ...]:
    """Return the regions that the command line names."""
    return tuple(asked.regions.split(",")) if asked.regions else ()


def services(asked: argparse.Namespace, day: str) -> int:
    """Make a table of services anew: their prices in the regions that the command line names, or the table has."""
    there = ROOT / service_tables.FILES[asked.kind]
    if asked.prices:
        found = service_tables.saved_prices(asked.kind, Path(asked.prices))
    else:
        rows = read_services(json.loads(there.read_text())["table"])
        regions = dict.fromkeys((*more(asked), *(row.region for row in rows)))
        named = [region for region in regions if region != "global"]
        found = service_tables.fetched_prices(asked.kind, named, fetched)
    output = Path(asked.output) if asked.output else there
    print(f"{output}: {service_tables.make(found, day, there, output)} prices")
    return 0


def machines(asked: argparse.Namespace, there: Made, version: str) -> tuple[list[Row], str]:
    """Return the rows of machines whose specifications are read anew, and where all specifications are from."""
    if asked.kind == "ec2":
        source = f"DescribeInstanceTypes, {version}" if asked.types else moto_source()
        return list(ec2_types(asked.types)), source + EARLIER
    if asked.skus is None:
        return [], there.machines_from
    found = [azure_row(sku) for sku in json.loads(Path(asked.skus).read_text())]
    return (
        found,
        f"the SKU list of Microsoft.Compute, {version}; for the others: {there.machines_from}",
    )
