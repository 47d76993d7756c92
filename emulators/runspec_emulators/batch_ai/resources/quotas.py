"""Quotas: what of them is used, and refusals above them. Usages_List and its official example."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

from runspec_emulators.batch_ai.api.requests import Request
from runspec_emulators.batch_ai.api.responses import Response
from runspec_emulators.batch_ai.model import Cluster
from runspec_emulators.batch_ai.world import World
from runspec_emulators.frame.errors import ServiceError

SIZE = re.compile(
    r"standard_(?P<family>[a-z]+)(?P<number>\d+)(?P<more>[a-z]*)(?:_(?P<version>v\d+))?"
)
# vCPUs that are not in the size's name.
# https://learn.microsoft.com/azure/virtual-machines/sizes-previous-gen
VCPUS = {
    "nc6": 6, "nc12": 12, "nc24": 24, "nd6": 6, "nd12": 12, "nd24": 24, "nv6": 6, "nv12": 12, "nv24": 24,
    "d1": 1, "d2": 2, "d3": 4, "d4": 8, "d11": 2, "d12": 4, "d13": 8, "d14": 16,
    "d1v2": 1, "d2v2": 2, "d3v2": 4, "d4v2": 8, "d5v2": 16,
    "d11v2": 2, "d12v2": 4, "d13v2": 8, "d14v2": 16, "d15v2": 20,
}  # fmt: skip


def vcpus(size: str) -> int:
    """Return the vCPUs of a size; where no table has it, the number in its name.

    >>> vcpus("STANDARD_NC6"), vcpus("Standard_D3_v2"), vcpus("Standard_NC24rs_v3")
    (6, 4, 24)
    """
    match = SIZE.fullmatch(size.lower())
    if match is None:
        return 1
    name = f"{match['family']}{match['number']}"
    return VCPUS.get(f"{name}{match['version'] or ''}") or VCPUS.get(name) or int(match["number"])


def family(size: str) -> str:
    """Return the family of a size as usages name it.

    >>> family("STANDARD_NC6"), family("Standard_NC6s_v3"), family("standard_d2_v2")
    ('NC', 'NCv3', 'Dv2')
    """
    match = SIZE.fullmatch(size.lower())
    return f"{match['family'].upper()}{match['version'] or ''}" if match else size


def names(cluster: Cluster) -> tuple[str, str]:
    """Return the usages that a cluster's vCPUs count for: the region's and its family's."""
    kind = "LowPriority" if cluster.low_priority else "Dedicated"
    of = family(cluster.properties["vmSize"])
    return (
        f"Total Cluster {kind} Regional vCPUs",
        f"Standard {of} Family Cluster {kind} vCPUs",
    )


def used(world: World) -> Counter[str]:
    """Count vCPUs by what clusters are to have: nodes on their way count."""
    cores: Counter[str] = Counter()
    for cluster in world.clusters():
        cores["Clusters"] += 1
        for name in names(cluster):
            cores[name] += vcpus(cluster.properties["vmSize"]) * max(
                cluster.target, len(cluster.nodes)
            )
    return cores


def limit(world: World, name: str) -> int:
    """Return the quota by that name; a family's is the region's where it has none."""
    quotas = world.settings.quotas
    if name in quotas:
        return quotas[name]
    kind = "LowPriority" if "LowPriority" in name else "Dedicated"
    return quotas.get(f"Total Cluster {kind} Regional vCPUs", 0)


def others(world: World, cluster: Cluster, name: str) -> int:
    """Return how much of a quota the other clusters use."""
    mine = vcpus(cluster.properties["vmSize"]) * max(cluster.target, len(cluster.nodes))
    return used(world)[name] - mine


def affordable(world: World, cluster: Cluster, nodes: int) -> int:
    """Return how many of *nodes* the quotas allow this cluster.

    "the actual number of nodes can be less than the specified value if the subscription has not
    enough quota": AutoScaleSettings.minimumNodeCount.
    """
    each = vcpus(cluster.properties["vmSize"])
    left = [limit(world, name) - others(world, cluster, name) for name in names(cluster)]
    return max(0, min(nodes, *(n // each for n in left)))


def check(world: World, cluster: Cluster, nodes: int) -> None:
    """Raise ServiceError where a cluster of *nodes* would be above a quota."""
    wanted = nodes * vcpus(cluster.properties["vmSize"])
    for name in names(cluster):
        most, now = limit(world, name), others(world, cluster, name)
        if now + wanted > most:
            message = (
                f"Operation results in exceeding quota limits of '{name}'. Maximum allowed: "
                f"{most}, Current in use: {now}, Additional requested: {wanted}."
            )
            raise ServiceError(400, "OperationNotAllowed", message)


def check_clusters(world: World) -> None:
    most = limit(world, "Clusters") if "Clusters" in world.settings.quotas else None
    if most is not None and len(world.clusters()) >= most:
        message = f"The subscription has {most} clusters, and may have no more."
        raise ServiceError(400, "ClusterQuotaReached", message)


def listed(world: World, _request: Request) -> Response:
    now = used(world)
    known = dict.fromkeys([*world.settings.quotas, *now])
    return Response(200, {"value": [usage(name, now[name], limit(world, name)) for name in known]})


def usage(name: str, current: int, most: int) -> dict[str, Any]:
    local = name.replace("LowPriority", "Low Priority")
    return {
        "unit": "Count",
        "currentValue": current,
        "limit": most,
        "name": {"value": name, "localizedValue": local},
    }
