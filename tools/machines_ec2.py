"""Reads the public lists of EC2: instance types, where they are offered, and what they cost.

https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_DescribeInstanceTypes.html
https://docs.aws.amazon.com/awsaccountbilling/latest/aboutv2/reading-service-price-list-file-for-services.html
"""

from __future__ import annotations

import csv
import gzip
import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from machine_cells import Row, number

MOTO = "lib/python3.*/site-packages/moto/ec2/resources"
VENV = Path(__file__).resolve().parent.parent / ".venv"
GPU_NAMES = {"RTX PRO 4500": "RTX-PRO-4500", "RTX PRO Server 6000": "RTX-PRO-6000"}
ACCELERATORS = ("InferenceAcceleratorInfo", "NeuronInfo", "FpgaInfo", "MediaAcceleratorInfo")


def ec2_row(found: Mapping[str, Any]) -> Row:
    """Return the row of one element of `InstanceTypes`, which DescribeInstanceTypes lists."""
    chips = found.get("GpuInfo", {}).get("Gpus") or found.get("NeuronInfo", {}).get("NeuronDevices")
    gpu = (chips or [{}])[0]
    count = gpu.get("LogicalGpuCount") or gpu.get("Count", 0)
    cards = found["NetworkInfo"].get("NetworkCards", [])
    disk = found.get("InstanceStorageInfo", {}).get("TotalSizeInGB", 0) * 10**9 // 2**30
    name = found["InstanceType"]
    return {
        "name": name,
        "family": name.partition(".")[0],
        "architecture": _ec2_architecture(found["ProcessorInfo"]["SupportedArchitectures"]),
        "cpus": str(found["VCpuInfo"]["DefaultVCpus"]),
        "memory_gib": number(found["MemoryInfo"]["SizeInMiB"] / 1024),
        "gpus": number(count * gpu.get("GpuPartitionSize", 1.0)),
        "gpu": GPU_NAMES.get(gpu.get("Name", ""), gpu.get("Name", "")),
        "gpu_gib": number(gpu["MemoryInfo"]["SizeInMiB"] / 1024, 1) if gpu else "",
        "disk_gib": str(disk),
        "network_gbps": number(sum(c.get("BaselineBandwidthInGbps", 0) for c in cards) or None),
        "fabric": str(found["NetworkInfo"].get("EfaInfo", {}).get("MaximumEfaInterfaces", 0)),
        "traits": " ".join(_ec2_traits(found)),
    }


def _ec2_architecture(supported: Iterable[str]) -> str:
    there = set(supported)
    return next((a for a in ("x86_64", "arm64") if a in there), min(there))


def _ec2_traits(found: Mapping[str, Any]) -> Iterator[str]:
    name, uses = found["InstanceType"], found["SupportedUsageClasses"]
    if found["BurstablePerformanceSupported"] or "-flex" in name:
        yield "burstable"
    if found["BareMetal"]:
        yield "metal"
    # Amazon Linux 2023, which is the default of AWS Batch, does not run on A1.
    if found.get("Hypervisor") == "xen" or name.startswith("a1."):
        yield "old"
    if any(key in found for key in ACCELERATORS):
        yield "accelerator"
    if "spot" not in uses:
        yield "no-spot"
    if "on-demand" not in uses:
        yield "no-on-demand"


def ec2_types(named: str | None) -> Iterator[Row]:
    """Yield a row for each type in the file *named*, or else in moto's record of DescribeInstanceTypes."""
    if named:
        found = json.loads(Path(named).read_text())["InstanceTypes"]
    else:
        (file,) = VENV.glob(f"{MOTO}/instance_types.json.gz")
        found = json.loads(gzip.decompress(file.read_bytes())).values()
    yield from map(ec2_row, found)


def moto_source() -> str:
    """Return what the specifications are from if no file is given."""
    (file,) = VENV.glob("lib/python3.*/site-packages/moto-*.dist-info")
    version = file.name.removeprefix("moto-").removesuffix(".dist-info")
    return f"DescribeInstanceTypes and DescribeInstanceTypeOfferings as recorded in moto {version} (Apache-2.0)"


def ec2_offered(rows: Iterable[Row]) -> dict[str, str]:
    """Return the families and types that each region offers, as moto has recorded DescribeInstanceTypeOfferings.

    A family whose types are all offered stands for them.
    """
    families: dict[str, set[str]] = {}
    for row in rows:
        families.setdefault(row["family"], set()).add(row["name"])
    found = {}
    for file in VENV.glob(f"{MOTO}/instance_type_offerings/region/*.json.gz"):
        there = {one["InstanceType"] for one in json.loads(gzip.decompress(file.read_bytes()))}
        whole = {family for family, names in families.items() if names <= there}
        single = {name for name in there if name.partition(".")[0] not in whole}
        found[file.name.partition(".")[0]] = " ".join(sorted(whole | single))
    return dict(sorted(found.items()))


WANTED = {
    "TermType": "OnDemand",
    "Operating System": "Linux",
    "Tenancy": "Shared",
    "CapacityStatus": "Used",
    "Pre Installed S/W": "NA",
    "operation": "RunInstances",
    "Unit": "Hrs",
    "Currency": "USD",
}


def ec2_prices(lines: Iterable[str], region: str) -> dict[str, str]:
    """Return the prices of a region from its price list in CSV, whose first five lines describe it."""
    wanted = {**WANTED, "Region Code": region}
    found: dict[str, str] = {}
    for row in csv.DictReader(after_preface(lines)):
        fits = all(row.get(key) == value for key, value in wanted.items())
        if fits and float(row["PricePerUnit"]) > 0:  # entries of blocks of capacity cost 0
            found[row["Instance Type"]] = number(float(row["PricePerUnit"]), 6)
    return found


def after_preface(lines: Iterable[str]) -> Iterator[str]:
    """Yield the lines of a price list after those that describe it."""
    begun = False
    for line in lines:
        begun = begun or line.startswith('"SKU"')
        if begun:
            yield line
