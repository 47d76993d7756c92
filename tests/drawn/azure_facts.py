"""Make the table of facts about the answers of Azure's services, from which tests draw answers.

`python -m tests.drawn.azure_facts` writes `azure_facts.json` anew. It holds names, types, values of enumerations and
statuses, and no descriptions. Those of Azure Batch and Batch AI come from the official descriptions
(`tests.support.official_descriptions`), those of Resource Manager, Compute and the management of Azure Batch from the
models of the SDKs that are installed here.
"""

from __future__ import annotations

import datetime
import enum
import hashlib
import importlib
import importlib.metadata
import json
import types
import typing
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from tests.drawn.azure_setup_facts import MODELS, SETUP_OPERATIONS, Asked
from tests.support.official_descriptions import DATA

TABLE = Path(__file__).with_name("azure_facts.json")
BATCH = DATA / "azure-batch" / "swagger-2024-07-01.20.0.json"
BATCH_AI = DATA / "batchai-2018-05-01" / "swagger.json"
BATCH_OPERATIONS = (
    "Account_ListSupportedImages",
    "ComputeNode_List",
    "File_GetFromComputeNode",
    "File_GetFromTask",
    "File_GetPropertiesFromComputeNode",
    "File_GetPropertiesFromTask",
    "Job_Add",
    "Job_Delete",
    "Job_Get",
    "Job_List",
    "Job_Patch",
    "Job_Terminate",
    "Pool_Add",
    "Pool_Delete",
    "Pool_EnableAutoScale",
    "Pool_EvaluateAutoScale",
    "Pool_Get",
    "Pool_List",
    "Task_AddCollection",
    "Task_Delete",
    "Task_Get",
    "Task_List",
    "Task_ListSubtasks",
    "Task_Terminate",
)
BATCH_AI_OPERATIONS = (
    "Clusters_Create",
    "Clusters_Delete",
    "Clusters_Get",
    "Clusters_ListByWorkspace",
    "Experiments_Create",
    "Experiments_Delete",
    "Experiments_Get",
    "Experiments_ListByWorkspace",
    "FileServers_ListByWorkspace",
    "Jobs_Create",
    "Jobs_Delete",
    "Jobs_Get",
    "Jobs_ListByExperiment",
    "Jobs_ListOutputFiles",
    "Jobs_Terminate",
    "Usages_List",
    "Workspaces_Create",
    "Workspaces_Delete",
    "Workspaces_Get",
)
GROUP = "/subscriptions/{subscriptionId}/resourceGroups/{resourceGroupName}"
LOCATION = "/subscriptions/{subscriptionId}/providers/Microsoft.Compute/locations/{location}"


class Sdk(typing.NamedTuple):
    """An operation of a service that no description is at hand of: by the SDK's model of its answer.

    *model* is that of one element where the answer is a list.
    """

    package: str
    module: str
    method: str
    path: str
    statuses: tuple[int, ...]
    model: str | None
    listed: bool = False


RESOURCES = ("azure-mgmt-resource", "azure.mgmt.resource.resources.models")
COMPUTE = ("azure-mgmt-compute", "azure.mgmt.compute.models")
MANAGEMENT = ("azure-mgmt-batch", "azure.mgmt.batch.models")
POOL = GROUP + "/providers/Microsoft.Batch/batchAccounts/{accountName}/pools/{poolName}"
# Statuses: https://learn.microsoft.com/rest/api/resources/resource-groups and .../resources,
# .../rest/api/compute/resource-skus/list, .../compute/usage/list, .../batchmanagement/pool/create
SDK_OPERATIONS = {
    "ResourceGroups_CreateOrUpdate": Sdk(*RESOURCES, "PUT", GROUP, (200, 201), "ResourceGroup"),
    "ResourceGroups_Get": Sdk(*RESOURCES, "GET", GROUP, (200,), "ResourceGroup"),
    "ResourceGroups_Delete": Sdk(*RESOURCES, "DELETE", GROUP, (200, 202), None),
    "Resources_ListByResourceGroup": Sdk(
        *RESOURCES, "GET", GROUP + "/resources", (200,), "GenericResourceExpanded", listed=True
    ),
    "Resources_List": Sdk(
        *RESOURCES,
        "GET",
        "/subscriptions/{subscriptionId}/resources",
        (200,),
        "GenericResourceExpanded",
        listed=True,
    ),
    "Resources_GetById": Sdk(
        *RESOURCES,
        "GET",
        GROUP + "/providers/Microsoft.Batch/batchAccounts/{accountName}",
        (200,),
        "GenericResource",
    ),
    "ResourceSkus_List": Sdk(
        *COMPUTE,
        "GET",
        "/subscriptions/{subscriptionId}/providers/Microsoft.Compute/skus",
        (200,),
        "ResourceSku",
        listed=True,
    ),
    "Usage_List": Sdk(*COMPUTE, "GET", LOCATION + "/usages", (200,), "Usage", listed=True),
    "Pool_Create": Sdk(*MANAGEMENT, "PUT", POOL, (200,), "Pool"),
}


def table() -> dict[str, Any]:
    """Return the whole table."""
    found: dict[str, Any] = {"sources": [], "operations": {}, "setup": {}, "models": {}}
    for service, path, wanted in (
        ("batch", BATCH, BATCH_OPERATIONS),
        ("batchai", BATCH_AI, BATCH_AI_OPERATIONS),
    ):
        _add(found, described(service, path, wanted))
    _add(found, by_sdks())
    found["models"] |= {f"setup:{name}": model for name, model in MODELS.items()}
    for name, asked in SETUP_OPERATIONS.items():
        found["setup"][name] = _by_sdk(_of_setup(asked), found["models"])
    return found


def _of_setup(asked: Asked) -> Sdk:
    module, there, model = (asked.model or "").partition(":")
    package = module.removesuffix(".resources.models").removesuffix(".models").replace(".", "-")
    named = (package, module, model or None) if there else ("setup", "", asked.model)
    return Sdk(named[0], named[1], *asked[:3], named[2], asked.listed)


def _add(found: dict[str, Any], more: Mapping[str, Any]) -> None:
    found["sources"] += more["sources"]
    found["operations"] |= more["operations"]
    found["models"] |= more["models"]


def described(service: str, path: Path, wanted: Iterable[str]) -> dict[str, Any]:
    """Return the part of the table that an official description has."""
    content = path.read_bytes()
    swagger = json.loads(content)
    source = {
        "name": f"{service}: {path.name}",
        "version": swagger["info"]["version"],
        "sha256": hashlib.sha256(content).hexdigest(),
    }
    operations = {
        found["operationId"]: _operation(service, swagger, method, where, found)
        for where, methods in swagger["paths"].items()
        for method, found in methods.items()
        if isinstance(found, dict) and found.get("operationId") in set(wanted)
    }
    models: dict[str, Any] = {}
    for one in operations.values():
        for kind in (*one["answers"].values(), one["error"]):
            _reach(service, swagger, kind, models)
    return {"sources": [source], "operations": operations, "models": models}


def _operation(
    service: str, swagger: Any, method: str, path: str, found: Mapping[str, Any]
) -> dict[str, Any]:
    own = {k: v for k, v in found["responses"].items() if k != "default"}
    produces = found.get("produces") or swagger["produces"]
    return {
        "service": service,
        "method": method.upper(),
        "path": path,
        "answers": {k: _kind(service, swagger, v.get("schema")) for k, v in own.items()},
        "error": _kind(service, swagger, found["responses"].get("default", {}).get("schema")),
        "produces": produces,
        "next": (found.get("x-ms-pageable") or {}).get("nextLinkName"),
    }


def _kind(service: str, swagger: Any, schema: Any) -> Any:
    """Return a type in the table's words: a word, or a pair of a word and what it is of."""
    if schema is None:
        return None
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        target = swagger["definitions"][name]
        if "properties" in target or "allOf" in target:
            return f"{service}:{name}"
        return _kind(service, swagger, target)
    if "enum" in schema:
        return ["enum", schema["enum"]]
    kind = schema.get("type", "object")
    if kind == "array":
        return ["list", _kind(service, swagger, schema["items"])]
    if isinstance(schema.get("additionalProperties"), dict):
        return ["map", _kind(service, swagger, schema["additionalProperties"])]
    known = {"date-time", "duration", "file"}
    return schema["format"] if schema.get("format") in known else kind


def _reach(service: str, swagger: Any, kind: Any, models: dict[str, Any]) -> None:
    if isinstance(kind, list) and kind[0] != "enum":
        _reach(service, swagger, kind[1], models)
    if not isinstance(kind, str) or ":" not in kind or kind in models:
        return
    properties: dict[str, Any] = {}
    required: list[str] = []
    for part in _parts(swagger, swagger["definitions"][kind.partition(":")[2]]):
        required += part.get("required", ())
        for name, schema in part.get("properties", {}).items():
            properties[name] = _kind(service, swagger, schema)
    models[kind] = {"required": sorted(set(required)), "properties": properties}
    for one in properties.values():
        _reach(service, swagger, one, models)


def _parts(swagger: Any, definition: Any) -> Iterator[Any]:
    for one in definition.get("allOf", ()):
        yield from _parts(swagger, swagger["definitions"][one["$ref"].rpartition("/")[2]])
    yield definition


def by_sdks() -> dict[str, Any]:
    """Return the part of the table that the models of installed SDKs have."""
    packages = sorted({one.package for one in SDK_OPERATIONS.values()})
    sources = [{"name": name, "version": importlib.metadata.version(name)} for name in packages]
    models: dict[str, Any] = {
        "arm:CloudError": {"required": [], "properties": {"error": "arm:CloudErrorBody"}},
        "arm:CloudErrorBody": {
            "required": [],
            "properties": {
                "code": "string",
                "message": "string",
                "target": "string",
                "details": ["list", "arm:CloudErrorBody"],
            },
        },
    }
    operations = {name: _by_sdk(one, models) for name, one in SDK_OPERATIONS.items()}
    return {"sources": sources, "operations": operations, "models": models}


def _by_sdk(one: Sdk, models: dict[str, Any]) -> dict[str, Any]:
    kind: Any = None
    if one.model is not None:
        if one.module:
            module = importlib.import_module(one.module)
            kind = _sdk_kind(getattr(module, one.model), one.package, module, models)
        else:
            kind = f"{one.package}:{one.model}"
    if one.listed:
        name = f"{one.package}:{one.model}List"
        models[name] = {
            "required": ["value"],
            "properties": {"value": ["list", kind], "nextLink": "string"},
        }
        kind = name
    return {
        "service": "arm",
        "method": one.method,
        "path": one.path,
        "answers": {str(status): kind for status in one.statuses},
        "error": "arm:CloudError",
        "produces": ["application/json"],
        "next": "nextLink" if one.listed else None,
    }


def _sdk_kind(hint: Any, package: str, module: Any, models: dict[str, Any]) -> Any:
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        kinds = [one for one in inner if one is not type(None)]
        enums = [one for one in kinds if isinstance(one, type) and issubclass(one, enum.Enum)]
        return _sdk_kind((enums or kinds)[0], package, module, models)
    if origin is list:
        return ["list", _sdk_kind(inner[0], package, module, models)]
    if origin is dict:
        return ["map", _sdk_kind(inner[1], package, module, models)]
    if isinstance(hint, type) and issubclass(hint, enum.Enum):
        return ["enum", [str(one.value) for one in hint]]
    if any(base.__name__ == "Model" for base in getattr(hint, "__mro__", ())):
        return _sdk_model(hint, package, module, models)
    plain = {
        str: "string",
        int: "integer",
        float: "number",
        bool: "boolean",
        datetime.datetime: "date-time",
        datetime.timedelta: "duration",
    }
    return plain.get(hint, "object")


def _sdk_model(model: Any, package: str, module: Any, models: dict[str, Any]) -> str:
    name = f"{package}:{model.__name__}"
    if name in models:
        return name
    properties: dict[str, Any] = {}
    required: list[str] = []
    models[name] = {"required": required, "properties": properties}
    hints = typing.get_type_hints(model, localns={"_models": module})
    for base in reversed(model.__mro__):
        for key, field in vars(base).items():
            if type(field).__name__ == "_RestField":
                rest = field._rest_name_input or key
                properties[rest] = _sdk_kind(hints[key], package, module, models)
                required += [rest] if type(None) not in typing.get_args(hints[key]) else []
    return name


def written() -> str:
    """Return the table as it is kept: one line for each operation and model."""
    found = table()
    parts = []
    for key in ("sources", "operations", "setup", "models"):
        rows = found[key]
        if isinstance(rows, list):
            lines = [json.dumps(row, sort_keys=True) for row in rows]
            parts.append(f'"{key}": [\n' + ",\n".join(lines) + "\n]")
        else:
            lines = [f'"{k}": {json.dumps(v, sort_keys=True)}' for k, v in sorted(rows.items())]
            parts.append(f'"{key}": {{\n' + ",\n".join(lines) + "\n}")
    return "{\n" + ",\n".join(parts) + "\n}\n"


if __name__ == "__main__":
    TABLE.write_text(written(), encoding="utf-8")
