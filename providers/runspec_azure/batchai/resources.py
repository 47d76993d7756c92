"""The VM sizes of Batch AI, from the catalogue of Azure's machines, and the choice of one for a node."""

from __future__ import annotations

from functools import cache, lru_cache

from runspec_azure.resources.vm_sizes import catalogue
from runspec_jobs.provider import (
    Catalogue,
    ChosenMachine,
    Machine,
    MachineRequest,
    Spec,
    choose_machines,
    chosen_machine,
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
    found = tuple(
        m._replace(
            name=m.name.upper(), family=FAMILIES[m.family], traits=m.traits - {"old", "no-premium"}
        )
        for m in catalogue().machines
        if m.family in FAMILIES and None not in (m.cpus, m.memory_gib, m.gpus)
    )
    return catalogue()._replace(machines=found)


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


def request(spec: Spec) -> MachineRequest:
    """Return what a node of *spec* requests of its machine. No node shares a machine with another."""
    cluster = spec.cluster
    return MachineRequest(
        cpus=cluster.cpus or 1,
        memory_gib=(cluster.memory or 0) / GiB,
        gpus=cluster.gpus or 0,
        gpu_type=cluster.gpu_type,
        disk_gib=(cluster.disk or 0) / GiB,
    )


@lru_cache(maxsize=256)
def _chosen(wanted: MachineRequest) -> Machine | None:
    there = sizes() if wanted.gpus or wanted.gpu_type else priced_sizes()
    found = choose_machines(wanted, there)
    return found[0].machine if found else None


def has_gpus(spec: Spec) -> bool:
    """Return whether a node of *spec* requests GPUs."""
    return bool(spec.cluster.gpus or spec.cluster.gpu_type)


def fits(spec: Spec) -> Machine | None:
    """Return the size for a node of *spec*, or None: the cheapest one, or the smallest one with GPUs.

    Most sizes with GPUs are not sold any more, so that their prices are unknown. The few that are still sold were not
    the cheapest because of that.
    """
    return _chosen(request(spec))


def priced(name: str, region: str | None, why: str) -> ChosenMachine | None:
    """Return the size called *name* with its price in *region*, or None if Batch AI did not have it."""
    machine = priced_sizes().named(name)
    if machine is None:
        return None
    return chosen_machine(machine, priced_sizes(), region, why)


def lacking(spec: Spec, size: Machine) -> str:
    """Return the first key of `cluster` for which *size* is too small, or an empty string."""
    cluster, gpus = spec.cluster, size.gpus or 0
    if (cluster.gpus or 0) > gpus or (gpus and not cluster.gpus):
        return "gpus"
    if cluster.gpu_type and cluster.gpu_type.upper() != size.gpu:
        return "gpu_type"
    if (cluster.cpus or 0) > (size.cpus or 0):
        return "cpus"
    if (cluster.memory or 0) > (size.memory_gib or 0) * GiB:
        return "memory"
    known_gib = size.disk_gib is not None
    return "disk" if known_gib and (cluster.disk or 0) > (size.disk_gib or 0) * GiB else ""
