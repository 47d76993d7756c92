"""The cluster of a job at Batch AI, which is named by a hash of its content."""

from __future__ import annotations

from typing import Any

from runspec_batchai import store_volumes
from runspec_batchai.decision import Decision
from runspec_batchai.options import BatchAiOptions
from runspec_jobs.provider import Capacity, short_hash


def name(decision: Decision) -> str:
    """Return the name of the cluster: the profile's, or that of a cluster for specs with equal needs."""
    return decision.options.cluster or f"runspec-{short_hash(properties(decision))}"


def properties(decision: Decision) -> dict[str, Any]:
    options = decision.options
    is_dedicated = decision.capacity is Capacity.ON_DEMAND
    cluster: dict[str, Any] = {
        "vmSize": decision.vm_size,
        "vmPriority": "dedicated" if is_dedicated else "lowpriority",
        "scaleSettings": _scale(decision),
        "virtualMachineConfiguration": _image(options),
        "nodeSetup": _setup(options),
        "userAccountSettings": _user(options),
        "subnet": {"id": options.subnet} if options.subnet else None,
    }
    return {key: value for key, value in cluster.items() if value not in (None, {})}


def _scale(decision: Decision) -> dict[str, Any]:
    options, most = decision.options, decision.most_nodes
    if options.scale == "manual":
        more = {"nodeDeallocationOption": options.deallocation} if options.deallocation else {}
        return {"manual": {"targetNodeCount": most, **more}}
    scale = {"minimumNodeCount": decision.kept_nodes, "maximumNodeCount": most}
    if options.initial_nodes is not None:
        scale["initialNodeCount"] = min(options.initial_nodes, most)
    return {"autoScale": scale}


def _image(options: BatchAiOptions) -> dict[str, Any] | None:
    image = options.machine_image
    if image is None:
        return None
    request = {"publisher": image.publisher, "offer": image.offer, "sku": image.sku}
    request |= {"version": image.version} if image.version else {}
    request |= {"virtualMachineImageId": image.id} if image.id else {}
    return {"imageReference": request}


def _setup(options: BatchAiOptions) -> dict[str, Any]:
    request: dict[str, Any] = {}
    if setup := options.setup:
        env = [{"name": k, "value": v} for k, v in setup.env.items()]
        hidden = [
            {"name": k, **store_volumes.credential(v, options, "value", "valueSecretReference")}
            for k, v in setup.secrets.items()
        ]
        request["setupTask"] = {
            "commandLine": setup.command,
            **({"environmentVariables": env} if env else {}),
            **({"secrets": hidden} if hidden else {}),
            "stdOutErrPathPrefix": setup.logs,
        }
    if mounts := store_volumes.mounted(store_volumes.cluster_volumes(options), options):
        request["mountVolumes"] = mounts
    if insights := options.insights:
        key = insights.key and store_volumes.credential(
            insights.key, options, "instrumentationKey", "instrumentationKeySecretReference"
        )
        reference = {"component": {"id": insights.component}, **(key or {})}
        request["performanceCountersSettings"] = {"appInsightsReference": reference}
    return request


def _user(options: BatchAiOptions) -> dict[str, Any]:
    request: dict[str, Any] = {"adminUserName": options.admin_user}
    if options.ssh_public_key:
        request["adminUserSshPublicKey"] = options.ssh_public_key
    if options.admin_password:
        source = options.secrets.get(options.admin_password, f"env:{options.admin_password}")
        request["adminUserPassword"] = {"$secret": source}
    return request
