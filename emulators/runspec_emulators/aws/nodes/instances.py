"""What EC2 instance types have, so that jobs are placed on machines, and one that fits none stays RUNNABLE."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple


class Size(NamedTuple):
    """The resources that an instance has, or that a job requests."""

    vcpus: float
    memory_mib: float
    gpus: int = 0

    def holds(self, wanted: Size) -> bool:
        return (
            wanted.vcpus <= self.vcpus
            and wanted.memory_mib <= self.memory_mib
            and wanted.gpus <= self.gpus
        )

    def less(self, taken: Iterable[Size]) -> Size:
        """Return what is left of an instance beside the jobs that have *taken* their share."""
        vcpus, memory_mib, gpus = self
        for size in taken:
            vcpus, memory_mib, gpus = (
                vcpus - size.vcpus,
                memory_mib - size.memory_mib,
                gpus - size.gpus,
            )
        return Size(vcpus, memory_mib, gpus)


# CreateComputeEnvironment, computeResources.instanceTypes
CHOSEN_BY_BATCH = {
    "optimal": ("m6i", "c6i", "r6i", "c7i"),
    "default_x86_64": ("m6i", "c6i", "r6i", "c7i"),
    "default_arm64": ("m6g", "c6g", "r6g", "c7g"),
}


@cache
def known() -> Mapping[str, Size]:
    """Return the nominal sizes by type: answers of EC2's DescribeInstanceTypes, which moto keeps in a file."""
    spec = find_spec("moto")
    if spec is None or spec.origin is None:
        return {}
    path = Path(spec.origin).parent / "ec2" / "resources" / "instance_types.json.gz"
    with gzip.open(path) as file:
        return {name: _size(answer) for name, answer in json.load(file).items()}


def _size(answer: Mapping[str, Mapping[str, object]]) -> Size:
    gpus = answer.get("GpuInfo", {}).get("Gpus", ())
    assert isinstance(gpus, list | tuple)
    return Size(
        float(str(answer["VCpuInfo"]["DefaultVCpus"])),
        float(str(answer["MemoryInfo"]["SizeInMiB"])),
        sum(int(gpu["Count"]) for gpu in gpus),
    )


@cache
def types(named: str) -> tuple[str, ...]:
    """Return the types that a type, a family or a choice of Batch stands for; an unknown one is itself."""
    families = CHOSEN_BY_BATCH.get(named, (named,))
    names = tuple(name for name in known() if name.partition(".")[0] in families)
    return names or (named,)


def holding(wanted: Size, named: Iterable[str], memory_share: float) -> list[tuple[str, Size]]:
    """Return the types among *named* that hold a job, the smallest first, with what jobs can use of each.

    One whose size is unknown is taken for as large as the job. The kernel and the container agent keep some of an
    instance's memory: "8 GiB [...] does not always translate to exactly 8192 MiB of memory available for jobs".
    https://docs.aws.amazon.com/batch/latest/userguide/memory-management.html
    """
    sizes = {}
    for name in (name for one in named for name in types(one)):
        size = known().get(name)
        usable = size._replace(memory_mib=size.memory_mib * memory_share) if size else wanted
        if usable.holds(wanted):
            sizes[name] = usable
    return sorted(sizes.items(), key=lambda one: (one[1], one[0]))


# EC2 instances: the machines of a compute environment, and the jobs that share them.


@dataclass(eq=False)
class Instance:
    """A machine. It exists only while jobs run on it, as if all environments had `minvCpus: 0`."""

    type: str
    size: Size
    """What jobs can use of it."""
    single_tenant: bool = False
    """Whether it is a node of a multi-node job, beside which nothing runs."""
    address: str = ""
    id: str = ""
    arn: str = ""
    jobs: dict[str, Size] = field(default_factory=dict)
    """What each job on it has taken, by job id."""

    def has_room(self, wanted: Size) -> bool:
        return not self.single_tenant and self.size.less(self.jobs.values()).holds(wanted)


def exceeds(resources: Mapping[str, Any]) -> bool:
    """Return whether an environment may have one instance that leads beyond maxvCpus.

    "With any allocation strategy except BEST_FIT using On-Demand (EC2) compute resources, AWS Batch might need to
    exceed maxvCpus [...]. In this event, AWS Batch never exceeds maxvCpus by more than a single instance."
    ComputeResource, maxvCpus. With BEST_FIT, a job for a machine with more vCPUs than maxvCpus stays RUNNABLE for
    ever: github.com/aws/aws-parallelcluster/pull/929. BEST_FIT is what is used if nothing is said.
    """
    strategy = resources.get("allocationStrategy", "BEST_FIT")
    return bool(strategy != "BEST_FIT" or resources["type"] == "SPOT")
