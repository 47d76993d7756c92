"""Reads prices of a region from Azure's public list of retail prices, which needs no login.

https://learn.microsoft.com/rest/api/cost-management/retail-prices/azure-retail-prices
"""

from __future__ import annotations

import http.client
import json
import urllib.parse
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from urllib3.exceptions import HTTPError

from runspec_agent.base.light_typing import NamedTuple
from runspec_azure.session.transport import new_session
from runspec_jobs.provider import RemoteError, UsageError
from runspec_jobs.provider.machines import ListedPrices

LIST = "https://prices.azure.com/api/retail/prices"
ANSWER_S = 60.0
BLOCK_BYTES = 1 << 16
MOST_BYTES, MOST_PAGES = 16 << 20, 200  # a page has 1,000 prices, and a region some 20,000
OTHERS = ("Spot", "Low Priority")
Get = Callable[[str], bytes]


class Meter(NamedTuple):
    """A meter of the retail prices: its name ends with *name*. An empty *sku* is any.

    *times* converts its unit to that of the table of services.
    """

    service: str
    product: str
    sku: str
    name: str
    unit: str
    times: float = 1


# That of a NAT gateway is in the region Global.
SERVICES = {
    "blob storage": Meter("Storage", "Blob Storage", "Hot LRS", "Data Stored", "1 GB/Month"),
    "blob writes": Meter("Storage", "Blob Storage", "Hot LRS", "Write Operations", "10K", 0.1),
    "blob reads": Meter("Storage", "Blob Storage", "Hot LRS", "Read Operations", "10K", 0.1),
    "nat gateway": Meter("NAT Gateway", "NAT Gateway", "", "Gateway", "1 Hour"),
    "nat data": Meter("NAT Gateway", "NAT Gateway", "", "Data Processed", "1 GB"),
    "public ipv4": Meter(
        "Virtual Network", "IP Addresses", "Standard", "Static Public IP", "1 Hour"
    ),
}


def metered(items: Iterable[Mapping[str, Any]]) -> Iterator[tuple[str, str, float]]:
    """Yield the item, the region and the price of what is sold besides machines: of the first GB or request."""
    for one in items:
        for item, meter in SERVICES.items():
            if (
                (one["serviceName"], one["productName"]) == (meter.service, meter.product)
                and meter.sku in ("", one["skuName"])
                and one["meterName"].endswith(meter.name)
                and one["unitOfMeasure"] == meter.unit
                and one["type"] == "Consumption"
                and not one["tierMinimumUnits"]
                and one["retailPrice"] > 0
            ):
                yield (
                    item,
                    one["armRegionName"].lower() or "global",
                    one["retailPrice"] * meter.times,
                )


def get(address: str) -> bytes:
    """Return the answer of *address*."""
    with new_session() as session, session.get(address, timeout=ANSWER_S, stream=True) as answer:
        answer.raise_for_status()
        blocks, count = list[bytes](), 0
        for block in answer.iter_content(BLOCK_BYTES):
            blocks.append(block)
            count += len(block)
            if count > MOST_BYTES:
                raise ValueError(f"a page has more than {MOST_BYTES} bytes")
        return b"".join(blocks)


def read(region: str | None, fetch: Get = get) -> ListedPrices:
    """Return the prices of *region*, where *fetch* gets a page. Raises RemoteError if they cannot be read."""
    if region is None:
        raise UsageError(
            "the region of the Batch account is not known", "set batch_url in the profile"
        )
    try:
        query = f"serviceName eq 'Virtual Machines' and armRegionName eq '{region}'"
        items = list(_items(query, fetch))
        spot = _prices(items, spot=True)
        return ListedPrices(
            _prices(items, spot=False), spot, LIST, services=_services(region, fetch)
        )
    except (
        OSError,
        http.client.HTTPException,
        HTTPError,  # of urllib3, such as an unknown host: requests passes it on if it may not retry
    ) as exc:  # errors of the requests library are OSErrors
        raise RemoteError(f"{LIST} cannot be read: {exc}", "try again later") from exc
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as exc:
        message = f"the answer of {LIST} cannot be read: {type(exc).__name__}: {exc}"
        raise RemoteError(message) from exc


def _services(region: str, fetch: Get) -> dict[str, float]:
    """Return the prices of what is sold besides machines, by item; the highest of several."""
    prices: dict[str, float] = {}
    for product in dict.fromkeys(meter.product for meter in SERVICES.values()):
        everywhere = product == SERVICES["nat gateway"].product
        query = f"productName eq '{product}'"
        items = _items(query if everywhere else f"{query} and armRegionName eq '{region}'", fetch)
        for item, where, usd in metered(items):
            if where in (region, "global"):
                prices[item] = max(usd, prices.get(item, 0.0))
    return prices


def _items(query: str, fetch: Get) -> Iterator[Mapping[str, Any]]:
    return (item for page in _pages(query, fetch) for item in page["Items"])


def _pages(query: str, fetch: Get) -> Iterator[Mapping[str, Any]]:
    wanted = f"{query} and priceType eq 'Consumption'"
    address = f"{LIST}?{urllib.parse.urlencode({'$filter': wanted, 'currencyCode': 'USD'})}"
    for _ in range(MOST_PAGES):
        page = json.loads(fetch(address))
        yield page
        address = page.get("NextPageLink") or ""
        if not address:
            return
        parts = urllib.parse.urlsplit(address)
        if (parts.scheme, parts.hostname) != ("https", urllib.parse.urlsplit(LIST).hostname):
            raise ValueError(f"the next page is at another host: {parts.hostname}")
    raise ValueError(f"it has more than {MOST_PAGES} pages")


def _prices(items: Iterable[Mapping[str, Any]], *, spot: bool) -> dict[str, float]:
    """Return the price of an hour with Linux by size: of spot machines, or on demand."""
    prices: dict[str, float] = {}
    for item in items:
        sku, product = item["skuName"], item["productName"]
        kind = sku.endswith(" Spot") if spot else not any(word in sku for word in OTHERS)
        if (
            kind
            and item["type"] == "Consumption"
            and item["unitOfMeasure"] == "1 Hour"
            and item["currencyCode"] == "USD"
            and item["armSkuName"].startswith("Standard_")
            and "Windows" not in product
            and "Cloud Services" not in product
            and item["retailPrice"] > 0
        ):
            name = item["armSkuName"]
            prices[name] = max(float(item["retailPrice"]), prices.get(name, 0.0))
    return prices
