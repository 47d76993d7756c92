"""Check whether a cluster is within the quotas of the subscription, before anything is made."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from runspec_batchai.resources import known
from runspec_jobs.provider import RemoteError

HINT = "use fewer nodes or a smaller machine, or request a quota increase"
CLUSTERS = "Clusters"
KINDS = ("Dedicated", "LowPriority")  # as usages name them


def whole(kind: str) -> str:
    """Return the name of the usage of all vCPUs of a region."""
    return f"Total Cluster {kind} Regional vCPUs"


def of_family(family: str, kind: str) -> str:
    return f"{family} Cluster {kind} vCPUs"


def lacking(properties: Mapping[str, Any], usages: Mapping[str, Sequence[int]]) -> Iterator[str]:
    """Yield a message for each quota that a cluster with *properties* would exceed.

    *usages* has the current value and the limit by the name of the usage. If the VM size is unknown, its vCPUs
    are not checked.
    """
    wanted = {CLUSTERS: 1}
    if size := known(str(properties["vmSize"])):
        scale = properties["scaleSettings"]
        fixed = scale.get("manual", {}).get("targetNodeCount")
        nodes = fixed if fixed is not None else scale["autoScale"]["maximumNodeCount"]
        kind = KINDS[properties.get("vmPriority") == "lowpriority"]
        vcpus = nodes * (size.cpus or 0)
        wanted |= {whole(kind): vcpus, of_family(size.family, kind): vcpus}
    for name, count in wanted.items():
        used, limit = usages.get(name, (0, count))
        if used + count > limit:
            are = "is" if count == 1 else "are"
            yield f"{name}: {count} more {are} needed, and {used} of {limit} are in use"


def check(body: Mapping[str, Any], usages: Mapping[str, Sequence[int]]) -> None:
    """Raise RemoteError if the cluster of *body* would exceed a quota."""
    for what in lacking(body["properties"], usages):
        raise RemoteError(what, HINT)
