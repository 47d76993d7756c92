"""Why no machine of a catalogue holds a request."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator

from runspec_agent.base.light_typing import NamedTuple
from runspec_jobs.machines.choice import (
    GPU_MULTIPLE,
    MachineRequest,
    get_nominal_memory,
    is_enough_gpu_memory,
    list_holding,
)
from runspec_jobs.machines.machine import Catalogue, Machine

REGIONS = 4  # the most that a hint names
# Chips of catalogues that need another stack in a container than GPUs of NVIDIA, as job files of others name them.
# https://awsdocs-neuron.readthedocs-hosted.com/, https://rocm.docs.amd.com/, https://docs.habana.ai/
STACKS = {
    **dict.fromkeys(("trainium", "trainium2", "trn1", "trn2", "inferentia", "inferentia2", "inf1", "inf2"), "Neuron"),
    **dict.fromkeys(("mi100", "mi200", "mi210", "mi250", "mi250x", "mi300a", "mi300x", "mi325x", "mi355x"), "ROCm"),
    **dict.fromkeys(("gaudi", "gaudi2", "gaudi3", "hl-205"), "Gaudi"),
    **dict.fromkeys(("tpu", "tpu-v4", "tpu-v5e", "tpu-v5p", "tpu-v6e"), "TPUs"),
}  # fmt: skip
# Machines whose chips have another name.
CHIPS_OF = {
    "trn1": "Trainium",
    "trn2": "Trainium2",
    "inf1": "Inferentia",
    "inf2": "Inferentia2",
    "hl-205": "Gaudi",
}


class Shortfall(NamedTuple):
    """Why no machine fits: the *key* of `cluster` that none satisfies, or "" if each one is satisfied by some machine.

    *machine* is one that has too many GPUs, which a setting may name; None if there is none. *hint* says what to ask
    for instead.
    """

    key: str
    what: str
    hint: str
    machine: Machine | None = None


def get_stack(kind: str | None) -> str | None:
    """Return the name of the stack that chips of the type *kind* need; None if they may be GPUs of NVIDIA.

    >>> get_stack("MI300X"), get_stack("A100")
    ('ROCm', None)
    """
    return STACKS.get((kind or "").lower())


def explain_other_chip(kind: str, given: Iterable[str]) -> tuple[str, str] | None:
    """Return why no job gets chips of the type *kind*, and a hint that names the *given* types.

    None is returned if the chips may be GPUs of NVIDIA.

    >>> explain_other_chip("A100", ["T4"])
    """
    stack, there = get_stack(kind), tuple(given)
    if stack is None:
        return None
    if (chip := CHIPS_OF.get(kind.lower())) in there:
        return f"'{kind}' is no type of chips", f"write gpu_type: {chip}"
    message = f"'{kind}' needs devices and drivers of {stack}, which no machine here has"
    return (
        message,
        f"choose one of {', '.join(there)}, or a cluster of your own whose nodes have such chips",
    )


def explain_shortfall(
    request: MachineRequest,
    catalogue: Catalogue,
    usable_gib: Callable[[Machine], float] = get_nominal_memory,
    kind: str = "instance type",
) -> Shortfall:
    """Return why no machine is chosen for *request*; *kind* is what the provider calls a type of machine."""
    if many := list(list_holding(request, catalogue, usable_gib)):
        least = min(many, key=lambda m: (m.gpus or 0, m.cpus or 0, m.name))
        message = f"{request.gpus or 1}, but the smallest machine with such GPUs, {least.name}, has {least.gpus:g}"
        enough = math.ceil((least.gpus or 0) / GPU_MULTIPLE)
        return Shortfall("gpus", message, f"set gpus: {enough} or more, choose another GPU", least)
    # The request is possible, though not in this region.
    elsewhere = list(list_holding(request._replace(region=None), catalogue, usable_gib))
    if request.region and elsewhere:
        message = f"no {kind} that is large enough is offered in {request.region}"
        return Shortfall("", message, other_regions(elsewhere, catalogue, request.region))
    for key, asked, most, unit in _list_limits(request, catalogue, usable_gib):
        if asked > most:
            message = f"{asked:,.0f}{unit}, but the largest machine has {most:,.0f}"
            return Shortfall(key, message, "ask for less for each node")
    return Shortfall("", f"no {kind} meets all requirements of a node together", "ask for less")


def other_regions(machines: Iterable[Machine], catalogue: Catalogue, near: str) -> str:
    """Return a hint that names regions in which one of *machines* is offered, first those of the part of *near*."""
    counts = Counter(
        region
        for machine in machines
        for region in dict.fromkeys((*catalogue.offered, *catalogue.regions))
        if catalogue.sold_in(machine, region)
    )
    part = near.partition("-")[0]
    names = sorted(counts, key=lambda name: (name.partition("-")[0] != part, -counts[name]))
    if not names:
        return "choose another region or GPU"
    more = f" and {len(names) - REGIONS} more" if len(names) > REGIONS else ""
    return f"choose another GPU, or one of the regions {', '.join(names[:REGIONS])}{more}"


def _list_limits(
    request: MachineRequest, catalogue: Catalogue, usable_gib: Callable[[Machine], float]
) -> Iterator[tuple[str, float, float, str]]:
    """Yield the keys of `cluster`, with what is requested, the most that a machine has, and the unit of both."""
    # Machines with GPUs or other chips are no choice for a job without, so their sizes would mislead.
    kind = (request.gpu_type or "").lower()
    alike = [
        m
        for m in catalogue.machines
        if bool(m.gpus) == bool(request.gpus)
        and m.cpus
        and ("accelerator" not in m.traits or (m.gpu or "").lower() == kind)
    ]
    yield "gpus", request.gpus, max(m.gpus or 0 for m in alike), ""
    gib = max(m.gpu_gib or 0 for m in _of_gpu_type(alike, request.gpu_type))
    if not is_enough_gpu_memory(gib, request.gpu_gib):
        yield "gpu_memory", request.gpu_gib, gib, " GiB"
    yield "cpus", request.cpus, max(m.cpus or 0 for m in alike), ""
    # In MiB, because a service takes some of the memory: 64 GiB would not fit into "64 GiB".
    mib = round(request.memory_gib * 1024)
    yield "memory", mib, max(int(usable_gib(m) * 1024) for m in alike), " MiB"
    yield "disk", request.disk_gib, max(m.disk_gib or 0 for m in alike), " GiB"


def _of_gpu_type(machines: list[Machine], kind: str | None) -> list[Machine]:
    """Return those of *machines* whose GPUs are of the type *kind*; all if none are."""
    named = [m for m in machines if kind and (m.gpu or "").lower() == kind.lower()]
    return named or machines
