"""Prices of storage, requests and gateways have a day and a source, and an unknown one is None."""

from __future__ import annotations

import json
import re
from datetime import date
from urllib.parse import urlsplit

import pytest

from runspec_azure.resources.vm_sizes import azure_price
from runspec_ec2 import aws_price
from runspec_jobs.machines.service import ServicePrice, read_services, service_price
from tests.support.root import ROOT

FILES = {
    "aws": "runspec_ec2/aws_services.json",
    "azure": "runspec_azure/resources/azure_services.json",
}
TABLES = {
    kind: json.loads((ROOT / "providers" / file).read_text())["table"]
    for kind, file in FILES.items()
}
UNITS = {"hour", "secret month", "vCPU hour", "GB hour", "GB", "GB month", "1,000 requests"}
ROWS = [pytest.param(one, id=f"{k} {one.item}") for k in TABLES for one in read_services(TABLES[k])]


@pytest.mark.parametrize("row", ROWS)
def test_each_price_has_a_unit_a_day_and_a_source(row: ServicePrice) -> None:
    address = urlsplit(row.source)

    assert row.unit in UNITS
    assert date(2024, 1, 1) <= date.fromisoformat(row.date)
    assert (address.scheme, bool(address.hostname), bool(address.path)) == ("https", True, True)
    assert re.fullmatch(r"[a-z]+(-[a-z]+-\d)?\d?", row.region)


@pytest.mark.parametrize("row", ROWS)
def test_a_price_is_positive_or_unknown(row: ServicePrice) -> None:
    assert row.usd is None or row.usd > 0


@pytest.mark.parametrize("kind", TABLES)
def test_a_table_has_each_price_once(kind: str) -> None:
    keys = [(one.item, one.region) for one in read_services(TABLES[kind])]

    assert len(keys) == len(set(keys))


def test_a_region_has_its_own_price_or_an_unknown_one_beside_that_of_another() -> None:
    own, other = aws_price("nat gateway", "eu-west-2"), aws_price("nat gateway", "ap-south-1")

    assert (own.usd, own.note) == (0.05, "price of eu-west-2, 2026-09-25")
    assert other.usd is None
    assert other.note == "elsewhere 0.045 USD in us-east-1, 2026-08-01"
    assert aws_price("nat gateway", None).usd is None
    assert azure_price("nat gateway", "eastus").note == "price of all regions, 2024-07-01"
    assert azure_price("nat gateway", None).usd == 0.045
    blob = azure_price("blob storage", "eastus")
    assert blob.note == "elsewhere 0.0208 USD in westus, 2024-07-01"


def test_an_unknown_price_is_none_and_an_unknown_item_an_error() -> None:
    unknown = aws_price("fargate spot vcpu", "us-east-1")

    assert (unknown.usd, unknown.usd_shown) == (None, "an unknown price for each vCPU hour")
    with pytest.raises(KeyError):
        service_price((), "nat gateway", None)


def test_a_line_without_a_source_is_no_price() -> None:
    with pytest.raises(ValueError, match="6"):
        read_services(["nat gateway|us-east-1|0.045|hour|2026-08-01"])
