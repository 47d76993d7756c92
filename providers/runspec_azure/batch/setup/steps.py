"""The steps of a setup: each is one PUT to the Azure Resource Manager, word for word."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from runspec_azure.batch.policy import make_delete_condition
from runspec_azure.batch.setup.options import BatchSetup
from runspec_jobs.provider import Request, Scope, Setup, Step, short_hash

MARK = "runspec-setup"  # the tag of everything that a setup makes
# Versions of APIs: https://learn.microsoft.com/azure/templates/
GROUPS, STORAGE, IDENTITIES = "2021-04-01", "2023-05-01", "2023-01-31"
BATCH, ROLES = "2025-06-01", "2022-04-01"
# https://learn.microsoft.com/azure/role-based-access-control/built-in-roles
ROLE_IDS: Mapping[str, str] = {
    "Storage Blob Data Contributor": "ba92f5b4-2d11-453d-a403-e96b0029c9fe",
    "Azure Batch Data Contributor": "6aaa78f1-f7de-44ca-8722-c64a23943cae",
    "Managed Identity Operator": "f1a07417-d97a-45cb-824c-7a7467783830",
}
CONTAINER = "jobs"
COST = "nothing of this costs money by itself: what jobs store in the container does, and machines while they run"
SUFFIX = 11  # names of accounts of storage and Batch have at most 24 characters, and are unique in the world


@dataclass(frozen=True)
class Names:
    """The ids of what a setup makes or uses."""

    options: BatchSetup
    survey: Mapping[str, Any]

    @property
    def location(self) -> str:
        return str(self.survey["location"])

    @property
    def subscription(self) -> str:
        return f"/subscriptions/{self.survey['subscription']}"

    @property
    def group_name(self) -> str:
        return self.options.resource_group or f"{self.options.name}-{self.location}"

    @property
    def group(self) -> str:
        return f"{self.subscription}/resourceGroups/{self.group_name}"

    @property
    def unique(self) -> str:
        """A name that is the same for each setup of this group, and of no other."""
        return self.options.name + short_hash([self.group.lower()])[:SUFFIX]

    @property
    def storage_name(self) -> str:
        return self.options.storage_account or self.unique

    @property
    def storage(self) -> str:
        return f"{self.group}/providers/Microsoft.Storage/storageAccounts/{self.storage_name}"

    @property
    def container_name(self) -> str:
        return self.options.container or CONTAINER

    @property
    def container(self) -> str:
        return f"{self.storage}/blobServices/default/containers/{self.container_name}"

    @property
    def identity(self) -> str:
        name = f"{self.options.name}-jobs"
        own = f"{self.group}/providers/Microsoft.ManagedIdentity/userAssignedIdentities/{name}"
        return self.options.identity or own

    @property
    def batch(self) -> str:
        name = self.options.account or self.unique
        return f"{self.group}/providers/Microsoft.Batch/batchAccounts/{name}"


def plan(options: BatchSetup, survey: Mapping[str, Any], setup: str) -> Setup:
    names = Names(options, survey)
    where = {"path": names.container, "version": STORAGE}
    return Setup(
        f"subscription {survey['subscription']}, {names.group_name}, {names.location}",
        (*_list_resources(names, setup), *_list_roles(names)),
        _make_settings(names),
        (COST,),
        tuple(_list_notes(survey)),
        {"container": Request("arm", "delete_data", where)},
    )


def _make(
    id: str,  # noqa: A002 - the field of a step
    title: str,
    path: str,
    version: str,
    body: Mapping[str, Any],
) -> Step:
    where = {"path": path, "version": version}
    put = Request("arm", "put", {**where, "body": dict(body)})
    undo = Request("arm", "delete", where)
    return Step(id, title, Scope.SITE, put, undo)


def _list_resources(names: Names, setup: str) -> Iterator[Step]:
    """https://learn.microsoft.com/azure/templates/microsoft.batch/2025-06-01/batchaccounts"""
    placed = {"location": names.location, "tags": {MARK: setup}}
    yield _make("group", f"resource group {names.group_name}", names.group, GROUPS, placed)
    closed = {
        "allowBlobPublicAccess": False,
        "minimumTlsVersion": "TLS1_2",
        "supportsHttpsTrafficOnly": True,
    }
    storage = {**placed, "kind": "StorageV2", "sku": {"name": "Standard_LRS"}, "properties": closed}
    title = f"storage account {names.storage_name}, without public access"
    yield _make("storage", title, names.storage, STORAGE, storage)
    private = {"properties": {"publicAccess": "None", "metadata": {_plain(MARK): setup}}}
    title = f"container {names.container_name}, for what jobs read and write"
    yield _make("container", title, names.container, STORAGE, private)
    if names.options.identity is None:
        title = f"identity {names.identity.rpartition('/')[2]} of machines"
        yield _make("identity", title, names.identity, IDENTITIES, placed)
    if names.options.batch_url is None:
        account = {
            **placed,
            "properties": {
                "poolAllocationMode": "BatchService",
                "autoStorage": {"storageAccountId": names.storage},
            },
        }
        title = f"Batch account {names.batch.rpartition('/')[2]}, with that storage"
        yield _make("batch", title, names.batch, BATCH, account)


def _plain(name: str) -> str:
    """Return *name* for metadata, whose names are those of C#."""
    return name.replace("-", "_")


def _list_roles(names: Names) -> Iterator[Step]:
    """Yield the roles of `runspec policy`, for the identity of machines and for whoever is logged in.

    https://learn.microsoft.com/rest/api/authorization/role-assignments/create
    """
    blobs, person = "Storage Blob Data Contributor", str(names.survey["person"])
    if names.options.identity is None:
        condition = {
            "condition": make_delete_condition(names.options.prefix),
            "conditionVersion": "2.0",
        }
        of_identity = {"principalId": {"$ref": "identity.principalId"}}
        more = {"principalType": "ServicePrincipal", **condition}
        yield _make_role(
            names, "role-jobs", blobs, names.container, names.identity, {**of_identity, **more}
        )
    me = {"principalId": person}
    yield _make_role(names, "role-blobs", blobs, names.container, person, me)
    if names.options.batch_url is None:
        role = "Azure Batch Data Contributor"
        yield _make_role(names, "role-batch", role, names.batch, person, me)
    if names.options.identity is None:
        role = "Managed Identity Operator"
        yield _make_role(names, "role-identity", role, names.identity, person, me)


def _make_role(
    names: Names,
    id: str,  # noqa: A002 - the field of a step
    role: str,
    scope: str,
    to: str,
    properties: Mapping[str, Any],
) -> Step:
    # The name is a GUID of the caller's choice: the same for the same role.
    name = uuid.uuid5(uuid.NAMESPACE_URL, f"{scope} {role} {to}".lower())
    definition = f"{names.subscription}/providers/Microsoft.Authorization/roleDefinitions"
    body = {"properties": {"roleDefinitionId": f"{definition}/{ROLE_IDS[role]}", **properties}}
    whose = "machines" if "$ref" in str(properties) else "you"
    path = f"{scope}/providers/Microsoft.Authorization/roleAssignments/{name}"
    return _make(id, f"role {role} of {whose} on {scope.rpartition('/')[2]}", path, ROLES, body)


def _make_settings(names: Names) -> dict[str, Any]:
    options = names.options
    settings: dict[str, Any] = {
        "subscription": names.survey["subscription"],
        "resource_group": names.group_name,
        "batch_url": options.batch_url or {"$ref": "batch.url"},
        "batch_account": names.batch.rpartition("/")[2],
        "storage_account": names.storage_name,
        "container": names.container_name,
        "identity": names.identity,
    }
    if options.batch_url is not None:
        del settings["batch_account"]
    more = {key: getattr(options, key) for key in ("cloud", "arm_url", "blob_url")}
    return settings | {key: value for key, value in more.items() if value is not None}


def _list_notes(survey: Mapping[str, Any]) -> Iterator[str]:
    """Yield what to ask Azure for where a quota is 0.

    https://learn.microsoft.com/azure/batch/batch-quota-limit#increase-a-quota
    """
    quotas = survey.get("quotas", {})
    for key, what in (
        ("accounts", "Batch accounts in this location"),
        ("dedicated", "dedicated cores of the Batch account"),
        ("spot", "spot cores of the Batch account"),
    ):
        if quotas.get(key) == 0:
            ask = "portal: the Batch account, Quotas, Request quota increase (type: Batch)"
            yield f"the quota of {what} is 0; ask for more, {ask}"
