"""Find problems that would stop one job on Azure Batch: permissions of the login, and quotas for its nodes."""

from __future__ import annotations

import fnmatch
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from runspec_azure.batch import doctor
from runspec_azure.batch.decision import Decision, decide
from runspec_azure.batch.options import BatchOptions
from runspec_azure.batch.policy import BLOBS, policy
from runspec_azure.discover import Subscription, Usage, asked, opened
from runspec_azure.errors import status_of, translated
from runspec_azure.resources import vm_sizes
from runspec_azure.session.clients import Session
from runspec_jobs.provider import Capacity, Facts, Finding, RemoteError, RunspecError, Spec, Step

BATCH = "Microsoft.Batch/batchAccounts"
# What runspec does by each role of `runspec policy`; actions and data actions.
# https://learn.microsoft.com/azure/batch/batch-role-based-access-control
# https://learn.microsoft.com/azure/role-based-access-control/permissions/storage
USED: Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "Azure Batch Data Contributor": (
        tuple(f"{BATCH}/pools/{kind}" for kind in ("read", "write", "delete")),
        tuple(f"{BATCH}/jobs/{kind}" for kind in ("read", "write", "delete")),
    ),
    "Storage Blob Data Contributor": (
        (),
        tuple(f"{BLOBS}/{kind}" for kind in ("read", "write", "delete")),
    ),
    "Storage Blob Delegator": (
        ("Microsoft.Storage/storageAccounts/blobServices/generateUserDelegationKey/action",),
        (),
    ),
    "Managed Identity Operator": (
        ("Microsoft.ManagedIdentity/userAssignedIdentities/assign/action",),
        (),
    ),
}
# Count the nodes that the pool of the job has already: spot nodes (True) and other ones.
Held = Callable[[], Mapping[bool, int]]
STORAGE = "Microsoft.Storage/storageAccounts"
POLICY = "assign the role, as `runspec policy` prints it"


def examine(
    spec: Spec, facts: Facts, steps: Sequence[Step], subscription: Subscription | None = None
) -> Iterator[Finding]:
    """Yield what stops the job of *spec*, whose plan has *steps*, most important first."""
    options: BatchOptions = facts.options
    decision = decide(spec, facts)
    if subscription is None and options.subscription is not None:
        subscription = opened(options)
    yield from doctor.examine(options, subscription, job_nodes=decision.nodes)
    if subscription is None:
        what = "doctor cannot check permissions and quotas: the profile has no `subscription`"
        yield Finding(what, True, "add subscription: ID (az account show --query id)", unknown=True)
        return
    for role in policy(steps, options, of_job=False)["roles"]:
        if role["role"] in USED:
            yield _check_role(role["role"], subscription, options)
    if not options.pool:
        yield _check_quota(decision, subscription, lambda: _count_held(Session(options), steps))


def _check_role(role: str, subscription: Subscription, options: BatchOptions) -> Finding:
    """Return whether the login has what runspec does by *role*.

    https://learn.microsoft.com/rest/api/authorization/permissions/list-for-resource
    """
    where = _locate(role, options)
    ask = partial(subscription.permissions, *where)
    finding, permissions = asked(ask, "", "")
    if not permissions:
        why = finding.what or "the subscription does not show the resource, or no permission on it"
        message = f"doctor cannot check the role {role} of the login: {why}"
        return Finding(message, True, POLICY, unknown=True)
    actions, data = USED[role]
    lacking = [one for one in actions if not is_permitted(one, permissions, "actions")]
    lacking += [one for one in data if not is_permitted(one, permissions, "dataActions")]
    if lacking:
        return Finding(
            f"the login has no right to {', '.join(lacking)}", False, f"{POLICY}: {role}"
        )
    return Finding(f"the login has the rights of the role {role} that the job needs", True)


def _locate(role: str, options: BatchOptions) -> tuple[str, str, str]:
    """Return the type and name of the resource that *role* is for, and the rest of the path below it."""
    if role == "Managed Identity Operator":
        return "", str(options.identity), ""
    if role == "Azure Batch Data Contributor":
        return BATCH, "", ""
    below = f"/blobServices/default/containers/{options.container}"
    return STORAGE, str(options.storage_account), below if role.endswith("Contributor") else ""


def is_permitted(action: str, permissions: Sequence[Mapping[str, Any]], kind: str) -> bool:
    """Return whether one of *permissions* has *action* of a *kind*, `actions` or `dataActions`.

    >>> is_permitted("A/b/read", [{"actions": ["A/*"], "notActions": ["a/B/read"]}], "actions")
    False
    """
    denied = f"not{kind[0].upper()}{kind[1:]}"
    return any(
        _matches(action, one.get(kind) or ()) and not _matches(action, one.get(denied) or ())
        for one in permissions
    )


def _matches(action: str, patterns: Sequence[str]) -> bool:
    return any(fnmatch.fnmatchcase(action.lower(), pattern.lower()) for pattern in patterns)


def _check_quota(decision: Decision, subscription: Subscription, held: Held) -> Finding:
    """Return whether the quotas permit the nodes of one task at once, on demand or on spot as the spec says.

    A quota that others use up now makes the job wait, and does not stop it.
    """
    machine = vm_sizes.known(decision.vm_size)
    if machine is None:
        message = (
            f"doctor cannot check the quota of {decision.vm_size}, which runspec does not know"
        )
        return Finding(message, True, unknown=True)
    need = machine.cpus * decision.nodes
    spots = {Capacity.ON_DEMAND: (False,), Capacity.SPOT: (True,)}.get(
        decision.capacity, (True, False)
    )
    try:
        rooms = {spot: _find_room(subscription, machine.family, spot=spot) for spot in spots}
        nodes = held() if any(room and room.used for room in rooms.values()) else {}
    except RunspecError as exc:  # a missing right to read quotas says nothing about the job
        return Finding(f"doctor cannot check quotas: {exc.message}", True, exc.hint, unknown=True)
    known = {spot: room for spot, room in rooms.items() if room is not None}
    limit = max((room.limit for room in known.values()), default=0)
    if len(known) < len(rooms) and limit < need:
        message = f"doctor cannot check the quota of {machine.family}: the service does not name it"
        return Finding(message, True, unknown=True)
    kind = "spot vCPUs" if spots == (True,) else f"vCPUs of {machine.family}"
    if limit < need:
        message = f"the quota is {limit:,} {kind}, and a task needs {need:,}"
        return Finding(message, False, f"{doctor.MORE}; or ask for fewer nodes")
    most = max(
        room.limit - room.used + nodes.get(spot, 0) * machine.cpus for spot, room in known.items()
    )
    message = f"{most:,} of {limit:,} {kind} are free, and a task needs {need:,}"
    return Finding(message if most >= need else f"{message}: it waits until others end", True)


def _count_held(session: Session, steps: Sequence[Step]) -> dict[bool, int]:
    """Return how many spot nodes (True) and other ones the pool of the job has already, if it is there."""
    bodies = [step.do.params for step in steps if step.do.operation == "Pool_Add"]
    names = [body["body"]["id"] for body in bodies]
    managed = [step.do.params for step in steps if step.do.operation == "Pool_Create"]
    held = {True: 0, False: 0}
    for name in [*names, *(params["path"]["poolName"] for params in managed)]:
        try:
            with translated("look for the pool of the job"):
                pool = session.look("Pool_Get", {"poolId": name})
        except RemoteError as exc:
            if status_of(exc) != 404:
                raise
            continue
        held[True] += int(pool.get("currentLowPriorityNodes") or 0)
        held[False] += int(pool.get("currentDedicatedNodes") or 0)
    return held


def _find_room(subscription: Subscription, family: str, *, spot: bool) -> Usage | None:
    """Return the quota of vCPUs of *family*, the narrowest one that applies, with its use; None if it is not known."""
    account = subscription.account or {}
    if subscription.mode == "user-subscription":
        names = ("lowprioritycores",) if spot else ("cores", vm_sizes.family_key(family))
        known = subscription.usages
        usages = [usage for name in names if (usage := known.get(name)) is not None]
        if len(usages) < len(names):
            return None
        limit = min(usage.limit for usage in usages)
        return Usage(limit - min(usage.limit - usage.used for usage in usages), limit)
    whole = account.get("lowPriorityCoreQuota" if spot else "dedicatedCoreQuota")
    if whole is None:
        return None
    if spot or not account.get("dedicatedCoreQuotaPerVMFamilyEnforced"):
        return Usage(0, int(whole))  # the service does not say how much of it is in use
    listed = account.get("dedicatedCoreQuotaPerVMFamily") or ()
    of_family = {vm_sizes.family_key(str(one.get("name"))): one.get("coreQuota") for one in listed}
    return Usage(0, min(int(whole), int(of_family.get(vm_sizes.family_key(family)) or 0)))
