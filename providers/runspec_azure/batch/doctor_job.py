"""Find problems that would stop one job on Azure Batch: permissions of the login, and quotas for its nodes."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from runspec_azure.batch import doctor
from runspec_azure.batch.decision import Decision, decide
from runspec_azure.batch.options import BatchOptions
from runspec_azure.batch.policy import BLOBS, policy
from runspec_azure.discover import Subscription, asked, opened
from runspec_azure.resources import vm_sizes
from runspec_jobs.provider import Capacity, Facts, Finding, RunspecError, Spec, Step

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
        yield _check_quota(decision, subscription)


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


def _check_quota(decision: Decision, subscription: Subscription) -> Finding:
    """Return whether the quotas permit the nodes of one task at once, on demand or on spot as the spec says."""
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
        free = [
            left for spot in spots for left in [_count_free(subscription, machine.family, spot)]
        ]
    except RunspecError as exc:  # a missing right to read quotas says nothing about the job
        return Finding(f"doctor cannot check quotas: {exc.message}", True, exc.hint, unknown=True)
    known = [left for left in free if left is not None]
    if len(known) < len(free) and not any(left >= need for left in known):
        message = f"doctor cannot check the quota of {machine.family}: the service does not name it"
        return Finding(message, True, unknown=True)
    most = max(known)
    kind = "spot vCPUs" if spots == (True,) else f"vCPUs of {machine.family}"
    message = f"{most:,} {kind} are free, and a task needs {need:,}"
    return Finding(message, most >= need, f"{doctor.MORE}; or ask for fewer nodes")


def _count_free(subscription: Subscription, family: str, spot: bool) -> int | None:
    """Return how many vCPUs of *family* may still start; None if it is not known."""
    account = subscription.account or {}
    if subscription.mode == "user-subscription":
        names = ("lowprioritycores",) if spot else ("cores", vm_sizes.family_key(family))
        known = subscription.usages
        usages = [known.get(name) for name in names]
        counts = [usage.limit - usage.used for usage in usages if usage is not None]
        return min(counts) if len(counts) == len(names) else None
    whole = account.get("lowPriorityCoreQuota" if spot else "dedicatedCoreQuota")
    if whole is None or spot or not account.get("dedicatedCoreQuotaPerVMFamilyEnforced"):
        return whole
    listed = account.get("dedicatedCoreQuotaPerVMFamily") or ()
    of_family = {vm_sizes.family_key(str(one.get("name"))): one.get("coreQuota") for one in listed}
    return min(int(whole), int(of_family.get(vm_sizes.family_key(family)) or 0))
