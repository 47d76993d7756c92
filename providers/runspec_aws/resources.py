"""The machines that a node may get: instance types, sizes of Fargate, and what the region offers."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache

from runspec_agent.base.light_typing import NamedTuple
from runspec_aws.options import AwsOptions
from runspec_ec2 import aws_price, ec2_catalogue
from runspec_jobs.provider import Facts, Problem
from runspec_jobs.provider.machines import (
    NOT_READ,
    ChosenMachine,
    ListedPrices,
    Machine,
    MachineRequest,
    ServicePrice,
    choose_machines,
)

# What a node of a job requests, and the EC2 instance types that hold it.
#
# `instance_types` of the profile replaces the choice.


MIB = 1 << 20
# GPUs for which the default AMIs of AWS Batch have no driver:
# https://docs.aws.amazon.com/batch/latest/APIReference/API_Ec2Configuration.html
NO_DRIVER = frozenset({"K520", "K80", "M60", "V100", "V520"})


class ChipAccess(NamedTuple):
    """How a container gets chips that are no GPUs: by the files of devices, or by a variable; and the AMI for it."""

    ami: str
    device: str = ""  # without the number of the chip
    variables: Mapping[str, str] = {}


# AWS Batch counts GPUs of NVIDIA alone, and has no AMI with other drivers:
# https://docs.aws.amazon.com/AmazonECS/latest/developerguide/ecs-inference.html,
# https://awsdocs-neuron.readthedocs-hosted.com/en/latest/containers/tutorials/build-run-neuron-container.html
NEURON = ChipAccess(
    "the ECS-optimized Neuron AMI, which aws ssm get-parameter --name "
    "/aws/service/ecs/optimized-ami/amazon-linux-2023/neuron/recommended/image_id names",
    "/dev/neuron",
)
# https://docs.aws.amazon.com/AmazonECS/latest/developerguide/ecs-dl1.html and
# https://docs.habana.ai/en/latest/Installation_Guide/Additional_Installation/Docker_Installation.html
HABANA = ChipAccess(
    "an AMI with the ECS agent and Gaudi's driver, whose Docker has the default runtime habana",
    variables={"HABANA_VISIBLE_DEVICES": "all"},
)
CHIPS: Mapping[str, ChipAccess] = {
    **dict.fromkeys(("inferentia", "inferentia2", "trainium", "trainium2"), NEURON),
    "gaudi": HABANA,
}


def get_chip_access(kind: str | None) -> ChipAccess | None:
    """Return how a container gets chips of the type *kind*; None if they are GPUs, which AWS Batch gives to it."""
    return CHIPS.get((kind or "").lower())


class NodeRequest(NamedTuple):
    """The resources of one node; *cpus* is text, because Fargate has quarters of vCPUs.

    *chips* says that *gpus* counts other chips, which AWS Batch does not know.
    """

    cpus: str
    memory_mib: int
    gpus: int
    chips: bool = False

    @property
    def whole_cpus(self) -> int:
        return math.ceil(float(self.cpus))

    @property
    def requirements(self) -> list[dict[str, str]]:
        """The same as Batch's resourceRequirements: values are text, and 0 GPUs are left out."""
        amounts = [("VCPU", self.cpus), ("MEMORY", str(self.memory_mib))]
        amounts += [("GPU", str(self.gpus))] if self.gpus and not self.chips else []
        return [{"type": kind, "value": value} for kind, value in amounts]

    @property
    def shown(self) -> str:
        """The same for a message.

        >>> NodeRequest("4", 7680, 1).shown
        '4 vCPUs, 7,680 MiB and 1 GPU'
        """
        unit = "chip" if self.chips else "GPU"
        gpus = f" and {self.gpus} {unit}{'s' * (self.gpus > 1)}" if self.gpus else ""
        vcpus = f"{self.cpus} vCPU{'s' * (self.cpus != '1')}"
        return f"{vcpus}{',' if gpus else ' and'} {self.memory_mib:,} MiB{gpus}"

    def count_on(self, machine: Machine) -> int:
        """Return how many such nodes *machine* holds."""
        counts = [(machine.cpus or 0) / float(self.cpus), usable_mib(machine) / self.memory_mib]
        counts += [(machine.gpus or 0) / self.gpus] if self.gpus else []
        return int(min(counts))

    def share_of(self, machine: Machine) -> float:
        """Return the fraction of *machine* that a node takes: of the resource of which it requests most.

        That resource limits how many nodes the machine holds.
        """
        if not machine.cpus:
            return 1.0
        parts = [
            float(self.cpus) / machine.cpus,
            self.memory_mib / max(1, usable_mib(machine)) if machine.memory_gib else 0.0,
            self.gpus / (machine.gpus or math.inf),
        ]
        return min(1.0, max(parts))

    def vcpus_of(self, machine: Machine, nodes: int, *, alone: bool) -> int:
        """Return the vCPUs of all machines like *machine* that *nodes* nodes take; 0 if it does not hold a node.

        With *alone*, each node has a machine of its own.
        """
        count = self.count_on(machine)
        if not count:
            return 0
        return math.ceil(nodes / (1 if alone else count)) * math.ceil(machine.cpus or 0)


def usable_mib(machine: Machine) -> int:
    """Return the memory that jobs can use, in MiB.

    The system and the ECS agent use some: a job that asks for all of it waits forever. 4 % and at least 512 MiB
    are reserved, more than https://docs.aws.amazon.com/batch/latest/userguide/memory-management.html asks for.
    """
    nominal = int((machine.memory_gib or 0) * 1024)
    return min(nominal - 512, int(nominal * 0.96))


def usable_gib(machine: Machine) -> float:
    return usable_mib(machine) / 1024


def known(name: str) -> Machine | None:
    """Return the instance type called *name*, or None if the catalogue does not have it."""
    return ec2_catalogue().named(name)


def find_machines(name: str) -> tuple[Machine, ...]:
    """Return the machines of a type, or of a family; none if they are unknown."""
    machine = known(name)
    return (machine,) if machine else of_family(name)


def of_family(family: str) -> tuple[Machine, ...]:
    """Return the instance types of a family, such as `c6i`, which environments accept in place of a type."""
    return tuple(m for m in ec2_catalogue().machines if m.family == family)


@lru_cache(maxsize=256)
def chosen(
    request: MachineRequest, own_ami: bool = False, offered: frozenset[str] | None = None
) -> tuple[ChosenMachine, ...]:
    """Return the instance types for *request*, the cheapest first; if *offered* is given, of these alone.

    Without *own_ami*, those for which the AMIs of AWS Batch have no driver are chosen only if the GPU is named.

    >>> [one.machine.name for one in chosen(MachineRequest(2, 2.9))][:3]
    ['c6a.large', 'c5a.large', 'c6i.large']
    >>> [one.machine.name for one in chosen(MachineRequest(gpus=1))]
    ['g4dn.xlarge', 'g4dn.2xlarge']
    """
    return choose_machines(request, ec2_catalogue(), usable_gib, runs_on(request, own_ami, offered))


def runs_on(
    request: MachineRequest, own_ami: bool, offered: frozenset[str] | None = None
) -> Callable[[Machine], bool]:
    """Return the function that says whether a machine is *offered*, and the AMI has a driver for it."""
    driven = own_ami or bool(request.gpu_type)
    return lambda machine: (
        (driven or machine.gpu not in NO_DRIVER) and (offered is None or machine.name in offered)
    )


def gpu_types() -> tuple[str, ...]:
    """Return the models of whole GPUs on x86-64 machines."""
    machines = ec2_catalogue().machines
    models = {
        m.gpu for m in machines if m.gpu and (m.gpus or 0) >= 1 and m.architecture == "x86_64"
    }
    return tuple(sorted(models))


# The sizes of tasks on Fargate, and what a task costs: vCPUs, memory, disk above 20 GB and a public address.
#
# https://aws.amazon.com/fargate/pricing/


# vCPUs and the allowed memory in MiB: lowest, highest, step.
# https://docs.aws.amazon.com/batch/latest/APIReference/API_ResourceRequirement.html
SIZES: tuple[tuple[float, int, int, int], ...] = (
    (0.25, 512, 2048, 512),
    (0.5, 1024, 4096, 1024),
    (1, 2048, 8192, 1024),
    (2, 4096, 16384, 1024),
    (4, 8192, 30720, 1024),
    (8, 16384, 61440, 4096),
    (16, 32768, 122880, 8192),
)
FARGATE_FREE_GB = 20  # of disk, for each task
FARGATE_LEAST_GB = 21  # that a task with a disk of its own requests: see `decision`


def choose_fargate_size(cpus: float, memory_mib: int) -> tuple[str, int] | None:
    """Return the smallest size that holds *cpus* and *memory_mib*, as vCPUs and MiB, or None."""
    for have, low, high, step in SIZES:
        if have >= cpus and high >= memory_mib:
            return f"{have:g}", max(low, low + -(-(memory_mib - low) // step) * step)
    return None


def price_fargate(
    cpus: float,
    memory_mib: int,
    disk_gb: int,
    options: AwsOptions,
    listed: ListedPrices = NOT_READ,
) -> tuple[float | None, ServicePrice]:
    """Return the price of an hour of a task in USD, or None if it is unknown, and the price of its vCPUs.

    Each part counts in proportion, by the second; a GB of memory is 1024 MiB.
    """
    amounts = {
        "fargate vcpu": cpus,
        "fargate memory": memory_mib / 1024,
        "fargate storage": disk_gb - FARGATE_FREE_GB,
        "public ipv4": 1 if options.public_ip else 0,
    }
    prices = {item: aws_price(item, options.region, listed) for item in amounts}
    parts = [
        None if price.usd is None else price.usd * amounts[item]
        for item, price in prices.items()
        if amounts[item]
    ]
    known = [part for part in parts if part is not None]
    return sum(known) if len(known) == len(parts) else None, prices["fargate vcpu"]


# Regions of which the catalogue does not say what EC2 offers there, and how a plan learns it.


OFFERED = "offered"  # the key of `Facts.survey`: names of the instance types that EC2 offers in the region
# How AWS Batch refuses an environment because of one instance type; it is not documented, and issues cite it:
# https://github.com/outerbounds/metaflow-tools/issues/70 and https://github.com/aws/amazon-genomics-cli/issues/209
ONE_OF = re.compile(r"nstance type can only be one of \[([^\]]*)\]")


def asks_region(options: AwsOptions) -> bool:
    """Return whether EC2 has to be asked what it offers: runspec chooses types, in a region that the table lacks."""
    is_given = options.queue or options.instance_types or options.fargate
    return (
        not is_given
        and options.region is not None
        and options.region not in ec2_catalogue().offered
    )


def with_offers(facts: Facts) -> Facts:
    """Return *facts* whose options have the instance types that discovery found in the region, if it found any."""
    offered = facts.survey.get(OFFERED)
    return facts if offered is None else facts._replace(options=facts.options.offering(offered))


def check_region(facts: Facts) -> Iterator[Problem]:
    """Yield a problem for a region of which nothing is known: one type that it lacks refuses the whole environment."""
    options: AwsOptions = facts.options
    if asks_region(options) and OFFERED not in facts.survey:
        message = f"runspec does not know which instance types {options.region} offers, and could not ask EC2"
        hint = (
            "log in with the right ec2:DescribeInstanceTypeOfferings, or set instance_types in the profile, "
            "such as [m7i.large, m7i.xlarge]"
        )
        yield Problem(("provider",), message, hint)


def suggest_types(refusal: str, asked: Iterable[str]) -> str | None:
    """Return the hint for a *refusal* of the instance types *asked*, some of which AWS Batch does not take.

    >>> suggest_types("Instance type can only be one of [m5, m5.large, c5]", ["c7i.large", "m5.large"])
    'set instance_types: [m5.large] in the profile: AWS Batch takes these of the types that were chosen'
    """
    listed = ONE_OF.search(refusal)
    if listed is None:
        return None
    taken = {name.strip() for name in listed[1].split(",")}
    both = [name for name in asked if name in taken or name.partition(".")[0] in taken]
    if not both:
        near = ", ".join(sorted(name for name in taken if "." in name)[:5] or sorted(taken)[:5])
        return (
            f"set instance_types in the profile to some that AWS Batch takes there, such as {near}"
        )
    names = ", ".join(both)
    return f"set instance_types: [{names}] in the profile: AWS Batch takes these of the types that were chosen"
