"""Rules of request bodies that no type says."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from runspec_emulators.azure_batch.errors import ServiceError, wrong
from runspec_emulators.azure_batch.resource import seconds

ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
MOST_MOUNTS = 10  # https://learn.microsoft.com/en-us/azure/batch/virtual-file-mount
MOST_SLOTS = 256  # "the smaller of 4 times the number of cores [...] or 256"


def id_of(body: Mapping[str, Any]) -> None:
    """Raise ServiceError for an id that cannot be.

    "can contain any combination of alphanumeric characters including hyphens and underscores, and
    cannot contain more than 64 characters".
    """
    if not ID.fullmatch(body["id"]):
        raise wrong("id", body["id"], "an id has 1 to 64 letters, digits, hyphens and underscores")


def exactly_one(name: str, value: Mapping[str, Any], choices: Sequence[str]) -> None:
    given = [c for c in choices if value.get(c) is not None]
    if len(given) != 1:
        raise wrong(name, given, f"exactly one of {', '.join(choices)} must be specified")


def pool(body: Mapping[str, Any]) -> None:
    """Rules of BatchPoolCreateOptions, where its properties' descriptions say them."""
    targets(body)
    if body.get("enableAutoScale"):
        for name in ("targetDedicatedNodes", "targetLowPriorityNodes", "resizeTimeout"):
            if name in body:
                raise wrong(name, body[name], "it must not be specified if enableAutoScale is true")
    elif "autoScaleFormula" in body or "autoScaleEvaluationInterval" in body:
        raise wrong("autoScaleFormula", "", "it must not be specified if enableAutoScale is false")
    if not 1 <= body.get("taskSlotsPerNode", 1) <= MOST_SLOTS:
        raise wrong("taskSlotsPerNode", body["taskSlotsPerNode"], f"it is 1 to {MOST_SLOTS}")
    mounts(body.get("mountConfiguration", ()))
    image(body.get("virtualMachineConfiguration", {}).get("imageReference", {}))
    network(body.get("networkConfiguration", {}))
    if body.get("startTask"):
        task_like(body["startTask"], "startTask")


def image(given: Mapping[str, Any]) -> None:
    """Raise ServiceError for a managed image: "The ARM resource identifier of the Azure Compute Gallery Image".

    Others were retired on 31 March 2026; which error the service has for them is not documented.
    https://learn.microsoft.com/azure/batch/batch-custom-image-pools-to-azure-compute-gallery-migration-guide
    """
    image_id = given.get("virtualMachineImageId")
    if image_id is not None and "/galleries/" not in image_id.lower():
        raise wrong("virtualMachineImageId", image_id, "it is not the id of an image of a gallery")


def network(given: Mapping[str, Any]) -> None:
    """Raise ServiceError for a pool without public addresses outside of a virtual network, which such pools need.

    Which error the service has is not documented:
    https://learn.microsoft.com/azure/batch/simplified-node-communication-pool-no-public-ip#prerequisites
    """
    provision = given.get("publicIPAddressConfiguration", {}).get("provision", "")
    if provision.lower() == "nopublicipaddresses" and not given.get("subnetId"):
        raise wrong("publicIPAddressConfiguration", provision, "such a pool needs a subnetId")


def targets(body: Mapping[str, Any]) -> None:
    for name in ("targetDedicatedNodes", "targetLowPriorityNodes"):
        if body.get(name, 0) < 0:
            raise wrong(name, body[name], "it is less than 0")
    limit = seconds(body.get("resizeTimeout"))
    if limit is not None and limit < 300:
        raise wrong("resizeTimeout", body["resizeTimeout"], "the minimum value is 5 minutes")


MOUNTS = (
    "azureBlobFileSystemConfiguration",
    "nfsMountConfiguration",
    "cifsMountConfiguration",
    "azureFileShareConfiguration",
)


def mounts(given: Sequence[Mapping[str, Any]]) -> None:
    if len(given) > MOST_MOUNTS:
        raise wrong("mountConfiguration", len(given), f"at most {MOST_MOUNTS} may be mounted")
    for mount in given:
        exactly_one("mountConfiguration", mount, MOUNTS)
        blob = mount.get("azureBlobFileSystemConfiguration")
        if blob:
            exactly_one(
                "azureBlobFileSystemConfiguration",
                blob,
                ("accountKey", "sasKey", "identityReference"),
            )


def task_like(body: Mapping[str, Any], path: str) -> None:
    """Check the rules that start tasks, job preparation tasks and tasks have in common."""
    if not body["commandLine"].strip():
        raise wrong(f"{path}.commandLine", body["commandLine"], "it is empty")
    files(body.get("resourceFiles", ()), f"{path}.resourceFiles")
    count = body.get("maxTaskRetryCount", body.get("constraints", {}).get("maxTaskRetryCount", 0))
    if count < -1:
        raise wrong(f"{path}.maxTaskRetryCount", count, "it is less than -1")


SOURCES = ("httpUrl", "storageContainerUrl", "autoStorageContainerName")


def files(given: Sequence[Mapping[str, Any]], path: str) -> None:
    """Rules of ResourceFile."""
    for file in given:
        exactly_one(path, file, SOURCES)
        if "autoStorageContainerName" in file:
            raise wrong(path, file["autoStorageContainerName"], "the account has no auto storage")
        if "httpUrl" in file and "filePath" not in file:
            raise ServiceError(
                "MissingRequiredProperty", "filePath is needed with httpUrl", PropertyName=path
            )
        if "httpUrl" in file and "blobPrefix" in file:
            raise wrong(path, file["blobPrefix"], "blobPrefix is only valid with containers")


def task(body: Mapping[str, Any], contained: bool | None) -> None:
    """Rules of BatchTaskCreateOptions. *contained* says whether the pool has containers, if known.

    "If the Pool that will run this Task has containerConfiguration set, this must be set as well.
    If the Pool that will run this Task doesn't have containerConfiguration set, this must not be
    set."
    """
    id_of(body)
    task_like(body, "task")
    if contained is not None and contained != ("containerSettings" in body):
        reason = (
            "the pool has containerConfiguration"
            if contained
            else "the pool has no containerConfiguration"
        )
        raise wrong("containerSettings", body.get("containerSettings"), reason)
    options = body.get("containerSettings", {}).get("containerRunOptions", "")
    if "--gpus" in options:
        # "Batch will automatically enable GPU for container tasks, so you shouldn't include the
        # -gpus argument"; what comes of it is not said: here it is refused.
        # https://learn.microsoft.com/en-us/azure/batch/batch-docker-container-workloads
        raise wrong("containerRunOptions", options, "GPUs are given to containers without --gpus")
    settings = body.get("multiInstanceSettings")
    if settings is not None:
        files(settings.get("commonResourceFiles", ()), "multiInstanceSettings.commonResourceFiles")
        if body.get("requiredSlots", 1) != 1:
            raise wrong(
                "requiredSlots", body["requiredSlots"], "for multi-instance tasks, this must be 1"
            )
        if settings.get("numberOfInstances", 1) < 1:
            raise wrong("numberOfInstances", settings["numberOfInstances"], "it is less than 1")
    names = [e["name"] for e in body.get("environmentSettings", ())]
    if len(names) != len(set(names)):
        raise wrong("environmentSettings", names, "names are not unique")
