"""Reads the public lists of Azure: VM sizes, and what they cost.

https://learn.microsoft.com/rest/api/compute/resource-skus/list
https://learn.microsoft.com/rest/api/cost-management/retail-prices/azure-retail-prices
"""

from __future__ import annotations

import json
import re
import urllib.parse
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import IO, Any

from machine_cells import Prices, Row, number

LIST = "https://prices.azure.com/api/retail/prices"

# What of a name tells the GPU, the memory of one in GiB, and its number where names with the same ending differ.
# https://learn.microsoft.com/azure/virtual-machines/sizes/overview#gpu-accelerated
AZURE_GPUS: tuple[tuple[str, str, float], ...] = (
    (r"_T4_v3$", "T4", 16),
    (r"^NV\d+adm?s_A10_v5$", "A10", 24),
    (r"^NC\d+ads_A10_v4$", "A10", 24),
    (r"^NC\d+\w*_A100_v4$", "A100", 80),
    (r"^ND96amsr?_A100_v4$", "A100", 80),
    (r"^ND96asr(_A100)?_v4$", "A100", 40),
    (r"^NCC?\d+\w*_H100_v5$", "H100", 94),
    (r"^ND96\w*_H100_v5$", "H100", 80),
    (r"_H200_v5$", "H200", 141),
    (r"_MI300X_v5$", "MI300X", 192),
    (r"_V710_v5$", "V710", 24),
    (r"_V620(_v1)?$", "V620", 32),
    (r"_RTXPRO6000BSE_v6$", "RTX-PRO-6000", 96),
    (r"_GB200_v6$", "GB200", 192),
    (r"^NC\d+r?s_v3$", "V100", 16),
    (r"^ND40r?s_v[23]$", "V100", 32),
    (r"^NC\d+r?s_v2$", "P100", 16),
    (r"^ND\d+r?s$", "P40", 24),
    (r"^NC\d+r?(_Promo)?$", "K80", 12),
    (r"^NV\d+(s_v[23])?(_Promo)?$", "M60", 8),
    (r"^NV\d+as_v4$", "MI25", 16),
)
# https://learn.microsoft.com/azure/virtual-machines/sizes/gpu-accelerated/nvadsa10v5-series
A10_PARTS = {6: 1 / 6, 12: 1 / 3, 18: 1 / 2, 36: 1, 72: 2}
# The SKU list counts GPUs of some series in another way than the pages about them, or not at all.
UNCOUNTED = re.compile(r"_A10_v4$|_V710_v5$|_V620|_RTXPRO6000BSE|^NV\d+as_v4$|^NP")
# https://learn.microsoft.com/azure/virtual-machines/sizes/retirement/retired-sizes-list (2026-11-23)
RETIRING = re.compile(
    r"^(A\d+m?_v2|B\d+\w*?s|DS?\d+(-\d+)?i?(_v2)?(_Promo)?|F\d+s?|F\d+s_v2|GS?\d(-\d+)?|M192i\w*_v2"
    r"|L\d+s(_v2)?|NV\d+s_v3|NV\d+as_v4|NC\d+r?s_v3|NC\d+r?_Promo|NV\d+_Promo|HB120\w*_v2|HB120-\d+rs_v2|HC44\S*|HB60\S*"
    r"|DC\d+s(_v2)?|A\d+)$"
)


def azure_features(name: str) -> dict[str, str]:
    """Return what the name of a VM size says about it.

    https://learn.microsoft.com/azure/virtual-machines/vm-naming-conventions

    >>> azure_features("Standard_ND96isr_H200_v5")["fabric"], azure_features("Standard_D2pds_v6")["architecture"]
    ('1', 'arm64')
    """
    short = name.removeprefix("Standard_")
    parts = re.match(r"([A-Z]+)(\d+)(?:-(\d+))?([a-z]*)", short)
    if parts is None:
        return {}
    series, letters = parts[1], parts[4]
    found = {"fabric": "1" if "r" in letters else "0"}
    if "p" in letters:
        found["architecture"] = "arm64"
    if parts[3]:
        found["cpus"] = parts[3]
    if re.match(r"A[89]$|A1[01]$", short):
        del found["fabric"]
    traits = []
    if series == "B":
        traits += ["burstable", "no-spot"]
    if short.endswith("_Promo"):
        traits.append("no-spot")
    if series in ("DC", "EC", "NCC"):
        traits.append("confidential")
    if RETIRING.match(short):
        traits.append("old")
    gpu = next(((kind, size) for ends, kind, size in AZURE_GPUS if re.search(ends, short)), None)
    if "s" not in letters:
        traits.append("no-premium")
    if gpu:
        found |= {"gpu": gpu[0], "gpu_gib": number(gpu[1])}
    if series == "NP":
        traits.append("accelerator")
    return found | {"traits": " ".join(dict.fromkeys(traits))}


def azure_gpus(name: str, counted: float | None) -> str:
    """Return the number of GPUs of a VM size, which the SKU list counts, as a cell."""
    short = name.removeprefix("Standard_")
    if re.search(r"^NV\d+adm?s_A10_v5$", short):
        return number(A10_PARTS.get(int(re.sub(r"\D.*", "", short[2:])), counted), 4)
    return "" if UNCOUNTED.search(short) else number(counted)


def azure_row(sku: Mapping[str, Any]) -> Row:
    """Return the row of one element of the SKU list of Microsoft.Compute."""
    can = {one["name"]: one["value"] for one in sku["capabilities"]}
    name = sku["name"]
    nvme = int(can.get("NvmeDiskSizeInMiB", 0)) // 1024  # of one disk
    found = azure_features(name)
    traits = found.pop("traits", "").split()
    if can.get("LowPriorityCapable") == "False" and "no-spot" not in traits:
        traits.append("no-spot")
    return {
        "name": name,
        "family": sku["family"],
        "architecture": {"x64": "x86_64", "Arm64": "arm64"}.get(can["CpuArchitectureType"], ""),
        "memory_gib": number(float(can["MemoryGB"])),
        "disk_gib": str(int(can.get("MaxResourceVolumeMB", 0)) // 1024 or nvme),
        "cpus": can.get("vCPUsAvailable") or can["vCPUs"],
        **found,
        "gpus": azure_gpus(name, float(can.get("GPUs", 0))),
        "fabric": "1" if can.get("RdmaEnabled") == "True" else "0",
        "traits": " ".join(traits),
    }


def azure_prices(pages: Iterable[Mapping[str, Any]]) -> Prices:
    """Return the prices in *pages* of retail prices: those of Linux on demand."""
    found: Prices = {}
    for item in (item for page in pages for item in page["Items"]):
        other = any(word in item["skuName"] for word in ("Spot", "Low Priority"))
        if (
            item["type"] == "Consumption"
            and item["unitOfMeasure"] == "1 Hour"
            and item["serviceName"] == "Virtual Machines"
            and item["armSkuName"].startswith("Standard_")
            and not other
            and "Windows" not in item["productName"]
            and "Cloud Services" not in item["productName"]
            and item["retailPrice"] > 0
        ):
            there = found.setdefault(item["armRegionName"], {})
            there[item["armSkuName"]] = number(item["retailPrice"], 6)
    return found


def azure_pages(region: str, fetched: Callable[[str], IO[bytes]]) -> Iterator[Any]:
    """Yield the pages of the retail prices of VMs in *region*."""
    yield from pages(f"serviceName eq 'Virtual Machines' and armRegionName eq '{region}'", fetched)


def pages(wanted: str, fetched: Callable[[str], IO[bytes]]) -> Iterator[Any]:
    """Yield the pages of the retail prices that the filter *wanted* chooses, without those of reservations."""
    query = urllib.parse.urlencode(
        {"$filter": f"{wanted} and priceType eq 'Consumption'", "currencyCode": "USD"}
    )
    address = f"{LIST}?{query}"
    while address:
        with fetched(address) as answer:
            page = json.load(answer)
        yield page
        address = page.get("NextPageLink") or ""
