"""Find problems of an account that would stop a job on Azure Batch, before anything is created."""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping
from typing import Any

from runspec_azure.batch.options import BatchOptions
from runspec_azure.discover import Subscription, asked, opened, sizes
from runspec_azure.resources import vm_sizes
from runspec_azure.session.clients import Session
from runspec_azure.store import Blobs
from runspec_jobs.provider import Finding

NEEDED = ("batch_url", "storage_account", "container")
# One of the capabilities of images: https://learn.microsoft.com/azure/batch/batch-docker-container-workloads
CONTAINERS = "dockercompatible"
ENOUGH_VCPUS = 2  # as many as the smallest machine has
MORE = "request an increase in the portal: the Batch account, Quotas"


def examine(
    options: BatchOptions, subscription: Subscription | None = None, *, job_nodes: int = 0
) -> Iterator[Finding]:
    """Yield what exists and what is missing, most important first.

    For a job whose tasks have *job_nodes* nodes, the quotas that any job may need are left out.
    """
    missing = [key for key in NEEDED if getattr(options, key) is None]
    for key in missing:
        yield Finding(f"the profile has no `{key}`", False, "runspec init --provider azure-batch")
    if missing:
        return
    session = Session(options)
    finding, images = asked(
        lambda: session.pages("Account_ListSupportedImages"),
        f"Batch account {session.account}",
        "set batch_url: https://ACCOUNT.REGION.batch.azure.com in the profile",
    )
    yield finding
    yield from _store(session)
    if options.vault:
        ask = lambda: next(session.vault.list(), "")  # noqa: E731
        hint = "set the URL of an existing vault in the profile, or see runspec policy"
        yield asked(ask, f"key vault {options.vault}", hint)[0]
    if not (options.storage_key or options.identity):
        yield _delegation(session)
    if images is None:
        return
    if options.pool:
        yield from _pool(session, options.pool, stops=job_nodes > 1)
    else:
        yield from _image(options, images)
    if not job_nodes or subscription is not None:
        yield from _subscription(options, subscription, quotas=not job_nodes)


def _store(session: Session) -> Iterator[Finding]:
    account, container = session.options.storage_account, session.options.container
    hint = f"create it (az storage container create --account-name {account} -n {container}), or set another one"
    blobs = Blobs(session)
    ask = lambda: next(iter(blobs.listing(blobs.key("inside", ""))), "")  # noqa: E731
    finding, there = asked(ask, f"container {container} of storage account {account}", hint)
    yield finding
    if there is not None and not blobs.on_azure:
        good = f"the store of container {container} has conditional writes"
        yield asked(lambda: _try_conditions(blobs), good, hint)[0]


def _try_conditions(blobs: Blobs) -> None:
    """Try conditional writes at a store that is not Azure's, with a blob that is deleted again."""
    key = blobs.key("runs", f"probe-{secrets.token_hex(3)}", "conditions")
    blobs.put(key, b"")
    try:
        blobs.refuse_without_conditions(key, b"")
    finally:
        blobs.remove([key])


def _delegation(session: Session) -> Finding:
    """Check that the login can sign URLs, which needs a role on the storage account, not on the container.

    https://learn.microsoft.com/rest/api/storageservices/get-user-delegation-key#permissions
    """
    from runspec_azure.signed import Signer

    account = session.options.storage_account
    hint = f"assign the role Storage Blob Delegator on the storage account {account} to the login"
    ask = Signer(Blobs(session)).delegation
    return asked(ask, f"the login can sign URLs for jobs (storage account {account})", hint)[0]


def _pool(session: Session, name: str, *, stops: bool) -> Iterator[Finding]:
    """Check the profile's pool; a job of several nodes would wait for ever in a pool that does not support it.

    https://learn.microsoft.com/azure/batch/batch-mpi#requirements-for-multi-instance-tasks
    """
    hint = "set an existing pool, or remove pool from the profile so that runspec makes one"
    finding, pool = asked(lambda: session.look("Pool_Get", {"poolId": name}), f"pool {name}", hint)
    yield finding
    if pool is None:
        return
    slots = pool.get("taskSlotsPerNode", 1)
    if not pool.get("enableInterNodeCommunication") or slots != 1:
        message = f"pool {name} runs only jobs of one node: enableInterNodeCommunication is "
        message += f"{str(bool(pool.get('enableInterNodeCommunication'))).lower()}, taskSlotsPerNode {slots}"
        yield Finding(message, not stops, "use another pool, or remove pool from the profile")
    machine = pool.get("virtualMachineConfiguration", {})
    kind = "with an image" if machine.get("containerConfiguration") else "without an image"
    yield Finding(f"pool {name} runs only jobs {kind} ({pool.get('vmSize')})", True)
    mounts = [
        inner["relativeMountPath"]
        for m in pool.get("mountConfiguration") or ()
        for inner in m.values()
    ]
    yield Finding(
        f"pool {name} mounts {', '.join(mounts) or 'nothing'}: other shared:// sources are not available",
        True,
    )
    for error in pool.get("resizeErrors") or ():
        message = f"pool {name}: {error.get('code')}: {error.get('message')}"
        yield Finding(message, False, "correct this: until then the pool gets no machines")


def _image(options: BatchOptions, images: list[Mapping[str, Any]]) -> Iterator[Finding]:
    """https://learn.microsoft.com/rest/api/batchservice/account/list-supported-images"""
    if options.image.startswith("/"):
        message = "image: custom, so doctor cannot check whether it has a container runtime (moby) and python3"
        yield Finding(message, True)
        return
    publisher, offer, sku, _ = options.image.split(":")
    wanted = {"publisher": publisher, "offer": offer, "sku": sku}
    there = [i for i in images if _same(i.get("imageReference", {}), wanted)]
    good = [i for i in there if i.get("nodeAgentSKUId") == options.node_agent]
    if good:
        ends = str(good[0].get("batchSupportEndOfLife") or "")[:10]
        until = f", until {ends}" if ends else ""
        yield Finding(f"image {options.image} with {options.node_agent}{until}", True)
        if not any(str(able).lower() == CONTAINERS for able in good[0].get("capabilities") or ()):
            yield Finding(
                f"image {options.image} supports only jobs without container.image",
                True,
            )
    elif there:
        agents = ", ".join(sorted({str(i.get("nodeAgentSKUId")) for i in there}))
        message = f"image {options.image} does not support {options.node_agent}"
        yield Finding(message, False, f"set node_agent: {agents}")
    else:
        message = f"the account has no image {options.image}"
        yield Finding(message, False, "set one that `az batch pool supported-images list` shows")


def _same(image: Mapping[str, Any], wanted: Mapping[str, str]) -> bool:
    return all(str(image.get(key)).lower() == value.lower() for key, value in wanted.items())


def _subscription(
    options: BatchOptions, given: Subscription | None, *, quotas: bool
) -> Iterator[Finding]:
    if options.subscription is None and given is None:
        what = "the profile has no `subscription`: doctor cannot check quotas"
        yield Finding(what, True, unknown=True)
        return
    subscription = given or opened(options)
    hint = "log in (az login) with the role Reader on the subscription"
    finding, account = asked(lambda: subscription.account or {}, "", hint)
    if account is None:
        yield finding
        return
    if not account:
        message = f"the subscription has no Batch account {subscription.account_name}"
        yield Finding(
            message, False, "set another subscription or batch_account: see az batch account list"
        )
        return
    state = account.get("provisioningState")
    message = f"{subscription.account_name} in {subscription.region}: {state}, {subscription.mode}"
    yield Finding(message, state == "Succeeded", "wait until it is ready, or see the portal")
    yield from _modes(options, subscription)
    if not quotas:
        return
    yield from _sizes(options, subscription, hint)
    if subscription.mode == "user-subscription":
        yield from _usages(options, subscription, hint)
    else:
        yield from _account_quotas(options, account)


def _modes(options: BatchOptions, subscription: Subscription) -> Iterator[Finding]:
    mode_wanted, mode = options.pool_allocation, subscription.mode
    if mode_wanted and mode and mode_wanted != mode:
        message = f"pool_allocation: {mode_wanted} in the profile, and the account has {mode}"
        yield Finding(message, False, f"set pool_allocation: {mode}")


def _sizes(options: BatchOptions, subscription: Subscription, hint: str) -> Iterator[Finding]:
    if options.pool:
        return
    finding, skus = asked(lambda: subscription.skus, "", hint)
    if skus is None:
        yield finding
        return
    wanted = [vm_sizes.known(options.vm_size or "")] if options.vm_size else vm_sizes.current()
    names = [m.name for m in wanted if m is not None]
    # Without vm_size, no job may need a size that is not offered.
    yield from sizes(names, skus, subscription.region, needed=options.vm_size is not None)


def _families(options: BatchOptions) -> dict[str, int]:
    """Return the VM families that jobs may need, with the vCPUs of the smallest machine of each."""
    named = vm_sizes.known(options.vm_size or "")
    quotas: dict[str, int] = {}
    for machine in [named] if named else vm_sizes.current():
        quotas[machine.family] = min(machine.cpus, quotas.get(machine.family, machine.cpus))
    return quotas


def _usages(options: BatchOptions, subscription: Subscription, hint: str) -> Iterator[Finding]:
    """Check the quotas of the subscription, which apply to machines of a user-subscription account."""
    finding, usages = asked(lambda: subscription.usages, "", hint)
    if usages is None:
        yield finding
        return
    wanted = {"cores": ENOUGH_VCPUS, "lowPriorityCores": 0, **_families(options)}
    names = {"cores": "vCPUs in total", "lowPriorityCores": "spot vCPUs"}
    for name, least in wanted.items():
        usage = usages.get(vm_sizes.family_key(name))
        if usage is None:
            continue
        message = names.get(name, f"vCPUs of {name}")
        needed = name == "cores" or (options.vm_size is not None and name in _families(options))
        need = least if needed else 0
        left = usage.limit - usage.used
        # What others use now makes jobs wait, and does not stop them.
        waits = ": jobs wait until others end" if left < need <= usage.limit else ""
        what = f"{left:,} of {usage.limit:,} {message} are free{waits}"
        yield Finding(what, usage.limit >= need, "request an increase in the portal: Quotas")


def _account_quotas(options: BatchOptions, account: Mapping[str, Any]) -> Iterator[Finding]:
    """https://learn.microsoft.com/azure/batch/batch-quota-limit#core-quotas"""
    if (whole := account.get("dedicatedCoreQuota")) is not None:
        yield Finding(f"the quota of all dedicated vCPUs is {whole:,}", whole >= ENOUGH_VCPUS, MORE)
    if (spot := account.get("lowPriorityCoreQuota")) is not None:
        yield Finding(f"the quota of all spot vCPUs is {spot:,}", True)  # no job need be on spot
    if not account.get("dedicatedCoreQuotaPerVMFamilyEnforced"):
        return
    listed = account.get("dedicatedCoreQuotaPerVMFamily") or ()
    known = {str(family.get("name")): family.get("coreQuota") for family in listed}
    quotas = {vm_sizes.family_key(name): int(quota or 0) for name, quota in known.items()}
    for family, least in _families(options).items():
        quota = quotas.get(vm_sizes.family_key(family), 0)
        good = quota >= least or options.vm_size is None
        yield Finding(f"the quota of dedicated vCPUs of {family} is {quota:,}", good, MORE)
