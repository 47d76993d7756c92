"""Build the names of resources at Batch AI, and requests by the operations of the official description."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from runspec_batchai.options import BatchAiOptions
from runspec_jobs.provider import Request, Spec
from runspec_jobs.provider.commands import variable

API = "2018-05-01"
CLUSTER = re.compile(
    r"runspec-[0-9a-f]{12}"
)  # a cluster that runspec made: see `infrastructure.name`
GROUPS_API = "2018-05-01"  # of Microsoft.Resources, which happens to be the same


def made_up_place(kind: str, name: str) -> str:
    """Return the path in the job that `import` writes for a mount or output, since Batch AI's files have none.

    >>> made_up_place("outputs", "model")
    '/job/outputs/model'
    """
    return f"/job/{kind}/{name}"


def batchai(
    operation: str,
    options: BatchAiOptions,
    names: Mapping[str, str] = MappingProxyType({}),
    body: Mapping[str, Any] | None = None,
) -> Request:
    """Return a request; *names* are further parameters of its path."""
    path = {
        "subscriptionId": options.subscription or "",
        "resourceGroupName": options.resource_group,
        "workspaceName": options.workspace,
        **names,
    }
    return _request("batchai", operation, path, API, body)


def group(
    operation: str, options: BatchAiOptions, body: Mapping[str, Any] | None = None
) -> Request:
    """Return a request about the resource group.

    https://learn.microsoft.com/rest/api/resources/resource-groups/create-or-update
    """
    path = {
        "subscriptionId": options.subscription or "",
        "resourceGroupName": options.resource_group,
    }
    return _request("resources", operation, path, GROUPS_API, body)


def _request(
    service: str, operation: str, path: Mapping[str, str], api: str, body: Mapping[str, Any] | None
) -> Request:
    params: dict[str, Any] = {"path": dict(path), "query": {"api-version": api}}
    return Request(service, operation, params if body is None else {**params, "body": body})


def cluster_id(options: BatchAiOptions, name: str) -> str:
    return (
        f"/subscriptions/{options.subscription or ''}/resourceGroups/{options.resource_group}"
        f"/providers/Microsoft.BatchAI/workspaces/{options.workspace}/clusters/{name}"
    )


def input_id(name: str, options: BatchAiOptions) -> str:
    """Return the id of the input directory for the mount *name*.

    >>> input_id("my-code", BatchAiOptions())
    'MY_CODE'
    """
    known = options.inputs.get(name)
    return (known and known.id) or variable("mounts", name).removeprefix("RUNSPEC_MOUNT_")


def output_id(name: str, options: BatchAiOptions) -> str:
    known = options.results.get(name)
    return (known and known.id) or variable("outputs", name).removeprefix("RUNSPEC_OUTPUT_")


def job_variable(kind: str, name: str, options: BatchAiOptions) -> str:
    """Return the variable for a path or parameter of the job."""
    if kind == "mounts":
        return f"AZ_BATCHAI_INPUT_{input_id(name, options)}"
    if kind == "outputs":
        return f"AZ_BATCHAI_OUTPUT_{output_id(name, options)}"
    return variable(kind, name)


def path_variables(spec: Spec, options: BatchAiOptions) -> dict[str, str]:
    """Return the variables of the contract for paths of the job, as references to Batch AI's own variables.

    The service replaces these references also in the values of the user's variables:
    https://github.com/Azure/BatchAI/blob/master/documentation/using-batchai-environment-variables.md
    """
    names = [("mounts", m.name) for m in spec.mounts] + [("outputs", o.name) for o in spec.outputs]
    paths = {variable(kind, name): f"${job_variable(kind, name, options)}" for kind, name in names}
    return {"RUNSPEC_HOSTFILE": "$AZ_BATCHAI_MPI_HOST_FILE", **paths}
