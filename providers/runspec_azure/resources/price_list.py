"""Reads the prices of virtual machines from Azure's public list of retail prices, which needs no login.

https://learn.microsoft.com/rest/api/cost-management/retail-prices/azure-retail-prices
"""

from __future__ import annotations

import http.client
import json
import urllib.parse
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from runspec_azure.session.transport import new_session
from runspec_jobs.provider import ListedPrices, RemoteError, UsageError

LIST = "https://prices.azure.com/api/retail/prices"
ANSWER_S = 60.0
BLOCK_BYTES = 1 << 16
MOST_BYTES, MOST_PAGES = 16 << 20, 200  # a page has 1,000 prices, and a region some 20,000
OTHERS = ("Spot", "Low Priority")
Get = Callable[[str], bytes]


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
        items = [item for page in _pages(region, fetch) for item in page["Items"]]
        return ListedPrices(_prices(items, spot=False), _prices(items, spot=True), LIST)
    except (OSError, http.client.HTTPException) as exc:  # those of requests are OSErrors
        raise RemoteError(f"{LIST} cannot be read: {exc}", "try again later") from exc
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as exc:
        what = f"the answer of {LIST} cannot be read: {type(exc).__name__}: {exc}"
        raise RemoteError(what) from exc


def _pages(region: str, fetch: Get) -> Iterator[Mapping[str, Any]]:
    wanted = f"serviceName eq 'Virtual Machines' and armRegionName eq '{region}' and priceType eq 'Consumption'"
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
    found: dict[str, float] = {}
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
            found[name] = max(float(item["retailPrice"]), found.get(name, 0.0))
    return found
