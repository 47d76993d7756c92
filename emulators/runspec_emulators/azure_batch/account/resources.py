"""The Resource Manager's side of what a Batch account needs: groups, storage, identities and roles.

A resource is made by PUT and named by the caller, which is what all of its providers share. What a body may hold is
what these pages state; anything else is refused:
https://learn.microsoft.com/rest/api/resources/resource-groups/create-or-update
https://learn.microsoft.com/rest/api/storagerp/storage-accounts/create
https://learn.microsoft.com/rest/api/storagerp/blob-containers/create
https://learn.microsoft.com/rest/api/managedidentity/user-assigned-identities/create-or-update
https://learn.microsoft.com/rest/api/authorization/role-assignments/create
https://learn.microsoft.com/rest/api/batchmanagement/batch-account/create
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Mapping
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from azure.mgmt.batch.models import BatchAccountCreateParameters

from runspec_emulators.azure_batch.errors import ServiceError
from runspec_emulators.azure_batch.resource import Response
from runspec_emulators.azure_batch.world import World
from runspec_emulators.azure_services.sdk_models import problems

GROUP = r"/subscriptions/[^/]+/resourcegroups/[^/]+"
PLACED = frozenset({"location", "tags"})
GUID = r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"
CONFIRMS = "Succeeded"
LISTS = ("/containers", "/shares", "/queues", "/tables", "/resources")


class Kind(NamedTuple):
    """A kind of resource: the form of its id, its API version, and the members of its body and of its properties."""

    path: re.Pattern[str]
    version: str
    needed: frozenset[str]
    allowed: frozenset[str]
    properties: frozenset[str]


def _kind(path: str, version: str, needed: str, allowed: str, properties: str) -> Kind:
    words = (frozenset(text.split()) for text in (needed, allowed, properties))
    return Kind(re.compile(path, re.IGNORECASE), version, *words)


STORAGE = rf"{GROUP}/providers/Microsoft\.Storage/storageAccounts/[a-z0-9]{{3,24}}"
BATCH = rf"{GROUP}/providers/Microsoft\.Batch/batchAccounts/[a-z0-9]{{3,24}}"
ACCOUNTS = r"/subscriptions/[^/]+/providers/Microsoft\.Batch/batchAccounts"
ROLE = rf"/subscriptions/.+/providers/Microsoft\.Authorization/roleAssignments/{GUID}"
KINDS: Mapping[str, Kind] = {
    "ResourceGroup": _kind(GROUP, "2021-04-01", "location", "location tags", ""),
    "StorageAccount": _kind(
        STORAGE,
        "2023-05-01",
        "location kind sku",
        "location kind sku tags properties",
        "allowBlobPublicAccess minimumTlsVersion supportsHttpsTrafficOnly",
    ),
    "BlobContainer": _kind(
        rf"{STORAGE}/blobServices/default/containers/[a-z0-9-]{{3,63}}",
        "2023-05-01",
        "",
        "properties",
        "publicAccess metadata",
    ),
    "Identity": _kind(
        rf"{GROUP}/providers/Microsoft\.ManagedIdentity/userAssignedIdentities/[^/]+",
        "2023-01-31",
        "location",
        "location tags",
        "",
    ),
    "BatchAccount": _kind(BATCH, "2025-06-01", "location", "location tags properties", "*"),
    "RoleAssignment": _kind(
        ROLE,
        "2022-04-01",
        "properties",
        "properties",
        "roleDefinitionId principalId principalType condition conditionVersion",
    ),
}


def refused(code: str, message: str, status: int = 400) -> ServiceError:
    error = ServiceError(code, message)
    error.status = status
    return error


def find_kind(path: str) -> str | None:
    """Return the kind of the resource at *path*; None for all others."""
    return next((name for name, kind in KINDS.items() if kind.path.fullmatch(path)), None)


def answer(world: World, method: str, path: str, query: Mapping[str, str], body: Any) -> Response:
    """Carry out a request for a resource, or for the lists and keys that belong to some."""
    listed = _answer_list(world, method, path)
    if listed is not None:
        return listed
    name = find_kind(path)
    if name is None:
        raise refused("InvalidResourceType", f"This emulator has no {method} {path}.", 404)
    if query.get("api-version") != KINDS[name].version:
        raise refused("NoRegisteredProviderFound", "There is no such api-version.")
    key = path.lower()
    if method == "PUT":
        return _put(world, name, path, body if isinstance(body, dict) else {})
    if key not in world.resources:
        raise refused("ResourceNotFound", f"The resource {path} was not found.", 404)
    if method == "GET":
        return Response(200, world.resources[key])
    return _delete(world, name, key)


def _answer_list(world: World, method: str, path: str) -> Response | None:
    settings = world.settings
    if method == "GET" and path == "/subscriptions":
        row = {"subscriptionId": settings.subscription, "state": "Enabled"}
        return Response(200, {"value": [row]})
    if method == "GET" and path.lower().endswith("/quotas"):
        return Response(200, {"accountQuota": settings.account_quota})
    if method == "GET" and path.endswith("/pools"):
        rows = [
            {"id": f"{path}/{pool.id}", "name": pool.id, "identity": _show(pool.identities)}
            for pool in world.pools.values()
        ]
        return Response(200, {"value": rows})
    if method == "GET" and re.fullmatch(ACCOUNTS, path, re.IGNORECASE):
        batch = re.compile(BATCH, re.IGNORECASE)
        rows = [one for key, one in world.resources.items() if batch.fullmatch(key)]
        return Response(200, {"value": rows})
    if method == "GET" and path.endswith(LISTS):
        above = path.lower().removesuffix("/resources")
        inside = [
            {"id": one["id"], "name": one["name"]}
            for key, one in world.resources.items()
            if key.startswith(f"{above}/") and "/roleassignments/" not in key
        ]
        return Response(200, {"value": inside})
    if method == "POST" and path.endswith("/listKeys"):
        keys = [{"keyName": "key1", "value": settings.storage_key, "permissions": "FULL"}]
        return Response(200, {"keys": keys})
    return None


def _show(identities: list[str]) -> dict[str, Any]:
    """https://learn.microsoft.com/rest/api/batchmanagement/pool/list-by-batch-account"""
    kind = "UserAssigned" if identities else "None"
    return {"type": kind, "userAssignedIdentities": {one: {} for one in identities}}


def _put(world: World, name: str, path: str, body: dict[str, Any]) -> Response:
    kind = KINDS[name]
    _check_body(name, kind, body)
    above = _find_above(name, path)
    if above is not None and above.lower() not in world.resources:
        raise refused("ParentResourceNotFound", f"There is no {above}.", 404)
    there = world.resources.get(path.lower())
    properties = {**(there or {}).get("properties", {}), **body.get("properties", {})}
    if name == "Identity":
        properties.setdefault("principalId", str(uuid.uuid4()))
    if name == "RoleAssignment":
        _check_role(world, path, body["properties"], there)
    elif name == "BatchAccount":
        properties |= {
            "accountEndpoint": urlsplit(world.url).netloc,
            "dedicatedCoreQuota": world.settings.dedicated_quota,
            "lowPriorityCoreQuota": world.settings.low_priority_quota,
        }
    if name in ("StorageAccount", "BatchAccount", "ResourceGroup"):
        properties["provisioningState"] = CONFIRMS
    made = {**body, "id": path, "name": path.rpartition("/")[2], "properties": properties}
    world.resources[path.lower()] = made
    if name == "BlobContainer" and there is None and world.settings.make_container is not None:
        world.settings.make_container(path.rpartition("/")[2])
    if name == "BatchAccount" and there is None:
        return Response(202, None)  # "Accepted: the operation will be completed asynchronously"
    return Response(201 if there is None else 200, made)


def _check_body(name: str, kind: Kind, body: Mapping[str, Any]) -> None:
    if name == "BatchAccount":
        for problem in problems(dict(body), BatchAccountCreateParameters):
            raise refused("InvalidRequestContent", f"{problem.path}: {problem.reason}")
        return
    wrong = {*(kind.needed - body.keys()), *(body.keys() - kind.allowed)}
    wrong |= body.get("properties", {}).keys() - kind.properties
    if wrong:
        raise refused("InvalidRequestContent", f"{name}: {', '.join(sorted(wrong))}")


def _find_above(name: str, path: str) -> str | None:
    """Return the resource that has to be there before the one at *path*."""
    if name == "ResourceGroup":
        return None
    if name == "BlobContainer":
        return path.partition("/blobServices/")[0]
    if name == "RoleAssignment":
        return path.rpartition("/providers/Microsoft.Authorization/")[0]
    return path.partition("/providers/")[0]


def _check_role(world: World, path: str, given: Mapping[str, Any], there: Any) -> None:
    """ "RoleAssignmentExists", and a principal that the directory does not know."""
    known = {one["properties"].get("principalId") for one in world.resources.values()}
    person = None if world.identity is None else world.identity.tokens.person
    if given["principalId"] not in {*known, person}:
        raise refused("PrincipalNotFound", "The principal does not exist in the directory.")
    scope = path.rpartition("/providers/")[0].lower()
    same = ("roleDefinitionId", "principalId")
    on_scope = f"{scope}/providers/microsoft.authorization/"
    others = [one for key, one in world.resources.items() if key.startswith(on_scope)]
    if there is None and any(
        all(other["properties"][word] == given[word] for word in same) for other in others
    ):
        raise refused("RoleAssignmentExists", "The role assignment already exists.", 409)


def _delete(world: World, name: str, key: str) -> Response:
    """Deleting a resource deletes what is in it, and the roles on it."""
    if name == "BlobContainer" and world.settings.delete_container is not None:
        world.settings.delete_container(key.rpartition("/")[2])
    for other in [one for one in world.resources if one == key or one.startswith(f"{key}/")]:
        del world.resources[other]
    return Response(200, None)
