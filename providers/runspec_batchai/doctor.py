"""Find problems that would stop a job on Azure Batch AI, before anything is created."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from runspec_azure.discover import Usage, asked, free, sizes as offered
from runspec_batchai import infrastructure, resources, status
from runspec_batchai.decision import Decision
from runspec_batchai.naming import batchai
from runspec_batchai.options import BatchAiOptions
from runspec_batchai.session import Arm
from runspec_batchai.store import Store
from runspec_jobs.provider import Finding, RunspecError

NEEDED = ("subscription", "location", "storage_account", "container")
KINDS = dict(zip(resources.QUOTA_KINDS, ("dedicated", "low-priority"), strict=True))
MORE = "request a quota increase, or set another vm_size"
RETRIES = 2


def examine(options: BatchAiOptions, decision: Decision | None = None) -> Iterator[Finding]:
    """Yield what exists and what is missing, most important first: for the job of *decision*, or for any job."""
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
    if decision is not None:
        yield from _examine_job(arm, decision, usages)
        return
    if usages is None:
        return
    if options.cluster:
        yield _cluster(arm, options.cluster, options)[0]
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


def _examine_job(
    arm: Arm, decision: Decision, usages: Mapping[str, Usage] | None
) -> Iterator[Finding]:
    """Yield what only one job needs: its workspace, its cluster, and the quota for a cluster that is to be made."""
    options = decision.options
    if options.logs is None:
        what = f"doctor cannot check the share {options.file_share} of storage account {options.storage_account}"
        yield Finding(what, True, "az storage share show shows whether it exists", unknown=True)
    yield _workspace(arm, options)
    name = infrastructure.name(decision)
    finding, cluster = _cluster(arm, name, options)
    if cluster is not None:
        yield finding
        yield _check_growth(name, cluster, decision)
    elif options.cluster or not finding.ok:
        yield finding
    else:
        yield _check_quota(decision, usages)


def _workspace(arm: Arm, options: BatchAiOptions) -> Finding:
    name, where = options.workspace, batchai("Workspaces_Get", options).params["path"]
    good, hint = f"workspace {name}", "check resource_group and workspace in the profile"
    finding, workspace = asked(lambda: arm.look("Workspaces", where), good, hint)
    if finding.ok and workspace is None:
        return Finding(f"there is no workspace {name} yet: apply makes it", True)
    return finding


def _cluster(arm: Arm, name: str, options: BatchAiOptions) -> tuple[Finding, Any]:
    """Return a finding about a cluster, and the cluster; None if it does not exist or cannot be read.

    That it does not exist is no problem, unless the profile names it.
    """
    where = batchai("Clusters_Get", options, {"clusterName": name}).params["path"]
    hint = "set an existing cluster, or remove cluster from the profile so that runspec makes one"
    finding, cluster = asked(lambda: arm.look("Clusters", where), f"cluster {name}", hint)
    if not finding.ok:
        return finding, None
    if cluster is None:
        what = f"there is no cluster {name} in the workspace {options.workspace}"
        return Finding(what, not options.cluster, hint), None
    errors = [status.error_line(error) for error in cluster.errors or ()]
    what = f"cluster {name} of {cluster.vm_size}, {cluster.vm_priority}"
    if errors:
        lines = f"{what}: {'; '.join(errors)}"
        return Finding(lines, False, "correct this: until then the cluster gets no nodes"), cluster
    return Finding(what, True), cluster


def _check_growth(name: str, cluster: Any, decision: Decision) -> Finding:
    """Return whether a *cluster* can have the nodes of one task.

    https://learn.microsoft.com/rest/api/batchai/clusters/get
    """
    scale = cluster.scale_settings
    automatic, manual = getattr(scale, "auto_scale", None), getattr(scale, "manual", None)
    most = getattr(automatic, "maximum_node_count", None)
    if automatic is None:
        most = getattr(manual, "target_node_count", None)
    if most is None:
        what = f"doctor cannot check how many nodes cluster {name} may have"
        return Finding(what, True, unknown=True)
    what = f"cluster {name} has at most {most:,} nodes, and a task needs {decision.nodes:,}"
    return Finding(what, most >= decision.nodes, "scale the cluster, or ask for fewer nodes")


def _check_quota(decision: Decision, usages: Mapping[str, Usage] | None) -> Finding:
    """Return whether the quotas permit the cluster that `apply` makes for the job, at its largest."""
    wanted = infrastructure.properties(decision)
    size = resources.known(decision.vm_size)
    if usages is None or size is None:
        why = "they cannot be read" if usages is None else f"{decision.vm_size} is unknown"
        return Finding(f"doctor cannot check quotas: {why}", True, MORE, unknown=True)
    lacking = list(resources.lacking_quota(wanted, usages))
    if lacking:
        return Finding("; ".join(lacking), False, resources.QUOTA_HINT)
    kind = resources.QUOTA_KINDS[wanted["vmPriority"] == "lowpriority"]
    names = (resources.whole_quota(kind), resources.find_family_quota(size.family, kind))
    missing = [name for name in (resources.CLUSTER_QUOTA, *names) if name not in usages]
    if missing:
        what = f"doctor cannot check quotas: the service does not name {', '.join(missing)}"
        return Finding(what, True, unknown=True)
    nodes = decision.most_nodes
    what = f"the quotas permit the cluster of the job: {nodes:,} x {decision.vm_size}"
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
