"""A table of the VM sizes of Azure, and the choice of one for a node.

Read on 2026-11-21 from the pages of each series below
https://learn.microsoft.com/azure/virtual-machines/sizes/overview; retirement dates are from
https://learn.microsoft.com/azure/virtual-machines/sizes/retirement/retired-sizes-list and the page
on the retirement of each series; the names of families, which have quotas, are as in subscriptions.
The setting `vm_size` replaces the choice, and facts about the account take precedence over the table.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from difflib import SequenceMatcher
from typing import NamedTuple

READ = "2026-11-21"  # sizes that leave on or before that day are retired
GIB = 1 << 30


class Machine(NamedTuple):
    """A VM size. *disk_gib* is the size of its temporary disk, which has the working folders of tasks.

    *leaves* is the day on which its series is retired, as YYYY-MM-DD, if one is announced.
    """

    name: str
    cpus: int
    memory_gib: float
    disk_gib: int
    gpus: int
    gpu_type: str
    family: str
    leaves: str | None = None
    spot: bool = True

    @property
    def retired(self) -> bool:
        return self.leaves is not None and self.leaves <= READ

    @property
    def rdma(self) -> bool:
        """Whether it has InfiniBand, which an "r" among the features in its name shows.

        https://learn.microsoft.com/azure/virtual-machines/vm-naming-conventions
        """
        found = re.match(r"Standard_[A-Z]+\d+(?:-\d+)?([a-z]*)", self.name)
        return found is not None and "r" in found[1]

    @property
    def usable_gib(self) -> float:
        """Memory for a job; the system and the node agent of Azure Batch need the rest.

        Azure Batch documents no number; runspec reserves 5 % and at least 1 GiB for them.
        """
        return min(self.memory_gib - 1, self.memory_gib * 0.95)

    @property
    def rank(self) -> float:
        """The relative cost of a machine, for sorting: 1 is about the cost of 1 GiB of memory.

        A vCPU counts as 4; the numbers of GPUs are from list prices of eastus.
        """
        return self.cpus * 4 + self.memory_gib + self.gpus * GPU_RANK.get(self.gpu_type, 0)


GPU_RANK = {"T4": 30, "A10": 40, "V100": 200, "A100": 200, "H100": 600, "H200": 800}

# "= family, GPU, the day it leaves"; then name, vCPUs, GiB, GiB of temporary disk, GPUs. x86-64 only.
# If there are several NVMe disks, only one counts: https://learn.microsoft.com/azure/batch/batch-nvme-temporary
TABLE = """
= standardDDSv5Family - -
D2ds_v5 2 8 75 0
D4ds_v5 4 16 150 0
D8ds_v5 8 32 300 0
D16ds_v5 16 64 600 0
D32ds_v5 32 128 1200 0
D48ds_v5 48 192 1800 0
D64ds_v5 64 256 2400 0
D96ds_v5 96 384 3600 0
= StandardDdsv6Family - -
D2ds_v6 2 8 110 0
D4ds_v6 4 16 220 0
D8ds_v6 8 32 440 0
D16ds_v6 16 64 440 0
D32ds_v6 32 128 440 0
D48ds_v6 48 192 440 0
D64ds_v6 64 256 880 0
D96ds_v6 96 384 880 0
D128ds_v6 128 512 1760 0
= standardEDSv5Family - -
E2ds_v5 2 16 75 0
E4ds_v5 4 32 150 0
E8ds_v5 8 64 300 0
E16ds_v5 16 128 600 0
E20ds_v5 20 160 750 0
E32ds_v5 32 256 1200 0
E48ds_v5 48 384 1800 0
E64ds_v5 64 512 2400 0
E96ds_v5 96 672 3600 0
= StandardEdsv6Family - -
E2ds_v6 2 16 110 0
E4ds_v6 4 32 220 0
E8ds_v6 8 64 440 0
E16ds_v6 16 128 440 0
E20ds_v6 20 160 550 0
E32ds_v6 32 256 440 0
E48ds_v6 48 384 440 0
E64ds_v6 64 512 880 0
E96ds_v6 96 768 880 0
E128ds_v6 128 1024 1760 0
= StandardFasv6Family - -
F2as_v6 2 8 0 0
F4as_v6 4 16 0 0
F8as_v6 8 32 0 0
F16as_v6 16 64 0 0
F32as_v6 32 128 0 0
F48as_v6 48 192 0 0
F64as_v6 64 256 0 0
= standardFSv2Family - 2028-11-15
F2s_v2 2 4 16 0
F4s_v2 4 8 32 0
F8s_v2 8 16 64 0
F16s_v2 16 32 128 0
F32s_v2 32 64 256 0
F48s_v2 48 96 384 0
F64s_v2 64 128 512 0
F72s_v2 72 144 576 0
= standardHBv3Family - -
HB120rs_v3 120 448 480 0
HB120-96rs_v3 96 448 480 0
HB120-64rs_v3 64 448 480 0
HB120-32rs_v3 32 448 480 0
HB120-16rs_v3 16 448 480 0
= standardHBv4Family - -
HB176rs_v4 176 768 480 0
HB176-144rs_v4 144 768 480 0
HB176-96rs_v4 96 768 480 0
HB176-48rs_v4 48 768 480 0
HB176-24rs_v4 24 768 480 0
= standardHBrsv2Family - 2027-05-31
HB120rs_v2 120 456 480 0
= standardHCSFamily - 2027-05-31
HC44rs 44 352 700 0
= StandardNCASv3_T4Family T4 -
NC4as_T4_v3 4 28 176 1
NC8as_T4_v3 8 56 352 1
NC16as_T4_v3 16 110 352 1
NC64as_T4_v3 64 440 2816 4
= StandardNVADSA10v5Family A10 -
NV36ads_A10_v5 36 440 1440 1
NV36adms_A10_v5 36 880 2880 1
NV72ads_A10_v5 72 880 2880 2
= StandardNCADSA100v4Family A100 -
NC24ads_A100_v4 24 220 64 1
NC48ads_A100_v4 48 440 128 2
NC96ads_A100_v4 96 880 256 4
= StandardNDASv4_A100Family A100 -
ND96asr_v4 96 900 6000 8
= standardNDAMSv4_A100Family A100 -
ND96amsr_A100_v4 96 1900 6400 8
= StandardNCadsH100v5Family H100 -
NC40ads_H100_v5 40 320 3576 1
NC80adis_H100_v5 80 640 7152 2
= standardNDSH100v5Family H100 -
ND96isr_H100_v5 96 1900 1024 8
= standardNDISRH200V5Family H200 -
ND96isr_H200_v5 96 1850 1024 8
= standardNDSv2Family V100 -
ND40rs_v2 40 672 2948 8
= standardNCSv3Family V100 2025-09-30
NC6s_v3 6 112 736 1
NC12s_v3 12 224 1474 2
NC24s_v3 24 448 2948 4
NC24rs_v3 24 448 2948 4
= standardNCSv2Family P100 2023-09-06
NC6s_v2 6 112 736 1
NC12s_v2 12 224 1474 2
NC24s_v2 24 448 2948 4
NC24rs_v2 24 448 2948 4
= standardNDSFamily P40 2023-09-06
ND6s 6 112 736 1
ND12s 12 224 1474 2
ND24s 24 448 2948 4
ND24rs 24 448 2948 4
= standardNCFamily K80 2023-09-06
NC6 6 56 340 1
NC12 12 112 680 2
NC24 24 224 1440 4
NC24r 24 224 1440 4
= standardNVFamily M60 2023-09-06
NV6 6 56 340 1
NV12 12 112 680 2
NV24 24 224 1440 4
= standardDv2Family - 2028-05-01
D1_v2 1 3.5 50 0
D2_v2 2 7 100 0
D3_v2 4 14 200 0
D4_v2 8 28 400 0
D5_v2 16 56 800 0
D11_v2 2 14 100 0
D12_v2 4 28 200 0
D13_v2 8 56 400 0
D14_v2 16 112 800 0
= standardHFamily - 2022-08-31
H8 8 56 1000 0
H16 16 112 2000 0
H16r 16 112 2000 0
"""


def _read(text: str) -> Iterable[Machine]:
    family = kind = leaves = ""
    for line in text.strip().splitlines():
        if line.startswith("="):
            family, kind, leaves = line[1:].split()
            continue
        name, cpus, memory, disk, gpus = line.split()
        yield Machine(
            f"Standard_{name}",
            int(cpus),
            float(memory),
            int(disk),
            int(gpus),
            kind.strip("-"),
            family,
            None if leaves == "-" else leaves,
        )


MACHINES = tuple(_read(TABLE))
CURRENT = tuple(machine for machine in MACHINES if machine.leaves is None)
KNOWN = {machine.name.lower(): machine for machine in MACHINES}


def family_key(name: str) -> str:
    """Return the name of a family in a form that is equal for all services.

    >>> family_key("Standard NCASv3_T4 Family")
    'standardncasv3_t4family'
    """
    return name.lower().replace(" ", "")


def known(name: str) -> Machine | None:
    """Return the machine called *name*, ignoring case: `STANDARD_NC6` is `Standard_NC6`; None if it is unknown."""
    return KNOWN.get(name.lower())


def near(name: str) -> tuple[str, ...]:
    """Return the machines of the series that *name* begins with, the most similar names first.

    >>> near("STANDARD_ND96")[0], near("Standard_Z1")
    ('Standard_ND96asr_v4', ())
    """
    series = re.match(r"(?i)standard_([a-z]+)", name)
    if series is None:
        return ()
    kin = re.compile(rf"(?i)standard_{series[1]}\d")
    found = [machine.name for machine in CURRENT if kin.match(machine.name)]
    return tuple(
        sorted(found, key=lambda other: -SequenceMatcher(None, name.lower(), other.lower()).ratio())
    )


def gpu_types(machines: Iterable[Machine] = CURRENT) -> tuple[str, ...]:
    return tuple(sorted({machine.gpu_type for machine in machines if machine.gpus}))


def fitting(
    cpus: int,
    memory_gib: float,
    gpus: int,
    gpu_type: str | None,
    disk_gib: float = 0,
    machines: Iterable[Machine] = CURRENT,
) -> tuple[Machine, ...]:
    """Return the machines that are large enough for one node, the cheapest first.

    Machines with GPUs are left out if none are requested, and so are machines without a temporary disk, which
    holds the images, mounts and outputs of a task. Machines with InfiniBand come last, because they cost more
    than their cores suggest.

    >>> [machine.name for machine in fitting(2, 3, 0, None)][:3]
    ['Standard_D2ds_v5', 'Standard_D2ds_v6', 'Standard_E2ds_v5']
    >>> fitting(4, 16, 1, "a100")[0].name
    'Standard_NC24ads_A100_v4'
    """
    kind = gpu_type.lower() if gpu_type else None
    found = [
        machine
        for machine in machines
        if machine.cpus >= cpus
        and machine.usable_gib >= memory_gib
        and machine.disk_gib
        and machine.disk_gib >= disk_gib
        and (machine.gpus >= gpus if gpus else not machine.gpus)
        and (kind is None or machine.gpu_type.lower() == kind)
    ]
    return tuple(sorted(found, key=lambda m: (m.rdma, m.rank)))
