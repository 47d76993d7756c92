"""EC2 instance types for the queues of a cluster; the options `instance_types` and `queues` replace the choice."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

from runspec_ec2 import ec2_catalogue
from runspec_jobs.provider.machines import ChosenMachine, Machine, MachineRequest, choose_machines

MIB = 1 << 20
X86_64, ARM64 = "x86_64", "arm64"
# The drivers in AMIs since 3.16 support GPUs of NVIDIA from Turing on: `InstanceTypeBaseAMICompatibleValidator` in
# https://github.com/aws/aws-parallelcluster/blob/v3.16.1/cli/src/pcluster/validators/cluster_validators.py
NO_DRIVER = frozenset({"K520", "K80", "M60", "V100", "V520"})


def usable_mib(machine: Machine) -> int:
    """Return the memory that jobs can use, in MiB: ParallelCluster gives Slurm 95 % of it.

    https://docs.aws.amazon.com/parallelcluster/latest/ug/slurm-mem-based-scheduling-v3.html
    """
    return int((machine.memory_gib or 0) * 1024) * 95 // 100


def usable_gib(machine: Machine) -> float:
    return usable_mib(machine) / 1024


def known(name: str) -> Machine | None:
    """Return the instance type called *name*, or None if the catalogue does not have it."""
    return ec2_catalogue().named(name)


def find_architecture(name: str) -> str:
    """Return the architecture of the instance type called *name*; x86_64 if it is unknown."""
    machine = known(name)
    return (machine and machine.architecture) or X86_64


@lru_cache(maxsize=256)
def chosen(
    request: MachineRequest, own_ami: bool = False, several: bool = True
) -> tuple[ChosenMachine, ...]:
    """Return the instance types of a queue for *request*, the cheapest first; the first alone without *several*.

    All types of a queue must have the same number of vCPUs and GPUs. None has less memory than the first, so that
    two queues whose first types are of one size hold the same jobs. Without *own_ami*, types for which
    ParallelCluster's AMIs have no driver are chosen only if their GPU is named.

    https://docs.aws.amazon.com/parallelcluster/latest/ug/slurm-multiple-instance-allocation-v3.html

    >>> [one.machine.name for one in chosen(MachineRequest(2, 2.9))][:3]
    ['c6a.large', 'c5a.large', 'c6i.large']
    >>> [one.machine.name for one in chosen(MachineRequest(gpus=1))]
    ['g4dn.xlarge']
    """
    runs = runs_on(request, own_ami)
    first = choose_machines(request, ec2_catalogue(), usable_gib, runs)[:1]
    if not (first and several):
        return first
    return choose_machines(
        request,
        ec2_catalogue(),
        usable_gib,
        lambda machine: runs(machine) and is_alike(machine, first[0].machine),
    )


def runs_on(request: MachineRequest, own_ami: bool) -> Callable[[Machine], bool]:
    """Return the function that says whether the AMI of the machines has a driver for one."""
    return lambda machine: own_ami or bool(request.gpu_type) or machine.gpu not in NO_DRIVER


def is_alike(machine: Machine, first: Machine) -> bool:
    """Return whether *machine* may be in the queue of *first*, and stand in for it."""
    same = (machine.cpus, machine.gpus, machine.gpu) == (first.cpus, first.gpus, first.gpu)
    return same and (machine.memory_gib or 0) >= (first.memory_gib or 0)


def size(machine: Machine) -> str:
    """Return the size of an instance type in words: two types of one size hold the same jobs.

    >>> size(ec2_catalogue().named("c6a.large")), size(ec2_catalogue().named("g5.xlarge"))
    ('2 vCPUs, 4 GiB, x86_64', '4 vCPUs, 16 GiB, 1 A10G, x86_64')
    """
    gpus = f", {machine.gpus:g} {machine.gpu}" if machine.gpus else ""
    return f"{machine.cpus} vCPUs, {machine.memory_gib:g} GiB{gpus}, {machine.architecture}"


def gpu_types(architecture: str = X86_64) -> tuple[str, ...]:
    """Return the models of whole GPUs on machines of *architecture*; ParallelCluster counts no other chips for Slurm.

    https://docs.aws.amazon.com/parallelcluster/latest/ug/Scheduling-v3.html
    """
    machines = (m for m in ec2_catalogue().machines if "accelerator" not in m.traits)
    gpus = {m.gpu for m in machines if (m.gpus or 0) >= 1 and m.architecture == architecture}
    return tuple(sorted(filter(None, gpus)))
