"""Make the request for a pool with an identity, which only the Resource Manager can make.

https://learn.microsoft.com/azure/batch/managed-identity-pools
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from runspec_azure.batch.options import BatchOptions
from runspec_azure.naming import account
from runspec_jobs.provider import Request

# Members with the same name and value in both APIs: https://learn.microsoft.com/rest/api/batchmanagement/pool/create
SAME = ("vmSize", "taskSlotsPerNode", "mountConfiguration", "metadata")


def create(name: str, content: Mapping[str, Any], options: BatchOptions) -> Request:
    """Return the Resource Manager's request that makes a pool, from its *content* in the form of the Batch service."""
    path = {
        "subscriptionId": options.subscription or "",
        "resourceGroupName": options.resource_group or "",
        "accountName": account(options),
        "poolName": name,
    }
    return Request("arm", "Pool_Create", {"path": path, "body": body(content)})


def body(content: Mapping[str, Any]) -> dict[str, Any]:
    scale = {
        "formula": content["autoScaleFormula"],
        "evaluationInterval": content["autoScaleEvaluationInterval"],
    }
    properties: dict[str, Any] = {
        **{key: content[key] for key in SAME if key in content},
        "deploymentConfiguration": {
            "virtualMachineConfiguration": _machine(content["virtualMachineConfiguration"])
        },
        "taskSchedulingPolicy": {"nodeFillType": "Pack"},
        "scaleSettings": {"autoScale": scale},
    }
    if "networkConfiguration" in content:
        properties["networkConfiguration"] = _network(content["networkConfiguration"])
    if "startTask" in content:
        admin = {"autoUser": {"scope": "Pool", "elevationLevel": "Admin"}}
        properties["startTask"] = {**content["startTask"], "userIdentity": admin}
    if content.get("enableInterNodeCommunication"):
        properties["interNodeCommunication"] = "Enabled"
    ids: dict[str, Any] = {
        identity["resourceId"]: {} for identity in content["identity"]["userAssignedIdentities"]
    }
    identity = {"type": "UserAssigned", "userAssignedIdentities": ids}
    return {"identity": identity, "properties": properties}


def _network(content: Mapping[str, Any]) -> dict[str, Any]:
    network = dict(content)
    if "publicIPAddressConfiguration" in network:
        network["publicIPAddressConfiguration"] = {"provision": "NoPublicIPAddresses"}
    return network


def _machine(content: Mapping[str, Any]) -> dict[str, Any]:
    image = dict(content["imageReference"])
    if "virtualMachineImageId" in image:
        image = {"id": image["virtualMachineImageId"]}
    machine: dict[str, Any] = {"imageReference": image, "nodeAgentSkuId": content["nodeAgentSKUId"]}
    if "containerConfiguration" in content:
        machine["containerConfiguration"] = {
            **content["containerConfiguration"],
            "type": "DockerCompatible",
        }
    return machine
