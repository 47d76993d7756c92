"""The resources of common instance types, so that a job that fits none of them stays RUNNABLE."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

GIB = 1024  # MiB


class Size(NamedTuple):
    """The resources that an instance has, or that a job requests."""

    vcpus: float
    memory_mib: float
    gpus: int = 0

    def holds(self, wanted: Size, memory_share: float) -> bool:
        """Return whether a job fits.

        The kernel and the container agent keep some of an instance's memory: "8 GiB [...] does not
        always translate to exactly 8192 MiB of memory available for jobs".
        https://docs.aws.amazon.com/batch/latest/userguide/memory-management.html
        """
        return (
            wanted.vcpus <= self.vcpus
            and wanted.memory_mib <= self.memory_mib * memory_share
            and wanted.gpus <= self.gpus
        )


def ladder(gib_per_vcpu: float, sizes: str) -> dict[str, Size]:
    """Return the sizes of a family whose memory grows with its vCPUs."""
    vcpus = {"large": 2, "xlarge": 4}
    counts = {
        size: vcpus.get(size) or 4 * int(size.removesuffix("xlarge")) for size in sizes.split()
    }
    return {size: Size(n, n * gib_per_vcpu * GIB) for size, n in counts.items()}


# https://aws.amazon.com/ec2/instance-types/
FIFTH = "large xlarge 2xlarge 4xlarge 8xlarge 12xlarge 16xlarge 24xlarge"
SIXTH = FIFTH + " 32xlarge"
FAMILIES: dict[str, dict[str, Size]] = {
    "c5": {
        **ladder(2, "large xlarge 2xlarge 4xlarge 12xlarge 24xlarge"),
        "9xlarge": Size(36, 72 * GIB),
        "18xlarge": Size(72, 144 * GIB),
    },
    "m5": ladder(4, FIFTH),
    "r5": ladder(8, FIFTH),
    "c6i": ladder(2, SIXTH),
    "m6i": ladder(4, SIXTH),
    "r6i": ladder(8, SIXTH),
    "c6g": ladder(2, "large xlarge 2xlarge 4xlarge 8xlarge 12xlarge 16xlarge"),
    "m6g": ladder(4, "large xlarge 2xlarge 4xlarge 8xlarge 12xlarge 16xlarge"),
    "r6g": ladder(8, "large xlarge 2xlarge 4xlarge 8xlarge 12xlarge 16xlarge"),
    "c7g": ladder(2, "large xlarge 2xlarge 4xlarge 8xlarge 12xlarge 16xlarge"),
    "c7i": ladder(2, "large xlarge 2xlarge 4xlarge 8xlarge 12xlarge 16xlarge 24xlarge 48xlarge"),
    "m7i": ladder(4, "large xlarge 2xlarge 4xlarge 8xlarge 12xlarge 16xlarge 24xlarge 48xlarge"),
    "t3": {"medium": Size(2, 4 * GIB), "large": Size(2, 8 * GIB), "xlarge": Size(4, 16 * GIB)},
    "p3": {
        "2xlarge": Size(8, 61 * GIB, 1),
        "8xlarge": Size(32, 244 * GIB, 4),
        "16xlarge": Size(64, 488 * GIB, 8),
    },
    "p4d": {"24xlarge": Size(96, 1152 * GIB, 8)},
    "p5": {"48xlarge": Size(192, 2048 * GIB, 8)},
    "g4dn": {
        "xlarge": Size(4, 16 * GIB, 1),
        "2xlarge": Size(8, 32 * GIB, 1),
        "4xlarge": Size(16, 64 * GIB, 1),
        "8xlarge": Size(32, 128 * GIB, 1),
        "12xlarge": Size(48, 192 * GIB, 4),
        "16xlarge": Size(64, 256 * GIB, 1),
    },
    "g5": {
        "xlarge": Size(4, 16 * GIB, 1),
        "2xlarge": Size(8, 32 * GIB, 1),
        "4xlarge": Size(16, 64 * GIB, 1),
        "8xlarge": Size(32, 128 * GIB, 1),
        "12xlarge": Size(48, 192 * GIB, 4),
        "16xlarge": Size(64, 256 * GIB, 1),
        "24xlarge": Size(96, 384 * GIB, 4),
        "48xlarge": Size(192, 768 * GIB, 8),
    },
}

# CreateComputeEnvironment, computeResources.instanceTypes
CHOSEN_BY_BATCH = {
    "optimal": ("m6i", "c6i", "r6i", "c7i"),
    "default_x86_64": ("m6i", "c6i", "r6i", "c7i"),
    "default_arm64": ("m6g", "c6g", "r6g", "c7g"),
}


def sizes(instance_type: str) -> list[Size] | None:
    """Return the sizes that a type, a family or a choice of Batch stands for; None when unknown."""
    if instance_type in CHOSEN_BY_BATCH:
        return [s for family in CHOSEN_BY_BATCH[instance_type] for s in FAMILIES[family].values()]
    family, _, size = instance_type.partition(".")
    if family not in FAMILIES or (size and size not in FAMILIES[family]):
        return None
    return [FAMILIES[family][size]] if size else list(FAMILIES[family].values())


def fits(wanted: Size, instance_types: Iterable[str], memory_share: float) -> bool:
    """Return whether any of the types can hold a job. Types that are not in the table hold all."""
    for name in instance_types:
        known = sizes(name)
        if known is None or any(size.holds(wanted, memory_share) for size in known):
            return True
    return False
