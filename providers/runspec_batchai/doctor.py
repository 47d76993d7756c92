"""Find problems that would stop a job on Azure Batch AI, before anything is created."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from runspec_azure.discover import Usage, asked, free, sizes as offered
from runspec_batchai import resources, status
from runspec_batchai.naming import batchai
from runspec_batchai.options import BatchAiOptions
from runspec_batchai.session import Arm
from runspec_batchai.store import Store
from runspec_jobs.provider import Finding, RunspecError

NEEDED = ("subscription", "location", "storage_account", "container")
KINDS = dict(zip(resources.QUOTA_KINDS, ("dedicated", "low-priority"), strict=True))
MORE = "request a quota increase, or set another vm_size"
RETRIES = 2


def examine(options: BatchAiOptions) -> Iterator[Finding]:
    """Yield what exists and what is missing, most important first."""
    try:
        arm = Arm(options, retries=RETRIES)
    except RunspecError as exc:  # the public endpoint was shut down, so nothing else matters
        yield Finding(exc.message, False, exc.hint or "see runspec docs azure-batch-ai")
        return
    missing = list(_missing(options))
    yield from missing
    if missing:
        return
    good = f"{options.arm_url} serves subscription {options.subscription} in {options.location}"
    hint = "check arm_url and subscription in the profile"
    finding, usages = asked(arm.usages, good, hint)
    yield finding
    yield _store(options)
    if usages is None:
        return
    if options.cluster:
        yield _cluster(arm, options)
    else:
        yield from _quotas(options, usages)
        yield from _sizes(arm, options)


def _missing(options: BatchAiOptions) -> Iterator[Finding]:
    wanted = [key for key in NEEDED if not getattr(options, key)]
    if not (options.file_share or options.logs):
        wanted.append("file_share")
    if not (options.cluster or options.ssh_public_key or options.admin_password):
        wanted.append("ssh_public_key")
    for key in wanted:
        yield Finding(
            f"the profile has no `{key}`", False, "runspec init --provider azure-batch-ai"
        )


def _store(options: BatchAiOptions) -> Finding:
    account, container = options.storage_account, options.container
    hint = f"create it (az storage container create --account-name {account} -n {container}), or set another one"
    good = f"container {container} of storage account {account}"
    return asked(Store(options).look, good, hint)[0]


def _cluster(arm: Arm, options: BatchAiOptions) -> Finding:
    name = options.cluster or ""
    where = batchai("Clusters_Get", options, {"clusterName": name}).params["path"]
    hint = "set an existing cluster, or remove cluster from the profile so that runspec makes one"
    finding, cluster = asked(lambda: arm.look("Clusters", where), f"cluster {name}", hint)
    if not finding.ok:
        return finding
    if cluster is None:
        return Finding(
            f"there is no cluster {name} in the workspace {options.workspace}", False, hint
        )
    errors = [status.error_line(error) for error in cluster.errors or ()]
    what = f"cluster {name} of {cluster.vm_size}, {cluster.vm_priority}"
    if errors:
        return Finding(
            f"{what}: {'; '.join(errors)}",
            False,
            "correct this: until then the cluster gets no nodes",
        )
    return Finding(what, True)


def _quotas(options: BatchAiOptions, usages: Mapping[str, Usage]) -> Iterator[Finding]:
    """Check quotas. One kind of machine may have none left, since a job uses either dedicated or low-priority ones."""
    size = resources.known(options.vm_size)
    least = (size and size.cpus) or 1
    rooms = {kind: usages.get(resources.whole_quota(kind)) for kind in KINDS}
    enough = any(room and room.limit - room.used >= least for room in rooms.values())
    if room := usages.get(resources.CLUSTER_QUOTA):
        yield free(room, "clusters", 1, "delete one, or set cluster to an existing one")
    for kind, room in rooms.items():
        if room:
            yield free(room, f"{KINDS[kind]} vCPUs", 0 if enough else least, MORE)
    families = [size.family] if size else resources.FAMILIES.values()
    for family in families:
        both = {kind: usages.get(resources.find_family_quota(family, kind)) for kind in KINDS}
        some = size is None or any(r and r.limit - r.used >= least for r in both.values())
        for kind, room in both.items():
            if room:
                what = f"{KINDS[kind]} vCPUs of {family}"
                yield free(room, what, 0 if some else least, MORE)


def _sizes(arm: Arm, options: BatchAiOptions) -> Iterator[Finding]:
    named = options.vm_size
    size = resources.known(named)
    if named and size is None:
        yield Finding(
            f"vm_size: {named} is unknown to runspec, so doctor cannot check its quota", True
        )
        return
    finding, there = asked(
        arm.skus, "the endpoint does not list VM sizes", "log in again (az login)"
    )
    if there is None:
        yield finding
        return
    names = [size.name] if size else [one.name for one in resources.sizes().machines]
    yield from offered(names, there, str(options.location), needed=size is not None)
