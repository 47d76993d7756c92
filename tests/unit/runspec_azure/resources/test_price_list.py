"""Prices of virtual machines are read from Azure's retail prices as their documentation describes them.

https://learn.microsoft.com/rest/api/cost-management/retail-prices/azure-retail-prices
"""

from __future__ import annotations

import http.client
import json
import urllib.error
import urllib.parse
from typing import Any

import pytest

from runspec_azure.resources import price_list
from runspec_jobs.provider import RemoteError, UsageError


def item(size: str, usd: float, **more: Any) -> dict[str, Any]:
    found = {
        "currencyCode": "USD",
        "retailPrice": usd,
        "unitPrice": usd,
        "armRegionName": "westeurope",
        "productName": "Virtual Machines DSv3 Series",
        "skuName": "D2s v3",
        "serviceName": "Virtual Machines",
        "unitOfMeasure": "1 Hour",
        "type": "Consumption",
        "armSkuName": size,
    }
    return {**found, **more}


class Service:
    """The pages of the list, by the address that each is asked for."""

    def __init__(
        self,
        *pages: list[dict[str, Any]],
        next_host: str = "prices.azure.com",
        others: dict[str, list[dict[str, Any]]] | None = None,
    ) -> None:
        self.pages, self.asked, self.host = pages, list[str](), next_host
        self.others = others or {}

    def get(self, address: str) -> bytes:
        of = urllib.parse.parse_qs(urllib.parse.urlsplit(address).query).get("$filter", [""])[0]
        if of.startswith("productName"):
            items = next((found for product, found in self.others.items() if product in of), [])
            return json.dumps({"Items": items}).encode()
        number = len(self.asked)
        self.asked.append(address)
        more = number + 1 < len(self.pages)
        link = f"https://{self.host}:443/api/retail/prices?$skip={number + 1}000" if more else None
        return json.dumps({"Items": self.pages[number], "NextPageLink": link}).encode()


def test_all_pages_are_read_for_linux_on_demand_and_spot() -> None:
    service = Service(
        [
            item("Standard_D2s_v3", 0.12),
            item("Standard_D2s_v3", 0.21, productName="Virtual Machines DSv3 Series Windows"),
            item("Standard_D2s_v3", 0.02, skuName="D2s v3 Spot"),
            item("Standard_D2s_v3", 0.01, skuName="D2s v3 Low Priority"),
        ],
        [
            item("Standard_E2", 0.2),
            item("Standard_E4", 600.0, type="Reservation"),
            item("Standard_E8", 0.0),
            item("Standard_F2", 3.0, unitOfMeasure="1 Month"),
            item("Basic_A1", 0.1),
        ],
    )

    found = price_list.read("westeurope", service.get)

    assert found.usd_hour == {"Standard_D2s_v3": 0.12, "Standard_E2": 0.2}
    assert found.spot_usd_hour == {"Standard_D2s_v3": 0.02}
    ((query, *_),) = (
        urllib.parse.parse_qs(urllib.parse.urlsplit(service.asked[0]).query)["$filter"],
    )
    assert "armRegionName eq 'westeurope'" in query and "serviceName eq 'Virtual Machines'" in query


def meter(name: str, usd: float, **more: Any) -> dict[str, Any]:
    of = price_list.SERVICES[name]
    found = {
        "serviceName": of.service,
        "productName": of.product,
        "skuName": of.sku,
        "meterName": f"Standard {of.name}",
        "unitOfMeasure": of.unit,
        "type": "Consumption",
        "tierMinimumUnits": 0.0,
        "retailPrice": usd,
        "armRegionName": "westeurope",
    }
    return {**found, **more}


def test_prices_of_storage_and_gateways_are_read() -> None:
    others = {
        "Blob Storage": [
            meter("blob storage", 0.019),
            meter("blob storage", 0.018, tierMinimumUnits=51200.0),
            meter("blob writes", 0.05),
        ],
        "NAT Gateway": [
            meter("nat gateway", 0.045, armRegionName="Global"),
            meter("nat gateway", 9.0, armRegionName="usgovvirginia"),
        ],
    }
    service = Service([], others=others)

    found = price_list.read("westeurope", service.get).services

    wanted = {"blob storage": 0.019, "blob writes": 0.005, "nat gateway": 0.045}
    assert found == pytest.approx(wanted)


def test_a_next_page_at_another_host_is_not_read() -> None:
    service = Service([item("Standard_D2s_v3", 0.12)], [], next_host="example.org")

    with pytest.raises(RemoteError, match="another host"):
        price_list.read("westeurope", service.get)

    assert len(service.asked) == 1


def test_a_list_without_an_end_is_an_error() -> None:
    with pytest.raises(RemoteError, match="more than 200 pages"):
        price_list.read("westeurope", Service(*[[] for _ in range(300)]).get)


@pytest.mark.parametrize("answer", [b"", b"[]", b"{}", b'{"Items": [1]}', b"[" * 100_000, b"\xff"])
def test_an_answer_that_cannot_be_read_is_an_error_in_words(answer: bytes) -> None:
    with pytest.raises(RemoteError, match="cannot be read"):
        price_list.read("westeurope", lambda _: answer)


@pytest.mark.parametrize(
    "error", [urllib.error.URLError("refused"), http.client.IncompleteRead(b"{"), TimeoutError()]
)
def test_a_service_that_does_not_answer_is_named(error: Exception) -> None:
    def refused(_: str) -> bytes:
        raise error

    with pytest.raises(RemoteError, match=r"prices\.azure\.com/api/retail/prices cannot be read"):
        price_list.read("westeurope", refused)


def test_without_a_region_nothing_is_asked() -> None:
    with pytest.raises(UsageError, match="region of the Batch account"):
        price_list.read(None)
