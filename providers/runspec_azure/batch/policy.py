"""The least roles that a plan needs, for the user who applies it and for the identity of the job.

https://learn.microsoft.com/azure/batch/batch-role-based-access-control
https://learn.microsoft.com/azure/role-based-access-control/built-in-roles
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from runspec_agent.base.light_typing import NamedTuple
from runspec_azure.batch.infrastructure import built_image, run_secrets
from runspec_azure.batch.options import BatchOptions
from runspec_azure.naming import account
from runspec_jobs.provider import Step
from runspec_jobs.provider.job_manifest import list_foreign

BLOBS = "Microsoft.Storage/storageAccounts/blobServices/containers/blobs"


class Right(NamedTuple):
    """A role *on* a resource: its id, or its name if the profile lacks the subscription or resource group.

    If the role permits more than is needed, the *condition* of its assignment removes the rest.
    """

    role: str
    on: str
    why: str
    condition: str = ""

    def shown(self) -> dict[str, str]:
        return {name: word for name, word in self._asdict().items() if word}


def policy(steps: Iterable[Step], options: BatchOptions, *, of_job: bool) -> Mapping[str, Any]:
    listed = tuple(steps)
    rights = _identity(listed, options) if of_job else _login(listed, options)
    to = (options.identity or "nobody: the job uses a signature") if of_job else "the login"
    return {"to": to, "roles": [right.shown() for right in dict.fromkeys(rights)]}


def doctor_policy(options: BatchOptions) -> Mapping[str, Any]:
    """Return the role that doctor needs: it reads the account, quotas, VM sizes and the login's own permissions."""
    where = f"/subscriptions/{options.subscription or 'SUBSCRIPTION'}"
    right = Right("Reader", where, "quotas, VM sizes and the permissions of the login")
    return {"to": "the login", "roles": [right.shown()]}


def _login(steps: tuple[Step, ...], options: BatchOptions) -> Iterator[Right]:
    """Yield the roles of the login. Keys need none, but the Resource Manager accepts no keys."""
    makes = bool(options.identity) and not options.pool
    if makes or not options.batch_key:
        why = "pools, jobs and tasks"
        yield Right("Azure Batch Data Contributor", _batch_account(options), why)
    if not options.storage_key:
        scope = _container(options.storage_account, options.container)
        yield Right("Storage Blob Data Contributor", scope, "uploads, outputs, logs")
        if not options.identity:
            where = f"storage account {options.storage_account}"
            yield Right("Storage Blob Delegator", where, "signatures for jobs")
    if options.identity and makes:
        yield Right("Managed Identity Operator", options.identity, "to assign it to pools")
    if any(step.do.service == run_secrets.SERVICE for step in steps):
        yield Right("Key Vault Secrets Officer", f"key vault {options.vault}", "secrets of runs")
    for host in built_image.list_pushed(steps):
        if not (options.registry_user and host == options.registry):
            yield Right("AcrPush", f"registry {host}", "images of container.build")
    if options.subscription:
        where = f"/subscriptions/{options.subscription}"
        yield Right("Reader", where, "VM sizes and quotas, for doctor and plan")


def _batch_account(options: BatchOptions) -> str:
    name = account(options)
    if not (options.subscription and options.resource_group):
        return f"Batch account {name}"
    group = f"/subscriptions/{options.subscription}/resourceGroups/{options.resource_group}"
    return f"{group}/providers/Microsoft.Batch/batchAccounts/{name}"


def _container(storage_account: str | None, container: str | None) -> str:
    return f"container {container} of storage account {storage_account}"


def _identity(steps: tuple[Step, ...], options: BatchOptions) -> Iterator[Right]:
    if not options.identity:
        return
    scope = _container(options.storage_account, options.container)
    why = "everything that a job reads and writes"
    condition = make_delete_condition(options.prefix)
    yield Right("Storage Blob Data Contributor", scope, why, condition)
    for kind, written in (("Reader", False), ("Contributor", True)):
        for url in list_foreign(steps, written=written):
            if url.startswith("az://"):
                name, container = url.removeprefix("az://").split("/")[:2]
                yield Right(f"Storage Blob Data {kind}", _container(name, container), url)
    # Roles on single secrets would have to be assigned for each run.
    own = f"{(options.vault or '').rstrip('/')}/secrets/runspec-"
    for step in steps:
        for right in _asked(step.do.params, options.identity):
            is_own = bool(options.vault) and right.on.startswith(own)
            yield right._replace(on=f"key vault {options.vault}") if is_own else right


def make_delete_condition(prefix: str) -> str:
    """Return the condition that the identity, which all runs of the profile share, deletes only outputs of runs.

    https://learn.microsoft.com/azure/storage/blobs/storage-auth-abac-examples
    """
    # How to escape a quotation mark is undocumented; "?" matches any character.
    path = prefix.replace("*", r"\*").replace("'", "?") + "/runs/*/outputs/*"
    return (
        f"((!(ActionMatches{{'{BLOBS}/delete'}})) OR (@Resource[{BLOBS}:path] StringLike '{path}'))"
    )


def _asked(value: Any, identity: str) -> Iterator[Right]:
    """Yield the roles for everything in a request that uses the identity: images, mounts and secrets."""
    if isinstance(value, list | tuple):
        for inner in value:
            yield from _asked(inner, identity)
    if not isinstance(value, Mapping):
        return
    if value.get("name") == "RUNSPEC_VAULT":
        for url in json.loads(value["value"]).values():
            yield Right("Key Vault Secrets User", url, "secrets")
    if value.get("identityReference") == {"resourceId": identity}:
        if "registryServer" in value:
            yield Right("AcrPull", f"registry {value['registryServer']}", "images")
        if "containerName" in value:
            scope = _container(value["accountName"], value["containerName"])
            yield Right("Storage Blob Data Contributor", scope, "shared://")
    for inner in value.values():
        yield from _asked(inner, identity)
