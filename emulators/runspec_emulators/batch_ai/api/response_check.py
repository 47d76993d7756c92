"""Answers of the emulator, checked against the models of the SDKs before they are sent, as requests are.

An unknown member, a value of another type, a missing required member or an unknown word of an enumeration is a mistake
of the emulator: a client that learned it here would be wrong about the service.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from azure.mgmt.resource.resources.models import GenericResourceExpanded, ResourceGroup

from runspec_emulators.azure_services.sdk_models import problems
from runspec_emulators.batch_ai.api.requests import (
    DURATION,
    PLAIN,
    Member,
    Request,
    flattened,
    members,
)
from runspec_emulators.batch_ai.api.responses import Response
from runspec_emulators.frame.errors import raise_problems, sample

TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)")
# The model of each kind of resource, by the last word of its type.
RESOURCES = {
    "workspaces": "Workspace",
    "clusters": "Cluster",
    "experiments": "Experiment",
    "jobs": "Job",
    "fileServers": "FileServer",
}
LISTED: Mapping[str, str | type] = {
    "Clusters_ListByWorkspace": "Cluster",
    "Clusters_ListRemoteLoginInformation": "RemoteLoginInformation",
    "Experiments_ListByWorkspace": "Experiment",
    "FileServers_ListByWorkspace": "FileServer",
    "Jobs_ListByExperiment": "Job",
    "Jobs_ListOutputFiles": "File",
    "Jobs_ListRemoteLoginInformation": "RemoteLoginInformation",
    "Operations_List": "Operation",
    "Usages_List": "Usage",
    "Workspaces_List": "Workspace",
    "Workspaces_ListByResourceGroup": "Workspace",
    "ResourceGroups_List": ResourceGroup,
    "Resources_ListByResourceGroup": GenericResourceExpanded,
}
# Words that descriptions of members have and their enumerations lack.
BESIDE = {"properties.toolType": ("pytorch",)}


def check(request: Request, answer: Response) -> None:
    """Raise InvalidResponse unless the models of the SDKs allow what is answered."""
    if answer.value is None:
        return
    if request.operation in LISTED:
        problems = _of_page(answer.value, LISTED[request.operation])
    else:
        problems = _of(answer.value, _model(request, answer.value), "")
    raise_problems(request.operation, problems)


def _model(request: Request, value: Any) -> str | type:
    """Return the model of one thing. The type says which it is where the result of an operation is asked for."""
    if request.service == "resources":
        return ResourceGroup
    kind = str(value.get("type")).rpartition("/")[2] if isinstance(value, dict) else ""
    if kind == "resourceGroups":
        return ResourceGroup
    if request.operation == "OperationResult":
        return RESOURCES.get(kind, kind)
    group = request.operation.partition("_")[0]
    return RESOURCES[group[0].lower() + group[1:]]


def _of_page(value: Any, model: str | type) -> Iterator[str]:
    if not isinstance(value, dict) or not isinstance(value.get("value"), list):
        yield f"value: {value!r} has no list"
        return
    for name, member in value.items():
        if name not in ("value", "nextLink") or (
            name == "nextLink" and not isinstance(member, str)
        ):
            yield f"{name}: {member!r} is not what a page has"
    for number, member in enumerate(sample(value["value"])):
        yield from _of(member, model, f"value[{number}]")


def _of(value: Any, model: str | type, path: str) -> Iterator[str]:
    """Yield the problems of *value* by *model*, which is a kind of azure-mgmt-batchai or a model of another SDK."""
    if not isinstance(model, str):
        for problem in problems(value, model, path, answered=True):
            yield f"{problem.path}: {problem.reason}, and is {problem.value!r}"
    elif model.startswith("["):
        yield from _of_many(value, list, model[1:-1], path)
    elif model.startswith("{"):
        yield from _of_many(value, dict, model[1:-1], path)
    elif model in PLAIN:
        if not isinstance(value, PLAIN[model]) or (model != "bool" and isinstance(value, bool)):
            yield f"{path}: {value!r} is no {model}"
    elif model in ("iso-8601", "duration"):
        pattern = TIME if model == "iso-8601" else DURATION
        if not isinstance(value, str) or not pattern.fullmatch(value):
            yield f"{path}: {value!r} is not of {model}"
    else:
        yield from _of_object(value, model, path)


def _of_many(value: Any, kind: type[Any], model: str, path: str) -> Iterator[str]:
    if not isinstance(value, kind):
        yield f"{path}: {value!r} is no {kind.__name__}"
        return
    pairs: Iterable[tuple[Any, Any]] = value.items() if kind is dict else enumerate(value)
    for key, item in pairs:
        yield from _of(item, model, f"{path}[{key}]")


def _of_object(value: Any, model: str, path: str) -> Iterator[str]:
    if not isinstance(value, dict):
        yield f"{path}: {value!r} is no object"
        return
    known = members(model)
    flat = dict(flattened(value, known))
    for key, item in flat.items():
        yield from _of_member(known.get(key), item, f"{path}.{key}".strip("."))
    for key, member in known.items():
        if member.required and key not in flat:
            yield f"{path}.{key}: required".strip(".")


def _of_member(member: Member | None, value: Any, path: str) -> Iterator[str]:
    if member is None:
        yield f"{path}: there is no such member"
    elif member.values and value not in (*member.values, *BESIDE.get(member.key, ())):
        yield f"{path}: {value!r} is none of {list(member.values)}"
    else:
        yield from _of(value, member.kind, path)
