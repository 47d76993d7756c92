"""Describe resources as the official description does, without secrets."""

from __future__ import annotations

from collections import Counter
from typing import Any

from runspec_emulators.batch_ai.api.requests import seconds
from runspec_emulators.batch_ai.model import (
    Cluster,
    Experiment,
    FileServer,
    Group,
    Job,
    Resource,
    Workspace,
)

# "Server will never report values of these variables back"; passwords and keys are missing from
# what the official examples GetCluster and GetFileServer answer.
SECRET = {
    "accountKey",
    "adminUserPassword",
    "adminUserSshPublicKey",
    "instrumentationKey",
    "password",
}
NODE_STATES = ("idle", "running", "preparing", "unusable", "leaving")
IMAGE = {  # official example PutCluster: what a cluster without an image gets
    "publisher": "Canonical",
    "offer": "UbuntuServer",
    "sku": "16.04-LTS",
    "version": "latest",
}
TOOLS = {  # JobProperties.toolType; the enum has none for pyTorch, its description has "pytorch"
    "cntkSettings": "cntk",
    "pyTorchSettings": "pytorch",
    "tensorFlowSettings": "tensorflow",
    "caffeSettings": "caffe",
    "caffe2Settings": "caffe2",
    "chainerSettings": "chainer",
    "customToolkitSettings": "custom",
    "customMpiSettings": "custommpi",
    "horovodSettings": "horovod",
}


# Toolkits for which answers have a processCount even if the request had none, as `job show` prints in recipes.
COUNTED = {
    "caffeSettings",
    "chainerSettings",
    "cntkSettings",
    "customMpiSettings",
    "horovodSettings",
    "pyTorchSettings",
}
# AzureFileShareReference: "Default value: 0777"
MODES = {"fileMode": "0777", "directoryMode": "0777"}


def public(value: Any) -> Any:
    """Return the properties of a request without their secrets."""
    if isinstance(value, list):
        return [public(inner) for inner in value]
    if not isinstance(value, dict):
        return value
    kept = {name: public(inner) for name, inner in value.items() if name not in SECRET}
    if "azureFileUrl" in kept:
        kept = {**MODES, **kept}
    if "secrets" in kept:
        kept["secrets"] = [{k: v for k, v in s.items() if k != "value"} for s in kept["secrets"]]
    return kept


def framed(resource: Resource, properties: dict[str, Any]) -> dict[str, Any]:
    states = {
        "creationTime": resource.creation_time,
        "provisioningState": resource.provisioning_state,
        "provisioningStateTransitionTime": resource.provisioning_time,
    }
    return {
        "id": resource.id,
        "name": resource.name,
        "type": resource.kind,
        "properties": {**properties, **states},
    }


def group(group: Group) -> dict[str, Any]:
    return {
        "id": group.id,
        "name": group.name,
        "type": "Microsoft.Resources/resourceGroups",
        "location": group.location,
        "tags": group.tags,
        "properties": {"provisioningState": "Succeeded"},
    }


def workspace(workspace: Workspace) -> dict[str, Any]:
    return {**framed(workspace, {}), "location": workspace.location, "tags": workspace.tags}


def experiment(experiment: Experiment) -> dict[str, Any]:
    return framed(experiment, {})


def file_server(server: FileServer) -> dict[str, Any]:
    asked = public(server.properties)
    asked["dataDisks"] = {"cachingType": "none", **asked["dataDisks"]}
    location = {
        "mountPoint": "/mnt/data",
        "fileServerPublicIP": server.address,
        "fileServerInternalIP": server.address,
    }
    return framed(server, {**asked, "mountSettings": location})


def cluster(cluster: Cluster) -> dict[str, Any]:
    states = Counter(node.state for node in cluster.nodes)
    asked = public(cluster.properties)
    if "setupTask" in asked.get("nodeSetup", {}):
        asked["nodeSetup"]["setupTask"]["stdOutErrPathSuffix"] = cluster.setup_suffix
    defaults = {
        "vmPriority": "dedicated",
        "virtualMachineConfiguration": {"imageReference": IMAGE},
    }
    more: dict[str, Any] = {
        "scaleSettings": scale(cluster),
        "allocationState": cluster.allocation_state,
        "allocationStateTransitionTime": cluster.allocation_time,
        "currentNodeCount": len(cluster.nodes),
        "nodeStateCounts": {f"{state}NodeCount": states[state] for state in NODE_STATES},
    }
    if cluster.errors:
        more["errors"] = cluster.errors
    return framed(cluster, {**defaults, **asked, **more})


def scale(cluster: Cluster) -> dict[str, Any]:
    """Return scale settings with their defaults: initialNodeCount 0, nodeDeallocationOption requeue."""
    if "autoScale" in cluster.scale:
        return {"autoScale": {"initialNodeCount": 0, **cluster.scale["autoScale"]}}
    return {"manual": {"nodeDeallocationOption": "requeue", **cluster.scale["manual"]}}


def limit(asked: dict[str, Any]) -> str:
    """Return maxWallClockTime by ISO 8601. Official example GetJob: P7D when nobody gave it."""
    given: str = asked.get("constraints", {}).get("maxWallClockTime", "P7D")
    return given if given.startswith("P") else f"PT{seconds(given):g}S"


def job(job: Job) -> dict[str, Any]:
    asked = public(job.properties)
    kit = next(name for name in TOOLS if name in asked)
    if kit in COUNTED:
        asked[kit] = {"processCount": asked["nodeCount"], **asked[kit]}
    more = {
        "toolType": TOOLS[kit],
        "schedulingPriority": asked.get("schedulingPriority", "normal"),
        "constraints": {"maxWallClockTime": limit(asked)},
        "jobOutputDirectoryPathSegment": job.segment,
        "executionState": job.state,
        "executionStateTransitionTime": job.state_time,
    }
    info = {
        "startTime": job.start_time,
        "endTime": job.end_time,
        "exitCode": job.exit_code,
        "errors": job.errors or None,
    }
    if job.start_time or job.end_time:
        more["executionInfo"] = {k: v for k, v in info.items() if v is not None}
    return framed(job, {**asked, **more})
