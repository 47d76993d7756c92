"""The cluster of a job at Batch AI, which is named by a hash of its content."""

from __future__ import annotations

from typing import Any

from runspec_azure.batchai import resources
from runspec_azure.batchai.options import BatchAiOptions
from runspec_azure.batchai.store import volumes
from runspec_jobs.provider import Capacity, Spec, short_hash, tasks


def name(spec: Spec, options: BatchAiOptions) -> str:
    """Return the name of the cluster of *spec*: the profile's, or that of a cluster for specs with equal needs."""
    return options.cluster or f"runspec-{short_hash(properties(spec, options))}"


def size(spec: Spec, options: BatchAiOptions) -> str:
    if options.vm_size:
        return options.vm_size
    found = resources.fits(spec)
    return found.name if found else ""


def kept_nodes(spec: Spec, options: BatchAiOptions) -> int:
    """Return how many nodes the cluster keeps while no job runs."""
    most = most_nodes(spec, options)
    return most if options.scale == "manual" else min(options.min_nodes, most)


def most_nodes(spec: Spec, options: BatchAiOptions) -> int:
    """Return the largest number of nodes, which limits how many tasks of a sweep run at once."""
    nodes = spec.cluster.nodes.max
    if spec.max_parallel:
        return nodes * min(spec.max_parallel, len(tasks(spec)))
    return max(options.max_nodes or 0, nodes)


def properties(spec: Spec, options: BatchAiOptions) -> dict[str, Any]:
    found: dict[str, Any] = {
        "vmSize": size(spec, options),
        "vmPriority": "dedicated" if spec.cluster.capacity is Capacity.ON_DEMAND else "lowpriority",
        "scaleSettings": _scale(spec, options),
        "virtualMachineConfiguration": _image(options),
        "nodeSetup": _setup(options),
        "userAccountSettings": _user(options),
        "subnet": {"id": options.subnet} if options.subnet else None,
    }
    return {key: value for key, value in found.items() if value not in (None, {})}


def _scale(spec: Spec, options: BatchAiOptions) -> dict[str, Any]:
    most = most_nodes(spec, options)
    if options.scale == "manual":
        more = {"nodeDeallocationOption": options.deallocation} if options.deallocation else {}
        return {"manual": {"targetNodeCount": most, **more}}
    found = {"minimumNodeCount": kept_nodes(spec, options), "maximumNodeCount": most}
    if options.initial_nodes is not None:
        found["initialNodeCount"] = min(options.initial_nodes, most)
    return {"autoScale": found}


def _image(options: BatchAiOptions) -> dict[str, Any] | None:
    image = options.machine_image
    if image is None:
        return None
    found = {"publisher": image.publisher, "offer": image.offer, "sku": image.sku}
    found |= {"version": image.version} if image.version else {}
    found |= {"virtualMachineImageId": image.id} if image.id else {}
    return {"imageReference": found}


def _setup(options: BatchAiOptions) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if setup := options.setup:
        env = [{"name": k, "value": v} for k, v in setup.env.items()]
        hidden = [
            {"name": k, **volumes.credential(v, options, "value", "valueSecretReference")}
            for k, v in setup.secrets.items()
        ]
        found["setupTask"] = {
            "commandLine": setup.command,
            **({"environmentVariables": env} if env else {}),
            **({"secrets": hidden} if hidden else {}),
            "stdOutErrPathPrefix": setup.logs,
        }
    if mounts := volumes.mounted(volumes.cluster_volumes(options), options):
        found["mountVolumes"] = mounts
    if insights := options.insights:
        key = insights.key and volumes.credential(
            insights.key, options, "instrumentationKey", "instrumentationKeySecretReference"
        )
        reference = {"component": {"id": insights.component}, **(key or {})}
        found["performanceCountersSettings"] = {"appInsightsReference": reference}
    return found


def _user(options: BatchAiOptions) -> dict[str, Any]:
    found: dict[str, Any] = {"adminUserName": options.admin_user}
    if options.ssh_public_key:
        found["adminUserSshPublicKey"] = options.ssh_public_key
    if options.admin_password:
        source = options.secrets.get(options.admin_password, f"env:{options.admin_password}")
        found["adminUserPassword"] = {"$secret": source}
    return found
