"""The operations of the service, as azure-batch has them, and what each may be sent.

azure-batch has no description of the service in it, but its request builders and models say all:
paths, queries, headers, the names on the wire, types, enums, what is required and what is read only.
"""

from __future__ import annotations

import datetime
import inspect
import re
import typing
from collections.abc import Mapping
from functools import cache
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, unquote, urlsplit

from azure.batch._operations import _operations as builders
from azure.batch._utils.model_base import Model
from azure.batch.models import _models
from azure.core import MatchConditions

from runspec_emulators.azure_batch.errors import ServiceError
from runspec_emulators.azure_services.sdk_models import bare

# The names of operations in the service's own description, which differ from those of the SDK.
NAMES = {
    "create_pool": "Pool_Add",
    "list_pools": "Pool_List",
    "delete_pool": "Pool_Delete",
    "pool_exists": "Pool_Exists",
    "get_pool": "Pool_Get",
    "update_pool": "Pool_Patch",
    "disable_pool_auto_scale": "Pool_DisableAutoScale",
    "enable_pool_auto_scale": "Pool_EnableAutoScale",
    "evaluate_pool_auto_scale": "Pool_EvaluateAutoScale",
    "resize_pool": "Pool_Resize",
    "stop_pool_resize": "Pool_StopResize",
    "replace_pool_properties": "Pool_UpdateProperties",
    "remove_nodes": "Pool_RemoveNodes",
    "list_supported_images": "Account_ListSupportedImages",
    "list_pool_node_counts": "Account_ListPoolNodeCounts",
    "create_job": "Job_Add",
    "list_jobs": "Job_List",
    "delete_job": "Job_Delete",
    "get_job": "Job_Get",
    "update_job": "Job_Patch",
    "replace_job": "Job_Update",
    "disable_job": "Job_Disable",
    "enable_job": "Job_Enable",
    "terminate_job": "Job_Terminate",
    "list_job_preparation_and_release_task_status": "Job_ListPreparationAndReleaseTaskStatus",
    "get_job_task_counts": "Job_GetTaskCounts",
    "create_task": "Task_Add",
    "create_task_collection": "Task_AddCollection",
    "list_tasks": "Task_List",
    "delete_task": "Task_Delete",
    "get_task": "Task_Get",
    "replace_task": "Task_Update",
    "list_subtasks": "Task_ListSubtasks",
    "terminate_task": "Task_Terminate",
    "reactivate_task": "Task_Reactivate",
    "list_nodes": "ComputeNode_List",
    "get_node": "ComputeNode_Get",
    "reboot_node": "ComputeNode_Reboot",
    "download_task_file": "File_GetFromTask",
    "get_task_file_properties": "File_GetPropertiesFromTask",
    "list_task_files": "File_ListFromTask",
    "delete_task_file": "File_DeleteFromTask",
    "download_node_file": "File_GetFromComputeNode",
    "get_node_file_properties": "File_GetPropertiesFromComputeNode",
    "list_node_files": "File_ListFromComputeNode",
    "delete_node_file": "File_DeleteFromComputeNode",
}
MARK = "0mark0"
SAMPLES: dict[Any, Any] = {
    str: "x",
    int: 1,
    bool: True,
    list[str]: ["x"],
    datetime.datetime: datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC),
}
GUARDED = re.compile(r"(ocp-|if-).*")


class Operation(NamedTuple):
    """One operation of the service, as the SDK would call it."""

    name: str
    method: str
    path: re.Pattern[str]
    query: Mapping[str, Any]
    """Key on the wire -> type."""
    headers: frozenset[str]
    body: Any
    """The model of the body, or None."""
    body_required: bool
    answer: Any
    """The model of what it answers, or of one item where that is a list; None for no JSON."""
    listed: bool


@cache
def operations() -> tuple[Operation, ...]:
    """Return all operations that the SDK has."""
    operations = []
    methods = vars(builders._BatchClientOperationsMixin)  # noqa: SLF001
    for function, build in vars(builders).items():
        name = re.fullmatch(r"build_batch_(\w+?)(_internal)?_request", function)
        if name:
            method = methods.get(name[1]) or methods[f"_{name[1]}_internal"]
            operations.append(operation(name[1], build, method))
    return tuple(operations)


def operation(name: str, build: Any, method: Any) -> Operation:
    """Read one request builder by calling it, once without and once with each thing it may take."""
    signature = inspect.signature(build)
    path = [p.name for p in signature.parameters.values() if p.kind is p.POSITIONAL_OR_KEYWORD]
    marks = [f"{MARK}{word}" for word in path]
    plain = built(build, marks)
    split = urlsplit(plain.url)
    pattern = re.sub(rf"{MARK}(\w+)", r"(?P<\1>[^/]+)", split.path)
    query = {key: str for key, _ in parse_qsl(split.query)}
    headers: set[str] = set()
    for parameter in signature.parameters.values():
        if parameter.kind is parameter.KEYWORD_ONLY and parameter.name != "match_condition":
            kind = bare(parameter.annotation)
            for more in variants(parameter.name, kind):
                made = built(build, marks, **more)
                keys = [key for key, _ in parse_qsl(urlsplit(made.url).query)]
                query |= {key: kind for key in keys if key not in query}
                headers |= {h.lower() for h in made.headers}
    model, required = body_of(method)
    if model is None and name == "create_task_collection":
        model, required = _models.BatchTaskGroup, True
    return Operation(
        NAMES.get(name, "".join(w.title() for w in name.split("_"))),
        plain.method,
        re.compile(pattern),
        query,
        frozenset(h for h in headers if GUARDED.fullmatch(h)),
        model,
        required,
        *answer_of(method),
    )


def built(build: Any, marks: list[str], **more: Any) -> Any:
    """Build a request. Only builders of requests with a body take `content_type`."""
    try:
        return build(*marks, **more, content_type="application/json")
    except TypeError:
        return build(*marks, **more)


def variants(name: str, kind: Any) -> list[dict[str, Any]]:
    if name == "etag":
        conditions = (MatchConditions.IfNotModified, MatchConditions.IfModified)
        return [{"etag": "x", "match_condition": condition} for condition in conditions]
    return [{name: SAMPLES[kind]}]


def body_of(method: Any) -> tuple[Any, bool]:
    """Return the model that a method of the SDK takes as body, and whether it must be there."""
    while hasattr(method, "__wrapped__"):
        method = method.__wrapped__
    for parameter in inspect.signature(method).parameters.values():
        kind = bare(parameter.annotation)
        if isinstance(kind, type) and issubclass(kind, Model):
            return kind, parameter.default is parameter.empty
    return None, False


def answer_of(method: Any) -> tuple[Any, bool]:
    """Return the model of what a method of the SDK returns, and whether it returns many."""
    kind = inspect.signature(inspect.unwrap(method)).return_annotation
    if getattr(kind, "__name__", "") == "ItemPaged":
        (name,) = typing.get_args(kind)
        return getattr(_models, name.rpartition(".")[2]), True
    return (kind, False) if isinstance(kind, type) and issubclass(kind, Model) else (None, False)


def find(method: str, target: str) -> tuple[Operation, dict[str, str]]:
    """Return the operation of a request line and what its path names."""
    path = urlsplit(target).path
    for operation in operations():
        match = operation.path.fullmatch(path) if operation.method == method else None
        if match:
            return operation, {k: unquote(v) for k, v in match.groupdict().items()}
    raise ServiceError(
        "InvalidUri", "The requested URI does not represent any resource on the server."
    )
