"""The metadata of a machine: its name, and the events that are scheduled for it and its like.

At the service each machine asks at one and the same address, 169.254.169.254. Here all are on one machine, so each node
has an address of its own, which its tasks find in AZURE_POD_IDENTITY_AUTHORITY_HOST, as azure-identity does:
https://learn.microsoft.com/python/api/azure-identity/azure.identity.managedidentitycredential
https://learn.microsoft.com/azure/virtual-machines/instance-metadata-service
https://learn.microsoft.com/azure/virtual-machines/linux/scheduled-events
"""

from __future__ import annotations

import datetime
import json
import uuid
from collections.abc import Mapping
from email.utils import format_datetime
from typing import Any
from urllib.parse import parse_qs, urlsplit

from runspec_emulators.azure_batch.model import Node, Pool
from runspec_emulators.azure_batch.world import World
from runspec_emulators.azure_services import identity

PATH = "/_machine/"
VARIABLE = "AZURE_POD_IDENTITY_AUTHORITY_HOST"
NAME, EVENTS = "/metadata/instance/compute/name", "/metadata/scheduledevents"
# Versions of scheduled events ("2020-07-01: latest release"). Instance metadata is answered for any date.
VERSIONS = ("2017-08-01", "2017-11-01", "2019-01-01", "2019-04-01", "2019-08-01", "2020-07-01")


def address(world: World, node: Node) -> str:
    return f"{world.url}{PATH}{node.token}"


def answer(
    world: World, method: str, target: str, headers: Mapping[str, str]
) -> tuple[int, str, bytes]:
    """Return status, type and body. "Metadata: true" is required, and a version of the API."""
    parts = urlsplit(target)
    token, _, inner = parts.path.removeprefix(PATH).partition("/")
    query = {key: values[0] for key, values in parse_qs(parts.query).items()}
    if headers.get("metadata", "").lower() != "true":
        return _error(400, "Required metadata header not specified")
    if "api-version" not in query:
        return _error(400, "Required query variable api-version is missing")
    with world.lock:
        nodes = (node for pool in world.pools.values() for node in pool.nodes.values())
        node = next((node for node in nodes if node.token == token), None)
        if node is None or method != "GET":
            return _error(404 if node is None else 405, "Not found")
        if f"/{inner}" == identity.MACHINE:
            return _token(world, node, f"/{inner}?{parts.query}", headers)
        node.asked += 1
        if f"/{inner}" == NAME and query.get("format") == "text":
            return 200, "text/plain; charset=utf-8", vm_name(node).encode()
        if f"/{inner}" == EVENTS and query["api-version"] in VERSIONS:
            answer = {"DocumentIncarnation": node.pool.incarnation, "Events": events(node.pool)}
            return 200, "application/json; charset=utf-8", json.dumps(answer).encode()
    return _error(400, "Bad request")


def _token(
    world: World, node: Node, target: str, headers: Mapping[str, str]
) -> tuple[int, str, bytes]:
    """Return what the identities of the node's pool get, at the same address as all else of the machine."""
    if world.identity is None or VARIABLE not in node.login:
        return _error(400, "Identity not found")
    path = urlsplit(node.login[VARIABLE]).path
    status, token = world.identity.answer(path + target, headers)
    return status, "application/json; charset=utf-8", json.dumps(token).encode()


def _error(status: int, text: str) -> tuple[int, str, bytes]:
    return status, "application/json; charset=utf-8", json.dumps({"error": text}).encode()


def vm_name(node: Node) -> str:
    """A machine of a scale set has its name and a number."""
    return f"{node.pool.id.lower()}-vmss_{node.number}"


def events(pool: Pool) -> list[dict[str, Any]]:
    """Return all events of the pool: they go "to all VMs in a scale set placement group"."""
    return [n.event for n in pool.nodes.values() if n.event]


def announce(node: Node, kind: str, seconds: float) -> None:
    """Have the machine say that it is to be taken away in so many seconds."""
    when = datetime.datetime.now(datetime.UTC) + datetime.timedelta(seconds=seconds)
    node.pool.incarnation += 1
    node.event = {
        "EventId": str(uuid.uuid4()).upper(),
        "EventStatus": "Scheduled",
        "EventType": kind,
        "ResourceType": "VirtualMachine",
        "Resources": [vm_name(node)],
        "NotBefore": format_datetime(when, usegmt=True),
        "Description": "",
        "EventSource": "Platform",
        "DurationInSeconds": -1,
    }


def withdraw(node: Node) -> None:
    """ "the event is removed" when it has come to pass, or comes no more."""
    node.pool.incarnation += 1
    node.event = None
