"""The VM sizes of Batch AI, the choice of one for a node, and the quotas of a subscription."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache, lru_cache
from typing import Any

from runspec_azure.resources.vm_sizes import catalogue
from runspec_jobs.provider import RemoteError
from runspec_jobs.provider.machines import (
    Catalogue,
    ChosenMachine,
    Machine,
    MachineRequest,
    choose_machines,
    chosen_machine,
    is_enough_gpu_memory,
)

GiB = 1 << 30
# The series for which Batch AI had quotas, and Dv3, with their names in the catalogue and in usages. D is left out,
# because Dv2 replaced it. "Batch AI service supports all Azure VM sizes except STANDARD_A0 and those with premium
# storage (STANDARD_GS, STANDARD_DS, and STANDARD_DSV2 series)": `vmSize` in the description of the API. Quotas are in
# its example ListUsages: https://github.com/Azure/azure-rest-api-specs/tree/main/specification/batchai
FAMILIES = {
    "standardDv2Family": "Standard Dv2 Family",
    "standardDv3Family": "Standard Dv3 Family",
    "standardNCFamily": "Standard NC Family",
    "standardNCSv2Family": "Standard NCv2 Family",
    "standardNCSv3Family": "Standard NCv3 Family",
    "standardNDSFamily": "Standard ND Family",
    "standardNVFamily": "Standard NV Family",
}
CHEAPEST = "the cheapest that is large enough"
SMALLEST = "the smallest that is large enough"  # with GPUs


@cache
def priced_sizes() -> Catalogue:
    """Return the VM sizes that Batch AI had, with today's prices of virtual machines where they are still sold.

    Names and families are as Batch AI wrote them. No size is of an old series here, since all of them are.
    """
    priced = tuple(
        m._replace(
            name=m.name.upper(), family=FAMILIES[m.family], traits=m.traits - {"old", "no-premium"}
        )
        for m in catalogue().machines
        if m.family in FAMILIES and None not in (m.cpus, m.memory_gib, m.gpus)
    )
    return catalogue()._replace(machines=priced)


@cache
def sizes() -> Catalogue:
    """Return the VM sizes that Batch AI had, without prices."""
    there = priced_sizes()
    return there._replace(machines=tuple(m._replace(prices=()) for m in there.machines))


def known(name: str | None) -> Machine | None:
    """Return the size called *name*, in upper or lower case, or None if Batch AI did not have it."""
    return sizes().named(name or "")


def gpu_types() -> tuple[str, ...]:
    return tuple(dict.fromkeys(m.gpu for m in sizes().machines if m.gpu))


def has_gpus(request: MachineRequest) -> bool:
    return bool(request.gpus or request.gpu_type)


@lru_cache(maxsize=256)
def choose(request: MachineRequest) -> Machine | None:
    """Return the size for *request*, or None: the cheapest one, or the smallest one with GPUs.

    Most sizes with GPUs are not sold any more, so that their prices are unknown. The few that are still sold were not
    the cheapest because of that.
    """
    choices = choose_machines(request, sizes() if has_gpus(request) else priced_sizes())
    return choices[0].machine if choices else None


def priced(name: str, region: str | None, why: str) -> ChosenMachine | None:
    """Return the size called *name* with its price in *region*, or None if Batch AI did not have it."""
    machine = priced_sizes().named(name)
    if machine is None:
        return None
    return chosen_machine(machine, priced_sizes(), region, why)


def lacking(request: MachineRequest, size: Machine) -> str:
    """Return the first key of `cluster` for which *size* is too small, or an empty string."""
    gpus = size.gpus or 0
    if request.gpus > gpus or (gpus and not request.gpus):
        return "gpus"
    if request.gpu_type and request.gpu_type.upper() != size.gpu:
        return "gpu_type"
    if not is_enough_gpu_memory(size.gpu_gib or 0, request.gpu_gib):
        return "gpu_memory"
    if request.cpus > (size.cpus or 0):
        return "cpus"
    if request.memory_gib > (size.memory_gib or 0):
        return "memory"
    return "disk" if size.disk_gib is not None and request.disk_gib > size.disk_gib else ""


# Check whether a cluster is within the quotas of the subscription, before anything is made.


QUOTA_HINT = "use fewer nodes or a smaller machine, or request a quota increase"
CLUSTER_QUOTA = "Clusters"
QUOTA_KINDS = ("Dedicated", "LowPriority")  # the names of the two quotas in the list of usages


def whole_quota(kind: str) -> str:
    """Return the name of the usage of all vCPUs of a region."""
    return f"Total Cluster {kind} Regional vCPUs"


def find_family_quota(family: str, kind: str) -> str:
    return f"{family} Cluster {kind} vCPUs"


def lacking_quota(
    properties: Mapping[str, Any], usages: Mapping[str, Sequence[int]]
) -> Iterator[str]:
    """Yield a message for each quota that a cluster with *properties* would exceed.

    *usages* has the current value and the limit by the name of the usage. If the VM size is unknown, its vCPUs
    are not checked.
    """
    wanted = {CLUSTER_QUOTA: 1}
    if size := known(str(properties["vmSize"])):
        scale = properties["scaleSettings"]
        fixed = scale.get("manual", {}).get("targetNodeCount")
        nodes = fixed if fixed is not None else scale["autoScale"]["maximumNodeCount"]
        kind = QUOTA_KINDS[properties.get("vmPriority") == "lowpriority"]
        vcpus = nodes * (size.cpus or 0)
        wanted |= {whole_quota(kind): vcpus, find_family_quota(size.family, kind): vcpus}
    for name, count in wanted.items():
        used, limit = usages.get(name, (0, count))
        if used + count > limit:
            are = "is" if count == 1 else "are"
            yield f"{name}: {count} more {are} needed, and {used} of {limit} are in use"


def check_quota(body: Mapping[str, Any], usages: Mapping[str, Sequence[int]]) -> None:
    """Raise RemoteError if the cluster of *body* would exceed a quota."""
    for what in lacking_quota(body["properties"], usages):
        raise RemoteError(what, QUOTA_HINT)
