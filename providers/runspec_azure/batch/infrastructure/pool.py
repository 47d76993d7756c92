"""The autoscaled pool of a job, which is named by a hash of its content."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from runspec_azure.batch.decision import STORE, Decision
from runspec_azure.batch.infrastructure import autoscale, managed_pool
from runspec_azure.batch.options import BatchOptions
from runspec_azure.naming import batch, pairs
from runspec_azure.session import clouds, container_registry
from runspec_jobs.provider import Scope, Step, content_name
from runspec_jobs.provider.registry_login import registry_of

START = "/bin/sh -c 'eval \"$RUNSPEC_START_TASK\"'"


def name(decision: Decision) -> str:
    """Return the name of the pool: the profile's, or that of a pool for specs with equal needs."""
    return decision.options.pool or content_name("pool", content(decision))


def steps(decision: Decision) -> Iterator[Step]:
    """Yield the step that makes the pool, unless the profile names one.

    The pool is made with a formula for the machines of this run; its name is a hash of the usual formula.
    """
    options = decision.options
    if options.pool:
        return
    pool = name(decision)
    whole = {**content(decision), "autoScaleFormula": autoscale.awake(decision)}
    whole["metadata"] = pairs({**options.tags, "runspec": "pool"})
    do = (
        managed_pool.create(pool, whole, options)
        if options.identity
        else batch("Pool_Add", body={"id": pool, **whole})
    )
    undo = batch("Pool_Delete", {"poolId": pool})
    title = (
        f"make a pool: {whole['vmSize']}, {decision.capacity}, up to {decision.most_nodes} nodes"
    )
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


def content(decision: Decision) -> dict[str, Any]:
    """Return the pool without its name and metadata.

    A node has one slot unless the options say more: a task has its machine for itself, as multi-instance tasks require:
    https://learn.microsoft.com/en-us/azure/batch/batch-mpi#multi-instance-task-requirements
    """
    options = decision.options
    pool: dict[str, Any] = {
        "vmSize": decision.vm_size,
        "virtualMachineConfiguration": _machine(decision),
        "taskSlotsPerNode": decision.slots,
        "taskSchedulingPolicy": {"nodeFillType": "pack"},
        "enableAutoScale": True,
        "autoScaleFormula": autoscale.formula(decision),
        "autoScaleEvaluationInterval": autoscale.INTERVAL,
    }
    if decision.connected:
        pool["enableInterNodeCommunication"] = True
    if options.subnet:
        pool["networkConfiguration"] = _network(options)
    if options.start_task:
        pool["startTask"] = _start(options.start_task)
    if options.identity:
        pool["identity"] = {"userAssignedIdentities": [{"resourceId": options.identity}]}
    if mounts := [_mount(key, options) for key in decision.shared]:
        pool["mountConfiguration"] = mounts
    return pool


def shared_kinds(decision: Decision) -> list[str]:
    """Return the kinds of the shared file systems that the job mounts: files, nfs or blob."""
    known = decision.options.shared
    return [known[key].partition(":")[0] for key in decision.shared if key in known]


def _machine(decision: Decision) -> dict[str, Any]:
    """Return the configuration of the machines. In a pool for containers, every task must run in a container."""
    options = decision.options
    machine: dict[str, Any] = {
        "imageReference": _image(options.image),
        "nodeAgentSKUId": options.node_agent,
    }
    if decision.image:
        containers: dict[str, Any] = {"type": "dockerCompatible"}
        if listed := registries(decision):
            containers["containerRegistries"] = listed
        # The image is then on each node before its first task.
        if options.prefetch_image:
            containers["containerImageNames"] = [decision.image]
        machine["containerConfiguration"] = containers
    return machine


def _image(text: str) -> dict[str, str]:
    if text.startswith("/"):
        return {"virtualMachineImageId": text}
    return dict(zip(("publisher", "offer", "sku", "version"), text.split(":"), strict=True))


def _network(options: BatchOptions) -> dict[str, Any]:
    """https://learn.microsoft.com/azure/batch/simplified-node-communication-pool-no-public-ip"""
    network: dict[str, Any] = {"subnetId": options.subnet}
    if not options.public_addresses:
        network["publicIPAddressConfiguration"] = {"provision": "nopublicipaddresses"}
    return network


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


def registries(decision: Decision) -> list[dict[str, Any]]:
    """Return the registries that machines log in to: that of the profile, and that of the image that runspec builds."""
    options, listed = decision.options, list[dict[str, Any]]()
    if options.registry or options.registry_user:
        listed.append(registry(options))
    host = registry_of(decision.image or "")
    at_acr = bool(container_registry.HOST.fullmatch(host)) and host != options.registry
    if decision.built and at_acr and options.identity:
        identity = {"resourceId": options.identity}
        listed.append({"registryServer": host, "identityReference": identity})
    return listed


def registry(options: BatchOptions) -> dict[str, Any]:
    """Return the registry with its login. Without registryServer it is Docker Hub, as that field's description says."""
    login: dict[str, Any] = {"registryServer": options.registry} if options.registry else {}
    if options.identity and not options.registry_user:
        login["identityReference"] = {"resourceId": options.identity}
    if options.registry_user:
        login["username"] = options.registry_user
    if options.registry_password:
        login["password"] = {"$secret": options.registry_password}
    return login


def _mount(key: str, options: BatchOptions) -> dict[str, Any]:
    """https://learn.microsoft.com/en-us/azure/batch/virtual-file-mount"""
    kind, _, source = options.shared[key].partition(":")
    if kind == "nfs":
        nfs = {
            "source": source,
            "relativeMountPath": key,
            "mountOptions": "-o vers=4,minorversion=1,sec=sys",
        }
        return {"nfsMountConfiguration": nfs}
    account, _, inner = source.partition("/")
    secret = options.account_keys.get(account, options.storage_key)
    request: dict[str, Any] = {"accountName": account, "relativeMountPath": key}
    if kind == "blob" and secret is None and options.identity:
        request["identityReference"] = {"resourceId": options.identity}
    if secret is not None:
        request["accountKey"] = {"$secret": secret}
    if key == STORE:
        request["blobfuseOptions"] = "-o ro"
    if kind == "files":
        url = clouds.of(options).share_url(account, inner)
        # Tasks run as another user than the one who mounts the share.
        options_ = "-o vers=3.0,dir_mode=0777,file_mode=0777,serverino"
        return {
            "azureFileShareConfiguration": {
                **request,
                "azureFileUrl": url,
                "mountOptions": options_,
            }
        }
    return {"azureBlobFileSystemConfiguration": {**request, "containerName": inner}}
