"""What will stop a job on Azure Batch, looked for before anything is made."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from runspec_azure.batch.options import BatchOptions
from runspec_azure.discover.findings import asked, free, sizes
from runspec_azure.discover.subscription import Subscription, opened
from runspec_azure.resources import vm_sizes
from runspec_azure.session.clients import Session
from runspec_azure.store.blobs import Blobs
from runspec_jobs.provider import Finding

NEEDED = ("batch_url", "storage_account", "container")
# Among capabilities: https://learn.microsoft.com/azure/batch/batch-docker-container-workloads
CONTAINERS = "dockercompatible"
ENOUGH_VCPUS = 2  # of the smallest machine
MORE = "ask for more in the portal: the Batch account, Quotas"


def examine(options: BatchOptions, subscription: Subscription | None = None) -> Iterator[Finding]:
    """Yield what is there and what is missing, most important first."""
    missing = [key for key in NEEDED if getattr(options, key) is None]
    for key in missing:
        yield Finding(f"the profile names no {key}", False, "runspec init --provider azure-batch")
    if missing:
        return
    session = Session(options)
    finding, images = asked(
        lambda: session.pages("Account_ListSupportedImages"),
        f"Batch account {session.account}",
        "write where it is: batch_url: https://ACCOUNT.REGION.batch.azure.com",
    )
    yield finding
    yield _store(session)
    if not (options.storage_key or options.identity):
        yield _delegation(session)
    if images is None:
        return
    if options.pool:
        yield from _pool(session, options.pool)
    else:
        yield from _image(options, images)
    yield from _subscription(options, subscription)


def _store(session: Session) -> Finding:
    account, container = session.options.storage_account, session.options.container
    hint = f"make it (az storage container create --account-name {account} -n {container}), or name another"
    blobs = Blobs(session)
    ask = lambda: next(iter(blobs.listing(blobs.key("inside", ""))), "")  # noqa: E731
    return asked(ask, f"container {container} of storage account {account}", hint)[0]


def _delegation(session: Session) -> Finding:
    """Whoever is logged in needs a right on the whole storage account to sign, and not on the container.

    https://learn.microsoft.com/rest/api/storageservices/get-user-delegation-key#permissions
    """
    from runspec_azure.signed import Signer

    account = session.options.storage_account
    hint = f"assign the role Storage Blob Delegator on the storage account {account} to the login"
    ask = Signer(Blobs(session)).delegation
    return asked(ask, f"the login may sign for jobs (storage account {account})", hint)[0]


def _pool(session: Session, name: str) -> Iterator[Finding]:
    """A job of several nodes stays active for ever in a pool that is not made for it.

    https://learn.microsoft.com/azure/batch/batch-mpi#requirements-for-multi-instance-tasks
    """
    hint = "name one that is there, or none, and one is made"
    finding, pool = asked(lambda: session.look("Pool_Get", {"poolId": name}), f"pool {name}", hint)
    yield finding
    if pool is None:
        return
    slots = pool.get("taskSlotsPerNode", 1)
    if not pool.get("enableInterNodeCommunication") or slots != 1:
        what = f"pool {name} takes jobs of one node alone: enableInterNodeCommunication is "
        what += f"{str(bool(pool.get('enableInterNodeCommunication'))).lower()}, taskSlotsPerNode {slots}"
        yield Finding(what, True)
    machine = pool.get("virtualMachineConfiguration", {})
    kind = "with an image" if machine.get("containerConfiguration") else "without an image"
    yield Finding(f"pool {name} takes jobs {kind} alone ({pool.get('vmSize')})", True)
    mounts = [
        inner["relativeMountPath"]
        for m in pool.get("mountConfiguration") or ()
        for inner in m.values()
    ]
    yield Finding(
        f"pool {name} mounts {', '.join(mounts) or 'nothing'}: shared:// has no more", True
    )
    for error in pool.get("resizeErrors") or ():
        what = f"pool {name}: {error.get('code')}: {error.get('message')}"
        yield Finding(what, False, "it gets no machines until that is mended")


def _image(options: BatchOptions, images: list[Mapping[str, Any]]) -> Iterator[Finding]:
    """https://learn.microsoft.com/rest/api/batchservice/account/list-supported-images"""
    if options.image.startswith("/"):
        what = "image: it is your own, so that only you know whether it has containers (moby) and python3"
        yield Finding(what, True)
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
            yield Finding(f"image {options.image} takes jobs without an image alone", True)
    elif there:
        agents = ", ".join(sorted({str(i.get("nodeAgentSKUId")) for i in there}))
        what = f"image {options.image} does not go with {options.node_agent}"
        yield Finding(what, False, f"set node_agent: {agents}")
    else:
        what = f"the account has no image {options.image}"
        yield Finding(what, False, "name one of az batch pool supported-images list")


def _same(image: Mapping[str, Any], wanted: Mapping[str, str]) -> bool:
    return all(str(image.get(key)).lower() == value.lower() for key, value in wanted.items())


def _subscription(options: BatchOptions, given: Subscription | None) -> Iterator[Finding]:
    if options.subscription is None and given is None:
        yield Finding("the profile names no subscription: quotas are not looked at", True)
        return
    subscription = given or opened(options)
    hint = "log in (az login), with the right to read the subscription (Reader)"
    finding, account = asked(lambda: subscription.account or {}, "", hint)
    if account is None:
        yield finding
        return
    if not account:
        what = f"the subscription has no Batch account {subscription.account_name}"
        yield Finding(what, False, "name its own: az batch account list")
        return
    state = account.get("provisioningState")
    what = f"{subscription.account_name} in {subscription.region}: {state}, {subscription.mode}"
    yield Finding(what, state == "Succeeded", "wait for it, or see the portal")
    yield from _modes(options, subscription)
    yield from _sizes(options, subscription, hint)
    if subscription.mode == "user-subscription":
        yield from _usages(options, subscription, hint)
    else:
        yield from _account_quotas(options, account)


def _modes(options: BatchOptions, subscription: Subscription) -> Iterator[Finding]:
    said, mode = options.pool_allocation, subscription.mode
    if said and mode and said != mode:
        yield Finding(f"the profile says pool_allocation: {said}", False, f"write {mode}")
    if mode == "batch-service":
        # https://learn.microsoft.com/azure/batch/batch-spot-vms
        what = "low-priority machines were retired on 2025-09-30: no job with capacity: spot here"
        yield Finding(what, True)


def _sizes(options: BatchOptions, subscription: Subscription, hint: str) -> Iterator[Finding]:
    if options.pool:
        return
    finding, skus = asked(lambda: subscription.skus, "", hint)
    if skus is None:
        yield finding
        return
    wanted = [vm_sizes.known(options.vm_size or "")] if options.vm_size else vm_sizes.CURRENT
    names = [m.name for m in wanted if m is not None]
    # Of the table no job may need it.
    yield from sizes(names, skus, subscription.region, needed=options.vm_size is not None)


def _families(options: BatchOptions) -> dict[str, int]:
    """Return the families that jobs may need, with the vCPUs of the smallest machine of each."""
    named = vm_sizes.known(options.vm_size or "")
    found: dict[str, int] = {}
    for machine in [named] if named else vm_sizes.CURRENT:
        found[machine.family] = min(machine.cpus, found.get(machine.family, machine.cpus))
    return found


def _usages(options: BatchOptions, subscription: Subscription, hint: str) -> Iterator[Finding]:
    """The machines of a user-subscription account count as the subscription's own."""
    finding, usages = asked(lambda: subscription.usages, "", hint)
    if usages is None:
        yield finding
        return
    wanted = {"cores": ENOUGH_VCPUS, "lowPriorityCores": 0, **_families(options)}
    words = {"cores": "vCPUs in all", "lowPriorityCores": "spot vCPUs"}
    for name, least in wanted.items():
        usage = usages.get(vm_sizes.family_key(name))
        if usage is None:
            continue
        what = words.get(name, f"vCPUs of {name}")
        needed = name == "cores" or (options.vm_size is not None and name in _families(options))
        yield free(usage, what, least if needed else 0, "ask for more in the portal: Quotas")


def _account_quotas(options: BatchOptions, account: Mapping[str, Any]) -> Iterator[Finding]:
    """https://learn.microsoft.com/azure/batch/batch-quota-limit#core-quotas"""
    if (whole := account.get("dedicatedCoreQuota")) is not None:
        yield Finding(f"{whole:,} dedicated vCPUs in all", whole >= ENOUGH_VCPUS, MORE)
    if not account.get("dedicatedCoreQuotaPerVMFamilyEnforced"):
        return
    listed = account.get("dedicatedCoreQuotaPerVMFamily") or ()
    known = {str(one.get("name")): one.get("coreQuota") for one in listed}
    quotas = {vm_sizes.family_key(name): int(quota or 0) for name, quota in known.items()}
    for family, least in _families(options).items():
        quota = quotas.get(vm_sizes.family_key(family), 0)
        good = quota >= least or options.vm_size is None
        yield Finding(f"{quota:,} dedicated vCPUs of {family}", good, MORE)
