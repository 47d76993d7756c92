"""The types of EC2 machines, which several providers use and which are here because no provider imports another.

The table was read on 2026-11-21 from DescribeInstanceTypes as moto 5.2.5 records it; p3 is from
https://docs.aws.amazon.com/batch/latest/userguide/gpu-jobs.html.
"""

from __future__ import annotations

from typing import NamedTuple


class Ec2Type(NamedTuple):
    """A type of machine. *efa* is its number of Elastic Fabric Adapters."""

    name: str
    cpus: int
    memory_gib: int
    gpus: int
    gpu_type: str
    efa: int


# Name, vCPUs, memory in GiB, GPUs, type of the GPUs, EFAs; x86-64 machines only.
TABLE = """
c6i.large         2     4   0  -      0
c6i.xlarge        4     8   0  -      0
c6i.2xlarge       8    16   0  -      0
c6i.4xlarge      16    32   0  -      0
c6i.8xlarge      32    64   0  -      0
c6i.12xlarge     48    96   0  -      0
c6i.16xlarge     64   128   0  -      0
c6i.24xlarge     96   192   0  -      0
c6i.32xlarge    128   256   0  -      1
c7i.large         2     4   0  -      0
c7i.xlarge        4     8   0  -      0
c7i.2xlarge       8    16   0  -      0
c7i.4xlarge      16    32   0  -      0
c7i.8xlarge      32    64   0  -      0
c7i.12xlarge     48    96   0  -      0
c7i.16xlarge     64   128   0  -      0
c7i.24xlarge     96   192   0  -      0
c7i.48xlarge    192   384   0  -      1
m6i.large         2     8   0  -      0
m6i.xlarge        4    16   0  -      0
m6i.2xlarge       8    32   0  -      0
m6i.4xlarge      16    64   0  -      0
m6i.8xlarge      32   128   0  -      0
m6i.12xlarge     48   192   0  -      0
m6i.16xlarge     64   256   0  -      0
m6i.24xlarge     96   384   0  -      0
m6i.32xlarge    128   512   0  -      1
m7i.large         2     8   0  -      0
m7i.xlarge        4    16   0  -      0
m7i.2xlarge       8    32   0  -      0
m7i.4xlarge      16    64   0  -      0
m7i.8xlarge      32   128   0  -      0
m7i.12xlarge     48   192   0  -      0
m7i.16xlarge     64   256   0  -      0
m7i.24xlarge     96   384   0  -      0
m7i.48xlarge    192   768   0  -      1
r6i.large         2    16   0  -      0
r6i.xlarge        4    32   0  -      0
r6i.2xlarge       8    64   0  -      0
r6i.4xlarge      16   128   0  -      0
r6i.8xlarge      32   256   0  -      0
r6i.12xlarge     48   384   0  -      0
r6i.16xlarge     64   512   0  -      0
r6i.24xlarge     96   768   0  -      0
r6i.32xlarge    128  1024   0  -      1
r7i.large         2    16   0  -      0
r7i.xlarge        4    32   0  -      0
r7i.2xlarge       8    64   0  -      0
r7i.4xlarge      16   128   0  -      0
r7i.8xlarge      32   256   0  -      0
r7i.12xlarge     48   384   0  -      0
r7i.16xlarge     64   512   0  -      0
r7i.24xlarge     96   768   0  -      0
r7i.48xlarge    192  1536   0  -      1
g4dn.xlarge       4    16   1  T4     0
g4dn.2xlarge      8    32   1  T4     0
g4dn.4xlarge     16    64   1  T4     0
g4dn.8xlarge     32   128   1  T4     1
g4dn.12xlarge    48   192   4  T4     1
g4dn.16xlarge    64   256   1  T4     1
g5.xlarge         4    16   1  A10G   0
g5.2xlarge        8    32   1  A10G   0
g5.4xlarge       16    64   1  A10G   0
g5.8xlarge       32   128   1  A10G   1
g5.12xlarge      48   192   4  A10G   1
g5.16xlarge      64   256   1  A10G   1
g5.24xlarge      96   384   4  A10G   1
g5.48xlarge     192   768   8  A10G   1
g6.xlarge         4    16   1  L4     0
g6.2xlarge        8    32   1  L4     0
g6.4xlarge       16    64   1  L4     0
g6.8xlarge       32   128   1  L4     1
g6.12xlarge      48   192   4  L4     1
g6.16xlarge      64   256   1  L4     1
g6.24xlarge      96   384   4  L4     1
g6.48xlarge     192   768   8  L4     1
g6e.xlarge        4    32   1  L40S   0
g6e.2xlarge       8    64   1  L40S   0
g6e.4xlarge      16   128   1  L40S   0
g6e.8xlarge      32   256   1  L40S   1
g6e.12xlarge     48   384   4  L40S   1
g6e.16xlarge     64   512   1  L40S   1
g6e.24xlarge     96   768   4  L40S   2
g6e.48xlarge    192  1536   8  L40S   4
p3.2xlarge        8    61   1  V100   0
p3.8xlarge       32   244   4  V100   0
p3.16xlarge      64   488   8  V100   0
p3dn.24xlarge    96   768   8  V100   1
p4d.24xlarge     96  1152   8  A100   4
p4de.24xlarge    96  1152   8  A100   4
p5.4xlarge       16   256   1  H100   1
p5.48xlarge     192  2048   8  H100  32
"""


def _read(line: str) -> Ec2Type:
    name, cpus, memory, gpus, kind, efa = line.split()
    return Ec2Type(name, int(cpus), int(memory), int(gpus), kind.strip("-"), int(efa))


EC2_TYPES = tuple(_read(line) for line in TABLE.strip().splitlines())
