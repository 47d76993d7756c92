"""Whether a cluster fits into what the subscription may use, asked before anything is made."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from runspec.provider import RemoteError
from runspec_azure.batchai.sizes import KNOWN


def check(body: Mapping[str, Any], usages: Mapping[str, tuple[int, int]]) -> None:
    """Raise RemoteError where the cluster of *body* is above a quota.

    *usages* are what is in use and the limit, by the name of the usage.
    """
    properties = body["properties"]
    size = KNOWN.get(str(properties["vmSize"]).upper())
    if size is None:
        return
    scale = properties["scaleSettings"]
    fixed = scale.get("manual", {}).get("targetNodeCount")
    nodes = fixed if fixed is not None else scale["autoScale"]["maximumNodeCount"]
    kind = "LowPriority" if properties.get("vmPriority") == "lowpriority" else "Dedicated"
    wanted = {
        "Clusters": 1,
        f"Total Cluster {kind} Regional vCPUs": nodes * size.cpus,
        f"{size.family} Cluster {kind} vCPUs": nodes * size.cpus,
    }
    for name, count in wanted.items():
        used, limit = usages.get(name, (0, count))
        if used + count > limit:
            what = f"{name}: {count} more are needed, and {used} of {limit} are in use"
            hint = "ask for fewer nodes or a smaller machine, or have the quota raised"
            raise RemoteError(what, hint)
