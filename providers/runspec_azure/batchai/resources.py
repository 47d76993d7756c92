"""The VM sizes that Batch AI had, the smallest first."""

from __future__ import annotations

from typing import NamedTuple

from runspec_jobs.provider import Spec

GiB = 1 << 30


class Size(NamedTuple):
    """A VM size: *disk_gib* is the size of its temporary disk, *family* the name of its family in usages."""

    name: str
    cpus: int
    memory_gib: float
    gpus: int
    gpu_type: str
    disk_gib: int
    family: str


# As of 2018, from the pages about the sizes of that time (Dv2, Dv3, NC, NCv2, NCv3, ND):
# https://learn.microsoft.com/azure/virtual-machines/sizes-previous-gen and
# https://learn.microsoft.com/azure/virtual-machines/sizes-gpu. Families are as in usages:
# https://github.com/Azure/azure-rest-api-specs/tree/main/specification/batchai (examples, ListUsages)
SIZES = (
    Size("STANDARD_D1_V2", 1, 3.5, 0, "", 50, "Standard Dv2 Family"),
    Size("STANDARD_D2_V2", 2, 7, 0, "", 100, "Standard Dv2 Family"),
    Size("STANDARD_D11_V2", 2, 14, 0, "", 100, "Standard Dv2 Family"),
    Size("STANDARD_D3_V2", 4, 14, 0, "", 200, "Standard Dv2 Family"),
    Size("STANDARD_D12_V2", 4, 28, 0, "", 200, "Standard Dv2 Family"),
    Size("STANDARD_D4_V2", 8, 28, 0, "", 400, "Standard Dv2 Family"),
    Size("STANDARD_D13_V2", 8, 56, 0, "", 400, "Standard Dv2 Family"),
    Size("STANDARD_D5_V2", 16, 56, 0, "", 800, "Standard Dv2 Family"),
    Size("STANDARD_D14_V2", 16, 112, 0, "", 800, "Standard Dv2 Family"),
    Size("STANDARD_D15_V2", 20, 140, 0, "", 1000, "Standard Dv2 Family"),
    Size("STANDARD_D32_V3", 32, 128, 0, "", 800, "Standard Dv3 Family"),
    Size("STANDARD_D64_V3", 64, 256, 0, "", 1600, "Standard Dv3 Family"),
    Size("STANDARD_NC6", 6, 56, 1, "K80", 340, "Standard NC Family"),
    Size("STANDARD_NC12", 12, 112, 2, "K80", 680, "Standard NC Family"),
    Size("STANDARD_NC24", 24, 224, 4, "K80", 1440, "Standard NC Family"),
    Size("STANDARD_NC6S_V2", 6, 112, 1, "P100", 736, "Standard NCv2 Family"),
    Size("STANDARD_NC12S_V2", 12, 224, 2, "P100", 1474, "Standard NCv2 Family"),
    Size("STANDARD_NC24S_V2", 24, 448, 4, "P100", 2948, "Standard NCv2 Family"),
    Size("STANDARD_ND6S", 6, 112, 1, "P40", 736, "Standard ND Family"),
    Size("STANDARD_ND12S", 12, 224, 2, "P40", 1474, "Standard ND Family"),
    Size("STANDARD_ND24S", 24, 448, 4, "P40", 2948, "Standard ND Family"),
    Size("STANDARD_NC6S_V3", 6, 112, 1, "V100", 736, "Standard NCv3 Family"),
    Size("STANDARD_NC12S_V3", 12, 224, 2, "V100", 1474, "Standard NCv3 Family"),
    Size("STANDARD_NC24S_V3", 24, 448, 4, "V100", 2948, "Standard NCv3 Family"),
)
KNOWN = {size.name: size for size in SIZES}
GPU_TYPES = tuple(dict.fromkeys(size.gpu_type for size in SIZES if size.gpu_type))


def fits(spec: Spec) -> Size | None:
    """Return the smallest size that is large enough for a node of *spec*, or None."""
    return next((size for size in SIZES if not lacking(spec, size)), None)


def lacking(spec: Spec, size: Size) -> str:
    """Return the first key of `cluster` for which *size* is too small, or an empty string."""
    cluster = spec.cluster
    if (cluster.gpus or 0) > size.gpus or (size.gpus and not cluster.gpus):
        return "gpus"
    if cluster.gpu_type and cluster.gpu_type.upper() != size.gpu_type:
        return "gpu_type"
    if (cluster.cpus or 0) > size.cpus:
        return "cpus"
    if (cluster.memory or 0) > size.memory_gib * GiB:
        return "memory"
    return "disk" if (cluster.disk or 0) > size.disk_gib * GiB else ""
