"""The autoscaled pool of a job, which is named by a hash of its content."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from runspec_azure.batch.infrastructure import autoscale, managed_pool
from runspec_azure.batch.options import BatchOptions
from runspec_azure.naming import batch, pairs
from runspec_azure.resources import request
from runspec_azure.session import clouds
from runspec_jobs.provider import Capacity, Facts, Scope, Spec, Step, content_name

START = "/bin/sh -c 'eval \"$RUNSPEC_START_TASK\"'"


def name(spec: Spec, facts: Facts) -> str:
    """Return the name of the pool of *spec*: the profile's, or that of a pool for specs with equal needs."""
    options: BatchOptions = facts.options
    return options.pool or content_name("pool", content(spec, facts))


def steps(spec: Spec, facts: Facts) -> Iterator[Step]:
    """Yield the step that makes the pool, unless the profile names one.

    The pool is made with a formula for the machines of this run; its name is a hash of the usual formula.
    """
    options: BatchOptions = facts.options
    if options.pool:
        return
    made, pool = content(spec, facts), name(spec, facts)
    whole = {**made, "autoScaleFormula": autoscale.awake(spec, facts)}
    whole["metadata"] = pairs({**options.tags, "runspec": "pool"})
    do = (
        managed_pool.create(pool, whole, options)
        if options.identity
        else batch("Pool_Add", body={"id": pool, **whole})
    )
    undo = batch("Pool_Delete", {"poolId": pool})
    how = "spot" if spec.cluster.capacity is Capacity.SPOT else str(spec.cluster.capacity)
    title = f"make a pool: {made['vmSize']}, {how}, up to {autoscale.most(spec, facts)} nodes"
    yield Step("pool", title, Scope.SITE, do, undo)


def rule(options: BatchOptions) -> str:
    """Return the settings to check for blocked connections.

    https://learn.microsoft.com/en-us/azure/batch/batch-mpi#multi-instance-task-requirements
    https://learn.microsoft.com/en-us/azure/batch/batch-virtual-network
    """
    which = f"pool {options.pool}" if options.pool else "the pool"
    groups = f"of {options.subnet}" if options.subnet else "of its subnet"
    return (
        f"{which} must have enableInterNodeCommunication, and no network security group {groups} may have a rule "
        "that denies TCP between its nodes: https://learn.microsoft.com/azure/batch/batch-virtual-network"
    )


def content(spec: Spec, facts: Facts) -> dict[str, Any]:
    """Return the pool without its name and metadata.

    A node has one slot, so that a task has its machine for itself, and as multi-instance tasks require:
    https://learn.microsoft.com/en-us/azure/batch/batch-mpi#multi-instance-task-requirements
    """
    options: BatchOptions = facts.options
    found: dict[str, Any] = {
        "vmSize": request.size(spec, options, facts.survey),
        "virtualMachineConfiguration": _machine(spec, options),
        "taskSlotsPerNode": 1,
        "taskSchedulingPolicy": {"nodeFillType": "pack"},
        "enableAutoScale": True,
        "autoScaleFormula": autoscale.formula(spec, facts),
        "autoScaleEvaluationInterval": autoscale.INTERVAL,
    }
    if spec.cluster.nodes.max > 1:
        found["enableInterNodeCommunication"] = True
    if options.subnet:
        found["networkConfiguration"] = _network(options)
    if options.start_task:
        found["startTask"] = _start(options.start_task)
    if options.identity:
        found["identity"] = {"userAssignedIdentities": [{"resourceId": options.identity}]}
    if mounts := [_mount(key, options) for key in shared(spec)]:
        found["mountConfiguration"] = mounts
    return found


def shared(spec: Spec) -> list[str]:
    """Return the names of the shared file systems that *spec* mounts."""
    return sorted({m.place.partition("/")[0] for m in spec.mounts if m.scheme == "shared"})


def kinds(spec: Spec, options: BatchOptions) -> list[str]:
    """Return the kinds of the shared file systems that *spec* mounts: files, nfs or blob."""
    return [options.shared[key].partition(":")[0] for key in shared(spec) if key in options.shared]


def image(spec: Spec) -> str | None:
    """Return the image of *spec*; None for one that exists on one machine only, where requirements replace it."""
    found = spec.container.image
    return None if found is None or found.startswith("localhost/") else found


def _machine(spec: Spec, options: BatchOptions) -> dict[str, Any]:
    """Return the configuration of the machines. In a pool for containers, every task must run in a container."""
    found: dict[str, Any] = {
        "imageReference": _image(options.image),
        "nodeAgentSKUId": options.node_agent,
    }
    if image(spec):
        containers: dict[str, Any] = {"type": "dockerCompatible"}
        if options.registry or options.registry_user:
            containers["containerRegistries"] = [registry(options)]
        if options.prefetch_image:
            containers["containerImageNames"] = [image(spec)]
        found["containerConfiguration"] = containers
    return found


def _image(text: str) -> dict[str, str]:
    if text.startswith("/"):
        return {"virtualMachineImageId": text}
    return dict(zip(("publisher", "offer", "sku", "version"), text.split(":"), strict=True))


def _network(options: BatchOptions) -> dict[str, Any]:
    """https://learn.microsoft.com/azure/batch/simplified-node-communication-pool-no-public-ip"""
    found: dict[str, Any] = {"subnetId": options.subnet}
    if not options.public_addresses:
        found["publicIPAddressConfiguration"] = {"provision": "nopublicipaddresses"}
    return found


def _start(script: str) -> dict[str, Any]:
    """Return the start task; how the service splits a command line with quotes is not documented, so it has no script.

    See docs/unverified.md, azure-37.
    """
    return {
        "commandLine": START,
        "environmentSettings": [{"name": "RUNSPEC_START_TASK", "value": script}],
        "userIdentity": {"autoUser": {"scope": "pool", "elevationLevel": "admin"}},
        "maxTaskRetryCount": 1,
        "waitForSuccess": True,
    }


def registry(options: BatchOptions) -> dict[str, Any]:
    """Return the registry with its login. Without registryServer it is Docker Hub, as that field's description says."""
    found: dict[str, Any] = {"registryServer": options.registry} if options.registry else {}
    if options.identity and not options.registry_user:
        found["identityReference"] = {"resourceId": options.identity}
    if options.registry_user:
        found["username"] = options.registry_user
    if options.registry_password:
        found["password"] = {"$secret": options.registry_password}
    return found


def _mount(key: str, options: BatchOptions) -> dict[str, Any]:
    """https://learn.microsoft.com/en-us/azure/batch/virtual-file-mount"""
    kind, _, place = options.shared[key].partition(":")
    if kind == "nfs":
        nfs = {
            "source": place,
            "relativeMountPath": key,
            "mountOptions": "-o vers=4,minorversion=1,sec=sys",
        }
        return {"nfsMountConfiguration": nfs}
    account, _, inner = place.partition("/")
    secret = options.account_keys.get(account, options.storage_key)
    own: dict[str, Any] = {"accountName": account, "relativeMountPath": key}
    if kind == "blob" and secret is None and options.identity:
        own["identityReference"] = {"resourceId": options.identity}
    if secret is not None:
        own["accountKey"] = {"$secret": secret}
    if kind == "files":
        url = clouds.of(options).share_url(account, inner)
        options_ = "-o vers=3.0,dir_mode=0777,file_mode=0777,serverino"
        return {
            "azureFileShareConfiguration": {**own, "azureFileUrl": url, "mountOptions": options_}
        }
    return {"azureBlobFileSystemConfiguration": {**own, "containerName": inner}}
