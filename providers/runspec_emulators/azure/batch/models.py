"""The SDK's models as rules: which operations there are, and what each may be sent.

azure-batch has no description of the service in it, but its request builders and models say all:
paths, queries, headers, the names on the wire, types, enums, what is required and what is read only.
"""

from __future__ import annotations

import datetime
import enum
import inspect
import re
import sys
import typing
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, unquote, urlsplit

from azure.batch._operations import _operations as builders
from azure.batch._utils.model_base import Model
from azure.batch.models import _models
from azure.core import MatchConditions
from azure.mgmt.batch._utils.model_base import Model as ManagementModel
from azure.mgmt.resource.resources._utils.model_base import Model as ResourceModel

from runspec_emulators.azure.batch.errors import ServiceError

# Names of the service's description, which the SDK does not keep.
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
    """Give all operations that the SDK has."""
    found = []
    methods = vars(builders._BatchClientOperationsMixin)  # noqa: SLF001
    for function, build in vars(builders).items():
        name = re.fullmatch(r"build_batch_(\w+?)(_internal)?_request", function)
        if name:
            method = methods.get(name[1]) or methods[f"_{name[1]}_internal"]
            found.append(operation(name[1], build, method))
    return tuple(found)


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
    """Build a request. Builders of requests with a body ask for its type, others refuse it."""
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
    """Give the model that a method of the SDK takes as body, and whether it must be there."""
    while hasattr(method, "__wrapped__"):
        method = method.__wrapped__
    for parameter in inspect.signature(method).parameters.values():
        kind = bare(parameter.annotation)
        if isinstance(kind, type) and issubclass(kind, Model):
            return kind, parameter.default is parameter.empty
    return None, False


def answer_of(method: Any) -> tuple[Any, bool]:
    """Give the model of what a method of the SDK returns, and whether it returns many."""
    kind = inspect.signature(inspect.unwrap(method)).return_annotation
    if getattr(kind, "__name__", "") == "ItemPaged":
        (name,) = typing.get_args(kind)
        return getattr(_models, name.rpartition(".")[2]), True
    return (kind, False) if isinstance(kind, type) and issubclass(kind, Model) else (None, False)


def bare(kind: Any) -> Any:
    """Give X of Optional[X]."""
    args = [a for a in typing.get_args(kind) if a is not type(None)]
    return args[0] if is_optional(kind) and len(args) == 1 else kind


def is_optional(kind: Any) -> bool:
    return typing.get_origin(kind) is typing.Union and type(None) in typing.get_args(kind)


def find(method: str, target: str) -> tuple[Operation, dict[str, str]]:
    """Give the operation of a request line and what its path names."""
    path = urlsplit(target).path
    for one in operations():
        found = one.path.fullmatch(path) if one.method == method else None
        if found:
            return one, {k: unquote(v) for k, v in found.groupdict().items()}
    raise ServiceError(
        "InvalidUri", "The requested URI does not represent any resource on the server."
    )


class Field(NamedTuple):
    """One property of a model, by its name on the wire."""

    kind: Any
    required: bool
    read_only: bool


class Digits:
    """The kind of a number that the wire has as a string, since it may have more than 53 bits."""


class Namespace:
    """What `_models.X` may be in the annotations of an SDK, this one or that of the Resource Manager."""

    def __init__(self, module: str) -> None:
        self.models = sys.modules[module]
        self.enums = sys.modules[module.replace("_models", "_enums")]

    def __getattr__(self, name: str) -> Any:
        return getattr(self.models, name, None) or getattr(self.enums, name)


@cache
def fields(model: Any) -> dict[str, Field]:
    """Give the properties of a model."""
    found: dict[str, Field] = {}
    model({})  # it makes its table of properties when the first is made
    for base in reversed(model.__mro__):
        names = inspect.get_annotations(base)  # Python 3.14 has none among the variables
        scope = {**vars(sys.modules[model.__module__]), "_models": Namespace(model.__module__)}
        holder = type("holder", (), {"__annotations__": names})
        known = getattr(model, "_attr_to_rest_field", {})
        hints = {k: v for k, v in names.items() if k in known}
        holder.__annotations__ = hints
        for name, kind in typing.get_type_hints(holder, scope).items():
            rest = known[name]
            shown = rest._visibility  # noqa: SLF001
            digits = bare(kind) is int and rest._format == "str"  # noqa: SLF001
            found[rest._rest_name] = Field(  # noqa: SLF001
                Digits if digits else kind,
                not is_optional(kind),
                bool(shown) and not {"create", "update"} & set(shown),
            )
    return found


class Problem(NamedTuple):
    """What is wrong with a body: an error code of the service, where, and why."""

    code: str
    path: str
    value: Any
    reason: str


def problems(value: Any, kind: Any, path: str = "", *, answered: bool = False) -> Iterator[Problem]:
    """Say where *value* is not what the models allow: read-only names are allowed only in what is *answered*."""
    kind = bare(kind)
    origin, args = typing.get_origin(kind), typing.get_args(kind)
    if isinstance(kind, type) and issubclass(kind, (Model, ManagementModel, ResourceModel)):
        yield from of_model(value, kind, path, answered)
    elif origin in (list, dict):
        if not isinstance(value, origin):
            yield Problem("InvalidPropertyValue", path, value, f"not a {origin.__name__}")
            return
        items = enumerate(value) if origin is list else value.items()
        for key, one in items:
            yield from problems(one, args[-1], f"{path}[{key}]", answered=answered)
    elif not fits(value, kind):
        yield Problem("InvalidPropertyValue", path, value, f"not of {said(kind)}")


def of_model(value: Any, model: Any, path: str, answered: bool) -> Iterator[Problem]:
    if not isinstance(value, dict):
        yield Problem("InvalidPropertyValue", path, value, "not an object")
        return
    known = fields(model)
    for name, one in value.items():
        at = f"{path}.{name}".strip(".")
        if name not in known:
            yield Problem("UnsupportedProperty", at, one, "there is no such property")
        elif known[name].read_only and not answered:
            yield Problem("UnsupportedProperty", at, one, "it is read only")
        else:
            yield from problems(one, known[name].kind, at, answered=answered)
    for name, field in known.items():
        if field.required and (answered or not field.read_only) and name not in value:
            yield Problem("MissingRequiredProperty", f"{path}.{name}".strip("."), None, "missing")


def enum_of(kind: Any) -> type[enum.Enum] | None:
    """Give the closed set that a kind is: the SDK says `Union[str, SomeEnum]`."""
    for one in (kind, *typing.get_args(kind)):
        if isinstance(one, type) and issubclass(one, enum.Enum):
            return one
    return None


DURATION = re.compile(r"-?P(?=.)(\d+W|(\d+D)?(T(?=\d)(\d+H)?(\d+M)?(\d+(\.\d+)?S)?)?)")


def fits(value: Any, kind: Any) -> bool:
    """Say whether a value that is no object and no list is of this kind."""
    closed = enum_of(kind)
    if closed is not None:
        return value in [member.value for member in closed]
    if kind is Digits:
        return isinstance(value, str) and value.isdecimal()
    if kind is datetime.timedelta:
        return isinstance(value, str) and DURATION.fullmatch(value) is not None
    if kind is datetime.datetime:
        return isinstance(value, str) and re.match(r"\d{4}-\d\d-\d\dT", value) is not None
    if kind is float:
        return isinstance(value, int | float) and not isinstance(value, bool)
    if kind is int:
        return isinstance(value, int) and not isinstance(value, bool)
    return kind is Any or isinstance(value, kind)


def said(kind: Any) -> str:
    closed = enum_of(kind)
    if closed is not None:
        return f"{[member.value for member in closed]}"
    return str(getattr(kind, "__name__", kind))
