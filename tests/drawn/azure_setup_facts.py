"""The operations of the Resource Manager that a setup asks, and what their answers may look like.

*model* is `module:name` of an SDK that is installed here, or a name of MODELS: of storage, identities, roles and
subscriptions no SDK is, so that their members are those of the pages.
https://learn.microsoft.com/rest/api/storagerp/storage-accounts/get-properties
https://learn.microsoft.com/rest/api/storagerp/storage-accounts/list-keys
https://learn.microsoft.com/rest/api/storagerp/blob-containers/get
https://learn.microsoft.com/rest/api/storagerp/blob-containers/list, .../file-shares/list, .../queue/list
https://learn.microsoft.com/rest/api/storagerp/table/list
https://learn.microsoft.com/rest/api/managedidentity/user-assigned-identities/get
https://learn.microsoft.com/rest/api/authorization/role-assignments/get
https://learn.microsoft.com/rest/api/resources/subscriptions/list
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

RESOURCES = "azure.mgmt.resource.resources.models:"
BATCHES = "azure.mgmt.batch.models:"
GROUP = "/subscriptions/{subscriptionId}/resourceGroups/{resourceGroupName}"
STORAGE = f"{GROUP}/providers/Microsoft.Storage/storageAccounts/{{accountName}}"
CONTAINERS = f"{STORAGE}/blobServices/default/containers"
IDENTITY = f"{GROUP}/providers/Microsoft.ManagedIdentity/userAssignedIdentities/{{name}}"
BATCH = f"{GROUP}/providers/Microsoft.Batch/batchAccounts/{{accountName}}"
OF_BATCH = "/subscriptions/{subscriptionId}/providers/Microsoft.Batch"
ROLE = "{scope}/providers/Microsoft.Authorization/roleAssignments/{name}"


class Asked(NamedTuple):
    """An operation: how it is asked, the statuses of its answers, and the model of those, or of each in a list."""

    method: str
    path: str
    statuses: tuple[int, ...]
    model: str | None
    listed: bool = False


def _resource(
    name: str, path: str, model: str, made: tuple[int, ...], deleted: tuple[int, ...]
) -> dict[str, Asked]:
    return {
        f"{name}_Put": Asked("PUT", path, made, model),
        f"{name}_Get": Asked("GET", path, (200,), model),
        f"{name}_Delete": Asked("DELETE", path, deleted, None),
    }


def _list(path: str, model: str) -> Asked:
    return Asked("GET", path, (200,), model, listed=True)


SETUP_OPERATIONS: Mapping[str, Asked] = {
    **_resource("Group", GROUP, f"{RESOURCES}ResourceGroup", (200, 201), (200, 202)),
    **_resource("Storage", STORAGE, "StorageAccount", (200, 202), (200, 204)),
    **_resource(
        "Container", f"{CONTAINERS}/{{containerName}}", "BlobContainer", (200, 201), (200, 204)
    ),
    **_resource("Identity", IDENTITY, "Identity", (200, 201), (200, 204)),
    **_resource("Batch", BATCH, f"{BATCHES}BatchAccount", (200, 202), (200, 202, 204)),
    **_resource("Role", ROLE, "RoleAssignment", (200, 201), (200, 204)),
    "Storage_ListKeys": Asked("POST", f"{STORAGE}/listKeys", (200,), "StorageKeys"),
    "Subscriptions_List": _list("/subscriptions", "Subscription"),
    "Group_ListResources": _list(f"{GROUP}/resources", f"{RESOURCES}GenericResourceExpanded"),
    "Container_List": _list(CONTAINERS, "BlobContainer"),
    "Share_List": _list(f"{STORAGE}/fileServices/default/shares", "Inner"),
    "Queue_List": _list(f"{STORAGE}/queueServices/default/queues", "Inner"),
    "Table_List": _list(f"{STORAGE}/tableServices/default/tables", "Inner"),
    "Pool_List": _list(f"{BATCH}/pools", f"{BATCHES}Pool"),
    "Batch_List": _list(f"{OF_BATCH}/batchAccounts", f"{BATCHES}BatchAccount"),
    "Quota_Get": Asked(
        "GET",
        f"{OF_BATCH}/locations/{{location}}/quotas",
        (200,),
        f"{BATCHES}BatchLocationQuota",
    ),
}


def _model(properties: Mapping[str, Any], *required: str) -> dict[str, Any]:
    return {"required": sorted(required), "properties": dict(properties)}


NAMED = {"id": "string", "name": "string", "type": "string"}
TEXTS = ["map", "string"]
MODELS: Mapping[str, Any] = {
    "StorageAccount": _model(
        {
            **NAMED,
            "location": "string",
            "tags": TEXTS,
            "kind": ["enum", ["Storage", "StorageV2", "BlobStorage", "FileStorage"]],
            "sku": "object",
            "identity": "object",
            "properties": "setup:StorageProperties",
        },
        "location",
    ),
    "StorageProperties": _model(
        {
            "provisioningState": ["enum", ["Creating", "ResolvingDNS", "Succeeded"]],
            "primaryEndpoints": TEXTS,
            "primaryLocation": "string",
            "statusOfPrimary": ["enum", ["available", "unavailable"]],
            "creationTime": "date-time",
            "encryption": "object",
            "networkAcls": "object",
            "accessTier": ["enum", ["Hot", "Cool", "Premium", "Cold"]],
            "allowBlobPublicAccess": "boolean",
            "supportsHttpsTrafficOnly": "boolean",
            "minimumTlsVersion": "string",
        }
    ),
    "BlobContainer": _model({**NAMED, "etag": "string", "properties": "setup:ContainerProperties"}),
    "ContainerProperties": _model(
        {
            "version": "string",
            "deleted": "boolean",
            "deletedTime": "date-time",
            "remainingRetentionDays": "integer",
            "publicAccess": ["enum", ["Container", "Blob", "None"]],
            "lastModifiedTime": "date-time",
            "leaseState": ["enum", ["Available", "Leased", "Expired", "Breaking", "Broken"]],
            "metadata": TEXTS,
            "legalHold": "object",
            "hasLegalHold": "boolean",
        }
    ),
    "Inner": _model({**NAMED, "etag": "string", "properties": "object"}),
    "Identity": _model(
        {
            **NAMED,
            "location": "string",
            "tags": TEXTS,
            "systemData": "object",
            "properties": "setup:IdentityProperties",
        },
        "location",
    ),
    "IdentityProperties": _model(
        {"tenantId": "string", "principalId": "string", "clientId": "string"}
    ),
    "RoleAssignment": _model({**NAMED, "properties": "setup:RoleProperties"}),
    "RoleProperties": _model(
        {
            "scope": "string",
            "roleDefinitionId": "string",
            "principalId": "string",
            "principalType": ["enum", ["User", "Group", "ServicePrincipal", "Device"]],
            "description": "string",
            "condition": "string",
            "conditionVersion": "string",
            "createdOn": "date-time",
            "createdBy": "string",
        },
        "principalId",
        "roleDefinitionId",
    ),
    "Subscription": _model(
        {
            "id": "string",
            "subscriptionId": "string",
            "tenantId": "string",
            "displayName": "string",
            "state": ["enum", ["Enabled", "Warned", "PastDue", "Disabled", "Deleted"]],
            "subscriptionPolicies": "object",
            "authorizationSource": "string",
            "managedByTenants": ["list", "object"],
            "tags": TEXTS,
        }
    ),
    "StorageKeys": _model({"keys": ["list", "setup:StorageKey"]}),
    "StorageKey": _model(
        {
            "keyName": "string",
            "value": "string",
            "permissions": ["enum", ["Read", "Full"]],
            "creationTime": "date-time",
        }
    ),
}
