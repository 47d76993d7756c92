"""The Resource Manager's side of a Batch account (2025-06-01): the account, and pools that have identities.

What a pool may hold is read out of the models of azure-mgmt-batch; sentences quoted are theirs. Others
than these operations are refused, and so is a pool that the data plane could make without them:
https://learn.microsoft.com/rest/api/batchmanagement/pool/create
https://learn.microsoft.com/rest/api/batchmanagement/batch-account/get
https://learn.microsoft.com/rest/api/resources/resources/list
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, unquote, urlsplit

from azure.mgmt.batch.models import Pool

from runspec_emulators.azure_batch.account import pools
from runspec_emulators.azure_batch.errors import ServiceError
from runspec_emulators.azure_batch.resource import Response
from runspec_emulators.azure_batch.world import World
from runspec_emulators.azure_services.sdk_models import problems
from runspec_emulators.frame import errors

PATH = "/subscriptions/"
API_VERSION = "2025-06-01"
KIND = "Microsoft.Batch/batchAccounts"
GROUP = r"/subscriptions/(?P<subscription>[^/]+)/resourceGroups/(?P<group>[^/]+)"
ACCOUNT = rf"{GROUP}/providers/Microsoft\.Batch/batchAccounts/(?P<account>[^/]+)"
# "/subscriptions/{subscriptionId}/resourceGroups/{resourceGroupName}/providers/
# Microsoft.ManagedIdentity/userAssignedIdentities/{identityName}": BatchPoolIdentity
IDENTITY = re.compile(
    r"/subscriptions/[^/]+/resourceGroups/[^/]+/providers/Microsoft\.ManagedIdentity/"
    r"userAssignedIdentities/[^/]+",
    re.IGNORECASE,
)


class Request(NamedTuple):
    """One call, as the wire had it."""

    name: str
    path: dict[str, str]
    query: dict[str, str]
    headers: Mapping[str, str]
    body: Any


def read(method: str, target: str, headers: Mapping[str, str], body: bytes) -> Request:
    """Return the call of a request; paths may have any case. Raise ServiceError if the emulator does not support it."""
    split = urlsplit(target)
    for (verb, pattern), name in ROUTES.items():
        match = re.fullmatch(pattern, split.path, re.IGNORECASE)
        if verb == method and match:
            path = {key: unquote(value) for key, value in match.groupdict().items()}
            try:
                value = json.loads(body) if body else None
            except ValueError as exc:
                raise refused("InvalidRequestContent", f"The content is not JSON: {exc}") from exc
            return Request(name, path, dict(parse_qsl(split.query)), headers, value)
    raise refused(
        "InvalidResourceType", f"This emulator does not support {method} {split.path}.", 404
    )


def refused(code: str, message: str, status: int = 400) -> ServiceError:
    error = ServiceError(code, message)
    error.status = status
    return error


def cloud_error(error: errors.ServiceError) -> dict[str, Any]:
    """Return a refusal as the Resource Manager words it: CloudError."""
    return {
        "error": {"code": error.code, "message": f"{error.message} {error.details or ''}".strip()}
    }


def answer(world: World, request: Request) -> Response:
    settings = world.settings
    if request.path["subscription"].lower() != settings.subscription:
        raise refused("SubscriptionNotFound", "The subscription could not be found.", 404)
    if "api-version" not in request.query:
        raise refused("MissingApiVersionParameter", "The api-version is required.")
    if request.name != "Resources_List":
        if request.query["api-version"] != API_VERSION:
            raise refused("NoRegisteredProviderFound", "There is no such api-version.")
        if request.path["group"].lower() != settings.resource_group.lower():
            raise refused("ResourceGroupNotFound", "The group could not be found.", 404)
        if request.path["account"].lower() != settings.account.lower():
            raise refused("ResourceNotFound", "The account was not found.", 404)
    return OPERATIONS[request.name](world, request)


def account_id(world: World) -> str:
    settings = world.settings
    group = f"/subscriptions/{settings.subscription}/resourceGroups/{settings.resource_group}"
    return f"{group}/providers/{KIND}/{settings.account}"


def resources(world: World, request: Request) -> Response:
    if request.query.get("$filter") != f"resourceType eq '{KIND}'":
        raise refused("InvalidFilterInQueryString", "This emulator does not support that filter.")
    entry = {"id": account_id(world), "name": world.settings.account, "type": KIND}
    return Response(200, {"value": [{**entry, "location": "westeurope"}]})


def account(world: World, _request: Request) -> Response:
    settings = world.settings
    properties: dict[str, Any] = {
        "accountEndpoint": urlsplit(world.url).netloc,
        "provisioningState": "Succeeded",
        "poolAllocationMode": settings.pool_allocation,
    }
    # "For accounts with PoolAllocationMode set to UserSubscription, quota is managed on the subscription so this
    # value is not returned": https://learn.microsoft.com/rest/api/batchmanagement/batch-account/get
    if settings.pool_allocation == "BatchService":
        properties["dedicatedCoreQuota"] = settings.dedicated_quota
        properties["lowPriorityCoreQuota"] = settings.low_priority_quota
    entry = {"id": account_id(world), "name": settings.account, "type": KIND}
    return Response(200, {**entry, "location": "westeurope", "properties": properties})


def create(world: World, request: Request) -> Response:
    """If-None-Match: "Set to '*' to allow a new pool to be created, but to prevent updating an existing"."""
    body = request.body if isinstance(request.body, dict) else {}
    for problem in problems(body, Pool):
        where = f"{problem.path}: {problem.reason}"
        raise refused("InvalidRequestContent", f"The request content was invalid: {where}")
    there = world.pools.get(request.path["pool"].lower())
    if there is not None and there.state == "deleting":
        raise refused("PoolBeingDeleted", "The specified pool is being deleted.", 409)
    if there is not None and request.headers.get("if-none-match") == "*":
        raise refused("PreconditionFailed", "The specified pool already exists.", 412)
    if there is not None:
        raise refused("InvalidRequest", "This emulator does not support changes of a pool.", 409)
    pools.made(world, plain(request.path["pool"], body))
    made = world.pool(request.path["pool"])
    where = f"{account_id(world)}/pools/{made.id}"
    shown = {"id": where, "name": made.id, "type": f"{KIND}/pools", "etag": made.etag, **body}
    return Response(200, shown, {"ETag": f'"{made.etag}"'})


def plain(name: str, body: Mapping[str, Any]) -> dict[str, Any]:
    """Return a pool in the words of the data plane, which has other names for the same."""
    properties = dict(body.get("properties") or {})
    fields: dict[str, Any] = {"id": name, **_scaled(properties.pop("scaleSettings", {}))}
    machine = properties.pop("deploymentConfiguration", {}).get("virtualMachineConfiguration")
    if machine is None or "vmSize" not in properties:
        raise refused("InvalidRequestContent", "vmSize and deploymentConfiguration are needed.")
    fields["virtualMachineConfiguration"] = _machine(dict(machine))
    talking = properties.pop("interNodeCommunication", "Disabled")
    fields["enableInterNodeCommunication"] = talking == "Enabled"
    if "taskSchedulingPolicy" in properties:
        kind = properties.pop("taskSchedulingPolicy")["nodeFillType"]
        fields["taskSchedulingPolicy"] = {"nodeFillType": kind.lower()}
    if "startTask" in properties:
        fields["startTask"] = _start(dict(properties.pop("startTask")))
    if "networkConfiguration" in properties:
        fields["networkConfiguration"] = _network(dict(properties.pop("networkConfiguration")))
    if body.get("identity"):
        fields["identity"] = _identity(body["identity"])
    unknown = properties.keys() - SAME
    if unknown:
        raise refused(
            "InvalidRequestContent", f"This emulator does not support {', '.join(sorted(unknown))}."
        )
    return fields | properties


SAME = frozenset("vmSize taskSlotsPerNode mountConfiguration metadata".split())


def _start(task: dict[str, Any]) -> dict[str, Any]:
    user = task.get("userIdentity", {}).get("autoUser")
    if user:
        small = {key: value.lower() for key, value in user.items()}
        task["userIdentity"] = {"autoUser": small}
    return task


def _network(given: dict[str, Any]) -> dict[str, Any]:
    public = given.get("publicIPAddressConfiguration")
    if public:
        small = {**public, "provision": public.get("provision", "BatchManaged").lower()}
        given["publicIPAddressConfiguration"] = small
    return given


def _scaled(settings: Mapping[str, Any]) -> dict[str, Any]:
    """ "fixedScale: [...] This property and autoScale are mutually exclusive"; none is a fixed 0."""
    if settings.keys() >= {"autoScale", "fixedScale"}:
        raise refused("InvalidRequestContent", "autoScale and fixedScale exclude each other.")
    if "autoScale" in settings:
        given = settings["autoScale"]
        fields = {"enableAutoScale": True, "autoScaleFormula": given["formula"]}
        if "evaluationInterval" in given:
            fields["autoScaleEvaluationInterval"] = given["evaluationInterval"]
        return fields
    return dict(settings.get("fixedScale", {}))


def _machine(machine: dict[str, Any]) -> dict[str, Any]:
    machine["nodeAgentSKUId"] = machine.pop("nodeAgentSkuId")
    image = dict(machine["imageReference"])
    if "id" in image:
        image["virtualMachineImageId"] = image.pop("id")
    machine["imageReference"] = image
    if "containerConfiguration" in machine:
        kind = machine["containerConfiguration"]["type"]
        small = kind[0].lower() + kind[1:]
        machine["containerConfiguration"] = {**machine["containerConfiguration"], "type": small}
    return machine


def _identity(given: Mapping[str, Any]) -> dict[str, Any]:
    ids = list(given.get("userAssignedIdentities") or {})
    if (given["type"] == "UserAssigned") != bool(ids):
        raise refused("InvalidRequestContent", "identity: its type and its identities disagree.")
    for identity in ids:
        if not IDENTITY.fullmatch(identity):
            raise refused("LinkedInvalidPropertyId", f"Property id '{identity}' is invalid.")
    shown = [{"resourceId": identity} for identity in ids]
    return {"type": given["type"], "userAssignedIdentities": shown}


ROUTES = {
    ("GET", r"/subscriptions/(?P<subscription>[^/]+)/resources"): "Resources_List",
    ("GET", ACCOUNT): "BatchAccount_Get",
    ("PUT", rf"{ACCOUNT}/pools/(?P<pool>[^/]+)"): "Pool_Create",
}
OPERATIONS: Mapping[str, Callable[[World, Request], Response]] = {
    "Resources_List": resources,
    "BatchAccount_Get": account,
    "Pool_Create": create,
}
