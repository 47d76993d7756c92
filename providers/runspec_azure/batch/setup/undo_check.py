"""Find what keeps a setup from being undone: pools of other machines, and what others keep in what it has made."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from runspec_azure.batch.setup.manager import Manager
from runspec_azure.batch.setup.steps import BATCH, Names
from runspec_jobs.provider import Conflict

LEAVING = ("Deleting", "Deleted")
CONTAINERS = "blobServices/default/containers"
# A setup makes none of these, and so --with-data does not delete them.
OTHER_DATA = (
    "fileServices/default/shares",
    "queueServices/default/queues",
    "tableServices/default/tables",
)
SHOWN = 3  # names of one message
POOLS = "runs of another machine may need them; delete these pools first"


def refuse(conflicts: Sequence[Conflict]) -> None:
    """Raise the first of *conflicts*, if there are any."""
    for conflict in conflicts:
        raise conflict


def list_pools(manager: Manager, batch: str) -> list[Conflict]:
    """Return the Conflict of an account of Batch that has pools: deleting it deletes them."""
    return _make(manager, batch, ("pools",), BATCH, POOLS, ())


def list_users(manager: Manager, names: Names) -> list[Conflict]:
    """Return the Conflicts of pools that have the identity, in any account of the subscription that the login may see.

    https://learn.microsoft.com/rest/api/batchmanagement/batch-account/list
    """
    accounts = manager.list(f"{names.subscription}/providers/Microsoft.Batch/batchAccounts", BATCH)
    found = []
    for account in accounts:
        if str(account["id"]).lower() == names.batch.lower():
            continue  # list_pools tells of all of its pools
        pools = manager.list(f"{account['id']}/pools", BATCH)
        using = [str(pool["name"]) for pool in pools if _has_identity(pool, names.identity)]
        if using:
            identity = names.identity.rpartition("/")[2]
            what = f"{', '.join(using[:SHOWN])} of the Batch account {account['name']}"
            found.append(Conflict(f"the identity {identity} is used by the pools {what}", POOLS))
    return found


def _has_identity(pool: Any, identity: str) -> bool:
    ids = ((pool.get("identity") or {}).get("userAssignedIdentities") or {}).keys()
    return identity.lower() in {str(one).lower() for one in ids}


def list_left(
    manager: Manager, names: Names, where: tuple[str, str], ours: Sequence[str]
) -> list[Conflict]:
    """Return the Conflicts of what would be deleted with the resource at *where*, a path and a version of its API.

    The paths of *ours* are those that are deleted before it.
    """
    path, version = where
    if path == names.storage:
        hint = f"add --with-data, which deletes the container {names.container_name} alone"
        others = _make(manager, path, (CONTAINERS,), version, hint, ours)
        return [*others, *_make(manager, path, OTHER_DATA, version, "delete these first", ours)]
    if path == names.group:
        hint = "delete these first, or keep the group, which costs nothing"
        return _make(manager, path, ("resources",), version, hint, ours)
    return []


def _make(
    manager: Manager,
    path: str,
    lists: tuple[str, ...],
    version: str,
    hint: str,
    ours: Sequence[str],
) -> list[Conflict]:
    """Return the Conflict of what is in one of *lists* of a resource."""
    known = {path.lower() for path in ours}
    rows = [row for end in lists for row in manager.list(f"{path}/{end}", version)]
    names = [
        str(row["name"])
        for row in rows
        if read_state(row) not in LEAVING and str(row.get("id", "")).lower() not in known
    ]
    if not names:
        return []
    shown = ", ".join(names[:SHOWN])
    return [Conflict(f"{path.rpartition('/')[2]} has {shown}, and stays", hint)]


def read_state(resource: Any) -> str | None:
    """Return the state of a resource of the Resource Manager; None if it has none."""
    state = ((resource or {}).get("properties") or {}).get("provisioningState")
    return None if state is None else str(state)
